"""The command line: `rl-clarity run | compare | record | explain | simulate | train | demo | inspect | evaluate |
states | memory | ablate | check | export | verify | gallery | serve | publish | convert | edit`.

`arguments` parses it; this module runs the commands. Nothing heavy is imported before a command is chosen, so that
`--help` is fast.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from typing import Any

import rl_clarity
from rl_clarity.cli.arguments import (
    PROGRAM,
    Ablate,
    Check,
    CheckpointCommand,
    Compare,
    Convert,
    Demo,
    Edit,
    Evaluate,
    Explain,
    Export,
    Gallery,
    Inspect,
    Memory,
    PlayingCommand,
    Publish,
    Record,
    Run,
    Serve,
    Simulate,
    States,
    Train,
    Verify,
    parse_arguments,
)  # fmt: skip
from rl_clarity.errors import FAILED, ClarityError, OptionError, Terminated, exit_code, printable
from rl_clarity.jobs import communicator
from rl_clarity.keys import to_plain
from rl_clarity.memory.options import MemoryOptions
from rl_clarity.models import fetched
from rl_clarity.options import CompareOptions, InterfaceOptions
from rl_clarity.parsing import typed
from rl_clarity.training.options import TrainOptions

USAGE_ERROR = 2
OUT_OF_MEMORY = (
    *("out of memory", "cannot allocate memory", "unable to allocate", "failed to map segment", "bad_alloc"),
    *("can't start new thread", "resource exhausted"),
)
Result = tuple[Mapping[str, Any], str]
"""A summary for programs, and a text for people."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code.

    It is 0, 1 for an error, 2 for a usage error, 130 if interrupted (SIGINT), or 143 if terminated (SIGTERM).

    Raises SystemExit with code 0 after help, and with code 2 for arguments that cannot be parsed.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in words
    if hasattr(sys.stdout, "reconfigure"):  # a terminal without Unicode shows escapes
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with _terminable():
            try:
                return _main([word for word in words if word != "--debug"])
            finally:
                if sys.stdout is not None:  # closed by the caller
                    sys.stdout.flush()  # so that errors of the output are seen here and not at the interpreter's exit
    except BrokenPipeError:  # the reader has read enough: `rl-clarity run --help | head -1`
        _discard_output()
        return FAILED
    except KeyboardInterrupt as error:
        return _stopped(error)
    except Exception as error:
        if debug:
            raise
        if _is_memory_error(error):
            reason = str(error).partition("\n")[0]
            return _fail(f"out of memory{': ' * bool(reason)}{reason}")
        if isinstance(error, OSError):  # those of commands are reported there
            _discard_output()
            return _fail(f"standard output: {error.strerror or error}")
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return _fail(f"unexpected error: {what} (the same command with --debug shows the traceback)")


