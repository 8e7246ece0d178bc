"""The gallery: an index of the pages below a directory, in a single file.

It lists pages, embeds a small image of each, and can show two pages of the same recording side by side.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from urllib.parse import quote

import numpy as np

from rl_clarity.base.errors import ClarityError, OutputError, describe_error
from rl_clarity.base.keys import cache_key
from rl_clarity.base.parsing import path_text
from rl_clarity.jobs.directory import Directory, open_directory
from rl_clarity.jobs.job import RUN_LOG
from rl_clarity.jobs.store import UNREADABLE
from rl_clarity.pages.document import PAGE, is_intact, read_checksums, read_manifest, write_index
from rl_clarity.pages.images import encode_png
from rl_clarity.pages.manifest import FORMAT, VERSION
from rl_clarity.pages.results import Results, read_document
from rl_clarity.pages.section_types import TrajectoryEntry
from rl_clarity.reduction.matching import match_components

INDEX = "index.html"
KIND = "gallery"
_IMAGE_SIDE = 160


@dataclass(frozen=True)
class Gallery:
    """The result of `gallery`: the index page, and the number and problems of the listed pages."""

    path: Path | str
    """The file; a string if it is an address such as `s3://bucket/index.html`."""
    pages: int
    problems: Mapping[str, str]
    """Reasons why pages are unfinished or cannot be read, by the page's folder."""


def gallery(directory: str | os.PathLike[str], *, title: str = "Pages", overwrite: bool = False) -> Gallery:
    """Write `index.html`, an index of the pages in a directory and its subdirectories.

    Each page is listed with an image, its environment, network, mean return, date and a link. Pages that are damaged,
    unfinished or of an unsupported format version are listed with the reason. Two pages that explain the same recording
    can be shown side by side, with the same time step, the same scale, the same colors for features that match, and
    their differences. An earlier index is replaced.

    Args:
        directory: a local directory, or an address such as `s3://bucket/pages`
        title: title of the index
        overwrite: replace an `index.html` that is not an index of pages

    Raises ClarityError if there are no pages, and OutputError if the index cannot be written.
    """
    location = path_text(directory, "directory")
    root = open_directory(location)
    documents = sorted(_documents(root))
    if not documents:
        raise ClarityError(f"{location} contains no pages: neither it nor its subdirectories contain {PAGE}")
    if not overwrite:
        _check_replaceable(root)
    pages = [_describe(open_directory(f"{location}/{path.parent}".removesuffix("/.")), path) for path in documents]
    _match_features(root, pages)
    manifest = {
        **{"format": FORMAT, "version": VERSION, "kind": KIND, "id": KIND, "title": title, "complete": True},
        **{"agents": [], "recordings": [], "sections": [], "view": {}, "numpy_precision": 6, "pages": pages},
    }
    write_index(root, INDEX, manifest)
    path = f"{location.rstrip('/')}/{INDEX}" if "://" in location else Path(root.location) / INDEX
    return Gallery(path, len(pages), {str(page["folder"]): str(page["problem"]) for page in pages if "problem" in page})


def _documents(root: Directory) -> set[PurePosixPath]:
    """Return the paths of the documents of pages. In a local directory, this includes everything that has the name of a
    document, even if it is not a readable file.
    """
    documents = {path for path in map(PurePosixPath, root.names()) if path.name == PAGE}
    if "://" not in root.location:
        for folder, folders, files in os.walk(root.location):
            if PAGE in folders or PAGE in files:
                documents.add(PurePosixPath(Path(folder, PAGE).relative_to(root.location).as_posix()))
    return documents


def _check_replaceable(root: Directory) -> None:
    try:
        kind = read_manifest(root.read(INDEX)).get("kind")
    except FileNotFoundError:
        return
    except ClarityError:
        kind = None
    if kind != KIND:
        raise OutputError(
            f"{root.location} already holds an {INDEX} that is not a gallery: move it, or replace it with "
            "overwrite=True (--force)"
        )


