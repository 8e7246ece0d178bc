"""Installations without optional packages, in a real interpreter that cannot import them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rl_clarity.base import quiet
from rl_clarity.base.errors import DependencyError
from rl_clarity.jobs.directory import open_directory
from tests.pages.pages import write_small_page

REPOSITORY = Path(__file__).resolve().parents[1]
FRAMEWORKS = ("tensorflow", "keras", "jax", "jaxlib", "torch", "functorch", "torchgen")
# A fake installation: the interpreter ignores its own site-packages and gets a folder of links to some of them.
START = "import sys; sys.path[:0] = [{repository!r}, {site!r}]\n"


class Interpreter:
    """This interpreter without some of the installed packages."""

    def __init__(self, site: Path, without: tuple[str, ...]) -> None:
        site.mkdir()
        for path in Path(np.__file__).parents[1].iterdir():
            match = re.match(r"[a-z0-9]*", path.name.lower())
            package = match[0] if match else ""  # also of "tensorflow-2.21.0.dist-info", "jax_cuda"
            if package not in without and path.suffix != ".pth":
                (site / path.name).symlink_to(path)
        self._site = site

    def run(self, program: str, directory: Path) -> str:
        """Run a program; return its standard output."""
        code = START.format(repository=str(REPOSITORY), site=str(self._site)) + program
        environment = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
        command = [sys.executable, "-I", "-S", "-c", code]
        result = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    """An installation without a deep-learning framework."""
    return Interpreter(tmp_path_factory.mktemp("plain") / "site", FRAMEWORKS)


@pytest.fixture(scope="module")
def with_torch(tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    """An installation with PyTorch, without Keras."""
    pytest.importorskip("torch")
    return Interpreter(tmp_path_factory.mktemp("torch") / "site", ("tensorflow", "keras", "jax", "jaxlib"))


def test_the_interpreter_of_these_tests_finds_no_framework(plain: Interpreter, tmp_path: Path) -> None:
    program = f"from importlib.util import find_spec; print([name for name in {FRAMEWORKS} if find_spec(name)])"
    assert plain.run(program, tmp_path) == "[]\n"


def test_a_plain_install_shows_help_and_inspects_checkpoints(plain: Interpreter, tmp_path: Path) -> None:
    program = """
import contextlib
import rl_clarity
from rl_clarity.cli import main
with contextlib.suppress(SystemExit):
    main(["run", "--help"])
assert main(["inspect", "models:coinrun"]) == 0
"""
    printed = plain.run(program, tmp_path)
    assert "usage: rl-clarity run" in printed
    assert "network clear" in printed
    assert "env_name: coinrun" in printed


def test_a_plain_install_reads_and_exports_pages(plain: Interpreter, tmp_path: Path) -> None:
    write_small_page(open_directory(tmp_path / "page"))
    program = """
import rl_clarity
results = rl_clarity.open_results("page")
print(results.layers)
print(rl_clarity.export(results, "frames.npz"))
"""
    printed = plain.run(program, tmp_path)
    assert printed.splitlines()[-1].endswith("frames.npz")
    assert (tmp_path / "frames.npz").exists()


@pytest.mark.parametrize(
    ("call", "package"),
    [
        ("rl_clarity.load_agent('models:coinrun')", "tensorflow"),
        ("rl_clarity.train(env_name='coinrun')", "tensorflow"),
        ("rl_clarity.TorchAgent(None, (8, 8, 3), {})", "torch"),
    ],
)
def test_errors_name_the_command_that_installs_the_missing_package(
    call: str, package: str, plain: Interpreter, tmp_path: Path
) -> None:
    program = f"import rl_clarity\ntry:\n    {call}\nexcept rl_clarity.ClarityError as error:\n    print(error)"
    assert f'pip install "rl-clarity[{package}]"' in plain.run(program, tmp_path)


AGENT = """
import numpy as np, torch, rl_clarity
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 4, 2), torch.nn.ReLU(), torch.nn.Flatten())
        self.policy, self.value = torch.nn.Linear(8 * 15 * 15, 3), torch.nn.Linear(8 * 15 * 15, 1)
    def forward(self, x):
        features = self.body(x)
        return self.policy(features), self.value(features)
agent = rl_clarity.TorchAgent(Net(), (32, 32, 3), {"env_name": "squares", "gamma": 0.9})
rng = np.random.default_rng(0)
frames = rng.integers(0, 256, (40, 32, 32, 3), np.uint8)
"""


@pytest.mark.slow
def test_a_pytorch_agent_can_be_attributed_without_keras(with_torch: Interpreter, tmp_path: Path) -> None:
    program = f"""{AGENT}
