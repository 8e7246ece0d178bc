"""Extending the package from outside: an analysis, a panel and a kind of page, each one file and one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

import rl_clarity
from rl_clarity.analyses import ANALYSES
from rl_clarity.base.errors import OptionError
from rl_clarity.cli.arguments import parse_arguments
from rl_clarity.cli.pages import Run
from rl_clarity.cli.recordings import Explain
from rl_clarity.pages.chunks import decode_chunk, parse_script
from rl_clarity.pages.verification import verify
from rl_clarity.viewer.publishing import publish
from tests.browser.pages import Visitor
from tests.explaining.recordings import explain, record
from tests.fakes import TinyAgent
from tests.pipeline.small import record_tasks
from tests.plugins import install

OCCLUSION = '''
"""Occlusion: how much the value falls when a patch of the observation is covered."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from rl_clarity.analyses import Analysis, Subject
from rl_clarity.jobs import Piece, TaskResult
from rl_clarity.jobs.tasks import Results, Task
from rl_clarity.pages.files import ChunkName, segments
from rl_clarity.pages.sections import MapGrid, MapsSection, TrajectoryMaps
from rl_clarity.visualization.quantization import quantize


@dataclass(frozen=True)
class OcclusionOptions:
    patch: int = 8
    """Side of a patch, in pixels."""


class OcclusionSection(MapsSection):
    kind = "occlusion"
    title = "Occlusion"


class Occlusion(Analysis[OcclusionOptions, OcclusionSection]):
    kind = "occlusion"
    single_episode = True

    def tasks(self, subject: Subject, options: OcclusionOptions) -> Iterable[Task]:
        count, steps = subject.trajectories.actions.shape
        for trajectory in range(count):
            run = partial(self.run, subject, options, trajectory)
            yield self.task(subject, self.task_name(trajectory + 1), run, trajectory, size=steps, group="occlusion",
                            pieces=partial(self.pieces, options, steps))

    def sections(self, subject: Subject, options: OcclusionOptions, results: Results) -> Iterable[OcclusionSection]:
        facts = (results[self.task_name(trajectory + 1)] for trajectory in range(len(subject.trajectories.actions)))
        maps = [TrajectoryMaps(one["scale"], [ChunkName(name) for name in one["segments"]]) for one in facts]
        yield OcclusionSection(MapGrid(*self.grid(subject, options)), "both", maps, label="value",
                               caption=f"Patches of {options.patch} pixels.")

    def grid(self, subject, options):
        height, width = subject.trajectories.observations.shape[2:4]
        return height // options.patch, width // options.patch

    def maps(self, subject, options, observations):
        rows, columns = self.grid(subject, options)
        values = subject.agent.forward(observations).values
        differences = np.zeros((len(observations), rows, columns, 1), np.float32)
        for row in range(rows):
            for column in range(columns):
                covered = observations.copy()
                top, left = row * options.patch, column * options.patch
                covered[:, top : top + options.patch, left : left + options.patch] = 128
                differences[:, row, column, 0] = values - subject.agent.forward(covered).values
        return differences

    def run(self, subject, options, trajectory, work):
        names, largest = [], []
        for index, part in enumerate(segments(subject.trajectories.actions.shape[1])):
            observations = subject.trajectories.observations[trajectory, part.start : part.stop]
            maps = self.maps(subject, options, np.asarray(observations))
            codes, scales = quantize(maps)
            names.append(f"occlusion/{trajectory + 1}/{index + 1}.js")
            subject.files.write_chunk(names[-1], {"codes": codes, "scales": scales})
            largest.append(np.abs(maps).max())
        return TaskResult({"scale": float(max(largest)), "segments": names}, names)

    def pieces(self, options, steps, sample, frames):
        observations = np.asarray(sample.trajectories.observations[0, : min(frames, 4)])
        yield Piece(partial(self.maps, sample, options, observations), steps / len(observations))
