"""The document `interface.html`: policy, theme, manifest, script, and in a page of one file everything else.

It opens by double click, reaches for nothing outside its own directory, and shows whatever text is in it as text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from importlib import resources
from typing import Any

from rl_clarity.errors import OutputError
from rl_clarity.pages.chunks import parse_script
from rl_clarity.pages.files import Directory
from rl_clarity.pages.layout import PAGE, SCRIPT
from rl_clarity.pages.manifest import RENDERED, chunk_names, picture_names
from svelte3.props import to_json

_START = 'new Interface({ target: document.getElementById("app") });'
_THEME = """\
(function () {
  try {
    var root = document.documentElement;
    var theme = JSON.parse(localStorage.getItem("rl-clarity:" + root.dataset.page + ":settings")).theme;
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  } catch (nothingKept) {}
})();
"""


@dataclass(frozen=True)
class Bundle:
    """The compiled page."""

    script: str
    style: str = ""


def compiled_bundle() -> Bundle:
    """The compiled page that comes with the package; raises OutputError where it is missing."""
    directory = resources.files("rl_clarity.pages") / "compiled"
    try:
        script = (directory / SCRIPT).read_text("utf-8")
    except FileNotFoundError:
        raise OutputError(
            f"the page's script {directory / SCRIPT} is missing: `make js` or rl_clarity.recompile_js() makes it"
        ) from None
    style = directory / "interface.css"
    return Bundle(script, style.read_text("utf-8") if style.is_file() else "")


def write_page(
    page: Directory,
    manifest: Mapping[str, Any],
    *,
    bundle: Bundle | None = None,
    inline_js: bool = True,
    single_file: bool = False,
    data: Directory | None = None,
    there: Set[str] | None = None,
) -> list[str]:
    """Write `interface.html` into `page`, and return the names of the files that are missing.

    `manifest` is `Manifest.to_dict()`; which of its files are `there` is looked up in `data` (by default `page`) where
    it is not given, so that an unfinished page can be opened too. With `single_file` they are all put inside, and
    `page` needs nothing else.
    """
    bundle = bundle or compiled_bundle()
    data = data or page
    if single_file:
        manifest = _of_one_file(manifest)
    there = data.names() if there is None else there
    missing = sorted({name for name in (*chunk_names(manifest), *picture_names(manifest)) if name not in there})
    manifest = {**manifest, "complete": not missing, "missing": missing}
    script = f"{bundle.script.rstrip()}\n{_START}\n"
    inline_js = inline_js or single_file
    if not inline_js:
        page.write(SCRIPT, script.encode())
    embedded = _embedded(manifest, data, set(missing)) if single_file else ()
    document = _document(manifest, script if inline_js else None, bundle.style, embedded)
    page.write(PAGE, (part.encode("utf-8", "replace") for part in document))
    return missing


def _document(manifest: Mapping[str, Any], script: str | None, style: str, embedded: Iterable[str]) -> Iterator[str]:
    precision = int(manifest["numpy_precision"])
    inline = [_inside_script(code) for code in (_THEME, script) if code is not None]
    yield f'<!doctype html>\n<html lang="en" data-page="{html.escape(manifest["id"])}">\n<head>\n'
    yield '<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_policy(inline)}">\n'
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
    yield "</body>\n</html>\n"


def _embedded(manifest: Mapping[str, Any], data: Directory, missing: set[str]) -> Iterator[str]:
    for name in chunk_names(manifest):
        if name not in missing:
            yield parse_script(data.read(name)).embedded()
    for name in picture_names(manifest):
        if name not in missing:
            picture = base64.b64encode(data.read(name)).decode("ascii")
            yield f'<script type="text/plain" data-picture="{name}">{picture}</script>'


def _of_one_file(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest without pictures that only people open, and never find inside a file."""
    trajectories = [{**trajectory, "pictures": []} for trajectory in manifest["trajectories"]]
    layers = [{key: value for key, value in layer.items() if key not in RENDERED} for layer in manifest["layers"]]
    return {**manifest, "trajectories": trajectories, "layers": layers}


def _policy(inline_scripts: Sequence[str]) -> str:
    """A content security policy that keeps the page inside its own place."""
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in inline_scripts)
    return (
        f"default-src 'none'; script-src 'self' {hashes}; style-src 'unsafe-inline'; img-src 'self' data: blob:; "
        "worker-src blob:; connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _inside_script(code: str) -> str:
    """Code that does not end its element, nor change on the way through an HTML parser.

    What would end it can only stand inside strings and patterns of JavaScript, where an escape means the same.
    """
    code = code.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\\0")
    return re.sub(r"<(?=/script|script|!--)", r"\\x3c", code, flags=re.IGNORECASE)


def _inside_style(style: str) -> str:
    return re.sub(r"</(?=style)", r"<\\/", style, flags=re.IGNORECASE)
