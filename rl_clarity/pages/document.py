"""Write the document `interface.html`, and read it without a browser.

The document opens by double click, requests nothing outside its directory, and treats all text in its data as text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl_clarity.base.errors import ClarityError, OutputError
from rl_clarity.base.keys import JsonObject, as_json
from rl_clarity.base.resources import svelte_source_directory
from rl_clarity.jobs.directory import Checksum, Directory
from rl_clarity.jobs.store import DIRECTORY, UNREADABLE
from rl_clarity.pages.chunks import parse_script
from rl_clarity.pages.files import ChunkName, ImageName
from rl_clarity.pages.manifest import FORMAT, VERSION, Manifest, file_names, without_extra_images
from svelte3.props import to_json

PAGE = "interface.html"
SCRIPT = "interface.js"
FILES = f"{DIRECTORY}/page.json"
"""Name of the file with the checksums of a finished page's files. A single-file page contains them itself."""
COMPILED = Path(__file__).resolve().parent / "compiled"
"""The folder of the compiled scripts."""
SCRIPTS = ("agent", "training", "memory", "recordings", "gallery")
"""Kinds of page that have their own script. The script `agent` draws all other kinds."""
PANEL_SCRIPTS = ("what_if",)
"""Panels that have their own script, which is loaded only by pages with the panel."""
GLOBAL_NAME = "Interface"
"""The JavaScript variable with the constructor of the page or of a panel."""
_START = f'new {GLOBAL_NAME}({{ target: document.getElementById("app") }});'
_THEME = """\
(function () {
  try {
    var root = document.documentElement;
    var theme = JSON.parse(localStorage.getItem("rl-clarity:" + root.dataset.page + ":settings")).theme;
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  } catch (nothingStored) {}
})();
"""
_MANIFEST = re.compile(rb'<script type="application/json" id="manifest">(.*?)</script>', re.DOTALL)
_EMBEDDED = re.compile(rb'<script type="text/plain" data-(chunk|image)="([A-Za-z0-9._/-]+)">')
_END = b"</script>"
_FILES = re.compile(rb'<script type="application/json" id="files">(.*?)</script>', re.DOTALL)
_SEAL = "<!-- sha256 of everything above: {} -->\n"


@dataclass(frozen=True)
class Bundle:
    """The compiled script of a page, and its style sheet."""

    script: str
    style: str = ""


def compiled_bundle(kind: str) -> Bundle:
    """Return the compiled script for a kind of page. Raises OutputError if it is missing."""
    path = COMPILED / f"{_script_name(kind)}.js"
    try:
        return Bundle(path.read_text("utf-8"))
    except FileNotFoundError:
        raise OutputError(
            f"the page's script {path} is missing; create it with `make js` or rl_clarity.recompile_js()"
        ) from None


def panel_module(kind: str) -> str:
    """Return the JavaScript module of a panel in `PANEL_SCRIPTS`. Raises OutputError if its script is missing."""
    mount = f"new {GLOBAL_NAME}({{ target: element, props: {{ context }} }})"
    return f"""{compiled_bundle(kind).script.rstrip()}
rlClarity.panel("{kind}", (element, context) => {{
  const panel = {mount};
  return () => panel.$destroy();
}});
"""


def _script_name(kind: str) -> str:
    return kind if kind in (*SCRIPTS, *PANEL_SCRIPTS) else "agent"


def recompile_js(js_path: str | os.PathLike[str] | None = None, *, kind: str = "agent") -> str:
    """Compile the Svelte sources of pages into scripts, and return the path of the script, or of the folder of scripts.

    Sources of a checkout and of the installed package compile to the same bytes.

    Args:
        js_path: path of the script to write; by default, all scripts are written into the package
        kind: kind of page for which the script `js_path` is compiled

    Raises OutputError if sources are missing or a script cannot be written, and the errors of svelte3 if sources do not
    compile or Node.js is missing.
    """
    if js_path is not None:
        return _compile(Path(js_path), kind, overwrite=False)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda name: _compile(COMPILED / f"{name}.js", name, overwrite=True), (*SCRIPTS, *PANEL_SCRIPTS)))
    return str(COMPILED)


