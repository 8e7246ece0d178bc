"""README.md and docs/ are correct: links, commands, names, options, dependencies, and the code they show."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tomllib
import types
import webbrowser
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from playwright.sync_api import Browser, expect

import rl_clarity
from rl_clarity.cli.arguments import parse_arguments
from rl_clarity.jobs.directory import open_directory
from scripts.make_options import TARGET, document
from tests import state_dicts
from tests.formats import torch_writer
from tests.formats.archive_writer import sb3_zip
from tests.pages.pages import write_small_page

REPOSITORY = Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"
DOCUMENTS = [*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md"), *(REPOSITORY / "models").glob("*.md")]

BREAKOUT = 'env_name="BreakoutNoFrameskip-v4"'
SMALLER = {
    "timesteps_per_proc=1_000_000": "timesteps_per_proc=64, num_envs=2, num_steps=32, num_minibatches=2",
    f"{BREAKOUT})\npage.open()": f"{BREAKOUT}, **tiny)\npage.open()",
    "collect(agent, env)": "collect(agent, env, num_steps=16, num_obs=8, obs_every=2)",
    '"recordings/short", episodes=10': '"recordings/short", steps=60',
    "steps=20_000": 'steps=2, size="tiny", horizon=4, batch_size=2',
    "episodes=10": "episodes=2, max_steps=8",
    "num_steps=128, num_obs=64)": "num_steps=16, num_obs=8)",
    "np.arange(len(episode)) > 100": "np.arange(len(episode)) > 0",
    "episodes=200": "episodes=2, max_steps=8",
    '"out/edited")': '"out/edited", steps=8)',
    '"num_steps": 128},  # for a first look': '"num_steps": 16},',
    '{"num_envs": 8, "num_obs": 16},': '{"num_envs": 1, "num_obs": 4}, layer_kwargs={"discard_first_n": 2},',
}
"""Replacements that make the code quick; everything else runs unchanged."""
TINY: dict[str, Any] = {
    "trajectories_kwargs": {"num_envs": 1, "num_steps": 16},
    "observations_kwargs": {"num_envs": 1, "num_obs": 8, "obs_every": 2},
    "layer_kwargs": {"discard_first_n": 2},
}


def blocks(language: str, *documents: Path) -> list[str]:
    texts = [path.read_text(encoding="utf-8") for path in documents]
    return [block for text in texts for block in re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.M)]


def anchors(path: Path) -> set[str]:
    """Anchors of headings, and of the names that the API reference documents."""
    text = path.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    documented = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings} | {*documented}


def relative(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_links_in_the_documentation_have_existing_targets(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target or target.startswith("demo/"):  # the example page is part of the built site only
            continue
        file, _, anchor = target.partition("#")
        linked = path.parent / file if file else path
        assert linked.exists(), f"{target} of {path.name} is not there"
        if anchor:
            names = anchors(linked)
            assert anchor in names or anchor.rpartition(".")[0] in names, f"{linked.name} has no heading #{anchor}"


@pytest.mark.parametrize(
    "line", sorted({*re.findall(r"(rl-clarity [a-z].*)$", "\n".join(blocks("sh", *DOCUMENTS)), re.MULTILINE)})
)
def test_commands_in_the_documentation_can_be_parsed(line: str) -> None:
    parse_arguments(shlex.split(line, comments=True)[1:])


def test_make_targets_in_the_documentation_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([\w-]+)", "\n".join(blocks("sh", *DOCUMENTS)), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_extras_in_the_documentation_exist() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    shown = re.findall(r'pip install "(?:rl-clarity|\.)\[([\w,]+)\]"', texts)
    assert {extra for extras in shown for extra in extras.split(",")} <= {*project["optional-dependencies"]}


def test_readme_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_public_names_are_in_the_api_reference() -> None:
    documented = {name for path in (DOCS / "api").glob("*.md") for name in anchors(path)}
    modules = {name for name, module in rl_clarity._MODULES.items() if any(module in one for one in documented)}
    names = [name for name in rl_clarity.__all__ if name not in modules and f"rl_clarity.{name}" not in documented]
    assert names == ["__version__"]


def test_every_dependency_is_explained_in_the_documentation() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    table = (DOCS / "installation.md").read_text(encoding="utf-8").partition("## What each dependency is for")[2]
    development = ("test", "interop", "docs", "lint", "dev", "all")
    extras = {name: needs for name, needs in project["optional-dependencies"].items() if name not in development}
    assert [name for name in extras if f"`[{name}]`" not in table] == []
    needed = [*project["dependencies"], *(need for needs in extras.values() for need in needs)]
    assert [name for need in needed if (name := re.split(r"[\[=<>~;! ]", need)[0]) not in table] == []


def test_the_table_of_options_is_current() -> None:
    assert TARGET.read_text(encoding="utf-8") == document(), "run: python -m scripts.make_options"


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A folder with the files that the documents name, and the addresses that are opened in the browser."""
    pages: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", pages.append)
    _restore_registries(monkeypatch)
    models = tmp_path / "models"  # samples are saved beside the checkpoint
    models.mkdir()
    for path in (REPOSITORY / "models").glob("*.jd"):
        shutil.copy(path, models)
    monkeypatch.setattr("rl_clarity.formats.included.models_directory", lambda: models)
    for name in ("agent.zip", "ppo-breakout.zip"):
        (tmp_path / name).write_bytes(sb3_zip(state_dicts.sb3()))
    (tmp_path / "ppo_atari.cleanrl_model").write_bytes(torch_writer.save(state_dicts.ppo_atari()))
    return pages


