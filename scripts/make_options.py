"""Write docs/options.md from the option classes: `python -m scripts.make_options`."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl_clarity.analyses.checkpoints import ReferenceOptions
from rl_clarity.analyses.layers import AttributionFitOptions, LayerOptions
from rl_clarity.explaining import ExplainOptions
from rl_clarity.pages.memory_options import OWN_PARTS
from rl_clarity.pages.options import ORIGINAL, PARTS, LoadOptions, ObservationsOptions, TrajectoriesOptions
from rl_clarity.ppo.options import TrainOptions
from rl_clarity.recordings.options import EvaluationOptions, GamesOptions, RecordOptions
from rl_clarity.world_models.options import FitOptions

TARGET = Path(__file__).resolve().parents[1] / "docs" / "options.md"

HEAD = """# Options

<!-- written by scripts/make_options.py from rl_clarity/pages/options.py and rl_clarity/ppo/options.py -->

In Python, options are keyword arguments; a group is a dict: `run(checkpoint, output_dir, attr_policy=True,
layer_kwargs={"name_contains_one_of": ["2b"]})`. On the command line `_` is written `-` and a group comes first:
`--attr-policy --layer-kwargs.name-contains-one-of 2b`; the groups `load_kwargs`, `trajectories_kwargs` and
`observations_kwargs` are called `--load`, `--trajectories` and `--observations` there. The error for an unknown option
names the nearest known one.

The column "original" is the value in `rl_clarity.ORIGINAL`, where it differs: `run(checkpoint, output_dir,
**rl_clarity.ORIGINAL)` and `rl-clarity run --original` use the settings of understanding-rl-vision.
"""


def main() -> None:
    TARGET.write_text(document(), encoding="utf-8")


def document() -> str:
    """Return the text of docs/options.md."""
    observations = ORIGINAL["observations_kwargs"]
    parts = [
        HEAD,
        section("`run`: `load_kwargs`, the samples", LoadOptions),
        section("`run`: `trajectories_kwargs`, the trajectories", TrajectoriesOptions),
        section("`run`: `observations_kwargs`, extra observations", ObservationsOptions, observations),
        *(section(f"`run` and `generate`: {title(part)}", part, ORIGINAL) for part in PARTS),
        section("`layer_kwargs`", LayerOptions),
        section("`nmf_attr_opts`", AttributionFitOptions, ORIGINAL["nmf_attr_opts"]),
        *(section(f"`compare`: {title(part)}", part) for part in (GamesOptions, ReferenceOptions)),
        *(section(f"`explain_memory`: {title(part)}", part) for part in OWN_PARTS),
        section("`record`", RecordOptions),
        section("`explain_recording`", ExplainOptions),
        section("`fit_simulator`", FitOptions),
        section("`evaluate`", EvaluationOptions),
        section("`train`", TrainOptions, title_of={"lambda_": "lambda"}),
    ]
    return "\n".join(parts)


def title(options: type) -> str:
    """Return the class's docstring in the form of a heading."""
    text = (options.__doc__ or "").split(".")[0]
    return text[0].lower() + text[1:]


def section(
    title: str,
    options: type,
    original: Mapping[str, Any] | None = None,
    title_of: Mapping[str, str] | None = None,
) -> str:
    """Return a heading and a table of the class's fields."""
    fields = [field.name for field in dataclasses.fields(options)]
    texts, names = field_texts(options), title_of or {}
    changed = {name: value for name, value in (original or {}).items() if name in fields}
    last = (" original |", "---|") if changed else ("", "")
    lines = [f"## {title}", ""]
    lines += [f"| option | default | meaning |{last[0]}", f"|---|---|---|{last[1]}"]
    for field in dataclasses.fields(options):
        cells = [f"`{names.get(field.name, field.name)}`", shown(field_default(field)), texts.get(field.name, "")]
        if changed:
            cells.append(shown(changed[field.name]) if field.name in changed else "")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def field_texts(options: type) -> dict[str, str]:
    """Return the docstrings of the fields of a class."""
    body = ast.parse(inspect.getsource(options)).body[0]
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for statement, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(after, ast.Expr):
            assert isinstance(statement.target, ast.Name)
            texts[statement.target.id] = " ".join(str(ast.literal_eval(after.value)).split())
    return texts


def field_default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def shown(value: Any) -> str:
    """Return a default value as Markdown. Options that are classes have their own sections."""
    if dataclasses.is_dataclass(value):
        return "see below"
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, Mapping):
        value = dict(value)
    return f"`{value!r}`"


if __name__ == "__main__":
    main()
