"""README.md and docs/ are correct: links, commands, names, options, dependencies, and the code they show."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import sys
import tomllib
import webbrowser
from pathlib import Path

import pytest

import rl_clarity
from rl_clarity.cli.arguments import parse_arguments
from scripts.make_options import TARGET, document

REPOSITORY = Path(__file__).resolve().parents[1]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
CODE = ("README.md", "docs/agents.md", "docs/extending.md", "docs/svelte3.md")
"""Documents whose Python code is run, one after another in the same namespace."""
DOCUMENTS = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md"), *(REPOSITORY / "models").glob("*.md")]

SMALLER = {"timesteps_per_proc=1_000_000": "timesteps_per_proc=64, num_envs=2, num_steps=32, num_minibatches=2"}
"""Replacements that make the code quick; everything else runs unchanged."""


def blocks(language: str, *documents: Path) -> list[str]:
    texts = [path.read_text(encoding="utf-8") for path in documents]
    return [block for text in texts for block in re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.M)]


def anchors(text: str) -> set[str]:
    """Anchors of headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        linked = path.parent / file if file else path
        assert linked.exists(), f"{target} of {path.name} is not there"
        if anchor:
            assert anchor in anchors(linked.read_text(encoding="utf-8")), f"{linked.name} has no heading #{anchor}"


@pytest.mark.parametrize(
    "line", re.findall(r"(rl-clarity [a-z].*)$", "\n".join(blocks("sh", *DOCUMENTS)), re.MULTILINE)
)
def test_commands_are_understood(line: str) -> None:
    parse_arguments(shlex.split(line, comments=True)[1:])


def test_targets_of_make_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([\w-]+)", "\n".join(blocks("sh", *DOCUMENTS)), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_public_names_are_explained() -> None:
    unexplained = [name for name in rl_clarity.__all__ if not re.search(rf"`[^`]*\b{name}\b", README)]
    assert [name for name in unexplained if name != "__version__"] == []


def test_dependencies_are_explained() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    table = README.partition("## What each dependency is for")[2].partition("\n## ")[0]
    development = ("test", "lint", "dev", "all")
    extras = {name: needs for name, needs in project["optional-dependencies"].items() if name not in development}
    assert [name for name in extras if f"`[{name}]`" not in table] == []
    needed = [*project["dependencies"], *(need for needs in extras.values() for need in needs)]
    assert [name for need in needed if (name := re.split(r"[\[=<>~;! ]", need)[0]) not in table] == []


def test_table_of_options_is_current() -> None:
    assert TARGET.read_text(encoding="utf-8") == document(), "run: python -m scripts.make_options"


@pytest.mark.slow
def test_code_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("procgen", reason="the first example plays CoinRun")
    models = tmp_path / "models"  # samples are saved beside the checkpoint
    models.mkdir()
    for path in (REPOSITORY / "models").glob("*.jd"):
        shutil.copy(path, models)
    opened: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("rl_clarity.models.models_directory", lambda: models)
    monkeypatch.setattr(webbrowser, "open", opened.append)
    _restored(monkeypatch)
    shutil.copy(models / "coinrun.jd", tmp_path / "agent.zip")  # formats are recognised by content
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks("python", *(REPOSITORY / name for name in CODE)), start=1):
        module = re.match(r"# (\w+)\.py\n", block)
        if module:
            (tmp_path / f"{module.group(1)}.py").write_text(block, encoding="utf-8")
            monkeypatch.delitem(sys.modules, module.group(1), raising=False)
            continue
        if "import torch\n" in block and importlib.util.find_spec("torch") is None:
            continue
        for whole, part in SMALLER.items():
            block = block.replace(whole, part)
        exec(compile(block, f"block {number} of the documents", "exec"), namespace)
    assert len(opened) == 1
    assert opened[0].endswith("out/coinrun/interface.html")
    for page in ("coinrun", "arrays", "mine", "saliency", "returns"):
        assert (tmp_path / "out" / page / "interface.html").is_file()
    saliency = rl_clarity.open_results(tmp_path / "out" / "saliency")
    (maps,) = saliency.section("saliency")["trajectories"]
    assert maps["scale"] > 0
    assert saliency.chunk(maps["segments"][0])["codes"].shape == (64, 64, 64, 1)
    assert '<script type="module" data-panel="returns">' in (tmp_path / "out/returns/interface.html").read_text("utf-8")
    assert "world" in (tmp_path / "hello.html").read_text(encoding="utf-8")


def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove after the test what the documents add to the registries."""
    from rl_clarity.analyses import ANALYSES
    from rl_clarity.analyses.attribution.quadrature import RULES
    from rl_clarity.environments import KINDS
    from rl_clarity.formats import FORMATS
    from rl_clarity.formats.architectures import ARCHITECTURES

    for registry in (ANALYSES, RULES, FORMATS, KINDS, ARCHITECTURES):
        for state in ("_registered", "_loaded"):
            monkeypatch.setattr(registry, state, {})
