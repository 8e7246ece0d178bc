"""`rl_clarity.check` and `rl-clarity check`: sanity checks of all saliency methods on an agent, as a page."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.checks.analysis import ChecksOptions
from rl_clarity.analyses.checks.report import SanityReport
from rl_clarity.base.parsing import parse
from rl_clarity.commands.run import choose_value, explain
from rl_clarity.jobs.forecast import Forecast
from rl_clarity.pages.options import (
    CHECKED_TRAJECTORIES,
    CheckOptions,
    LoadOptions,
    ObservationsOptions,
    TrajectoriesOptions,
)
from rl_clarity.pages.original_options import translate
from rl_clarity.pages.results import Page, open_results
from rl_clarity.recordings.recording import Recording

FEWEST = ObservationsOptions(num_envs=1, num_obs=1, obs_every=1)
"""Options for collecting the smallest number of extra observations, because the checks do not need any."""


@dataclass(frozen=True)
class CheckReport(SanityReport):
    """The result of `rl_clarity.check`, also in `checks/report.json` of its page. `str` formats it as text."""

    page: Page
    features_of: str | None = None
    """The page whose features were also checked, or None."""

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.features_of is None else f"{text}\nfeatures are those of the page {self.features_of}"


@overload
def check(
    checkpoint: str | os.PathLike[str] | Agent, output_dir: str | os.PathLike[str], *, dry_run: Literal[True], **o: Any
) -> Forecast: ...


@overload
def check(
    checkpoint: str | os.PathLike[str] | Agent, output_dir: str | os.PathLike[str], *, dry_run: bool, **options: Any
) -> CheckReport | Forecast: ...


@overload
def check(
    checkpoint: str | os.PathLike[str] | Agent,
    output_dir: str | os.PathLike[str],
    *,
    dry_run: Literal[False] = False,
    **options: Any,
) -> CheckReport: ...


def check(
    checkpoint: str | os.PathLike[str] | Agent,
    output_dir: str | os.PathLike[str],
    *,
    methods: Sequence[str] | None = None,
    frames: int = 64,
    output: str = "policy",
    page: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    load: Mapping[str, Any] | LoadOptions | None = None,
    trajectories: Mapping[str, Any] | TrajectoriesOptions | None = None,
    recording: str | os.PathLike[str] | Recording | None = None,
    other_agent: bool = False,
    **options: Any,
) -> CheckReport | Forecast:
    """Check saliency methods: do maps depend on the agent's weights, and do they show what its outputs depend on?

    Write a page with example maps and the results of the checks, which `sanity_checks` explains. Repeat an interrupted
    call to resume it. Under mpiexec, the ranks share the work.

    Args:
        checkpoint: as for `run`
        output_dir: a directory or address for the page
        methods: names of saliency methods of pages ("perturbation", "jacobian", ...), "integrated_gradients LAYER"
            and, with a page, "features LAYER"; by default all methods, on every layer
        frames: number of frames on which methods are checked, spread over the trajectories
        output: explained output: "policy", "value" or "greedy"
        page: directory of a page of the same agent, whose features are also checked: "features LAYER" is the
            attribution to the features of a layer, without the residual. Attribution then uses the page's baseline
        dry_run: only forecast time, memory and disk space, and return the forecast; nothing is written
        load: as for `run`
        trajectories: how much the agent plays; 8 environments for 128 steps by default
        recording: as for `run`
        other_agent: as for `run`
        options: see `CheckOptions`: `seed`, `overwrite`, ...

    Raises OptionError for an unknown method or output, and the errors of `run`.
    """
    translated = translate(options, CheckOptions)
    load = choose_value("load", load, translated.pop("load", None))
    trajectories = choose_value("trajectories", trajectories, translated.pop("trajectories", None))
    checks: dict[str, Any] = {"frames": frames, "methods": methods, "output": output}
    if page is not None:
        checks |= {"page": os.fspath(page), "baseline": open_results(page).baseline}
    written = explain(
        checkpoint,
        output_dir,
        parse(CheckOptions, {**translated, "checks": parse(ChecksOptions, checks)}),
        dry_run=dry_run,
        load=load,
        trajectories=CHECKED_TRAJECTORIES if trajectories is None else trajectories,
        observations=FEWEST,
        recording=recording,
        other_agent=other_agent,
    )
    if isinstance(written, Forecast):
        return written
    report: CheckReport = CheckReport.from_dict(
        written.results().section("checks")["report"], page=written, features_of=checks.get("page")
    )
    return report
