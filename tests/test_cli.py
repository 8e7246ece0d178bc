"""The command line: what is printed where, exit codes, and that help needs nothing heavy."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from PIL import Image

import rl_clarity
from rl_clarity import checkpoints, cli, load_agent
from rl_clarity.cli import main
from rl_clarity.cli.call import command_of
from rl_clarity.cli.commands import Inspect
from rl_clarity.interface.export import SUFFIXES
from rl_clarity.interface.results import open_results
from rl_clarity.options import InterfaceOptions, ObservationsOptions
from tests.pipeline.small import ARGS, REPOSITORY, write_checkpoint

COMMANDS = ("run", "train", "demo", "inspect", "evaluate", "export", "convert")
HEAVY = ("tensorflow", "keras", "torch", "jax", "sklearn", "scipy", "mpi4py", "procgen", "gym", "gymnasium", "ale_py")
SMALL = [
    *(
        "--layer-kwargs.name-contains-one-of",
        "Relu_2",
        "--trajectories.num-envs",
        "2",
        "--trajectories.num-steps",
        "10",
    ),
    *("--observations.num-envs", "2", "--observations.num-obs", "4", "--observations.obs-every", "2"),
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    args = {**ARGS, "num_levels": np.int64(3), "learning_rate": np.float32(5e-4), "timesteps": float("inf")}
    return write_checkpoint(tmp_path_factory.mktemp("agents") / "agent.jd", args)


@pytest.fixture(scope="module")
def page(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page made on the command line."""
    pytest.importorskip("procgen", reason="the agent plays CoinRun")
    directory = tmp_path_factory.mktemp("pages") / "page"
    assert main(["run", str(checkpoint), str(directory), *SMALL, "--title", "Of the command line"]) == 0
    return directory


def summary_of(printed: Any) -> dict[str, Any]:
    """The summary that is all of the standard output: one line of JSON, as strict readers take it."""
    assert printed.out.count("\n") == 1

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    summary: dict[str, Any] = json.loads(printed.out, parse_constant=refuse)
    return summary


# --- help ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--help"], *([command, "--help"] for command in COMMANDS)], ids=" ".join)
def test_help(arguments: list[str], capsys: Any) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    if len(arguments) == 1:
        assert all(command in printed for command in COMMANDS)
    assert "usage: rl-clarity" in printed


