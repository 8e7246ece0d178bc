"""`rl_clarity.ablate` and `rl-clarity ablate`: play with and without each feature of a layer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.given_components import page_features
from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import parse
from rl_clarity.commands.run import generate, run
from rl_clarity.environments import make
from rl_clarity.pages.options import InterfaceOptions
from rl_clarity.pages.original_options import translate
from rl_clarity.pages.results import Page
from rl_clarity.recordings.collection import collect
from rl_clarity.recordings.options import ObservationsOptions, TrajectoriesOptions
from rl_clarity.recordings.paired_play import environment_of

EPISODES = 400


@dataclass(frozen=True)
class AblationReport:
    """The result of `rl_clarity.ablate`, also in `behavior/report.json` and `behavior/report.csv` of its page."""

    rows: list[dict[str, Any]]
    """One row for each feature, and further rows for features that were ablated together (twins). The keys are:

    - `layer`, `feature` (counted from 1) and `twins`, the features that were ablated with it
    - `invisible`: in rows without an ablation, the type of objects that were removed from the agent's observations;
      None in other rows
    - `episodes`: number of pairs, fewer than planned if play stopped early because the change in return was clear
    - `attribution`: mean attribution of the value to the feature
    - `ablation`: mean change of the value when the feature is ablated
    - `return_difference` with its `interval` (95 %, paired bootstrap) and `adjusted_p` (Holm, for all tests of the
      report)
    - `return`, `length`, and each entry of `causes` and of `actions`: a dict with the means `unedited` and `ablated`,
      and `difference`, `interval`, `corrected_interval`, `p` and `adjusted_p`
    """
    episodes: int
    """Number of pairs of episodes that were planned for each row."""
    tests: int
    """Number of tests (of all features and measures) for which p-values and corrected intervals are adjusted."""
    page: Page
    features_of: str | None = None
    """The page whose features are ablated; None if they were fitted."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        if not self.rows:
            return "no features"
        own = self.rows[0]
        ends = ", ".join(f"{cause} {one['unedited']:.0%}" for cause, one in own["causes"].items())
        lines = [
            f"without an edit: return {own['return']['unedited']:.2f}, {own['length']['unedited']:.0f} steps; {ends}",
            f"with a feature ablated, over {self.episodes} paired episodes (p adjusted for {self.tests} tests):",
        ]
        for row in self.rows:
            low, high = row["interval"]
            ends = ", ".join(f"{cause} {one['difference']:+.1%}" for cause, one in row["causes"].items())
            feature = ablated_features(row)
            what = f"{row['invisible']} invisible" if row["invisible"] else f"{row['layer']}, feature {feature}"
            pairs = "" if row["episodes"] == self.episodes else f" ({row['episodes']} pairs were enough)"
            lines.append(
                f"  {what}{pairs}: return {row['return_difference']:+.2f} "
                f"({low:+.2f} to {high:+.2f}), p {row['adjusted_p']:.2g}; {ends}"
            )
        if self.features_of is None:
            lines.append("features were fitted for this page: give page= (--page) to use those of an existing page")
        else:
            lines.append(f"features, numbers and names are those of the page {self.features_of}")
        return "\n".join(lines)


def ablated_features(row: Mapping[str, Any]) -> str:
    """Return the numbers of the features that are ablated together in a row of a report, as text such as "2 and 5"."""
    return " and ".join(map(str, [row["feature"], *row["twins"]]))


def ablate(
    checkpoint: str | os.PathLike[str] | Agent,
    output_dir: str | os.PathLike[str],
    *,
    layer: str | None = None,
    episodes: int = EPISODES,
    seed: int = 0,
    page: str | os.PathLike[str] | None = None,
    **options: Any,
) -> AblationReport:
    """Let an agent play the same levels with and without each feature of a layer, and compare.

    Features are those of `page`, with its numbers, names and colors, or those that `run` fits with the same options. A
    page is written into `output_dir`, with the report as a section. Episodes are paired: each edited agent plays the
    same levels with the same random numbers as the unedited one, so that both play alike until the ablation changes an
    action (see `rl_clarity.recordings.paired_play`). Repeat an interrupted call to resume it. Under mpiexec, the ranks
    share the work. The same arguments give the same report.

    Args:
        checkpoint: a checkpoint of any supported format, an included agent (`models:coinrun`), or an agent whose
            `metadata` name its environment
        output_dir: a directory or address for the page
        layer: name of a layer, as `select_layers` returns it; all layers of the page by default
        episodes: number of episodes with each feature ablated, and without ablation; at least 2
        seed: seed of samples, features and episodes
        page: directory of a page of the same agent, whose features are ablated. By default, features are fitted, and
            their numbers may differ from those on a page that was made with other samples or options
        options: further options of `run`: `overwrite`, `trajectories`, `layers`, `load`, `behavior={"cause": ...}`, ...

    Raises OptionError for an unknown layer or invalid options, EnvironmentSetupError if there is no environment to play
    in, and the errors of `run`.
    """
    if episodes < 2:
        raise OptionError(f"episodes={episodes} must be at least 2")
    options = translate({**options, "seed": seed}, InterfaceOptions)
    behavior = options.setdefault("behavior", {})
    if behavior.get("episodes"):  # 0 is the default of the class of these options
        raise OptionError(
            f"behavior.episodes={behavior['episodes']} cannot be set here: use the argument episodes instead"
        )
    behavior["episodes"] = episodes
    if layer is not None:
        layers = options.setdefault("layers", {})
        if layers.get("name_contains_one_of") is None:
            layers["name_contains_one_of"] = (layer,)
        behavior["layers"] = (layer,)
    if page is not None:
        _take_features(options, os.fspath(page), layer)
    if isinstance(checkpoint, str | os.PathLike):
        written = run(checkpoint, output_dir, **options)
    else:
        written = _explain(checkpoint, output_dir, options)
    section = written.results().section("behavior")
    for row in section["rows"]:
        row["causes"] = {cause: row["causes"][cause] for cause in section["causes"]}  # the most frequent first
        row.setdefault("invisible", None)
    return AblationReport(
        section["rows"], section["episodes"], section["tests"], written, None if page is None else os.fspath(page)
    )


def _take_features(options: dict[str, Any], page: str, layer: str | None) -> None:
    """Change `options` so that features and their names are taken from the page in the directory `page`."""
    features = options.setdefault("features", {})
    if features.get("components") is not None:
        raise OptionError(f"page={page!r} and features.components={features['components']!r} cannot both be given")
    taken = page_features(page, layer)
    features.update(
        components=page,
        count=max(len(one.reduction.components) for one in taken.values()),
        names={**{name: one.names for name, one in taken.items() if one.names}, **(features.get("names") or {})},
    )


def _explain(agent: Agent, output_dir: str | os.PathLike[str], options: Mapping[str, Any]) -> Page:
    """Let an agent object play to collect samples, and return the page that explains the agent."""
    sizes = {name: options.get(name) for name in ("trajectories", "observations")}
    options = {name: value for name, value in options.items() if name not in sizes}
    played = parse(TrajectoriesOptions, sizes["trajectories"], "trajectories.")
    extra = parse(ObservationsOptions, sizes["observations"], "observations.")
    seed, num_obs = options["seed"], -(-extra.num_envs * extra.num_obs // played.num_envs)
    with closing(make(environment_of(agent), played.num_envs, seed)) as environment:
        samples = collect(agent, environment, played.num_steps, num_obs, obs_every=extra.obs_every, seed=seed)
    page: Page = generate(agent, *samples, output_dir, **options)
    return page
