"""Svelte 3 components to JavaScript, and components or JavaScript to HTML."""

from __future__ import annotations

import html
import json
import keyword
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svelte3.errors import CompileError, LintWarning, Svelte3Error
from svelte3.props import to_json
from svelte3.toolchain import run_script

StrPath = str | os.PathLike[str]


def compile_js(
    svelte_path: StrPath, js_path: StrPath | None = None, *, js_name: str | None = None, js_lint: bool = True
) -> str:
    """Compile a Svelte 3 component, and everything it imports, into one script; return the script's path.

    svelte_path: the component's file (.svelte).
    js_path: the script to write; None puts it beside the component, with the suffix .js.
    js_name: name of the global variable that holds the component's constructor; None makes it from the file's name.
    js_lint: also warn (LintWarning) of what the linter and the compiler find doubtful.

    The same sources give the same bytes with any Node.js and in any directory. Raises CompileError with the
    compiler's message, the file and the source line; ToolchainError when there is no Node.js.
    """
    source = _existing(svelte_path)
    target = Path(js_path) if js_path is not None else source.with_suffix(".js")
    name = _checked_name(js_name) if js_name is not None else default_js_name(source)
    request = json.dumps({"input": str(source), "name": name})
    answer = _answer(run_script("compile.mjs", stdin=request))
    if "error" in answer:
        raise CompileError(_described(answer["error"], source))
    if js_lint:
        _warn(answer["warnings"], source)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(answer["code"], encoding="utf-8", newline="\n")
    return str(target)


def compile_html(
    input_path: StrPath, html_path: StrPath | None = None, *, props: Mapping[str, Any] | None = None,
    precision: int | None = None, title: str = "", div_id: str = "svelte-main", inline_js: bool = True,
    svelte_to_js: bool | None = None, js_path: StrPath | None = None, js_name: str | None = None, js_lint: bool = True,
) -> str:  # fmt: skip
    """Compile a Svelte 3 component into a page that shows it; return the page's path.

    input_path: the component (.svelte), or a script that compile_js made of one (.js).
    html_path: the page to write; None puts it beside the input, with the suffix .html.
    props: the component's properties by name; numpy arrays become nested lists.
    precision: significant figures of the numbers in props; None keeps them all.
    title: title of the page, as text.
    div_id: id of the element that holds the component.
    inline_js: the script goes inside the page; otherwise the page refers to it.
    svelte_to_js: whether input_path is to be compiled first; None: if its suffix is not .js.
    js_path, js_name, js_lint: as in compile_js, where input_path is compiled. When it is not, js_name must be the
    name it was compiled with.

    Raises what compile_js raises, and TypeError for props that cannot be written as JSON.
    """
    source = _existing(input_path)
    target = Path(html_path) if html_path is not None else source.with_suffix(".html")
    values = to_json(props or {}, precision)
    name = _checked_name(js_name) if js_name is not None else default_js_name(source)
    if svelte_to_js is None:
        svelte_to_js = source.suffix != ".js"
    script = source
    if svelte_to_js:
        keep = js_path is not None or not inline_js
        script = Path(js_path) if js_path is not None else target.with_suffix(".js")
        existed = script.exists()
        compile_js(source, script, js_name=name, js_lint=js_lint)
        code = script.read_text(encoding="utf-8")
        if not keep and not existed:
            script.unlink()
    else:
        code = script.read_text(encoding="utf-8")
    target.parent.mkdir(parents=True, exist_ok=True)
    element = f"<script>\n{_inside_script(code)}</script>" if inline_js else _reference(script, target)
    start = f"new {name}({{target: document.getElementById({to_json(div_id)}), props: {values}}});"
    target.write_text(_page(title, div_id, element, start), encoding="utf-8", newline="\n")
    return str(target)


def default_js_name(path: Path) -> str:
    """Return a JavaScript identifier made of a file's name: `my-chart.svelte` -> `MyChart`."""
    name = "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9_$]+", path.stem))
    return name if name and not name[0].isdigit() else f"Component{name}"


def _page(title: str, div_id: str, script: str, start: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{html.escape(title)}</title>
</head>
<body>
<div id="{html.escape(div_id, quote=True)}"></div>
{script}
<script>
{start}
</script>
</body>
</html>
"""


def _inside_script(code: str) -> str:
    """Escape what would end or re-open a script element; inside JavaScript these can only stand in strings."""
    return re.sub(r"<(?=/script|script|!--)", r"\\x3c", code, flags=re.IGNORECASE)


def _reference(script: Path, page: Path) -> str:
    relative = os.path.relpath(script.resolve(), page.resolve().parent).replace(os.sep, "/")
    url = "".join(c if re.match(r"[A-Za-z0-9._/-]", c) else "".join(f"%{b:02X}" for b in c.encode()) for c in relative)
    return f'<script src="{url}"></script>'


def _existing(path: StrPath) -> Path:
    source = Path(path).resolve()
    if not source.is_file():
        raise Svelte3Error(f"there is no file {os.fspath(path)!r}")
    return source


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_$][A-Za-z0-9_$]*", name) or keyword.iskeyword(name):
        raise Svelte3Error(f"js_name={name!r} is not a JavaScript identifier")
    return name


def _answer(done: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise CompileError(f"the compiler stopped: {done.stderr.strip() or done.stdout.strip()}") from None
    return answer


def _described(problem: Mapping[str, Any], source: Path) -> str:
    place = str(problem.get("file") or source.name)
    if problem.get("line") is not None:
        place += f":{problem['line']}:{(problem.get('column') or 0) + 1}"
    frame = f"\n{problem['frame']}" if problem.get("frame") else ""
    return f"{place}: {problem['message']}{frame}"


def _warn(compiler_warnings: list[dict[str, Any]], source: Path) -> None:
    for problem in compiler_warnings:
        warnings.warn(_described(problem, source), LintWarning, stacklevel=3)
    for problem in lint([source]):
        text = f"{source.name}:{problem['line']}:{problem['column']}: {problem['message']} ({problem['rule']})"
        warnings.warn(text, LintWarning, stacklevel=3)


def lint(paths: list[Path], *, style: bool = False, fix: bool = False) -> list[dict[str, Any]]:
    """Return what the linter finds in files and directories: dicts of file, line, column, rule, message, error.

    style: also compare with the formatter's result; fix: write what can be mended.
    """
    flags = [flag for flag, on in (("--prettier", style), ("--fix", fix)) if on]
    done = run_script("lint.mjs", *flags, *(str(path) for path in paths))
    try:
        problems: list[dict[str, Any]] = json.loads(done.stdout)
    except ValueError:
        raise Svelte3Error(f"the linter stopped: {done.stderr.strip()}") from None
    return problems