def test_help_of_run_has_every_option(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    printed = capsys.readouterr().out
    for option in ("--attr-policy", "--nmf-attr-opts.integrate-steps", "--load.temp-files", "--force", "--video-speed"):
        assert option in printed
    assert "--action-group-fns" not in printed


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from rl_clarity.cli import main\n"
        "try:\n    main(['run', '--help'])\nexcept SystemExit:\n"
        f"    print('heavy:', *[name for name in {HEAVY} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "heavy:"


def test_as_a_module() -> None:
    command = [sys.executable, "-m", "rl_clarity"]
    helped = subprocess.run([*command, "--help"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert helped.returncode == 0
    assert helped.stdout.startswith("usage: rl-clarity")
    wrong = subprocess.run(
        [*command, "inspect", "nowhere.jd"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr == "rl-clarity: cannot read the checkpoint nowhere.jd: No such file or directory\n"


@pytest.mark.parametrize(
    "arguments", [[], ["explain"], ["run"], ["run", "a.jd", "out", "--seed", "many"], ["run", "a.jd", "out", "--sed"]]
)
def test_wrong_calls_exit_with_2(arguments: list[str], capsys: Any) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("run a.jd out --batch-size 0", "batch_size=0 must be at least 1"),
        ("run a.jd out --trajectories.num-envs 0", "num_envs=0 must be at least 1"),
        ("run a.jd out --original --observations.num-obs 0", "num_obs=0 must be at least 1"),
        ("run a.jd out --nmf-attr-opts.integrate-steps 0", "integrate_steps=0 must be at least 1"),
        ("run a.jd out --load.metadata gamma", "metadata 'gamma' has no value: write gamma VALUE, or gamma=VALUE"),
        ("train out --env-name coinrun --gamma 2", "gamma=2.0 must be from 0 to 1"),
        ("evaluate a.jd --episodes 0", "episodes=0 must be at least 1"),
        ("evaluate a.jd --max-steps -1", "max_steps=-1 must be at least 1"),
    ],
)
def test_values_that_cannot_be_exit_with_2(call: str, message: str, capsys: Any) -> None:
    assert main(call.split()) == 2
    assert capsys.readouterr() == ("", f"rl-clarity: {message}\n")


@pytest.mark.parametrize(
    "call", ["run a.jd out --sed 3", "run a.jd out --seed many", "run", "expor", "inspect a.jd b.jd"]
)
def test_the_parser_tells_nothing_of_its_insides(call: str, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(call.split())
    printed = capsys.readouterr().err
    assert "rl-clarity" in printed
    assert "tyro" not in printed
    assert printed.count("For full helptext") == 1


def test_a_reader_that_goes_away_is_no_error(checkpoint: Path) -> None:
    command = f"{sys.executable} -m rl_clarity inspect {checkpoint} | true"
    done = subprocess.run(["bash", "-c", command], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("inspect folder", "folder: is a folder, and an empty one"),
        ("inspect empty", "empty: is an empty file"),
        ("inspect coinrun", "there is no file coinrun; the agent that ships is called models:coinrun"),
        ("run coinrun page", "there is no file coinrun; the agent that ships is called models:coinrun"),
        ("export empty x.png", "there is no page interface.html in empty"),
        ("train empty --env-name coinrun", "empty is a file, not a directory to train in"),
        ("convert models:coinrun empty/a.safetensors", "cannot write empty/a.safetensors: File exists"),
        ("convert nowhere a.safetensors", "cannot read the checkpoint nowhere: No such file or directory"),
        ("demo --output-dir empty", "empty is a file, not a directory to write a page into"),
    ],
)
def test_mistakes(call: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("empty").touch()
    assert main(call.split()) == 1
    assert capsys.readouterr() == ("", f"rl-clarity: {message}\n")


def test_version(capsys: Any) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr() == (f"rl-clarity {rl_clarity.__version__}\n", "")


def test_metadata_are_pairs_of_words_or_joined_by_an_equals_sign() -> None:
    command = command_of(["inspect", "a.jd", "--metadata", "env_name", "coinrun", "gamma=0.9", "note", "a=b"])
    assert isinstance(command, Inspect)
    assert command.metadata == {"env_name": "coinrun", "gamma": "0.9", "note": "a=b"}


def test_commands_say_nothing_of_the_libraries_below(checkpoint: Path, tmp_path: Path) -> None:
    """Not even when nobody has said so to TensorFlow beforehand."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    code = f"import rl_clarity; rl_clarity.load_agent({str(checkpoint)!r})"
    inspect = ["-m", "rl_clarity", "inspect", str(checkpoint), "--json"]
    convert = ["-m", "rl_clarity", "convert", str(checkpoint), str(tmp_path / "agent.safetensors"), "--json"]
    for command in (["-c", code], inspect, convert):
        done = subprocess.run(
            [sys.executable, *command], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""


# --- run -----------------------------------------------------------------------------------------------------------


def test_run(page: Path, checkpoint: Path, capsys: Any) -> None:
    assert open_results(page).manifest["title"] == "Of the command line"
    capsys.readouterr()
    again = ["run", str(checkpoint), str(page), *SMALL, "--title", "Of the command line"]
    assert main([*again, "--json"]) == 0
    assert summary_of(capsys.readouterr()) == {"page": str(page / "interface.html")}
    assert main(again) == 0
    assert capsys.readouterr().out == f"The page is {page / 'interface.html'}\n"


def test_another_page_is_replaced_with_force(page: Path, checkpoint: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "interface.html").write_bytes((page / "interface.html").read_bytes())
    command = ["run", str(checkpoint), str(tmp_path / "page"), *SMALL, "--load.no-resample"]
    assert main(command) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"rl-clarity: {tmp_path / 'page'} already holds a page (Of the command line): choose another directory, "
        "or replace it with overwrite=True (--force)\n"
    )
    assert main([*command, "--force"]) == 0
    assert open_results(tmp_path / "page").manifest["title"] == "coinrun, nature"


@pytest.fixture
def options_of_run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """The keywords that a command line gives to `run`."""

    def options(*arguments: str) -> dict[str, Any]:
        calls: list[dict[str, Any]] = []

        def run(*positional: Any, **keywords: Any) -> None:
            calls.append(keywords)
            raise KeyboardInterrupt

        monkeypatch.setattr(rl_clarity, "run", run)
        assert main(["run", "agent.jd", "out", *arguments]) == 130
        (found,) = calls
        return found

    return options


def test_settings_of_the_original(options_of_run: Callable[..., dict[str, Any]]) -> None:
    options = options_of_run("--original", "--attr-policy")
    assert options["attr_policy"] is True
    original = dict(rl_clarity.ORIGINAL)
    assert asdict(options["observations_kwargs"]) == original.pop("observations_kwargs")
    assert asdict(options.pop("nmf_attr_opts")) == {"max_paths": None, **original.pop("nmf_attr_opts")}
    assert {name: options[name] for name in original} == original


def test_what_is_given_goes_before_the_original(options_of_run: Callable[..., dict[str, Any]]) -> None:
    given = "--attr-integrate-steps 50 --observations.num-envs 7 --nmf-fit-observations 99 --nmf-attr-opts.max-paths 1"
    options = options_of_run("--original", *given.split())
    assert options["attr_integrate_steps"] == 50
    assert options["nmf_fit_observations"] == 99
    assert options["attr_quadrature"] == "riemann"
    assert asdict(options["observations_kwargs"]) == {"num_envs": 7, "num_obs": 128, "obs_every": 128}
    assert asdict(options["nmf_attr_opts"]) == {"integrate_steps": 10, "max_paths": 1}


def test_even_what_is_given_as_our_default_goes_before_the_original(
    options_of_run: Callable[..., dict[str, Any]],
) -> None:
    ours, every = InterfaceOptions().attr_quadrature, ObservationsOptions().obs_every
    options = options_of_run("--original", "--attr-quadrature", ours, "--observations.obs-every", str(every))
    assert options["attr_quadrature"] == ours
    assert options["observations_kwargs"].obs_every == every
    assert options["attr_integrate_steps"] == 10


@pytest.mark.parametrize(
    ("call", "goes_on"),
    [
        ("run a.jd out", True),
        ("run a.jd out --dry-run", False),
        ("train out --env-name coinrun", True),
        ("inspect a.jd", False),
        ("evaluate a.jd", False),
        ("export page a.png", False),
        ("convert a.jd a.safetensors", False),
        ("demo", False),
    ],
)
def test_interrupted(call: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def interrupted(command: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "ANSWERS", dict.fromkeys(cli.ANSWERS, interrupted))
    assert main(call.split()) == 130
    more = "; the same command goes on where it was stopped" if goes_on else ""
    assert capsys.readouterr() == ("", f"rl-clarity: interrupted{more}\n")


# --- inspect -------------------------------------------------------------------------------------------------------


def test_inspect(checkpoint: Path, capsys: Any) -> None:
    assert main(["inspect", str(checkpoint), "--json"]) == 0
    summary = summary_of(capsys.readouterr())
    assert summary["network"] == "nature"
    assert summary["num_actions"] == 15
    assert summary["layers"] == {"Relu": [15, 15, 32], "Relu_1": [6, 6, 64], "Relu_2": [4, 4, 64]}
    assert summary["metadata"]["num_levels"] == 3
    assert summary["metadata"]["env_name"] == "coinrun"
    assert summary["metadata"]["timesteps"] is None  # JSON has no word for infinity
    parameters = joblib.load(checkpoint)["params"]
    assert summary["parameters"] == sum(array.size for array in parameters.values())
    assert main(["inspect", str(checkpoint)]) == 0
    printed = capsys.readouterr().out
    assert "network nature" in printed
    assert "Relu_1 (6 x 6 x 64)" in printed


def test_inspect_a_shipped_agent(capsys: Any) -> None:
    assert main(["inspect", "models:coinrun", "--json"]) == 0
    assert summary_of(capsys.readouterr())["layers"]["1a"] == [64, 64, 16]
    assert main(["inspect", "models:coinrum"]) == 1
    assert "did you mean models:coinrun?" in capsys.readouterr().err


# --- convert -------------------------------------------------------------------------------------------------------


def test_convert(tmp_path: Path, capsys: Any) -> None:
    checkpoint = write_checkpoint(tmp_path / "agent.jd")
    written = tmp_path / "made" / "agent.safetensors"
    command = ["convert", str(checkpoint), str(written), "--metadata", "gamma", "0.9", "frame_skip", "[2, 5]"]
    assert main([*command, "use_backgrounds", "False", "--json"]) == 0
    summary = summary_of(capsys.readouterr())
    assert summary["file"] == str(written)
    assert (summary["format"], summary["network"]) == ("baselines", "nature")
    copy = checkpoints.read(written)
    kept = {name: copy.metadata[name] for name in ("gamma", "frame_skip", "use_backgrounds", "env_name")}
    assert kept == {"gamma": 0.9, "frame_skip": [2, 5], "use_backgrounds": False, "env_name": "coinrun"}
    observations = np.random.default_rng(0).integers(0, 256, (2, *load_agent(written).observation_shape), np.uint8)
    before, after = (load_agent(path).forward(observations) for path in (checkpoint, written))
    np.testing.assert_array_equal(before.policy_logits, after.policy_logits)
    np.testing.assert_array_equal(before.values, after.values)


def test_convert_what_is_no_checkpoint(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "a").write_text("hello")
    assert main(["convert", str(tmp_path / "a"), str(tmp_path / "b.safetensors")]) == 1
    assert "no known format" in capsys.readouterr().err
    assert not (tmp_path / "b.safetensors").exists()


def test_convert_writes_no_other_kind_of_file(checkpoint: Path, tmp_path: Path, capsys: Any) -> None:
    target = tmp_path / "agent.txt"
    assert main(["convert", str(checkpoint), str(target)]) == 1
    assert f"{target} must end in .safetensors" in capsys.readouterr().err
    assert not target.exists()


def test_convert_replaces_a_file_with_force(checkpoint: Path, tmp_path: Path, capsys: Any) -> None:
    target = tmp_path / "agent.safetensors"
    target.write_text("of someone else")
    command = ["convert", str(checkpoint), str(target)]
    assert main(command) == 1
    assert capsys.readouterr().err == (
        f"rl-clarity: {target} is there already: choose another name, or replace it with overwrite=True (--force)\n"
    )
    assert target.read_text() == "of someone else"
    assert main([*command, "--force"]) == 0
    assert checkpoints.read(target).network == "nature"
    assert rl_clarity.convert(target, target, overwrite=True, gamma=0.5).metadata["gamma"] == 0.5


# --- evaluate ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_evaluate(checkpoint: Path, capsys: Any) -> None:
    pytest.importorskip("procgen", reason="the agent plays CoinRun")
    command = ["evaluate", str(checkpoint), "--episodes", "4", "--random"]
    assert main([*command, "--json"]) == 0
    summary = summary_of(capsys.readouterr())
    assert set(summary) == {"agent", "unseen levels", "random policy"}
    assert summary["agent"]["episodes"] == 4
    assert 0 <= summary["agent"]["mean_return"] <= 10
    low, high = summary["agent"]["interval"]
    assert low <= summary["agent"]["mean_return"] <= high
    assert main([*command, "--no-unseen"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"mean return [0-9.]+ \+- [0-9.]+ over 4 episodes", lines[0])
    assert lines[0].startswith(f"mean return {summary['agent']['mean_return']:.2f} +- ")
    assert not any("unseen" in line for line in lines)


def test_an_agent_of_all_levels_has_no_unseen_ones(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("procgen", reason="the agent plays CoinRun")
    checkpoint = write_checkpoint(tmp_path / "agent.jd")
    assert main(["evaluate", str(checkpoint), "--episodes", "2", "--max-steps", "3", "--json"]) == 0
    summary = summary_of(capsys.readouterr())
    assert set(summary) == {"agent"}
    assert summary["agent"]["lengths"] == [3, 3]
    assert summary["agent"]["cut"] == 2


@pytest.mark.parametrize("flag", ["--lambda", "--lambda-"])
def test_lambda_is_called_so_on_the_command_line(flag: str, tmp_path: Path, monkeypatch: Any) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("rl_clarity.train", lambda directory, **options: given.update(options) or 1 / 0, raising=False)
    with pytest.raises(ZeroDivisionError):
        main(["train", str(tmp_path), "--env-name", "coinrun", flag, "0.9"])
    assert given["lambda_"] == 0.9


# --- export --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["frames.png", "frames.GIF", "frames.apng", "numbers.csv", "arrays.npz"])
def test_export(name: str, page: Path, tmp_path: Path, capsys: Any) -> None:
    command = ["export", str(page), str(tmp_path / name), "--trajectory", "2", "--frames", "3:5", "--json"]
    assert main(command) == 0
    assert summary_of(capsys.readouterr()) == {"file": str(tmp_path / name)}
    if name.endswith("csv"):
        lines = (tmp_path / name).read_text().splitlines()
        assert [line.split(",")[:2] for line in lines[1:]] == [["2", "3"], ["2", "4"], ["2", "5"]]
    elif name.endswith("npz"):
        with np.load(tmp_path / name) as arrays:
            assert arrays["frames"].shape == (3, 64, 64, 3)
            np.testing.assert_array_equal(
                arrays["channels"], open_results(page).attribution("Relu_2", 1, steps=range(2, 5)).channels
            )
    else:
        with Image.open(tmp_path / name) as image:
            assert image.n_frames == 3
            assert image.size == (3 * 256, 256)


def test_what_an_export_shows_is_chosen(page: Path, tmp_path: Path) -> None:
    shown = tmp_path / "shown.apng"
    chosen = ["--directions", "abs", "--channel", "2", "--fps", "4", "--output", "value", "--layer", "Relu_2"]
    assert main(["export", str(page), str(shown), "--frames", "1:2", *chosen]) == 0
    same = rl_clarity.export(page, tmp_path / "same.apng", frames=range(2), directions=["abs"], channel=1, fps=4)
    assert shown.read_bytes() == same.read_bytes()
    with Image.open(shown) as image:
        assert image.size == (2 * 256, 256)
        assert image.info["duration"] == 250


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--frames 5:3", "--frames 5:3: two numbers from 1 on"),
        ("--frames 0:3", "--frames 0:3: two numbers from 1 on"),
        ("--frames first", "--frames first: two numbers from 1 on"),
        ("--frames 3:", "--frames 3:: two numbers from 1 on"),
        ("--frames 3:99", "--frames 3:99: the trajectory's frames are 1:10"),
        ("--trajectory 0", "--trajectory 0: the page has 2, counted from 1"),
        ("--trajectory 3", "--trajectory 3: the page has 2, counted from 1"),
        ("--layer 9z", "layer '9z' is none of Relu_2"),
        ("--output action-3", "output 'action-3' is none of value"),
        ("--channel 0", "--channel 0: layer Relu_2 has 8, counted from 1"),
        ("--channel 9", "--channel 9: layer Relu_2 has 8, counted from 1"),
        ("--channel red", "--channel red: layer Relu_2 has 8, counted from 1; or say prin"),
        ("--fps 0", "fps=0.0 must be above 0 and at most 100"),
    ],
)
def test_exports_of_what_is_not_there(
    suffix: str, arguments: str, message: str, page: Path, tmp_path: Path, capsys: Any
) -> None:
    assert main(["export", str(page), str(tmp_path / f"x{suffix}"), *arguments.split()]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(f"rl-clarity: {message}")
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["page", "x.bmp"], "'x.bmp' ends in none of .png, .apng, .gif, .csv, .npz"),
        (["nowhere", "x.png"], "there is no page"),
        (["page", "nowhere/x.csv"], "cannot write"),
    ],
)
def test_exports_from_and_to_nowhere(
    arguments: list[str], message: str, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(page) if argument == "page" else argument for argument in arguments]
    assert main(["export", *given]) == 1
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


# --- train ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_train_and_explain(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("procgen", reason="the agent plays CoinRun")
    command = "--env-name coinrun --cnn nature --num-envs 2 --num-steps 16 --num-minibatches 2 --timesteps-per-proc 64"
    assert main(["train", str(tmp_path / "agent"), *command.split(), "--json"]) == 0
    assert isinstance(summary_of(capsys.readouterr()), dict)
    trained = tmp_path / "agent" / "checkpoint.jd"
    assert main(["inspect", str(trained), "--json"]) == 0
    assert summary_of(capsys.readouterr())["metadata"]["env_name"] == "coinrun"
    assert main(["run", str(trained), str(tmp_path / "page"), *SMALL, "--json"]) == 0
    assert open_results(tmp_path / "page").manifest["env_name"] == "coinrun"


def test_train_without_a_game(tmp_path: Path, capsys: Any) -> None:
    assert main(["train", str(tmp_path / "agent")]) == 2
    assert "env_name" in capsys.readouterr().err
    assert not (tmp_path / "agent").exists()


# --- demo ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("procgen", [True, False], ids=["with Procgen", "with the samples that ship"])
def test_demo(procgen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from rl_clarity import demo

    if procgen:
        pytest.importorskip("procgen", reason="the demonstration plays CoinRun")
        monkeypatch.setattr(demo, "TRAJECTORIES", {"num_envs": 1, "num_steps": 16})
        monkeypatch.setattr(demo, "OBSERVATIONS", {"num_envs": 4, "num_obs": 4, "obs_every": 8})
    else:
        monkeypatch.setattr(demo.importlib.util, "find_spec", lambda name: None)
    assert main(["demo", "--output-dir", str(tmp_path / "demo"), "--json"]) == 0
    assert summary_of(capsys.readouterr()) == {"page": str(tmp_path / "demo" / "interface.html")}
    results = open_results(tmp_path / "demo")
    assert results.layers == ["1a", "2a", "2b", "3a", "4a"]
    assert "→" in [action["label"] for action in results.manifest["actions"]]
