"""Components become scripts and pages."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from svelte3 import CompileError, LintWarning, Svelte3Error, compile_html, compile_js
from svelte3.compiler import default_js_name

HOSTILE = """</script><script>document.title="broken"</script> '"&\u2028 \u202e🪙"""


def test_compile_js_writes_beside_the_component(component: Path) -> None:
    script = Path(compile_js(component))
    assert script == component.with_suffix(".js").resolve()
    assert script.read_text().startswith("var HelloWorld=")


def test_the_same_sources_give_the_same_bytes_anywhere(component: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "some" / "other" / "deeper" / "place"
    shutil.copytree(component.parent, elsewhere)
    first = Path(compile_js(component, tmp_path / "first.js", js_name="X")).read_bytes()
    second = Path(compile_js(elsewhere / component.name, tmp_path / "second.js", js_name="X")).read_bytes()
    assert first == second
    assert str(tmp_path).encode() not in first


def test_a_syntax_error_names_file_line_and_source(component: Path) -> None:
    component.write_text("<script>\n  let a = ;\n</script>\n<p>{a}</p>\n")
    with pytest.raises(CompileError, match=r"hello-world\.svelte:2:\d+: (?s:.*)let a = ;"):
        compile_js(component)
    assert not component.with_suffix(".js").exists()


def test_an_error_in_an_imported_file_names_that_file(component: Path) -> None:
    (component.parent / "double.js").write_text("export const double = (x) => {;\n")
    with pytest.raises(CompileError, match=r"double\.js"):
        compile_js(component)


def test_an_import_that_is_not_there_is_an_error(component: Path) -> None:
    (component.parent / "double.js").unlink()
    with pytest.raises(CompileError, match=r"double\.js"):
        compile_js(component)


def test_lint_warns_or_keeps_quiet(component: Path) -> None:
    component.write_text(
        "<script>\n  export let used;\n  let unused = 1;\n</script>\n<p>{used}</p>\n<img src='x.png'>\n"
    )
    with pytest.warns(LintWarning) as caught:
        compile_js(component, js_lint=True)
    text = "\n".join(str(warning.message) for warning in caught)
    assert "'unused' is assigned a value but never used" in text
    assert "A11y: <img> element should have an alt attribute" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_js(component, js_lint=False)


def test_wrong_arguments_are_said(component: Path, tmp_path: Path) -> None:
    with pytest.raises(Svelte3Error, match=r"there is no file .*nowhere\.svelte"):
        compile_js(tmp_path / "nowhere.svelte")
    with pytest.raises(Svelte3Error, match="js_name='2b'"):
        compile_js(component, js_name="2b")
    with pytest.raises(TypeError, match="not object"):
        compile_html(component, props={"a": object()})


@pytest.mark.parametrize(
    ("stem", "name"), [("hello-world", "HelloWorld"), ("App", "App"), ("2b", "Component2b"), ("é", "Component")]
)
def test_names_are_made_of_file_names(stem: str, name: str) -> None:
    assert default_js_name(Path(f"{stem}.svelte")) == name


@pytest.mark.parametrize("inline_js", [True, False])
def test_a_page_shows_its_component(component: Path, tmp_path: Path, chromium_browser: Any, inline_js: bool) -> None:
    props = {"name": HOSTILE, "numbers": np.array([1.23456, 2], np.float32)}
    page_path = compile_html(
        component,
        tmp_path / "out" / "page.html",
        props=props,
        precision=3,
        title=HOSTILE,
        div_id='a"b',
        inline_js=inline_js,
    )
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["page.html"] + ([] if inline_js else ["page.js"])
    page = chromium_browser.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(Path(page_path).as_uri())
    assert page.locator("h1").text_content() == f"Hello {HOSTILE}"
    assert page.locator("p[data-shown=true]").text_content() == "2.46 4"
    assert page.title() == HOSTILE.replace("\u2028", "\u2028")
    assert page.locator("h1").evaluate("e => getComputedStyle(e).color") == "rgb(1, 2, 3)"
    assert page.evaluate("document.getElementById('a\"b').children.length") == 2
    assert messages == []
    page.close()


def test_a_page_is_made_of_a_compiled_script(component: Path, tmp_path: Path) -> None:
    script = compile_js(component, tmp_path / "given.js", js_name="Given")
    page = Path(compile_html(script, js_name="Given", props={"name": "you"}))
    assert page == (tmp_path / "given.html").resolve()
    assert 'new Given({target: document.getElementById("svelte-main"), props: {"name":"you"}});' in page.read_text()
