"""Where in a page's directory each thing lies. Files count trajectories, segments, channels and pictures from 1."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rl_clarity.errors import OptionError
from rl_clarity.options import DirectoryOptions
from rl_clarity.pages.files import is_name

PAGE = "interface.html"
SCRIPT = "interface.js"


def slugs(names: Sequence[str]) -> list[str]:
    """For each layer's name one that file systems and addresses take, all different even without regard to case."""
    taken: set[str] = set()
    chosen = []
    for name in names:
        base = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "layer"
        slug, count = base, 1
        while slug.lower() in taken:
            count += 1
            slug = f"{base}-{count}"
        taken.add(slug.lower())
        chosen.append(slug)
    return chosen


def number_text(number: float) -> str:
    """A density or zoom as names have it: 0.25, 1, 2."""
    return f"{number:g}"


@dataclass(frozen=True)
class Layout:
    """Names of a page's files; they do not collide even where all subdirectories are the same."""

    directories: DirectoryOptions = field(default_factory=DirectoryOptions)
    segment: int = 64
    """Steps in a chunk of frames or of attribution."""
    scrub_steps: int = 512
    """Steps in a scrub picture."""

    def __post_init__(self) -> None:
        for one in dataclasses.fields(DirectoryOptions):
            value = getattr(self.directories, one.name)
            if value.strip("/") and not is_name(value.strip("/")):
                raise OptionError(f"{one.name}={value!r}: only letters, digits and . _ / -, in the page's directory")

    def segments(self, steps: int) -> list[range]:
        """The steps of each segment of a trajectory."""
        return _cut(steps, self.segment)

    def scrubs(self, steps: int) -> list[range]:
        """The steps of each scrub picture of a trajectory."""
        return _cut(steps, self.scrub_steps)

    def series(self, trajectory: int) -> str:
        return self._in("trajectories_subdir", f"{trajectory + 1}/series.js")

    def frames(self, trajectory: int, segment: int) -> str:
        return self._in("trajectories_subdir", f"{trajectory + 1}/frames-{segment + 1}.js")

    def film(self, trajectory: int, segment: int) -> str:
        return self._in("trajectories_subdir", f"{trajectory + 1}/frames-{segment + 1}.png")

    def scrub(self, trajectory: int, picture: int) -> str:
        return self._in("trajectories_scrub_subdir", f"{trajectory + 1}/scrub-{picture + 1}.png")

    def attribution(self, slug: str, output: str, trajectory: int, segment: int) -> str:
        return self._in("attribution_subdir", f"{slug}/{trajectory + 1}/{output}-{segment + 1}.js")

    def attribution_picture(self, slug: str, output: str, selection: str, trajectory: int, segment: int) -> str:
        name = f"{slug}/{trajectory + 1}/{output}-{selection}-{segment + 1}.png"
        return self._in("attribution_subdir", name)

    def attribution_scrub(self, slug: str, output: str, selection: str, trajectory: int, segment: int) -> str:
        name = f"{slug}/{trajectory + 1}/scrub-{output}-{selection}-{segment + 1}.png"
        return self._in("attribution_scrub_subdir", name)

    def totals(self, slug: str, trajectory: int) -> str:
        return self._in("attribution_totals_subdir", f"{slug}/{trajectory + 1}/totals.js")

    def grids(self, slug: str) -> str:
        return self._in("features_grids_subdir", f"{slug}/grids.js")

    def feature_picture(self, slug: str, channel: int, subdiv_mult: float, expand_mult: float) -> str:
        name = f"{slug}/feature-{channel + 1}-density-{number_text(subdiv_mult)}-zoom-{number_text(expand_mult)}.png"
        return self._in("features_subdir", name)

    def optimized(self, slug: str, channel: int) -> str:
        return self._in("features_subdir", f"{slug}/optimized-{channel + 1}.png")

    def thumbnail(self, slug: str, channel: int) -> str:
        return self._in("thumbnails_subdir", f"{slug}/thumbnail-{channel + 1}.png")

    def atlas(self, picture: int) -> str:
        return self._in("observations_subdir", f"observations-{picture + 1}.png")

    def _in(self, subdir: str, name: str) -> str:
        directory = getattr(self.directories, subdir).strip("/")
        return f"{directory}/{name}" if directory else name


def _cut(steps: int, length: int) -> list[range]:
    return [range(start, min(steps, start + length)) for start in range(0, steps, length)]
