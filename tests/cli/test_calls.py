"""The command line: help without heavy imports, usage errors, output, exit codes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import rl_clarity
from rl_clarity.base.errors import CheckpointError
from rl_clarity.base.parsing import option_names
from rl_clarity.cli import main
from rl_clarity.cli.agents import Evaluate, Inspect, Train
from rl_clarity.cli.arguments import COMMANDS, parse_arguments
from rl_clarity.cli.command import CheckpointCommand, Command
from rl_clarity.cli.flags import ADVANCED
from rl_clarity.cli.recordings import Record
from tests.pipeline.small import REPOSITORY

FRAMEWORKS = (
    "tensorflow",
    "keras",
    "torch",
    "jax",
    "sklearn",
    "scipy",
    "mpi4py",
    "procgen",
    "gym",
    "gymnasium",
    "ale_py",
)


def replace_commands(monkeypatch: pytest.MonkeyPatch, execute: Callable[[Command], None]) -> None:
    for command in COMMANDS.values():
        monkeypatch.setattr(command, "execute", execute)


@pytest.mark.parametrize("arguments", [["--help"], *([command, "--help"] for command in COMMANDS)], ids=" ".join)
def test_every_command_prints_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    if len(arguments) == 1:
        assert all(command in printed for command in COMMANDS)
    assert "usage: rl-clarity" in printed


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_no_empty_default(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help-all"])
    printed = " ".join(re.sub("[\u2500-\u257f]", " ", capsys.readouterr().out).split())
    assert "(default: )" not in printed


def test_help_of_the_run_command_lists_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    printed = capsys.readouterr().out
    for option in ("--attribution.policy", "--features.count", "--load.temp-files", "--force", "--view.speed"):
        assert option in printed
    for hidden in ("--action-group-fns", "--overwrite", "--load.metadata ", "{None}|STR"):
        assert hidden not in printed


def listed_options(words: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The options that a command's help lists, each with its opposite."""
    with pytest.raises(SystemExit):
        main(words.split())
    return re.findall(r"^[^\w-]*(?:-h, )?(--(?!help-all)[a-z][\w.-]*)", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("command", ["run", "compare", "memory", "check", "debug", "ablate"])
def test_help_lists_common_options_and_help_all_lists_every_option(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    few, all_of_them = (listed_options(f"{command} {word}", capsys) for word in ("--help", "--help-all"))
    assert len(few) <= 45
    assert set(few) <= set(all_of_them)
    options = {*option_names(get_type_hints(COMMANDS[command])["options"])}
    left_out = ADVANCED & options
    assert {f"--{name}".replace("_", "-") for name in left_out} == {*all_of_them} - {*few} - LEFT_OUT_OF_LOAD


LEFT_OUT_OF_LOAD = {
    *(f"--load.{name}-path" for name in ("model", "metadata", "trajectories", "observations")),
    *("--observations.obs-every", "--observations.bfloat16"),
}


def test_options_accept_their_names_of_version_0_1() -> None:
    words = ["--nmf-features", "3", "--layer-kwargs.name-contains-one-of", "2b", "--attr-policy"]
    present = ["--features.count", "3", "--layers.name-contains-one-of", "2b", "--attribution.policy"]
    assert parse_arguments(["run", "a", "b", *words]) == parse_arguments(["run", "a", "b", *present])
    words, present = ["--max-steps", "9", "--windows", "4"], ["--play.max-steps", "9", "--windows.count", "4"]
    assert parse_arguments(["memory", "a", "b", *words]) == parse_arguments(["memory", "a", "b", *present])


def test_help_imports_no_framework() -> None:
    program = (
        "import sys; from rl_clarity.cli import main\n"
        "try:\n    main(['run', '--help'])\nexcept SystemExit:\n"
        f"    print('imported:', *[name for name in {FRAMEWORKS} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "imported:"


def test_the_package_runs_as_a_module_with_python_m() -> None:
    command = [sys.executable, "-m", "rl_clarity"]
    shown = subprocess.run([*command, "--help"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert shown.returncode == 0
    assert shown.stdout.startswith("usage: rl-clarity")
    failed = subprocess.run(
        [*command, "inspect", "nowhere.jd"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == "rl-clarity: cannot read the checkpoint nowhere.jd: No such file or directory\n"


@pytest.mark.parametrize(
    "arguments", [[], ["explain"], ["run"], ["run", "a.jd", "out", "--seed", "many"], ["run", "a.jd", "out", "--sed"]]
)
def test_usage_errors_exit_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("run a.jd out --batch-size 0", "batch_size=0 must be at least 1"),
        ("run a.jd out --trajectories.num-envs 0", "trajectories.num_envs=0 must be at least 1"),
        ("run a.jd out --original --observations.num-obs 0", "observations.num_obs=0 must be at least 1"),
        ("run a.jd out --attribution.steps 0", "attribution.steps=0 must be at least 1"),
        ("run a.jd out --load.metadata gamma", "metadata 'gamma' has no value: write gamma VALUE, or gamma=VALUE"),
        ("train out --env-name coinrun --gamma 2", "gamma=2.0 must be from 0 to 1"),
        ("evaluate a.jd --episodes 0", "episodes=0 must be at least 1"),
        ("evaluate a.jd --max-steps -1", "max_steps=-1 must be at least 1"),
        ("evaluate a.jd --seed 5000000000", "seed=5000000000 must be at most 2147483647"),
        ("run a.jd out --seed 5000000000", "seed=5000000000 must be at most 2147483647"),
        (
            f"run a.jd out --trajectories.num-envs {10**19}",
            f"trajectories.num_envs={10**19} must be at most 2147483647",
        ),
    ],
)
def test_invalid_values_exit_with_2(call: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(call.split()) == 2
    assert capsys.readouterr() == ("", f"rl-clarity: {message}\n")


@pytest.mark.parametrize(
    "call", ["run a.jd out --sed 3", "run a.jd out --seed many", "run", "expor", "inspect a.jd b.jd"]
)
def test_usage_errors_do_not_show_internals_of_the_parser(call: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(call.split())
    printed = capsys.readouterr().err
    assert "rl-clarity" in printed
    assert "tyro" not in printed
    assert printed.count("For full helptext") == 1


@pytest.mark.parametrize(
    "call", ["--version", "--help", "run --help", pytest.param("inspect models:coinrun", marks=pytest.mark.slow)]
)
def test_a_closed_pipe_is_not_an_error(call: str) -> None:
    command = f"{sys.executable} -m rl_clarity {call} | true"
    done = subprocess.run(["bash", "-c", command], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("inspect folder", "folder: is an empty folder"),
        ("inspect empty", "empty: is an empty file"),
        ("inspect coinrun", "there is no file coinrun; the included agent is called models:coinrun"),
        ("run coinrun page", "there is no file coinrun; the included agent is called models:coinrun"),
        ("export empty x.png", "empty contains no page interface.html"),
        ("train empty --env-name coinrun", "empty is a file, not a directory to train in"),
        ("convert models:coinrun empty/a.safetensors", "cannot write empty/a.safetensors: empty is a file"),
        (
            "convert models:coinrun link/a.safetensors",
            "cannot write link/a.safetensors: link is a link to nowhere, which does not exist",
        ),
        ("run models:coinrun link", "link is a link to nowhere, which does not exist; create it, or remove the link"),
        ("verify folder", "folder contains no page interface.html"),
        ("convert nowhere a.safetensors", "cannot read the checkpoint nowhere: No such file or directory"),
        ("demo --output-dir empty", "empty is a file; choose a directory for the page"),
    ],
)
def test_errors_are_printed_in_one_line_with_exit_code_1(
    call: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("empty").touch()
    Path("link").symlink_to("nowhere")
    assert main(call.split()) == 1
    assert capsys.readouterr() == ("", f"rl-clarity: {message}\n")


def test_the_version_option_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr() == (f"rl-clarity {rl_clarity.__version__}\n", "")


def test_metadata_as_pairs_of_words_or_with_equals_signs() -> None:
    command = parse_arguments(["inspect", "a.jd", "--metadata", "env_id", "coinrun", "gamma=0.9", "note", "a=b"])
    assert isinstance(command, Inspect)
    assert command.overrides() == {"env_id": "coinrun", "gamma": 0.9, "note": "a=b"}


@pytest.mark.parametrize("name", [name for name in COMMANDS if issubclass(COMMANDS[name], CheckpointCommand)])
def test_commands_that_read_a_checkpoint_have_the_same_options(name: str) -> None:
    others = {"convert": ["b.safetensors"], "edit": ["b.safetensors", "--layer", "2b"]}
    others |= {key: ["out"] for key in ("ablate", "check", "debug", "memory", "record", "run")}
    others |= {"probe": ["recording"]}
    others |= {key: ["recording", "out"] for key in ("simulate", "states")}
    words = ["a.jd", *others.get(name, [])]
    for option in ("--metadata", "--load.metadata"):
        options = ["--env-name", "coinrun", option, "gamma", "0.9", "--check", "outputs.npz"]
        command = parse_arguments([name, *words, *options])
        assert isinstance(command, CheckpointCommand)
        assert command.check == Path("outputs.npz")
        assert command.overrides() == {"env_name": "coinrun", "gamma": 0.9}


@pytest.mark.parametrize("flag", ["--deterministic", "--greedy"])
def test_evaluate_and_record_have_the_same_options_of_play(flag: str) -> None:
    evaluation = parse_arguments(["evaluate", "a.jd", flag, "--seed", "3", "--episodes", "5"])
    recording = parse_arguments(["record", "a.jd", "out", flag, "--seed", "3", "--episodes", "5"])
    assert isinstance(evaluation, Evaluate)
    assert isinstance(recording, Record)
    assert (evaluation.options.deterministic, evaluation.options.seed, evaluation.options.episodes) == (True, 3, 5)
    assert (recording.options.greedy, recording.options.seed, recording.options.episodes) == (True, 3, 5)


@pytest.mark.parametrize("command", ["inspect a.jd", "record a.jd out", "evaluate a.jd", "convert a.jd a.safetensors"])
def test_an_agent_that_fails_the_output_check_is_refused_first(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load_agent(checkpoint: str, *, check: Path, **metadata: Any) -> None:
        assert (checkpoint, check, metadata) == ("a.jd", Path("outputs.npz"), {"env_name": "coinrun"})
        raise CheckpointError("other outputs")

    monkeypatch.setattr(rl_clarity, "load_agent", load_agent)
    assert main([*command.split(), "--check", "outputs.npz", "--env-name", "coinrun"]) == 1
    assert capsys.readouterr().err == "rl-clarity: other outputs\n"


@pytest.mark.parametrize(("word", "value"), [("None", None), ("True", True), ("False", False)])
def test_flags_without_a_default_accept_none_true_and_false(word: str, value: bool | None) -> None:
    command = parse_arguments(["train", "out", "--env-name", "coinrun", "--use-backgrounds", word])
    assert isinstance(command, Train)
    assert command.options.use_backgrounds is value


def test_flags_reject_words_other_than_true_and_false(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["train", "out", "--env-name", "coinrun", "--use-backgrounds", "Tru"])
    assert "Tru is not True or False" in capsys.readouterr().err


def test_contradictory_environment_names_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "models:coinrun", "--env-name", "maze", "--metadata", "env_name", "coinrun"]) == 1
    assert "env_name='maze' and env_name='coinrun' in metadata contradict each other" in capsys.readouterr().err


@pytest.mark.slow
def test_commands_hide_log_messages_of_libraries(checkpoint: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    code = f"import rl_clarity; rl_clarity.load_agent({str(checkpoint)!r})"
    inspect = ["-m", "rl_clarity", "inspect", str(checkpoint), "--json"]
    convert = ["-m", "rl_clarity", "convert", str(checkpoint), str(tmp_path / "agent.safetensors"), "--json"]
    for command in (["-c", code], inspect, convert):
        done = subprocess.run(
            [sys.executable, *command], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""


@pytest.mark.parametrize(
    ("call", "resumable"),
    [
        ("run a.jd out", True),
        ("run a.jd out --dry-run", False),
        ("train out --env-name coinrun", False),
        ("inspect a.jd", False),
        ("evaluate a.jd", False),
        ("export page a.png", False),
        ("convert a.jd a.safetensors", False),
        ("demo", False),
    ],
)
def test_an_interrupted_command_says_whether_it_can_be_resumed(
    call: str, resumable: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(command: Any) -> None:
        raise KeyboardInterrupt

    replace_commands(monkeypatch, interrupt)
    assert main(call.split()) == 130
    hint = "; the same command resumes it" if resumable else ""
    assert capsys.readouterr() == ("", f"rl-clarity: interrupted{hint}\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("moment", ["numpy", "tyro", "rl_clarity.cli"])
def test_signals_during_imports_end_the_command_with_one_line(moment: str, number: signal.Signals, code: int) -> None:
    program = f"""
import importlib.abc, os, sys
class Stop(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {moment!r}:
            os.kill(os.getpid(), {int(number)})
sys.meta_path.insert(0, Stop())
from rl_clarity.__main__ import main
sys.exit(main())
"""
    command = [sys.executable, "-c", program, "inspect", "a.jd"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    what = "interrupted" if number == signal.SIGINT else "terminated"
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"rl-clarity: {what}\n")


def test_sigterm_is_reported_like_ctrl_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def terminate(command: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    handler = signal.getsignal(signal.SIGTERM)
    replace_commands(monkeypatch, terminate)
    assert main(["run", "a.jd", "out"]) == 143
    assert capsys.readouterr() == ("", "rl-clarity: terminated; the same command resumes it\n")
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("boom"), "unexpected error: RuntimeError: boom"),
        (RecursionError("too\ndeep"), "unexpected error: RecursionError: too deep"),
        (MemoryError(), "out of memory\n"),
        (MemoryError("Unable to allocate 8 GiB"), "out of memory: Unable to allocate 8 GiB\n"),
        (ImportError("libx.so: failed to map segment from shared object"), "out of memory: libx.so: failed to map"),
        (OSError("cannot load library: failed to map segment"), "out of memory: cannot load library"),
    ],
)
def test_unexpected_errors_are_one_line_or_a_traceback_with_debug(
    error: Exception, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(command: Any) -> None:
        raise error

    replace_commands(monkeypatch, fail)
    assert main(["inspect", "a.jd"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"rl-clarity: {message}")
    assert printed.err.count("\n") == 1
    with pytest.raises(type(error)):
        main(["inspect", "a.jd", "--debug"])


@pytest.mark.parametrize(
    ("redirection", "code", "message"),
    [
        (">/dev/full", 1, "rl-clarity: standard output: No space left on device\n"),
        (">&-", 0, ""),
        (">/dev/null", 0, ""),
    ],
)
def test_unwritable_standard_output_is_reported_in_one_line(redirection: str, code: int, message: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("only Linux has /dev/full")
    command = f"{sys.executable} -m rl_clarity --version {redirection}"
    done = subprocess.run(["bash", "-c", command], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, message)


@pytest.mark.parametrize("gigabytes", [0.3, 0.8, 1.2, pytest.param(2.0, marks=pytest.mark.slow)])
def test_too_little_address_space_is_reported_in_one_line(gigabytes: float, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow", reason="needs more address space than this")
    resource = pytest.importorskip("resource")
    limit = int(gigabytes * 1e9)
    command = [sys.executable, "-m", "rl_clarity", "run", "models:coinrun", str(tmp_path / "page")]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "KERAS_BACKEND": "tensorflow", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "rl-clarity: not enough memory: tensorflow needs an address space of 2.5 GB, but it is limited to "
        f"{gigabytes:.1f} GB (ulimit -v)\n"
    )


WARNING = """
import warnings
from rl_clarity.cli import main
from rl_clarity.cli.agents import Inspect
from rl_clarity.cli.command import Result

def execute(self):
    warnings.warn("the values are constant")
    warnings.warn("the values are constant")
    return Result({}, "done")

Inspect.execute = execute
main(["inspect", "models:coinrun"])
warnings.warn("of the program")
"""


def test_a_warning_is_one_line_without_code() -> None:
    done = subprocess.run([sys.executable, "-c", WARNING], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    first, second = done.stderr.splitlines()[:2]
    assert first == "rl-clarity: warning: the values are constant"
    assert "UserWarning: of the program" in second
