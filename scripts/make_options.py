"""Write docs/options.md from the option classes: `python -m scripts.make_options`."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl_clarity.base.parsing import visible_fields
from rl_clarity.explaining import ExplainOptions
from rl_clarity.pages.memory_options import MemoryOptions
from rl_clarity.pages.options import (
    ORIGINAL,
    CheckOptions,
    CompareOptions,
    DebugOptions,
    InterfaceOptions,
    LoadOptions,
    ObservationsOptions,
    PageOptions,
    TrajectoriesOptions,
)
from rl_clarity.pages.original_options import translate
from rl_clarity.ppo.options import TrainOptions
from rl_clarity.recordings.options import EvaluationOptions, RecordOptions
from rl_clarity.world_models.options import FitOptions

TARGET = Path(__file__).resolve().parents[1] / "docs" / "options.md"

HEAD = """# Options

<!-- written by scripts/make_options.py from rl_clarity/pages/options.py and rl_clarity/ppo/options.py -->

In Python, options are keyword arguments; those of an analysis are a dict: `run(checkpoint, output_dir,
attribution={"policy": True}, layers={"name_contains_one_of": ["2b"]})`. On the command line `_` is written `-`, and the
name of the analysis comes first: `--attribution.policy --layers.name-contains-one-of 2b`. `rl-clarity run --help` shows
the options that are needed first, `--help-all` all of them. The error for an unknown option names the nearest known
one. The names of understanding-rl-vision and of version 0.1 are accepted, too ([Migrating](migration.md)).

The column "original" is the value in `rl_clarity.ORIGINAL`, where it differs: `run(checkpoint, output_dir,
**rl_clarity.ORIGINAL)` and `rl-clarity run --original` use the settings of understanding-rl-vision.
"""


def main() -> None:
    TARGET.write_text(document(), encoding="utf-8")


def document() -> str:
    """Return the text of docs/options.md."""
    original = translate(ORIGINAL, InterfaceOptions)
    parts = [
        HEAD,
        section("`run`: `load`, the samples", LoadOptions()),
        section("`run`: `trajectories`, the trajectories", TrajectoriesOptions()),
        section("`run`: `observations`, extra observations", ObservationsOptions(), original["observations"]),
        section("`run`, `generate`, `compare`, `explain_memory`, `check` and `debug`: the page", PageOptions()),
        *part_sections("`run` and other pages", PageOptions, original),
        *part_sections("`run` and `generate`", InterfaceOptions, original),
        *part_sections("`check`", CheckOptions),
        *part_sections("`debug`", DebugOptions),
        *part_sections("`compare`", CompareOptions),
        *part_sections("`explain_memory`", MemoryOptions),
        section("`record`", RecordOptions()),
        section("`explain_recording`", ExplainOptions()),
        section("`fit_simulator`", FitOptions()),
        section("`evaluate`", EvaluationOptions()),
        section("`train`", TrainOptions, title_of={"lambda_": "lambda"}),
    ]
    return "\n".join(parts)


def part_sections(command: str, kind: type, original: Mapping[str, Any] | None = None) -> list[str]:
    """Return a section for each group of a page's options, except groups that pages of all kinds have.

    For `PageOptions`, these groups are returned.
    """
    options, shared = kind(), () if kind is PageOptions else [one.name for one in visible_fields(PageOptions)]
    original = original or {}
    return [
        section(f"{command}: `{one.name}`, {title(type(part))}", part, original.get(one.name))
        for one in visible_fields(kind)
        if one.name not in shared and dataclasses.is_dataclass(part := getattr(options, one.name))
    ]


def title(options: type) -> str:
    """Return the first sentence of the class's docstring, without the capital letter, as part of a heading."""
    text = (options.__doc__ or "").split(".")[0]
    return text[0].lower() + text[1:]


def section(
    title: str,
    options: Any,
    original: Mapping[str, Any] | None = None,
    title_of: Mapping[str, str] | None = None,
) -> str:
    """Return a heading and a table of the fields of `options`, whose values are the defaults.

    `options` can be a class if it has no instance without arguments.
    """
    fields = [
        field.name for field in visible_fields(options) if not dataclasses.is_dataclass(getattr(options, field.name))
    ]
    texts, names = field_texts(options if isinstance(options, type) else type(options)), title_of or {}
    changed = {name: value for name, value in (original or {}).items() if name in fields}
    last = (" original |", "---|") if changed else ("", "")
    lines = [f"## {title}", ""]
    lines += [f"| option | default | meaning |{last[0]}", f"|---|---|---|{last[1]}"]
    for name in fields:
        cells = [f"`{names.get(name, name)}`", shown(getattr(options, name)), texts.get(name, "")]
        if changed:
            cells.append(shown(changed[name]) if name in changed else "")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def field_texts(options: type) -> dict[str, str]:
    """Return the docstrings of the fields of a class and of those that it is derived from, by name."""
    texts: dict[str, str] = {}
    for kind in reversed(options.__mro__):
        if dataclasses.is_dataclass(kind):
            body = ast.parse(inspect.getsource(kind)).body[0]
            assert isinstance(body, ast.ClassDef)
            for statement, after in zip(body.body, body.body[1:], strict=False):
                if isinstance(statement, ast.AnnAssign) and isinstance(after, ast.Expr):
                    assert isinstance(statement.target, ast.Name)
                    texts[statement.target.id] = " ".join(str(ast.literal_eval(after.value)).split())
    return texts


def shown(value: Any) -> str:
    """Return a default value as Markdown. Options that are classes have their own sections."""
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, Mapping):
        value = dict(value)
    return f"`{value!r}`"


if __name__ == "__main__":
    main()
