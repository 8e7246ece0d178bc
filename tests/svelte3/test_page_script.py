"""The committed scripts of the page are compiled from its sources."""

from __future__ import annotations

import re
import shutil
import warnings
from pathlib import Path

import pytest

from rl_clarity.base import resources
from rl_clarity.base.errors import OutputError
from rl_clarity.pages import document as page_compiler
from svelte3 import LintWarning

SOURCES = resources.svelte_source_directory()


def test_svelte_components_and_modules_have_at_most_250_lines() -> None:
    for path in SOURCES.rglob("*.*"):
        if path.suffix in (".svelte", ".js"):
            assert len(path.read_text().splitlines()) <= 250, path.name


def test_a_global_css_class_is_styled_by_only_one_component() -> None:
    styles = {path: path.read_text().partition("<style>")[2] for path in SOURCES.rglob("*.svelte")}
    own = [path for path in styles if path.name not in ("Base.svelte", "Theme.svelte")]
    for path in own:
        for name in re.findall(r"^ *:global\(\.([\w-]+)", styles[path], re.MULTILINE):
            others = [other.name for other in own if re.search(rf"\.{name}(?![\w-])", styles[other])]
            assert others == [path.name], name


@pytest.mark.slow
@pytest.mark.usefixtures("toolchain")
def test_installed_sources_compile_to_the_committed_scripts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed = tmp_path / "site-packages" / "rl_clarity"
    shutil.copytree(SOURCES, installed / "_svelte_src", ignore=shutil.ignore_patterns("node_modules"))
    expected = {path.name: path.read_bytes() for path in page_compiler.COMPILED.iterdir()}
    monkeypatch.setattr(resources, "PACKAGE", installed)
    monkeypatch.setattr(page_compiler, "COMPILED", installed / "pages" / "compiled")
    with warnings.catch_warnings():
        warnings.simplefilter("error", LintWarning)
        assert page_compiler.recompile_js() == str(page_compiler.COMPILED)
    compiled = {path.name: path.read_bytes() for path in page_compiler.COMPILED.iterdir()}
    changed = [name for name, script in expected.items() if compiled.get(name) != script]
    assert (sorted(compiled), changed) == (sorted(expected), []), "run `make js` and commit the result"


def test_an_unwritable_page_script_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("svelte3.compile_js", refuse)
    with pytest.raises(OutputError, match=r"agent\.js \(Permission denied\): choose another js_path"):
        page_compiler.recompile_js()


def test_the_error_for_missing_page_sources_names_their_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(resources, "PACKAGE", tmp_path / "rl_clarity")
    with pytest.raises(OutputError, match="_svelte_src"):
        page_compiler.recompile_js(tmp_path / "interface.js")
