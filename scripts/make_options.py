"""Write docs/options.md from the option classes: `python -m scripts.make_options`; a test compares."""

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
`observations_kwargs` are called `--load`, `--trajectories` and `--observations` there. An unknown option is an error
that names the nearest known one.

The column "original" is the value in `rl_clarity.ORIGINAL`, where it differs: `run(checkpoint, output_dir,
**rl_clarity.ORIGINAL)` and `rl-clarity run --original` work with the settings of understanding-rl-vision.
"""


def main() -> None:
    TARGET.write_text(document(), encoding="utf-8")


def document() -> str:
    """The whole of docs/options.md."""
    observations = ORIGINAL["observations_kwargs"]
    own = InterfaceOptions.__annotations__
    page = [field for field in dataclasses.fields(InterfaceOptions) if field.name in own]
    parts = [
        HEAD,
        section("`run`: `load_kwargs`, the samples", LoadOptions),
        section("`run`: `trajectories_kwargs`, the play that is shown", TrajectoriesOptions),
        section("`run`: `observations_kwargs`, the play that features are found on", ObservationsOptions, observations),
        section("`run` and `generate`: what is computed", InterfaceOptions, ORIGINAL, page),
        section("`layer_kwargs`, the layers", LayerOptions),
        section("`nmf_attr_opts`, the fit of the reduction", AttributionFitOptions, ORIGINAL["nmf_attr_opts"]),
        section("`run` and `generate`: how the page looks when it opens", ViewOptions),
        section("`run` and `generate`: directories", DirectoryOptions),
        section("`train`", TrainOptions, title_of={"lambda_": "lambda"}),
    ]
    return "\n".join(parts)


def section(
    title: str,
    options: type,
    original: Mapping[str, Any] | None = None,
    only: list[dataclasses.Field[Any]] | None = None,
    title_of: Mapping[str, str] | None = None,
) -> str:
    """A heading and a table of the class's fields."""
    texts, changed, names = field_texts(options), original or {}, title_of or {}
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
    """The strings that stand under the fields of a class."""
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
    """A default as people write it; classes of options by their own section."""
    if dataclasses.is_dataclass(value):
        return "see below"
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, Mapping):
        value = dict(value)
    return f"`{value!r}`"


if __name__ == "__main__":
    main()
