"""`rl_clarity.debug` and `rl-clarity debug`: tested statements about why an agent fails and what it pursues."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from rl_clarity.agents.capabilities import PLAYING, require
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.debugging.findings import REPORT, findings_of
from rl_clarity.analyses.given_components import page_features
from rl_clarity.base.errors import OptionError, SectionError
from rl_clarity.base.keys import to_plain
from rl_clarity.base.parsing import parse
from rl_clarity.commands.check import FEWEST
from rl_clarity.commands.run import explain, explain_arrays
from rl_clarity.debugging.findings import Finding, Untested, compared
from rl_clarity.debugging.measures import LEAST_EPISODES
from rl_clarity.debugging.sample import play_sample
from rl_clarity.environments import EnvironmentSpec, spec_from_metadata
from rl_clarity.jobs.forecast import Forecast
from rl_clarity.pages.options import DEBUGGED_TRAJECTORIES, DebugOptions, LoadOptions, TrajectoriesOptions
from rl_clarity.pages.results import Page
from rl_clarity.recordings.samples import Observations

Location = str | os.PathLike[str]
SHOWN = 12
"""Largest number of findings that the text of the result shows."""


@dataclass(frozen=True)
class Debug:
    """The result of `rl_clarity.debug`; `str` formats it as text."""

    findings: Sequence[Finding]
    untested: Sequence[Untested]
    """Questions without an answer: effects that were neither found nor excluded, with the detectable effect size."""
    failures: Sequence[Mapping[str, Any]]
    """A row for each failure that was examined: `statement`, `verdict`, `return`, `trajectory`, `frame`, ..."""
    page: Page | None
    """The page that was written; None without an output directory."""
    missing: Sequence[tuple[str, str]] = ()
    """Kinds and subjects of expected findings that were not found."""
    new: Sequence[tuple[str, str]] = ()
    """Kinds and subjects of findings that were not expected."""
    expected: bool = False
    """Whether the findings were compared with expected ones."""
    survival: Sequence[Mapping[str, Any]] = ()
    """A row for each feature whose ablation was tested by continuing failed episodes: `feature` (counted from 1),
    `name`, `verdict`, `unedited`, `ablated`, `difference`, `interval`, `p`. There are no rows if fewer than five
    failures could have been avoided."""
    features_of: str | None = None
    """The page from which the features of `survival` are taken, or None if they are not from a page."""

    @property
    def as_expected(self) -> bool:
        """Whether exactly the expected findings were found. True if there was no file of expected findings."""
        return not (self.missing or self.new)

    def to_dict(self) -> dict[str, Any]:
        """Return findings, untested questions and rows of `survival` as JSON values."""
        plain: dict[str, Any] = to_plain(
            {
                "findings": [asdict(one) for one in self.findings],
                "untested": [asdict(one) for one in self.untested],
                "missing": self.missing,
                "new": self.new,
                "survival": self.survival,
            },
            finite=True,
        )
        return plain

    def __str__(self) -> str:
        lines = [f"{one.family}: {one.statement}" for one in self.findings[:SHOWN]]
        if len(self.findings) > SHOWN:
            lines.append(f"and {len(self.findings) - SHOWN} more findings")
        lines.append(
            f"{len(self.findings)} findings, {len(self.untested)} questions without an answer, "
            f"{len(self.failures)} failures examined"
        )
        for row in self.survival:
            name = f" ({row['name']})" if row.get("name") else ""
            lines.append(
                f"without feature {row['feature']}{name}: {row['verdict']}, {row['ablated']:.0%} instead of "
                f"{row['unedited']:.0%} ({row['difference']:+.2f}, {row['interval']}), p {row['p']:.2g}"
            )
        if self.features_of is not None:
            few = (
                "" if self.survival else f"fewer than {LEAST_EPISODES} failures could be avoided: too few to compare; "
            )
            lines.append(f"{few}features, numbers and names are those of the page {self.features_of}")
        lines += [f"expected, but not found: {kind}: {subject}" for kind, subject in self.missing]
        lines += [f"found, but not expected: {kind}: {subject}" for kind, subject in self.new]
        if self.expected and self.as_expected:
            lines.append("exactly the expected findings were found")
        return "\n".join(lines)


@overload
def debug(
    checkpoint: Location | Agent, output_dir: Location | None = None, *, dry_run: Literal[True], **o: Any
) -> Forecast: ...


@overload
def debug(
    checkpoint: Location | Agent,
    output_dir: Location | None = None,
    *,
    dry_run: Literal[False] = False,
    **options: Any,
) -> Debug: ...


@overload
def debug(
    checkpoint: Location | Agent, output_dir: Location | None = None, *, dry_run: bool, **options: Any
) -> Debug | Forecast: ...


def debug(
    checkpoint: Location | Agent,
    output_dir: Location | None = None,
    *,
    environment: EnvironmentSpec | None = None,
    expect: Location | None = None,
    page: Location | None = None,
    dry_run: bool = False,
    load: Mapping[str, Any] | LoadOptions | None = None,
    trajectories: Mapping[str, Any] | TrajectoriesOptions | None = None,
    **options: Any,
) -> Debug | Forecast:
    """Find out why an agent fails and which goals it pursues. Each finding is a statement tested by experiments.

    The agent plays. Failed episodes are continued from saved states by random actions and by the policy. Objects are
    placed around the player to see how the policy and the value change. The findings are written as a page, with their
    evidence, and as JSON (`findings/findings.json`). Repeat an interrupted call to resume it. Under mpiexec, the ranks
    share the work.

    Args:
        checkpoint: a checkpoint of any supported format, an included agent (`models:coinrun`), or an agent
        output_dir: a directory or address for the page; without it, no page is kept
        environment: for an agent that is passed as an object, the environment that it plays in; by default the one that
            its metadata name
        expect: file `findings/findings.json` of an earlier page, with which the findings are compared
        page: directory of a page of the same agent. Failed episodes are also continued with each of its features
            ablated (`survival.features`); if it has several layers, `survival.layer` selects one
        dry_run: only forecast time, memory and disk space, and return the forecast; nothing is written
        load: as for `run`
        trajectories: how much the agent plays; 16 environments for 512 steps by default
        options: see `DebugOptions`: `failures`, `goals`, `seed`, `overwrite`, ...

    If the states of the environment cannot be saved and edited, failures are listed with their causes only, and the
    untested questions give the reason.

    Raises OptionError for invalid options and for an invalid file `expect`, and the errors of `run`.
    """
    expected = None if expect is None else _read_expected(expect)
    chosen = parse(DebugOptions, options)
    features_of = None if page is None else os.fspath(page)
    if features_of is not None:
        if chosen.survival.features is not None:
            raise OptionError(
                f"page={features_of!r} and survival.features={chosen.survival.features!r} cannot both be given"
            )
        page_features(features_of, chosen.survival.layer)
        chosen = replace(chosen, survival=replace(chosen.survival, features=features_of))
    if dry_run and output_dir is None:
        raise OptionError("dry_run needs output_dir, because the forecast depends on it")
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary, "page") if output_dir is None else output_dir
        sizes = (
            DEBUGGED_TRAJECTORIES if trajectories is None else parse(TrajectoriesOptions, trajectories, "trajectories.")
        )
        written: Page | Forecast
        if isinstance(checkpoint, str | os.PathLike):
            if environment is not None:
                raise OptionError(
                    "environment applies only to agents passed as objects; for a checkpoint, give env_name and metadata"
                )
            written = explain(
                checkpoint, place, chosen, dry_run=dry_run, load=load, trajectories=sizes, observations=FEWEST
            )
        else:
            written = _play_and_explain(checkpoint, place, chosen, environment, sizes, dry_run=dry_run)
        if isinstance(written, Forecast):
            return written
        results = written.results()
        findings, untested = findings_of(json.loads(results.directory.read(REPORT)))
        missing, new = ([], []) if expected is None else compared(findings, expected)
        return Debug(
            findings,
            untested,
            results.section("failures")["rows"],
            None if output_dir is None else written,
            missing,
            new,
            expected is not None,
            results.section("survival")["rows"] if results.has("survival") else (),
            features_of,
        )


def _play_and_explain(
    agent: Agent,
    output_dir: Location,
    options: DebugOptions,
    environment: EnvironmentSpec | None,
    sizes: TrajectoriesOptions,
    *,
    dry_run: bool,
) -> Page | Forecast:
    require(agent, *PLAYING, "forward", "observation_shape", "metadata", for_="debug")
    spec = spec_from_metadata(agent.metadata, num_actions=agent.num_actions) if environment is None else environment
    played = play_sample(agent, spec, sizes.num_envs, sizes.num_steps, options.seed)
    options = replace(options, env_name=options.env_name or spec.name)
    nothing = Observations(np.asarray(played.observations[0, :1]))
    return explain_arrays(agent, (played, nothing, None), output_dir, options, dry_run, None, other_agent=False)


def _read_expected(path: Location) -> Sequence[Mapping[str, object]]:
    """Return the findings in a file. Raises OptionError if it is not a findings file."""
    try:
        content = json.loads(Path(path).read_text("utf-8"))
        findings, _ = findings_of({"untested": [], **content})
    except (OSError, ValueError, TypeError, KeyError, AttributeError, SectionError) as error:
        raise OptionError(
            f"expect={os.fspath(path)!r} is not a findings file, such as {REPORT} in a page that rl_clarity.debug "
            f"wrote ({error})"
        ) from error
    return [asdict(one) for one in findings]