NEEDED = {
    "Breakout": "ale_py",
    "coinrun": "procgen",
    "starpilot": "procgen",
    "stable_baselines3": "stable_baselines3",
    "TorchAgent": "torch",
    "state_dict()": "torch",
}
"""Packages that code needs if it contains a word, besides those that it imports."""


def run_code(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **namespace: Any) -> None:
    """Run the Python code of a document in one namespace; blocks that begin with `# name.py` become modules."""
    code = blocks("python", path)
    for word, package in NEEDED.items():
        if any(word in block for block in code):
            pytest.importorskip(package)
    namespace["tiny"] = TINY
    for number, block in enumerate(code, start=1):
        module = re.match(r"# (\w+)\.py\n", block)
        if module:
            (tmp_path / f"{module.group(1)}.py").write_text(block, encoding="utf-8")
            monkeypatch.delitem(sys.modules, module.group(1), raising=False)
            continue
        for text, smaller in SMALLER.items():
            block = block.replace(text, smaller)
        exec(compile(block, f"{relative(path)}, block {number}", "exec"), namespace)


def with_code() -> list[Path]:
    """Documents with Python code that needs no names from the reader's own program."""
    special = ("README.md", "docs/checkpoint-format.md", "docs/extending.md", "docs/guides/sb3.md")
    documents = [path for path in DOCUMENTS if path.parent.name != "models" and relative(path) not in special]
    return sorted(path for path in documents if blocks("python", path))


@pytest.mark.slow
@pytest.mark.parametrize("path", with_code(), ids=relative)
def test_code_in_the_documentation_runs(
    path: Path, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_code(path, tmp_path, monkeypatch)
    text = "\n".join(blocks("python", path))
    assert len(opened) == text.count(".open()")
    for page in tmp_path.rglob("interface.html"):
        assert rl_clarity.open_results(page).manifest["complete"]


class Noise(gymnasium.Env[np.ndarray, Any]):
    """Random images and four actions."""

    observation_space = gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 0.0, False, False, {}


@pytest.mark.slow
def test_code_in_the_readme_runs(opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from tests.agents.torch_modules import Color

    run_code(REPOSITORY / "README.md", tmp_path, monkeypatch, module=Color(), env=Noise())
    assert [Path(address).parent.name for address in opened] == ["sb3", "cleanrl", "mine"]


@pytest.mark.slow
def test_code_in_the_guide_to_stable_baselines3_runs(
    opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ale_py")
    sb3 = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    env = VecFrameStack(make_atari_env("BreakoutNoFrameskip-v4"), 4)
    sb3.PPO("CnnPolicy", env, n_steps=8, batch_size=8).save(tmp_path / "ppo-breakout.zip")
    run_code(DOCS / "guides" / "sb3.md", tmp_path, monkeypatch)
    assert [Path(address).parent.name for address in opened] == ["breakout"]
    assert rl_clarity.open_results(tmp_path / "out" / "zip").layers


def test_documented_code_that_writes_the_native_format_runs(
    opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    tensors = {name: torch.from_numpy(array) for name, array in state_dicts.ppo_atari().items()}
    agent = types.SimpleNamespace(state_dict=lambda: tensors)
    run_code(DOCS / "checkpoint-format.md", tmp_path, monkeypatch, agent=agent)
    assert rl_clarity.load_agent(tmp_path / "agent.safetensors").num_actions == 4


@pytest.mark.slow
def test_extensions_shown_in_the_documentation_work(
    opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_code(DOCS / "extending.md", tmp_path, monkeypatch)
    results = rl_clarity.open_results(tmp_path / "out" / "smoothgrad")
    for maps in results.section("smoothgrad")["trajectories"]:
        assert maps["scale"] > 0
        assert results.chunk(maps["segments"][0])["codes"].shape == (64, 64, 64, 1)
    assert '<script type="module" data-panel="returns">' in (tmp_path / "out/returns/interface.html").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.browser
def test_the_documentation_site_is_complete_and_loads_only_local_files(
    chromium_browser: Browser, tmp_path: Path
) -> None:
    pytest.importorskip("mkdocstrings")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    write_small_page(open_directory(tmp_path / "demo"))
    config_file, site = str(REPOSITORY / "mkdocs.yml"), tmp_path / "site"
    demo = {"demo": str(tmp_path / "demo")}
    build(load_config(config_file, strict=True, site_dir=str(site), extra=demo))
    context = chromium_browser.new_context()
    page, requests = context.new_page(), []
    page.on("request", lambda request: requests.append(request.url))
    for name in ("index", "demo", "guides/sb3", "api/pages"):
        page.goto((site / f"{name}.html").as_uri(), wait_until="load")
        expect(page.locator("h1")).to_be_visible()
    context.close()
    assert any("demo/interface.html" in address for address in requests)
    assert [address for address in requests if not address.startswith((site.as_uri(), "data:", "blob:"))] == []


def _restore_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove after the test what the documents add to the registries."""
    from rl_clarity.analyses import ANALYSES
    from rl_clarity.analyses.attribution.quadrature import RULES
    from rl_clarity.environments import KINDS
    from rl_clarity.formats import FORMATS
    from rl_clarity.formats.architectures import ARCHITECTURES

    for registry in (ANALYSES, RULES, FORMATS, KINDS, ARCHITECTURES):
        for state in ("_registered", "_loaded"):
            monkeypatch.setattr(registry, state, {})
