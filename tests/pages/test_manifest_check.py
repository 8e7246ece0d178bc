"""Damaged manifests are refused with one line, whatever a reader wants of the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.base.errors import ClarityError
from rl_clarity.cli import main
from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import read_manifest
from rl_clarity.pages.manifest import section_data
from rl_clarity.pages.results import open_results
from tests.pages.pages import write_small_page

Manifest = dict[str, Any]


def attribution(manifest: Manifest) -> dict[str, Any]:
    return section_data(manifest, "attribution")


def layer(manifest: Manifest) -> dict[str, Any]:
    entry: dict[str, Any] = attribution(manifest)["layers"][0]
    return entry


def trajectories(manifest: Manifest) -> dict[str, Any]:
    return section_data(manifest, "trajectories")


MUTATIONS: list[tuple[Callable[[Manifest], Any], str]] = [
    (lambda m: m.pop("sections"), r"manifest\.sections is missing"),
    (lambda m: m.update(sections={}), r"manifest\.sections must be a list"),
    (lambda m: m.update(sections=[None]), r"manifest\.sections\[0\] must be an object"),
    (lambda m: m["sections"][0].pop("kind"), r"manifest\.sections\[0\]\.kind is missing"),
    (lambda m: m["sections"][0].pop("data"), r"trajectories\.data is missing"),
    (lambda m: m["sections"][2].update(data=[]), r"attribution\.data must be an object"),
    (lambda m: m.update(agents=[]), "agents is empty"),
    (lambda m: m.update(agents=3), r"manifest\.agents must be a list"),
    (lambda m: m["agents"][0].update(actions=[{"label": None}]), r"actions\[0\]\.label must be text"),
    (lambda m: m.update(numpy_precision="six"), "numpy_precision must be an integer"),
    (lambda m: m.update(numpy_precision=-3), "numpy_precision must be from 1 to 17"),
    (lambda m: m.update(view=[]), r"manifest\.view must be an object"),
    (lambda m: m["view"].update(attribution_weight="much"), r"view\.attribution_weight must be from 0 to 1"),
    (lambda m: trajectories(m).update(segment=0), "segment must be above 0"),
    (lambda m: trajectories(m).update(segment=7), r"trajectories\[0\]\.frames must have 10 entries"),
    (lambda m: trajectories(m)["trajectories"][0].update(steps=-1), r"trajectories\[0\]\.steps must be above 0"),
    (lambda m: trajectories(m)["trajectories"][0].update(steps=1e3), r"steps must be an integer"),
    (lambda m: trajectories(m)["trajectories"][0].update(series=None), r"series must be text"),
    (lambda m: trajectories(m)["trajectories"].pop(), "'2b' must have totals for each trajectory"),
    (lambda m: layer(m).update(channels="all"), r"channels must be an integer"),
    (lambda m: layer(m).update(channels=900), "layer '2b' must have a hue for each channel"),
    (lambda m: layer(m).update(hues=[[1]] * 3), "hues must have three numbers"),
    (lambda m: layer(m)["scales"].pop("value"), "layer '2b' must have a scale of 'value' for each trajectory"),
    (lambda m: layer(m)["attribution"].update(value=[[], []]), "must have attribution of 'value' for each segment"),
    (lambda m: attribution(m)["outputs"][0].update(kind="action"), "'value' has action None, but the agent has 4"),
    (lambda m: attribution(m)["outputs"][0].update(kind="group", group=4), "has group 4, but the agent has 1"),
    (lambda m: attribution(m).update(layers=[{}]), r"layers\[0\]\.name is missing"),
    (
        lambda m: section_data(m, "features")["layers"].update({"2b": 3}),
        r"features\.data\.layers\.2b must be an object",
    ),
]


@pytest.mark.parametrize(("mutate", "message"), MUTATIONS, ids=[message for _, message in MUTATIONS])
def test_damaged_manifests_are_refused_with_a_one_line_error(
    mutate: Callable[[Manifest], Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = LocalDirectory(tmp_path / "page")
    write_small_page(directory)
    write_page_with(directory, mutate)
    with pytest.raises(ClarityError, match=message):
        open_results(tmp_path / "page")
    for suffix in (".png", ".csv", ".npz"):
        assert main(["export", str(tmp_path / "page"), str(tmp_path / f"x{suffix}")]) == 1
        printed = capsys.readouterr()
        assert printed.err.startswith("rl-clarity: the page's manifest is damaged: ")
        assert printed.err.count("\n") == 1


def write_page_with(directory: LocalDirectory, mutate: Callable[[Manifest], Any]) -> None:
    """Replace the manifest of a page by a mutated one."""
    document = directory.read("interface.html")
    manifest = read_manifest(document)
    start = document.index(b'id="manifest">') + len(b'id="manifest">')
    end = document.index(b"</script>", start)
    mutate(manifest)
    directory.write("interface.html", document[:start] + json.dumps(manifest).encode() + document[end:])


def test_exporting_a_page_without_layers_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = LocalDirectory(tmp_path / "page")
    write_small_page(directory, edit=lambda m: attribution(m).update(layers=[]))
    assert main(["export", str(tmp_path / "page"), str(tmp_path / "x.png")]) == 1
    assert capsys.readouterr().err == "rl-clarity: unknown layer None; the page has none\n"


@pytest.mark.parametrize("name", ["trajectories/1/frames-1.js", "attribution/2b/1/value-1.js"])
def test_a_chunk_with_the_wrong_contents_is_named_in_the_error(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = LocalDirectory(tmp_path / "page")
    write_small_page(directory)
    assert name in directory.names()
    directory.write(name, directory.read("trajectories/1/series.js"))
    assert main(["export", str(tmp_path / "page"), str(tmp_path / "x.png")]) == 1
    printed = capsys.readouterr().err
    assert f"chunk {name} is damaged" in printed
    assert printed.count("\n") == 1
