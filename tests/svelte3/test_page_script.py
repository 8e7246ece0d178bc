"""The committed script of the page is what its sources compile to."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from rl_clarity.errors import OutputError
from rl_clarity.interface import compile as page_compiler
from svelte3 import LintWarning
from svelte3.compiler import lint


@pytest.mark.usefixtures("toolchain")
def test_the_committed_script_is_up_to_date(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", LintWarning)
        rebuilt = Path(page_compiler.recompile_js(tmp_path / "interface.js")).read_bytes()
    assert rebuilt == page_compiler.COMPILED.read_bytes(), "run `make js` and commit the result"


@pytest.mark.usefixtures("toolchain")
def test_the_sources_are_clean() -> None:
    assert lint([page_compiler.SOURCES], style=True) == []


def test_components_and_modules_are_small() -> None:
    for path in page_compiler.SOURCES.rglob("*.*"):
        if path.suffix in (".svelte", ".js"):
            assert len(path.read_text().splitlines()) <= 250, path.name


def test_without_sources_the_error_says_where_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(page_compiler, "SOURCES", tmp_path / "svelte_src")
    with pytest.raises(OutputError, match="recompile from a checkout"):
        page_compiler.recompile_js(tmp_path / "interface.js")
