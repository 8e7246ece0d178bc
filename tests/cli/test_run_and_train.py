"""Commands that explain and train: run, train, demo."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.resources import models_directory
from rl_clarity.cli import main
from rl_clarity.jobs.forecast import Forecast
from rl_clarity.pages.options import InterfaceOptions, ObservationsOptions
from rl_clarity.pages.original_options import translate
from rl_clarity.pages.results import open_results
from tests.cli.calls import SMALL, parse_summary
from tests.ppo.small import stop_in_update, tiny


def test_run_prints_the_path_of_the_page(page: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert open_results(page).manifest["title"] == "A page"
    capsys.readouterr()
    command = ["run", str(checkpoint), str(page), *SMALL, "--title", "A page"]
    assert main([*command, "--json"]) == 0
    assert parse_summary(capsys.readouterr()) == {"page": str(page / "interface.html")}
    assert main(command) == 0
    assert capsys.readouterr().out == f"The page is {page / 'interface.html'}\n"


def test_rl_clarity_run_recognizes_a_page_written_by_the_command(page: Path, checkpoint: Path) -> None:
    sizes = {
        "trajectories": {"num_envs": 2, "num_steps": 10},
        "observations": {"num_envs": 2, "num_obs": 4, "obs_every": 2},
        "layers": {"name_contains_one_of": ["Relu_2"]},
    }
    forecast = rl_clarity.run(checkpoint, page, **sizes, title="A page", dry_run=True)
    assert forecast == Forecast.nothing_to_do()


def test_run_replaces_another_page_only_with_force(
    page: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "interface.html").write_bytes((page / "interface.html").read_bytes())
    command = ["run", str(checkpoint), str(tmp_path / "page"), *SMALL, "--load.no-resample"]
    assert main(command) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"rl-clarity: {tmp_path / 'page'} already holds a page (A page): choose another directory, "
        "or replace the page with overwrite=True (--force)\n"
    )
    assert main([*command, "--force"]) == 0
    assert open_results(tmp_path / "page").manifest["title"] == "coinrun, nature"


@pytest.fixture
def options_of_run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Parse a command line; return the keyword arguments of `run`."""

    def options(*arguments: str) -> dict[str, Any]:
        calls: list[dict[str, Any]] = []

        def run(*positional: Any, **keywords: Any) -> None:
            calls.append(keywords)
            raise KeyboardInterrupt

        monkeypatch.setattr(rl_clarity, "run", run)
        assert main(["run", "agent.jd", "out", *arguments]) == 130
        return calls[0]

    return options


def test_option_original_selects_the_settings_of_the_original_program(
    options_of_run: Callable[..., dict[str, Any]],
) -> None:
    options = options_of_run("--original", "--attribution.policy")
    expected = translate(rl_clarity.ORIGINAL, InterfaceOptions)
    assert asdict(options["observations"]) == expected.pop("observations")
    assert options["trajectories"].discard_first
    expected["attribution"]["policy"] = True
    for name, part in expected.items():
        assert {key: getattr(options[name], key) for key in part} == part


def test_explicit_options_override_the_settings_of_the_original(options_of_run: Callable[..., dict[str, Any]]) -> None:
    words = "--attribution.steps 50 --observations.num-envs 7 --features.fit-observations 99"
    options = options_of_run("--original", *words.split())
    assert options["attribution"].steps == 50
    assert (options["features"].fit_observations, options["features"].fit_steps) == (99, 10)
    assert options["attribution"].quadrature == "riemann"
    observations = asdict(options["observations"])
    assert observations == {"num_envs": 7, "num_obs": 128, "obs_every": 128, "bfloat16": False}


def test_explicit_default_values_override_the_original_settings(
    options_of_run: Callable[..., dict[str, Any]],
) -> None:
    quadrature, every = InterfaceOptions().attribution.quadrature, ObservationsOptions().obs_every
    options = options_of_run(
        "--original", "--attribution.quadrature", quadrature, "--observations.obs-every", str(every)
    )
    assert options["attribution"].quadrature == quadrature
    assert options["observations"].obs_every == every
    assert options["attribution"].steps == 10


