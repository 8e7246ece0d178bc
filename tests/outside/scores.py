"""A kind of page: entry point `rl_clarity.page_kinds: scores = scores:KIND`."""

from __future__ import annotations

from rl_clarity.pages.kinds import PageField, PageKind

KIND = PageKind(
    ("trajectories", "rewards"),
    title="Scores in {env_name}",
    slots={"navigation": ["trajectories"], "main": ["timeline", "controls", "rewards"]},
    fields=[PageField("limit", "number", "Limit", default=1, least=0, most=10, whole=True)],
)