layer = rl_clarity.select_layers(agent)[0]
attribution = rl_clarity.integrated_gradients(agent, frames[:4], layer)
assert np.abs(attribution).max() > 0
print(attribution.shape)
"""
    assert with_torch.run(program, tmp_path) == "(4, 15, 15, 8)\n"


@pytest.mark.slow
def test_a_page_of_a_pytorch_agent_is_made_without_keras(with_torch: Interpreter, tmp_path: Path) -> None:
    program = f"""{AGENT}
trajectories = {{
    "observations": frames[:16].reshape(2, 8, 32, 32, 3),
    "actions": rng.integers(3, size=(2, 8)),
    "rewards": np.ones((2, 8), np.float32),
    "firsts": np.zeros((2, 8), bool),
}}
page = rl_clarity.generate(agent, trajectories, frames, "page", nmf_features=3)
print(page.results().layers, page.results().manifest["complete"])
"""
    assert with_torch.run(program, tmp_path).splitlines()[-1] == "['body.1'] True"


def _pretend_installed(installed: str, selected: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the packages `installed` can be found; KERAS_BACKEND is `selected`, or not set."""
    monkeypatch.setattr(quiet, "_is_installed", installed.split().__contains__)
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    if selected:
        monkeypatch.setenv("KERAS_BACKEND", selected)


@pytest.mark.parametrize(
    ("installed", "selected", "backend"),
    [
        ("keras tensorflow jax torch", None, "tensorflow"),
        ("keras jax torch", None, "jax"),
        ("keras torch", None, "torch"),
        ("keras tensorflow torch", "torch", "torch"),
    ],
)
def test_the_default_keras_backend_is_the_first_installed(
    installed: str, selected: str | None, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend_installed(installed, selected, monkeypatch)
    assert quiet.keras_backend() == backend


@pytest.mark.parametrize(
    ("installed", "selected", "message"),
    [
        ("", None, r'needs TensorFlow, JAX or PyTorch: pip install "rl-clarity\[tensorflow\]"'),
        ("torch", None, r'needs Keras: pip install "rl-clarity\[torch\]"'),
        ("keras tensorflow", "jax", r'KERAS_BACKEND=jax, but jax is not installed: pip install "rl-clarity\[jax\]"'),
    ],
)
def test_a_missing_keras_backend_is_an_error(
    installed: str, selected: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend_installed(installed, selected, monkeypatch)
    with pytest.raises(DependencyError, match=message):
        quiet.keras_backend()


@pytest.mark.slow
def test_importing_keras_does_not_change_environment_variables_or_delay_the_exit() -> None:
    program = """
import atexit, gc, os, sys
atexit.register(lambda: gc.get_freeze_count() > 100_000 or print("garbage is collected at exit", file=sys.stderr))
before = dict(os.environ)
from rl_clarity.base.quiet import import_keras
import_keras()
print({name for name in before.keys() | os.environ.keys() if before.get(name) != os.environ.get(name)})
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CPP", "KERAS"))}
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    )
    changed = set(result.stdout.strip().removeprefix("set()").strip("{}").replace("'", "").split(", ")) - {""}
    # TensorFlow sets other variables when it is imported.
    assert not {name for name in changed if name.startswith(("KERAS", "TF_CPP"))}
    assert result.stderr == ""


@pytest.mark.slow
def test_importing_keras_reports_no_leaks_of_atari_emulators() -> None:
    pytest.importorskip("ale_py")
    program = """
import ale_py
from rl_clarity.base.quiet import import_keras
cycle = [ale_py.ALEInterface()]
cycle.append(cycle)
import_keras()
"""
    result = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert "leak" not in result.stderr


@pytest.mark.slow
def test_pytorch_agents_do_not_import_torch_dynamo() -> None:
    program = """
import sys
import numpy as np
import rl_clarity
agent = rl_clarity.load_agent("models:coinrun")
rl_clarity.integrated_gradients(agent, np.zeros((2, 64, 64, 3), np.uint8), "2b")
print(sorted({"torch._dynamo", "torch._inductor", "triton"} & sys.modules.keys()))
import torch
assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item() == 2
"""
    environment = os.environ | {"KERAS_BACKEND": "torch"}
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