'''


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an installed package with one module and one line of entry points."""
    entry = "rl_clarity.analyses: occlusion = my_occlusion:Occlusion"
    yield install(tmp_path / "site", monkeypatch, entry, OCCLUSION).parent
    ANALYSES.unregister("occlusion")


@pytest.fixture
def samples() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    agent = TinyAgent(num_actions=4, observation_shape=(32, 32, 3))
    firsts = np.zeros((2, 70), bool)
    firsts[:, 0] = True
    trajectories = {
        "observations": rng.integers(0, 256, (2, 70, 32, 32, 3), np.uint8),
        "actions": rng.integers(0, 4, (2, 70)),
        "rewards": np.zeros((2, 70)),
        "firsts": firsts,
    }
    observations = rng.integers(0, 256, (16, 32, 32, 3), np.uint8)
    return {"agent": agent, "trajectories": trajectories, "observations": observations}


def test_a_plugin_analysis_needs_one_file_and_one_registry_line(
    plugin: Path, samples: dict[str, Any], tmp_path: Path
) -> None:
    page = rl_clarity.generate(**samples, output_dir=tmp_path / "page", analyses={"occlusion": {"patch": 16}})
    results = page.results()
    section = next(section for section in results.manifest["sections"] if section["kind"] == "occlusion")
    assert (section["panel"], section["title"], section["data"]["grid"]) == (
        "maps",
        "Occlusion",
        {"height": 2, "width": 2},
    )
    names = section["data"]["trajectories"][1]["segments"]
    assert names == ["occlusion/2/1.js", "occlusion/2/2.js"]
    assert results.chunk(names[1])["codes"].shape == (6, 2, 2, 1)
    assert results.manifest["complete"]


def test_the_cache_of_a_plugin_analysis_depends_on_options_and_code(
    plugin: Path, samples: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"output_dir": tmp_path / "page", "overwrite": True}

    def tasks(patch: int) -> list[str]:
        with record_tasks(monkeypatch) as names:
            rl_clarity.generate(**samples, **options, analyses={"occlusion": {"patch": patch}})
        return sorted(names)

    assert len(tasks(16)) > 2
    assert tasks(16) == []
    assert tasks(8) == ["occlusion/1", "occlusion/2"]
    source = (plugin / "my_occlusion.py").read_text()
    (plugin / "my_occlusion.py").write_text(source.replace("= 128", "= 0"))
    assert tasks(8) == ["occlusion/1", "occlusion/2"]


def test_the_forecast_includes_a_plugin_analysis(plugin: Path, samples: dict[str, Any], tmp_path: Path) -> None:
    forecast = rl_clarity.generate(**samples, output_dir=tmp_path / "page", analyses={"occlusion": {}}, dry_run=True)
    assert forecast.stages["occlusion"] > 0


def test_invalid_options_of_a_plugin_analysis_are_refused(
    plugin: Path, samples: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match=r"analyses\.occlusion\.path.*did you mean 'analyses\.occlusion\.patch'"):
        rl_clarity.generate(**samples, output_dir=tmp_path / "page", analyses={"occlusion": {"path": 3}})
    with pytest.raises(OptionError, match=r"unknown analysis 'oclusion'; did you mean 'occlusion'"):
        rl_clarity.generate(**samples, output_dir=tmp_path / "page", analyses={"oclusion": {}})
    assert not (tmp_path / "page").exists()


def test_a_plugin_analysis_explains_recorded_episodes(
    plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = tmp_path / "runs/exp1/plugins/rl_clarity/training"
    record(location, (30, 70))
    options: dict[str, Any] = {"methods": [], "embeddings": [], "analyses": {"occlusion": {"patch": 4}}}
    assert explain(location, **options).explained == 2
    explanations = rl_clarity.read_explanations(location)
    assert explanations is not None
    (stored,) = explanations.sections(1)
    assert (stored["kind"], stored["panel"], stored["title"]) == ("occlusion", "maps", "Occlusion")
    (maps,) = stored["data"]["trajectories"]
    assert maps["segments"] == ["00001/occlusion/1/1.js", "00001/occlusion/1/2.js"]
    codes = parse_script(explanations.path(maps["segments"][1]).read_bytes(), maps["segments"][1])
    assert decode_chunk(codes)["codes"].shape == (6, *stored["data"]["grid"].values(), 1)

    def tasks(patch: int) -> list[str]:
        with record_tasks(monkeypatch) as names:
            explain(location, **{**options, "analyses": {"occlusion": {"patch": patch}}})
        return names

    assert tasks(4) == []
    assert "occlusion/00000/1" in tasks(2)
    results = publish(tmp_path / "runs", tmp_path / "page", ["0", "1"]).results()
    sections = [one for one in results.manifest["sections"] if one["kind"] == "occlusion"]
    assert [one["trajectory"] for one in sections] == [0, 1]
    assert not list(verify(tmp_path / "page").problems())


@pytest.mark.browser
def test_a_published_episode_shows_the_section_of_a_plugin_analysis(
    plugin: Path, tmp_path: Path, chromium_browser: Browser
) -> None:
    location = tmp_path / "runs/exp1/plugins/rl_clarity/training"
    record(location, (30, 70))
    explain(location, methods=[], embeddings=[], analyses={"occlusion": {"patch": 4}})
    publish(tmp_path / "runs", tmp_path / "page", ["0", "1"])
    context = chromium_browser.new_context(viewport={"width": 1366, "height": 768})
    visitor = Visitor(context.new_page(), tmp_path / "page")
    visitor.goto("?episode=exp1~1&step=68", wait=False)
    expect(visitor.by("map-canvas")).to_be_visible()
    visitor.goto("?episode=exp1~1&episode=exp1~0&step=3", wait=False)
    expect(visitor.by("map-canvas")).to_have_count(2)
    context.close()
    assert visitor.messages == []


def test_an_analysis_that_needs_more_than_an_episode_skips_recordings(tmp_path: Path) -> None:
    record(tmp_path / "recording", (5,))
    with pytest.raises(OptionError, match=r"analyses='behavior' .* because it needs more than one episode"):
        explain(tmp_path / "recording", analyses={"behavior": {}})
    with pytest.raises(OptionError, match=r"analyses='saliency' .* because methods= \(--methods\) chooses its maps"):
        explain(tmp_path / "recording", analyses={"saliency": {}})
    assert not (tmp_path / "recording/explained").exists()


def test_options_of_a_plugin_analysis_can_be_set_on_the_command_line() -> None:
    command = parse_arguments(["run", "a.jd", "out", "--analyses", "occlusion", "occlusion.patch=16", "other"])
    assert isinstance(command, Run)
    assert command.options.analyses == {"occlusion": {"patch": 16}, "other": {}}
    command = parse_arguments(["explain", "runs", "--analyses", "occlusion", "occlusion.patch=16"])
    assert isinstance(command, Explain)
    assert command.options.analyses == {"occlusion": {"patch": 16}}


def test_a_plugin_section_without_the_fields_of_its_panel_is_refused(
    plugin: Path, samples: dict[str, Any], tmp_path: Path
) -> None:
    module = plugin / "my_occlusion.py"
    wrong = '@dataclass(frozen=True)\nclass OcclusionSection(SectionData):\n    panel = "maps"\n    maps: str'
    source = module.read_text().replace("class OcclusionSection(MapsSection):", wrong)
    module.write_text(source.replace("MapGrid, MapsSection", "MapGrid, SectionData"))
    with pytest.raises(OptionError, match=r"OcclusionSection .* lacks the fields grid, sign, trajectories"):
        rl_clarity.generate(**samples, output_dir=tmp_path / "page", analyses={"occlusion": {}})
    assert not (tmp_path / "page").exists()