def _compile(target: Path, kind: str, *, overwrite: bool) -> str:
    from svelte3 import compile_js

    try:
        source = svelte_source_directory() / "scripts" / f"{_script_name(kind)}.svelte"
    except FileNotFoundError as error:
        raise OutputError(f"the page's sources are missing: {error}") from error
    try:
        return compile_js(source, target, js_name=GLOBAL_NAME, overwrite=overwrite)
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"cannot write the page's script to {target} ({reason}): choose another js_path") from error


def write_page(
    page: Directory,
    manifest: Manifest | JsonObject,
    *,
    modules: Mapping[str, str] | None = None,
    bundle: Bundle | None = None,
    inline_js: bool = True,
    single_file: bool = False,
    data: Directory | None = None,
    present: Set[str] | None = None,
) -> list[str]:
    """Write `interface.html` into `page`, and return the names of missing files.

    Args:
        manifest: a `Manifest`, or a manifest as dicts, in which file names are `ChunkName` and `ImageName`
        modules: JavaScript sources of custom panels by kind, for a manifest as dicts. A `Manifest` contains them
        bundle: the compiled script; by default that of the package
        inline_js: put the script into the document instead of beside it
        single_file: put all files into the document
        data: the directory of chunks and images; `page` by default
        present: names of files that exist; by default all files in `data`. A page can be opened while files are missing
    """
    plain: JsonObject
    if isinstance(manifest, Manifest):
        modules = {section.kind: section.module for section in manifest.sections if section.module}
        plain = manifest.to_dict()
    else:
        plain = manifest
    bundle, data = bundle or compiled_bundle(plain["kind"]), data or page
    if single_file:
        plain = without_extra_images(plain)
    present = data.names() if present is None else present
    missing = sorted({name for name in file_names(plain) if name not in present})
    plain = {**plain, "complete": bool(plain["complete"]) and not missing, "missing": missing}
    script = f"{bundle.script.rstrip()}\n{_START}\n"
    inline_js = inline_js or single_file
    if not inline_js:
        page.write(SCRIPT, script.encode())
    embedded = _embedded(plain, data, set(missing)) if single_file else ()
    document = _document(plain, script if inline_js else None, bundle.style, modules or {}, embedded)
    page.write(PAGE, _sealed(part.encode("utf-8", "replace") for part in document))
    return missing


def write_index(directory: Directory, name: str, manifest: JsonObject, bundle: Bundle | None = None) -> None:
    """Write a document that can show other pages of the directory in frames."""
    bundle = bundle or compiled_bundle(manifest["kind"])
    document = _document(manifest, f"{bundle.script.rstrip()}\n{_START}\n", bundle.style, {}, (), frames="'self'")
    directory.write(name, _sealed(part.encode("utf-8", "replace") for part in document))