@pytest.mark.parametrize("flag", ["--lambda", "--lambda-"])
def test_train_accepts_lambda_with_and_without_underscore(
    flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {}

    def train(directory: str, **keywords: Any) -> None:
        options.update(keywords)
        raise KeyboardInterrupt

    monkeypatch.setattr(rl_clarity, "train", train, raising=False)
    assert main(["train", str(tmp_path), "--env-name", "coinrun", flag, "0.9", "--force"]) == 130
    assert (options["lambda_"], options["overwrite"]) == (0.9, True)


def test_train_refuses_an_empty_directory_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "", "--env-name", "coinrun"]) == 1
    assert "save_dir is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (1, "interrupted; nothing is saved before the first update"),
        (2, "interrupted; training is saved, and resumes when it is started again"),
    ],
)
def test_interrupted_training_prints_what_is_saved(
    update: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def press_ctrl_c() -> None:
        raise KeyboardInterrupt

    stop_in_update(update, press_ctrl_c, monkeypatch)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in tiny(3).items() if name != "tensorboard"]
    assert main(["train", str(tmp_path), *options, "--no-tensorboard"]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == f"rl-clarity: {message}"


@pytest.mark.slow
def test_a_trained_agent_can_be_explained_with_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("procgen", reason="the agent plays CoinRun")
    command = "--env-name coinrun --cnn nature --num-envs 2 --num-steps 16 --num-minibatches 2 --timesteps-per-proc 64"
    assert main(["train", str(tmp_path / "agent"), *command.split(), "--json"]) == 0
    assert isinstance(parse_summary(capsys.readouterr()), dict)
    trained = tmp_path / "agent" / "checkpoint.jd"
    assert main(["inspect", str(trained), "--json"]) == 0
    assert parse_summary(capsys.readouterr())["metadata"]["env_name"] == "coinrun"
    assert main(["run", str(trained), str(tmp_path / "page"), *SMALL, "--json"]) == 0
    assert open_results(tmp_path / "page").manifest["recordings"][0]["env_name"] == "coinrun"


def test_train_without_an_environment_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(tmp_path / "agent")]) == 2
    assert "env_name" in capsys.readouterr().err
    assert not (tmp_path / "agent").exists()


@pytest.mark.slow
@pytest.mark.parametrize("procgen", [True, False], ids=["with Procgen", "with included samples"])
def test_demo_writes_a_page_of_an_included_agent(
    procgen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rl_clarity.commands import demo

    if procgen:
        pytest.importorskip("procgen", reason="the demonstration plays CoinRun")
        monkeypatch.setattr(demo, "TRAJECTORIES", {"num_envs": 1, "num_steps": 16})
        monkeypatch.setattr(demo, "OBSERVATIONS", {"num_envs": 4, "num_obs": 4, "obs_every": 8})
    else:
        with np.load(models_directory() / demo.SAMPLES) as samples:
            steps = dict.fromkeys(("observations", "actions", "rewards", "firsts"), np.s_[:1, :16])
            parts = {**steps, "varied": np.s_[:24]}
            np.savez(tmp_path / demo.SAMPLES, **{name: samples[name][parts.get(name, ...)] for name in samples})
        monkeypatch.setattr(demo, "models_directory", lambda: tmp_path)
        find_spec = importlib.util.find_spec
        monkeypatch.setattr(
            "importlib.util.find_spec", lambda name, *rest: None if name == "procgen" else find_spec(name, *rest)
        )
    assert main(["demo", "--output-dir", str(tmp_path / "demo"), "--json"]) == 0
    assert parse_summary(capsys.readouterr()) == {"page": str(tmp_path / "demo" / "interface.html")}
    results = open_results(tmp_path / "demo")
    assert results.layers == ["1a", "2a", "2b", "3a", "4a"]
    assert "→" in [action["label"] for action in results.agent["actions"]]
