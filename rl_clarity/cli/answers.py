"""What each command does: a function of the command's class that gives a summary and a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from rl_clarity.cli.commands import Convert, Demo, Evaluate, Export, Inspect, Run, Train
from rl_clarity.errors import OptionError
from rl_clarity.models import fetched
from rl_clarity.options import InterfaceOptions
from rl_clarity.parsing import typed
from rl_clarity.training.options import TrainOptions

Answer = tuple[dict[str, Any], str]
"""A summary for programs, and a text for people."""


def _run(command: Run) -> Answer:
    import rl_clarity

    options: dict[str, Any] = {f.name: getattr(command.options, f.name) for f in fields(InterfaceOptions)}
    options["overwrite"] = command.force
    result: Any = rl_clarity.run(
        command.checkpoint,
        command.output_dir,
        dry_run=command.dry_run,
        load_kwargs=replace(command.load, metadata=typed(command.load.metadata)),
        trajectories_kwargs=command.trajectories,
        observations_kwargs=command.observations,
        **options,
    )
    return (result.to_dict(), str(result)) if command.dry_run else _page_answer(result)


def _train(command: Train) -> Answer:
    import rl_clarity

    options = {f.name: getattr(command.options, f.name) for f in fields(TrainOptions)}
    summary = rl_clarity.train(command.save_dir, **options)
    return asdict(summary), f"The agent is in {command.save_dir}"


def _demo(command: Demo) -> Answer:
    from rl_clarity.demo import demo

    return _page_answer(demo(command.output_dir))


def _inspect(command: Inspect) -> Answer:
    from rl_clarity.inspection import inspect_checkpoint

    with fetched(command.checkpoint) as path:
        return inspect_checkpoint(path, typed(command.metadata))


def _evaluate(command: Evaluate) -> Answer:
    from rl_clarity.evaluation import evaluate_checkpoint, summary, text

    with fetched(command.checkpoint) as path:
        found = evaluate_checkpoint(
            path,
            command.episodes,
            command.seed,
            unseen=command.unseen,
            random=command.random,
            max_steps=command.max_steps,
            metadata=typed(command.metadata),
        )
    return {name: summary(evaluation) for name, evaluation in found.items()}, text(found)


def _export(command: Export) -> Answer:
    from rl_clarity.pages.export import export
    from rl_clarity.pages.results import open_results

    results = open_results(command.page)
    layer = results.layer(command.layer or results.layers[0])
    trajectory = _trajectory(command.trajectory, len(results.manifest["trajectories"]))
    path = export(
        results,
        command.file,
        trajectory=trajectory,
        frames=_frames(command.frames, results.trajectory(trajectory)["steps"]),
        layer=layer["name"],
        output=command.output,
        directions=command.directions,
        channel=_channel(command.channel, layer),
        fps=command.fps,
    )
    return {"file": str(path)}, f"Written: {path}"


def _convert(command: Convert) -> Answer:
    from rl_clarity.inspection import convert_checkpoint

    with fetched(command.checkpoint) as path:
        return convert_checkpoint(path, command.file, typed(command.metadata), overwrite=command.force)


def _trajectory(number: int, count: int) -> int:
    """A trajectory counted from 1, counted from 0."""
    if not 1 <= number <= count:
        raise OptionError(f"--trajectory {number}: the page has {count}, counted from 1")
    return number - 1


def _frames(text: str | None, count: int) -> range | None:
    """Frames counted from 1, the last one included, as steps counted from 0."""
    if text is None:
        return None
    first, colon, last = text.partition(":")
    numbers = [int(part) for part in (first, last if colon else first) if part.isdecimal()]
    if len(numbers) != 2 or not 1 <= numbers[0] <= numbers[1]:
        raise OptionError(f"--frames {text}: two numbers from 1 on, the smaller one first, as in 100:180, or one")
    if numbers[1] > count:
        raise OptionError(f"--frames {text}: the trajectory's frames are 1:{count}")
    return range(numbers[0] - 1, numbers[1])


def _channel(text: str, layer: Mapping[str, Any]) -> str | int:
    """A channel counted from 1, counted from 0; words stand as they are."""
    if text in ("prin", "all", "res"):
        return text
    count = layer["channels"]
    if not text.isdecimal() or not 1 <= int(text) <= count:
        raise OptionError(
            f"--channel {text}: layer {layer['name']} has {count}, counted from 1; or say prin (all of them), "
            "all (these and the rest) or res (the rest)"
        )
    return int(text) - 1


def _page_answer(page: Any) -> Answer:
    return {"page": str(page.path)}, f"The page is {page.path}"


ANSWERS: dict[type, Any] = {
    Run: _run,
    Train: _train,
    Demo: _demo,
    Inspect: _inspect,
    Evaluate: _evaluate,
    Export: _export,
    Convert: _convert,
}