def read_manifest(document: bytes) -> dict[str, Any]:
    """Return the manifest of a page as dicts. Raises ClarityError if it is missing, damaged or of another version."""
    match = _MANIFEST.search(document)
    if match is None:
        raise ClarityError("not a page of rl-clarity: the file contains no manifest")
    try:
        manifest = json.loads(match[1])
    except (ValueError, RecursionError) as error:
        raise ClarityError(f"the page's manifest is damaged: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ClarityError("not a page of rl-clarity: its manifest has a different format")
    if manifest.get("version") != VERSION:
        raise ClarityError(
            f"the page has format version {manifest.get('version')!r}, but this version of rl-clarity reads {VERSION}; "
            "create the page again: rl-clarity run CHECKPOINT DIRECTORY --force"
        )
    _rename_sections(manifest)
    return manifest


def _rename_sections(manifest: JsonObject) -> None:
    """Rename, in place, the sections and fields of pages of earlier versions to their current names."""
    sections = manifest.get("sections")
    for section in sections if isinstance(sections, list) else ():
        match section:
            case {"kind": "stretches", "data": {"stretches": windows, **data}}:
                section |= {"kind": "windows", "data": {**data, "windows": windows}}
            case {"kind": "simulator", "data": {"films": clips, **data}}:
                section["data"] = {**data, "clips": clips}
            case {"kind": "interventions", "data": {"interventions": [*entries]}}:
                for entry in entries:
                    if isinstance(entry, dict) and "film" in entry:
                        entry["clip"] = entry.pop("film")


def is_intact(document: bytes) -> bool:
    """Return whether a document is unchanged, according to the hash in its last line."""
    content, newline, seal = document.rstrip(b"\n").rpartition(b"\n")
    return seal + b"\n" == _seal(hashlib.sha256(content + newline))


def read_checksums(directory: Directory, document: bytes = b"") -> dict[str, Checksum]:
    """Return the checksums of a finished page's files, from a single-file document or else from the directory.

    The dict is empty if there are none.
    """
    match = _FILES.search(document)
    try:
        files = json.loads(match[1] if match else directory.read(FILES))
        return {str(name): Checksum(int(size), str(sha256)) for name, (size, sha256) in files.items()}
    except UNREADABLE:
        return {}


def embedded_files(document: bytes) -> dict[tuple[str, str], str]:
    """Return the text of the files that a single-file page embeds, by type (`chunk`, `image`) and name."""
    files = {}
    for match in _EMBEDDED.finditer(document):
        end = document.find(_END, match.end())
        files[match[1].decode(), match[2].decode()] = document[match.end() : end].decode("ascii")
    return files


def _document(
    manifest: JsonObject,
    script: str | None,
    style: str,
    modules: Mapping[str, str],
    embedded: Iterable[str],
    frames: str = "'none'",
) -> Iterator[str]:
    precision = int(manifest["numpy_precision"])
    inline = [_inside_script(code) for code in (_THEME, script) if code is not None]
    panels = {kind: _inside_script(source) for kind, source in modules.items()}
    policy = _policy([*inline, *panels.values()], frames, wasm=not panels.keys().isdisjoint(PANEL_SCRIPTS))
    yield f'<!doctype html>\n<html lang="en" data-page="{html.escape(manifest["id"])}">\n<head>\n'
    yield '<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
    yield f"<title>{html.escape(manifest['title'])}</title>\n<script>{inline[0]}</script>\n"
    if style:
        yield f"<style>{_inside_style(style)}</style>\n"
    yield '</head>\n<body>\n<div id="app"></div>\n'
    yield f'<script type="application/json" id="manifest">{to_json(manifest, precision)}</script>\n'
    for element in embedded:
        yield element + "\n"
    yield f'<script src="{SCRIPT}"></script>\n' if script is None else f"<script>{inline[1]}</script>\n"
    for kind, source in panels.items():
        yield f'<script type="module" data-panel="{html.escape(kind)}">{source}</script>\n'
    yield "</body>\n</html>\n"


def _embedded(manifest: JsonObject, data: Directory, missing: set[str]) -> Iterator[str]:
    files = {}
    for name in file_names(manifest, ChunkName):
        if name not in missing:
            content = data.read(name)
            files[name] = Checksum.of(content)
            yield parse_script(content).embedded()
    for name in file_names(manifest, ImageName):
        if name not in missing:
            content = data.read(name)
            files[name] = Checksum.of(content)
            yield f'<script type="text/plain" data-image="{name}">{base64.b64encode(content).decode("ascii")}</script>'
    yield f'<script type="application/json" id="files">{as_json(files)}</script>'


def _sealed(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the parts of a document, and a last line with their hash."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
        yield part
    yield _seal(digest)


def _seal(digest: hashlib._Hash) -> bytes:
    return _SEAL.format(digest.hexdigest()).encode()


def _policy(inline_scripts: Sequence[str], frames: str, *, wasm: bool) -> str:
    """Return a content security policy under which the page loads nothing from other sites.

    `frames` are the sources that may be shown in frames. `wasm` allows WebAssembly, and the script that runs it.
    """
    more = " blob: 'wasm-unsafe-eval'" if wasm else ""
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in inline_scripts)
    return (
        f"default-src 'none'; script-src 'self' {hashes}{more}; style-src 'unsafe-inline'; img-src 'self' data: blob:; "
        f"worker-src blob:; frame-src {frames}; connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _inside_script(code: str) -> str:
    """Return equivalent code in which no characters can end its HTML element.

    Such characters can occur only in strings and regular expressions, where an escape has the same meaning.
    """
    code = code.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\\0")
    return re.sub(r"<(?=/script|script|!--)", r"\\x3c", code, flags=re.IGNORECASE)


def _inside_style(style: str) -> str:
    return re.sub(r"</(?=style)", r"<\\/", style, flags=re.IGNORECASE)
