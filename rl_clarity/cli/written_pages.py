"""Commands that read existing pages: `export`, `verify` and `gallery`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

import rl_clarity
from rl_clarity.base.errors import FAILED, OptionError, printable
from rl_clarity.base.files import local_path
from rl_clarity.cli.command import Command, Result
from rl_clarity.cli.option_types import DirectoryPath, FilePath, Switch
from rl_clarity.pages.document import PAGE
from rl_clarity.visualization.rendering import Direction

if TYPE_CHECKING:
    from rl_clarity.recordings.search import FoundRecording


@dataclass(frozen=True, kw_only=True)
class Export(Command):
    """Write images or numbers of a page to a file: .png, .apng, .gif, .csv or .npz. Trajectories, frames and channels
    are counted from 1, as on the page.
    """

    page: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PAGE")]
    """Directory of a page, or its interface.html."""
    file: FilePath
    """File to write."""
    trajectory: int = 1
    """Number of the trajectory."""
    frames: str | None = None
    """Range of frames (100:180), or one frame (120); all by default."""
    layer: str | None = None
    """Name of the layer; the page's first layer by default."""
    output: str | None = None
    """Explained output, such as value, action-3, group-0 or greedy; the page's first output by default."""
    directions: tuple[Direction, ...] = ("pos", "neg")
    """Images beside the observation: of positive attribution (pos), negative (neg), or both together (abs)."""
    channel: str = "prin"
    """Channel of the images: all features (prin), features and residual (all), the residual (res), or a number."""
    fps: float = 12
    """Frames per second of an animation."""
    force: Switch = False
    """Replace an existing file."""

    def execute(self) -> Result:
        from rl_clarity.pages.export import export
        from rl_clarity.pages.results import open_results

        results = open_results(self.page)
        layer = results.layer(self.layer)
        number, count = self.trajectory, len(results.section("trajectories")["trajectories"])
        if not 1 <= number <= count:
            raise OptionError(f"--trajectory {number} must be from 1 to {count}")
        path = export(
            results,
            self.file,
            trajectory=number - 1,
            frames=_frames(self.frames, results.trajectory(number - 1)["steps"]),
            layer=layer["name"],
            output=self.output,
            directions=self.directions,
            channel=_channel(self.channel, layer),
            fps=self.fps,
            overwrite=self.force,
        )
        return Result({"file": str(path)}, f"Written: {path}")


@dataclass(frozen=True, kw_only=True)
class Verify(Command):
    """Check that all files of a page are unchanged, and list files that are missing, damaged, changed or not part of
    the page. For recordings, check that all episodes can be read. The exit code is 1 if there are any problems.
    """

    page: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PAGE")]
    """Directory or address of a page, or its interface.html; or a recording, or log directory, on a local disk."""
    repair: Switch = False
    """Rebuild the lists of episodes and blocks of damaged recordings. Copies of replaced files are kept."""

    def execute(self) -> Result:
        from rl_clarity.pages.verification import verify
        from rl_clarity.recordings.search import find_recordings

        folder = local_path(self.page)
        if folder is not None and folder.is_dir() and not (folder / PAGE).exists():
            recordings = find_recordings(folder)
            if any(one.problem is None for one in recordings):
                return _verify_recordings(recordings, repair=self.repair)
        if self.repair:
            raise OptionError(
                f"--repair is for recordings, and {self.page} is not one; to repair a page, repeat the run that made it"
            )
        result = verify(self.page)
        problems = list(result.problems())
        lines = [f"{kind}: {printable(name)}" for kind, name in problems]
        if problems:
            repair = "to restore its files, repeat the rl-clarity run that created it, with --force"
            lines.append(f"{len(problems)} problems with a page of {result.files} files; {repair}")
        else:
            lines.append(f"All {result.files} files of the page are unchanged")
        return Result({**asdict(result), "problems": len(problems)}, "\n".join(lines), FAILED if problems else 0)


def _verify_recordings(found: Sequence[FoundRecording], *, repair: bool) -> Result:
    from rl_clarity.recordings.verification import repair_recording, verify_recording

    check = repair_recording if repair else verify_recording
    results = [check(one.location) for one in found if one.problem is None]
    unread = {one.location: one.problem for one in found if one.problem is not None}
    damaged = unread or [one for one in results if not one.is_intact]
    lines = [*map(str, results), *(f"{location} was not read: {problem}" for location, problem in unread.items())]
    text = "\n".join(printable(line, keep="\n") for line in lines)
    return Result({"recordings": [asdict(one) for one in results], "unread": unread}, text, FAILED if damaged else 0)


@dataclass(frozen=True, kw_only=True)
class Gallery(Command):
    """Write index.html, an index of the pages in a directory and its subdirectories. In it, two pages of the same
    recording can be compared side by side.
    """

    directory: DirectoryPath
    """Directory or address that contains pages."""
    title: str = "Pages"
    """Title of the index."""
    force: Switch = False
    """Replace an index.html that is not an index of pages."""

    def execute(self) -> Result:
        result = rl_clarity.gallery(self.directory, title=self.title, overwrite=self.force)
        lines = [printable(f"{folder}: {problem}") for folder, problem in result.problems.items()]
        lines.append(f"The index of {result.pages} page{'s' * (result.pages != 1)} is {result.path}")
        return Result({**asdict(result), "path": str(result.path)}, "\n".join(lines))


def _frames(text: str | None, count: int) -> range | None:
    """Parse FIRST:LAST or a single number, counted from 1, into a range of steps counted from 0."""
    if text is None:
        return None
    first, colon, last = text.partition(":")
    numbers = [int(part) for part in (first, last if colon else first) if part.isdecimal()]
    if len(numbers) != 2 or not 1 <= numbers[0] <= numbers[1] <= count:
        raise OptionError(f"--frames {text} must be a range of frames from 1 to {count}, such as 10:20 or 5")
    return range(numbers[0] - 1, numbers[1])


def _channel(text: str, layer: Mapping[str, Any]) -> str | int:
    """Convert the number of a channel, counted from 1, to its index. Return the words prin, all and res unchanged."""
    if text in ("prin", "all", "res"):
        return text
    count = layer["channels"]
    if not text.isdecimal() or not 1 <= int(text) <= count:
        raise OptionError(f"--channel {text} must be a number from 1 to {count}, or prin, all or res")
    return int(text) - 1