def _main(words: Sequence[str]) -> int:
    if words[:1] == ["--version"]:
        print(f"{PROGRAM} {rl_clarity.__version__}")
        return 0
    try:
        command = parse_arguments(words)
    except ClarityError as error:
        return _fail(error.message, USAGE_ERROR, error.script)
    try:
        summary, text = RUNNERS[type(command)](command)
    except ClarityError as error:
        return _fail(error.message, FAILED, error.script)
    except BrokenPipeError:
        raise
    except OSError as error:
        if _is_memory_error(error):
            raise
        return _fail(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except KeyboardInterrupt as error:
        if isinstance(command, Ablate | Explain) or (
            isinstance(command, Run | Compare | Check | Memory) and not command.dry_run
        ):
            error.args = ("the same command resumes it",)
        return _stopped(error)
    if summary and communicator().rank == 0:
        print(
            json.dumps(to_plain(summary, finite=True), sort_keys=True) if command.json else printable(text, keep="\n")
        )
    return FAILED if isinstance(command, Verify) and summary["problems"] else 0


@contextmanager
def _terminable() -> Iterator[None]:
    """Raise `Terminated` when the process is terminated; only a main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: Any) -> None:
        raise Terminated

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _stopped(error: KeyboardInterrupt) -> int:
    what = "terminated" if isinstance(error, Terminated) else "interrupted"
    return _fail("; ".join([what, *map(str, error.args)]), exit_code(error))


def _is_memory_error(error: BaseException) -> bool:
    """Whether memory was too short; libraries in C have many words for it."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or any(words in text for words in OUT_OF_MEMORY)


def _fail(message: str, code: int = FAILED, script: str = "") -> int:
    print(f"{PROGRAM}: {printable(message)}{script}", file=sys.stderr)
    return code


def _discard_output() -> None:
    """Send what is flushed at the interpreter's exit nowhere."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(command: Run) -> Result:
    options = _values(command.options, InterfaceOptions)
    result: Any = rl_clarity.run(
        _player(command),
        command.output_dir,
        dry_run=command.dry_run,
        load_kwargs=replace(command.load, metadata=command.overrides(), check=command.check),
        trajectories_kwargs=command.trajectories,
        observations_kwargs=command.observations,
        recording=command.recording,
        **{**options, "overwrite": command.force},
    )
    return (result.to_dict(), str(result)) if command.dry_run else _page(result)


def _player(command: PlayingCommand) -> Any:
    """The checkpoint, or its agent with directions of the recurrent state exchanged."""
    swaps = command.swaps()
    if not swaps or command.directions is None:
        return command.checkpoint
    states = rl_clarity.load_states(command.directions)
    part = states.facts["options"]["part"]
    agent = rl_clarity.load_agent(command.checkpoint, **command.overrides())
    edit = rl_clarity.SwapDirections(
        swaps,
        directions=states.directions,
        on=command.swap_directions_on,
        layer="state" if part is None else f"state/{part}",
    )
    return rl_clarity.edit(agent, edit)


def _values(options: Any, kind: type) -> dict[str, Any]:
    """The fields of a class of options, without what a subclass adds for the command line."""
    return {one.name: getattr(options, one.name) for one in fields(kind)}


def _compare(command: Compare) -> Result:
    options = _values(command.options, CompareOptions)
    result: Any = rl_clarity.compare(
        command.checkpoints,
        command.output_dir,
        dry_run=command.dry_run,
        log=command.log,
        log_columns=command.log_columns,
        steps_per_number=command.steps_per_number,
        metadata=typed(command.metadata),
        **{**options, "env_name": command.env_name, "overwrite": command.force},
    )
    return (result.to_dict(), str(result)) if command.dry_run else _page(result)


def _train(command: Train) -> Result:
    options = _values(command.options, TrainOptions)
    summary = rl_clarity.train(command.save_dir, overwrite=command.force, **options)
    return asdict(summary), f"The agent is in {command.save_dir}"


def _demo(command: Demo) -> Result:
    from rl_clarity.demo import demo

    return _page(demo(command.output_dir, page=command.page))


def _check_outputs(command: CheckpointCommand) -> None:
    """Compare the agent's outputs with those of `--check`."""
    if command.check is not None:
        rl_clarity.load_agent(command.checkpoint, check=command.check, **command.overrides())
        print(f"The agent's outputs are those in {command.check}.", file=sys.stderr)


def _page(page: Any) -> Result:
    return {"page": str(page.path)}, f"The page is {page.path}"


def _record(command: Record) -> Result:
    from rl_clarity.inspection import describe_recording

    _check_outputs(command)
    options = asdict(command.options)
    recording = rl_clarity.record(_player(command), command.directory, metadata=command.overrides(), **options)
    return describe_recording(recording)


def _explain(command: Explain) -> Result:
    from rl_clarity.explaining import ExplainOptions

    options = _values(command.options, ExplainOptions)
    reports = rl_clarity.explain_recording(command.path, command.agent, **options)
    recordings = {report.location: asdict(report) for report in reports}
    return {"recordings": recordings}, "\n".join(map(str, reports))


def _inspect(command: Inspect) -> Result:
    from rl_clarity.inspection import describe_recording, inspect_checkpoint, may_be_recording
    from rl_clarity.recordings.recording import is_recording, open_recording

    if may_be_recording(command.checkpoint) and is_recording(command.checkpoint):
        return describe_recording(open_recording(command.checkpoint))
    _check_outputs(command)
    with fetched(command.checkpoint) as path:
        return inspect_checkpoint(path, command.overrides())


def _simulate(command: Simulate) -> Result:
    from rl_clarity.world_models.report import fit_and_measure

    _check_outputs(command)
    agent = rl_clarity.load_agent(command.checkpoint, **command.overrides())
    options = asdict(command.options)
    checked = command.check_recording or command.recording
    quality = fit_and_measure(agent, command.recording, command.directory, checked, overwrite=command.force, **options)
    return quality.to_dict(), f"{quality}\nThe simulator is in {command.directory}"


def _evaluate(command: Evaluate) -> Result:
    from rl_clarity.evaluation import summary, text

    options = asdict(command.options)
    _check_outputs(command)
    evaluations = rl_clarity.evaluate(_player(command), metadata=command.overrides(), **options)
    return {name: summary(evaluation) for name, evaluation in evaluations.items()}, text(evaluations)


def _states(command: States) -> Result:
    _check_outputs(command)
    agent = rl_clarity.load_agent(command.checkpoint, **command.overrides())
    analysis = rl_clarity.analyse_states(agent, command.recording, **asdict(command.options))
    analysis.save(command.output_dir)
    lines = [f"{analysis.facts['steps']} states of {analysis.facts['episodes']} episodes"]
    for row in analysis.table():
        lines.append(
            f"  direction {row['name']:8} stability {min(row['seed_stability'], row['half_stability']):.2f}, "
            f"kurtosis {row['kurtosis']:+.1f}, correlation with the time {row['correlation.time']:+.2f}"
        )
    lines.append(f"The analysis is in {command.output_dir}")
    return {**analysis.facts, "output_dir": str(command.output_dir)}, "\n".join(lines)


def _memory(command: Memory) -> Result:
    _check_outputs(command)
    options = _values(command.options, MemoryOptions)
    result: Any = rl_clarity.explain_memory(
        command.checkpoint,
        command.output_dir,
        simulator=command.simulator,
        recording=command.recording,
        dry_run=command.dry_run,
        metadata=command.overrides(),
        **{**options, "overwrite": command.force},
    )
    return (result.to_dict(), str(result)) if command.dry_run else _page(result)


def _ablate(command: Ablate) -> Result:
    options = _values(command.options, InterfaceOptions)
    report = rl_clarity.ablate(
        command.checkpoint,
        command.output_dir,
        layer=command.layer,
        episodes=command.episodes,
        load_kwargs={"metadata": command.overrides(), "check": command.check},
        trajectories_kwargs=command.trajectories,
        observations_kwargs=command.observations,
        **{**options, "overwrite": command.force},
    )
    rows = {"rows": report.rows, "episodes": report.episodes, "tests": report.tests, "page": str(report.page.path)}
    return rows, f"{report}\nThe page is {report.page.path}"


def _check(command: Check) -> Result:
    options = _values(command.options, InterfaceOptions)
    result: Any = rl_clarity.check(
        command.checkpoint,
        command.output_dir,
        methods=command.methods,
        frames=command.frames,
        output=command.output,
        dry_run=command.dry_run,
        load_kwargs=replace(command.load, metadata=command.overrides(), check=command.check),
        trajectories_kwargs=command.trajectories,
        recording=command.recording,
        **{**options, "overwrite": command.force},
    )
    if command.dry_run:
        return result.to_dict(), str(result)
    page = str(result.page.path)
    return {**result.to_dict(), "page": page}, f"{result}\nThe page is {page}"


def _export(command: Export) -> Result:
    from rl_clarity.pages.export import export
    from rl_clarity.pages.results import open_results

    results = open_results(command.page)
    layer = results.layer(command.layer)
    number, count = command.trajectory, len(results.section("trajectories")["trajectories"])
    if not 1 <= number <= count:
        raise OptionError(f"--trajectory {number} must be from 1 to {count}")
    path = export(
        results,
        command.file,
        trajectory=number - 1,
        frames=_frames(command.frames, results.trajectory(number - 1)["steps"]),
        layer=layer["name"],
        output=command.output,
        directions=command.directions,
        channel=_channel(command.channel, layer),
        fps=command.fps,
    )
    return {"file": str(path)}, f"Written: {path}"


def _verify(command: Verify) -> Result:
    from rl_clarity.pages.verification import verify

    result = verify(command.page)
    problems = list(result.problems())
    lines = [f"{kind}: {printable(name)}" for kind, name in problems]
    if problems:
        repair = "the rl-clarity run that created the page, repeated with --force, writes its files again"
        lines.append(f"{len(problems)} problems with a page of {result.files} files; {repair}")
    else:
        lines.append(f"The page's {result.files} files are as they were written")
    return {**asdict(result), "problems": len(problems)}, "\n".join(lines)


def _gallery(command: Gallery) -> Result:
    result = rl_clarity.gallery(command.directory, title=command.title, overwrite=command.force)
    lines = [printable(f"{folder}: {problem}") for folder, problem in result.problems.items()]
    lines.append(f"The index of {result.pages} pages is {result.path}")
    return {**asdict(result), "path": str(result.path)}, "\n".join(lines)


def _serve(command: Serve) -> Result:
    from rl_clarity.viewer.server import serve

    def started(address: str) -> None:
        print(f"The recordings are shown at {address} (Ctrl-C ends this)", flush=True)

    serve(command.logdir, host=command.host, port=command.port, started=started)
    return {}, ""


def _publish(command: Publish) -> Result:
    from rl_clarity.viewer.publishing import publish

    options = {"title": command.title, "single_file": command.single_file, "overwrite": command.force}
    return _page(publish(command.logdir, command.output_dir, command.episodes, **options))


def _frames(text: str | None, count: int) -> range | None:
    """Parse FIRST:LAST, counted from 1, to a range of steps."""
    if text is None:
        return None
    first, colon, last = text.partition(":")
    numbers = [int(part) for part in (first, last if colon else first) if part.isdecimal()]
    if len(numbers) != 2 or not 1 <= numbers[0] <= numbers[1] <= count:
        raise OptionError(f"--frames {text} must be a range of frames from 1 to {count}, such as 10:20, or one of them")
    return range(numbers[0] - 1, numbers[1])


def _channel(text: str, layer: Mapping[str, Any]) -> str | int:
    """Parse a channel, counted from 1, or prin, all, res."""
    if text in ("prin", "all", "res"):
        return text
    count = layer["channels"]
    if not text.isdecimal() or not 1 <= int(text) <= count:
        raise OptionError(f"--channel {text} must be a number from 1 to {count}, or prin, all or res")
    return int(text) - 1


def _convert(command: Convert) -> Result:
    from rl_clarity.inspection import convert_checkpoint

    _check_outputs(command)
    with fetched(command.checkpoint) as path:
        return convert_checkpoint(path, command.file, command.overrides(), overwrite=command.force)


def _edit(command: Edit) -> Result:
    from rl_clarity.inspection import edit_checkpoint

    _check_outputs(command)
    with fetched(command.checkpoint) as path:
        return edit_checkpoint(
            path,
            command.file,
            command.overrides(),
            layer=command.layer,
            features=command.feature,
            page=command.page,
            units=command.unit,
            strength=command.strength,
            everything_but=command.everything_but,
            overwrite=command.force,
        )


RUNNERS: dict[type, Any] = {
    Run: _run,
    Compare: _compare,
    Train: _train,
    Demo: _demo,
    Inspect: _inspect,
    Record: _record,
    Explain: _explain,
    Simulate: _simulate,
    Evaluate: _evaluate,
    States: _states,
    Memory: _memory,
    Ablate: _ablate,
    Check: _check,
    Export: _export,
    Verify: _verify,
    Gallery: _gallery,
    Serve: _serve,
    Publish: _publish,
    Convert: _convert,
    Edit: _edit,
}
