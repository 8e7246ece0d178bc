"""Kinds of pages: which analyses a page consists of. `svelte_src/pages/` has a folder for each kind, which draws it."""

from __future__ import annotations

from dataclasses import dataclass

from rl_clarity.registry import Registry


@dataclass(frozen=True)
class PageKind:
    """A kind of page."""

    analyses: tuple[str, ...]
    """Kinds of the analyses of each agent, in the order of their sections."""
    joint: tuple[str, ...] = ()
    """Kinds of the analyses of all agents together."""
    title: str = "{env_name}, {network}"
    """Title of the page, unless an option gives one."""


PAGE_KINDS: Registry[PageKind] = Registry(
    "rl_clarity.page_kinds",
    {
        "agent": PageKind(
            ("trajectories", "features", "attribution", "saliency", "state_map", "examples", "ablation", "behavior")
        ),
        "training": PageKind(("trajectories", "saliency"), ("training",), "{env_name}: training of {network}"),
        "check": PageKind(
            ("trajectories", "checks"),
            title="{env_name}, {network}: checks of saliency maps",
        ),
        "memory": PageKind(
            ("trajectories", "states", "memory_map", "stretches", "interventions", "simulator"),
            title="{env_name}, {network}: memory",
        ),
    },
    noun="kind of page",
)
