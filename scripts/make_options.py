"""Write docs/options.md from the option classes: `python -m scripts.make_options`."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl_clarity.options import (
    ORIGINAL,
    AttributionFitOptions,
    DirectoryOptions,
    InterfaceOptions,
    LayerOptions,
    LoadOptions,
    ObservationsOptions,
    TrajectoriesOptions,
    ViewOptions,
)
from rl_clarity.training.options import TrainOptions

TARGET = Path(__file__).resolve().parents[1] / "docs" / "options.md"

HEAD = """# Options

<!-- written by scripts/make_options.py from rl_clarity/options.py and rl_clarity/training/options.py -->

In Python, options are keyword arguments, those of a group a dict: `run(checkpoint, output_dir, attr_policy=True,
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
    """The content of docs/options.md."""
    observations = ORIGINAL["observations_kwargs"]
    own = InterfaceOptions.__annotations__
    page = [field for field in dataclasses.fields(InterfaceOptions) if field.name in own]
    parts = [
        HEAD,
        section("`run`: `load_kwargs`, samples", LoadOptions),
        section("`run`: `trajectories_kwargs`, trajectories on the page", TrajectoriesOptions),
        section("`run`: `observations_kwargs`, observations for features", ObservationsOptions, observations),
        section("`run` and `generate`: what is computed", InterfaceOptions, ORIGINAL, page),
        section("`layer_kwargs`, choice of layers", LayerOptions),
        section(
            "`nmf_attr_opts`, attribution for the reduction",
            AttributionFitOptions,
            ORIGINAL["nmf_attr_opts"],
        ),
        section("`run` and `generate`: initial view of the page", ViewOptions),
        section("`run` and `generate`: directories", DirectoryOptions),
        section("`train`", TrainOptions, renamed={"lambda_": "lambda"}),
    ]
    return "\n".join(parts)


def section(
    title: str,
    options: type,
    original: Mapping[str, Any] | None = None,
    only: list[dataclasses.Field[Any]] | None = None,
    renamed: Mapping[str, str] | None = None,
) -> str:
    """A heading and a table of a class's fields."""
    texts, changed, names = field_texts(options), original or {}, renamed or {}
    last = (" original |", "---|") if changed else ("", "")
    lines = [f"## {title}", ""]
    lines += [f"| option | default | meaning |{last[0]}", f"|---|---|---|{last[1]}"]
    for field in only or dataclasses.fields(options):
        cells = [f"`{names.get(field.name, field.name)}`", shown(default_of(field)), texts.get(field.name, "")]
        if changed:
            cells.append(shown(changed[field.name]) if field.name in changed else "")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def field_texts(options: type) -> dict[str, str]:
    """Docstrings of the fields of a class."""
    body = ast.parse(inspect.getsource(options)).body[0]
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for statement, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(after, ast.Expr):
            assert isinstance(statement.target, ast.Name)
            texts[statement.target.id] = " ".join(str(ast.literal_eval(after.value)).split())
    return texts


def default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def shown(value: Any) -> str:
    """A default value as Markdown; options classes have sections of their own."""
    if dataclasses.is_dataclass(value):
        return "see below"
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, Mapping):
        value = dict(value)
    return f"`{value!r}`"


if __name__ == "__main__":
    main()
