"""The plugin as TensorBoard loads it: entry point, log directories, routes."""

from __future__ import annotations

import argparse
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.small import REPOSITORY
from tests.recordings.episodes import make_recording

pytest.importorskip("tensorboard")

from tensorboard.backend.application import TensorBoardWSGI
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client

from rl_clarity.viewer.tensorboard_plugin import RecordingsPlugin, logdir_spec


def make_plugin(logdir: str = "", spec: str = "") -> RecordingsPlugin:
    return RecordingsPlugin(TBContext(logdir=logdir, flags=argparse.Namespace(logdir=logdir, logdir_spec=spec)))


def run_names(plugin: RecordingsPlugin, prefix: str = "") -> list[str]:
    client = Client(TensorBoardWSGI([plugin], prefix))
    manifest = client.get(f"{prefix}/data/plugin/rl_clarity/data/manifest.json").get_json()
    return [run["name"] for run in manifest["sections"][0]["data"]["runs"]]


def test_the_entry_point_refers_to_the_tensorboard_plugin() -> None:
    project: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["tensorboard_plugins"]["rl_clarity"].partition(":")
    assert getattr(import_module(module), name) is RecordingsPlugin


def test_the_tensorboard_tab_is_active_if_there_are_recordings(tmp_path: Path) -> None:
    assert not make_plugin(str(tmp_path)).is_active()
    assert not make_plugin().is_active()
    make_recording(tmp_path / "exp1", (3,), name="training")
    plugin = make_plugin(str(tmp_path))
    assert plugin.is_active()
    metadata = plugin.frontend_metadata()
    assert (metadata.tab_name, metadata.es_module_path) == ("RL CLARITY", "/index.js")


@pytest.mark.parametrize("prefix", ["", "/board"])
def test_runs_are_named_as_tensorboard_names_them(tmp_path: Path, prefix: str) -> None:
    for run in ("", "exp1", "group/exp2"):
        make_recording(tmp_path / run, (3,), name="training")
    assert run_names(make_plugin(str(tmp_path)), prefix) == [".", "exp1", "group/exp2"]


def test_several_log_directories_are_named_by_logdir_spec(tmp_path: Path) -> None:
    for run in ("a/exp1", "b", "c/exp2"):
        make_recording(tmp_path / run, (3,), name="training")
    spec = f"first:{tmp_path}/a,second:{tmp_path}/b,{tmp_path}/c"
    assert run_names(make_plugin(spec=spec)) == ["exp2", "first/exp1", "second"]


def test_logdir_spec_is_read_as_tensorboard_reads_it() -> None:
    directories = [(one.name, one.location) for one in logdir_spec("a:/x,/y:z,s3://bucket/runs,n:gs://b/c,")]
    assert directories == [("a", "/x"), ("", "/y:z"), ("", "s3://bucket/runs"), ("n", "gs://b/c")]


def test_urls_outside_the_plugin_are_not_answered(tmp_path: Path) -> None:
    make_recording(tmp_path, (3,), name="training")
    client = Client(TensorBoardWSGI([make_plugin(str(tmp_path))]))
    base = "/data/plugin/rl_clarity/"
    assert client.get(f"{base}index.js").status_code == 200
    assert client.get(f"{base}page.js").status_code == 200
    for path in ("recording.json", "data/../../../index.js", "../rl_clarity/page.jsx", "data/recording.json"):
        assert client.get(base + path).status_code == 404
    entry = client.get(f"/data/plugin_entry.html?name={RecordingsPlugin.plugin_name}")
    assert 'import("./index.js")' in entry.text