def _describe(directory: Directory, path: PurePosixPath) -> dict[str, object]:
    """Return the entry of a page in the index, with the reason (`problem`) if it is unfinished or unreadable."""
    folder = str(path.parent)
    entry: dict[str, object] = {"folder": folder, "href": f"./{quote(str(path))}", "title": folder}
    try:
        entry |= _date(directory)
        document = read_document(directory, PAGE)
        manifest = read_manifest(document)
        entry["title"] = str(manifest.get("title") or entry["title"])
        if not is_intact(document):
            raise ClarityError(f"{PAGE} is damaged: its content does not match its checksum")
        results = Results(directory)
        trajectories = results.section("trajectories")["trajectories"]
        entry |= {
            "network": str(results.agent.get("network", "")),
            "env_name": str((manifest.get("recordings") or [{}])[0].get("env_name", "")),
            "steps": [trajectory["steps"] for trajectory in trajectories],
        }
        if not manifest.get("complete"):
            entry["problem"] = f"it is not finished: {len(manifest.get('missing', ()))} files are missing"
        entry |= {"recording": _recording_key(trajectories, read_checksums(directory, document))}
        entry |= {"return": _mean_return(results), "image": _image(results)}
    except Exception as error:  # of any kind: the other pages are listed
        reason = describe_error(error)
        if isinstance(error, (LookupError, *UNREADABLE)) and not isinstance(error, ClarityError | OSError):
            reason = f"its manifest is damaged: {error!r}"
        entry.setdefault("problem", reason.replace(directory.location, folder))
    return {key: value for key, value in entry.items() if value is not None}


def _match_features(root: Directory, pages: Sequence[dict[str, object]]) -> None:
    """Add `matches` to the entries of pages that explain the same recording.

    For each layer of each of the other pages, `matches` contains the features that match those of the entry's page.
    """
    fits = {
        page["folder"]: _components(Results(open_directory(f"{root.location}/{page['folder']}".removesuffix("/."))))
        for page in pages
        if "recording" in page and "problem" not in page
    }
    for page in pages:
        own = fits.get(page["folder"], {})
        matches = {}
        for other in pages:
            theirs = fits.get(other["folder"], {})
            if other is not page and other.get("recording") == page.get("recording"):
                layers = [key for key in own if key in theirs and own[key].shape[1] == theirs[key].shape[1]]
                matches[other["folder"]] = {
                    slug: [match and asdict(match) for match in match_components(own[slug, name], theirs[slug, name])]
                    for slug, name in layers
                }
        if any(matches.values()):
            page["matches"] = matches


def _components(results: Results) -> dict[tuple[str, str], np.ndarray]:
    """Return the components (K, c) of K features in c channels, by the layer's slug and full name, where they exist."""
    components = {}
    for section in results.manifest["sections"]:
        for layer in section["data"]["layers"] if section["kind"] == "attribution" else ():
            try:
                components[layer["slug"], layer["full_name"]] = results.reduction(layer["name"]).components
            except ClarityError:  # the input, or a page of an earlier version
                continue
    return components


def _recording_key(trajectories: Sequence[TrajectoryEntry], checksums: Mapping[str, object]) -> str | None:
    """Return a hash of all frames, which is the same for pages that explain the same episodes.

    Return None if checksums are missing.
    """
    frames = [checksums.get(name) for trajectory in trajectories for name in trajectory["frames"]]
    return None if None in frames else cache_key(frames)


def _mean_return(results: Results) -> dict[str, float]:
    """Return the mean return of episodes that begin and end in the page's trajectories.

    If there are no such episodes, `episodes` is 0, and `mean` is the mean sum of rewards of a trajectory.
    """
    returns, sums = [], []
    for trajectory in range(len(results.section("trajectories")["trajectories"])):
        series = results.series(trajectory)
        rewards, starts = series["rewards"].astype(np.float64), np.flatnonzero(series["firsts"])
        returns += [part.sum() for part in np.split(rewards, starts)[1:-1]]
        sums.append(rewards.sum())
    return {"mean": float(np.mean(returns or sums)), "episodes": len(returns)}


def _image(results: Results) -> str:
    """Return a frame as a data URL: that with the highest advantage, or the middle one of the first trajectory."""
    from PIL import Image

    section = results.section("trajectories")
    best = next(iter((section.get("bookmarks") or {}).get("high", ())), None)
    place = (best["trajectory"], best["frame"]) if best else (0, section["trajectories"][0]["steps"] // 2)
    (frame,) = results.frames(place[0], [place[1]])
    image = Image.fromarray(frame.squeeze())
    image.thumbnail((_IMAGE_SIDE, _IMAGE_SIDE))  # smaller images are not enlarged
    pixels = np.asarray(image)
    png = encode_png(pixels if pixels.ndim == 3 else pixels[..., None])
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def _date(directory: Directory) -> dict[str, str]:
    """Return the date of the page, from its run log or else from the time of its file; empty if neither is known."""
    try:
        run = json.loads(directory.read(RUN_LOG))["runs"][-1]
        date = datetime.fromisoformat(run.get("ended") or run["started"]).astimezone(UTC)
        return {"date": date.isoformat(timespec="seconds"), "date_from": "run log"}
    except (LookupError, *UNREADABLE):
        pass
    if "://" in directory.location:
        return {}
    changed = datetime.fromtimestamp((Path(directory.location) / PAGE).stat().st_mtime, UTC)
    return {"date": changed.isoformat(timespec="seconds"), "date_from": "file"}
