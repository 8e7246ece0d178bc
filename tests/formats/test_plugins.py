"""Formats of installed packages, beside the package's own: when they are imported, and what a broken one harms."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from rl_clarity import formats
from rl_clarity.base.errors import CheckpointError, EnvironmentSetupError
from rl_clarity.cli import main
from rl_clarity.environments import KINDS
from rl_clarity.formats import FORMATS
from tests.formats.hostile_files import policy_file
from tests.plugins import install

EXIT = "import sys; sys.exit(3)"
WORKING = """
from rl_clarity.formats import Checkpoint, Format

def read(file):
    return Checkpoint(file.path, "working", "plain", {}, {"gamma": 0.5}, file.sha256)

entry = Format("working (.out)", lambda file: file.head.startswith(b"outside"), read, read)
"""
FAILING = """
from rl_clarity.formats import Format

entry = Format("failing (.bad)", lambda file: {}["key"], None, None)
"""


ENDING = """
import sys
from rl_clarity.formats import Format

entry = Format("ending (.bad)", lambda file: sys.exit(3), None, None)
"""
READER_ENDS = """
import sys
from rl_clarity.formats import Format

entry = Format("ending (.out)", lambda file: file.head.startswith(b"outside"), lambda file: sys.exit(3), None)
"""


@pytest.fixture(autouse=True)
def _forget_plugins() -> Iterator[None]:
    yield
    for name in ("broken", "working"):
        FORMATS.unregister(name)
    KINDS.unregister("broken")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A file of a built-in format, the one that has no mark of its own."""
    path = tmp_path / "policy.jd"
    path.write_bytes(policy_file({"gamma": 0.9}))
    return path


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    path = tmp_path / "policy.out"
    path.write_bytes(b"outside")
    return path


def install_format(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str) -> None:
    install(folder / name, monkeypatch, f"rl_clarity.formats: {name} = {name}_format:entry", source)


def test_built_in_formats_are_read_without_importing_plugins(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_format(tmp_path, monkeypatch, "broken", EXIT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert formats.read(own).metadata["gamma"] == 0.9
        assert "broken" in FORMATS.names()
    assert "broken_format" not in sys.modules


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('old')", "cannot be loaded: RuntimeError: old; update or uninstall"),
        (EXIT, "cannot be loaded: SystemExit: 3; update or uninstall"),
        (FAILING, "unexpected error: KeyError: 'key'"),
        (ENDING, "unexpected error: SystemExit: 3"),
        ("entry = 5", "unexpected error: AttributeError: 'int' object has no attribute 'recognize'"),
    ],
)
def test_a_broken_format_plugin_is_reported_and_the_next_one_tried(
    source: str, reason: str, foreign: Path, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_format(tmp_path, monkeypatch, "working", WORKING)
    install_format(tmp_path, monkeypatch, "broken", source)
    assert FORMATS.plugins() == ("broken", "working")
    with pytest.warns(RuntimeWarning, match=f"'broken'.*{reason}") as warned:
        assert formats.read(foreign).metadata == {"gamma": 0.5}
    assert len(warned) == 1
    assert formats.read(own).format == "baselines"


def test_the_error_for_an_unknown_file_lists_working_formats(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install_format(tmp_path, monkeypatch, "broken", EXIT)
    install_format(tmp_path, monkeypatch, "working", WORKING)
    path = tmp_path / "unknown"
    path.write_bytes(b"?")
    with pytest.warns(RuntimeWarning, match="'broken'"):
        assert main(["inspect", str(path)]) == 1
    assert "is of an unknown format" in (printed := capsys.readouterr().err)
    assert "working (.out)" in printed


def test_a_plugin_that_calls_sys_exit_is_reported_as_an_error(
    foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install_format(tmp_path, monkeypatch, "broken", READER_ENDS)
    assert main(["inspect", str(foreign)]) == 1
    assert "an environment, plug-in or library ended the program (SystemExit: 3)" in capsys.readouterr().err


def test_a_checkpoint_that_names_a_broken_environment_plugin_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = "rl_clarity.environments: broken = broken_environment:KIND"
    install(tmp_path / "site", monkeypatch, entry, "raise RuntimeError('old')")
    path = tmp_path / "policy.jd"
    path.write_bytes(policy_file({"env_kind": "broken", "env_name": "module:Name", "gamma": 0.9}))
    with pytest.warns(
        RuntimeWarning, match=r"the kind of environment 'broken'.*RuntimeError: old.*this entry is skipped"
    ):
        checkpoint = formats.read(path)
    assert checkpoint.metadata["untrusted"] == {"env_name": "module:Name"}
    with pytest.raises(EnvironmentSetupError, match=r"'broken'.*cannot be loaded: RuntimeError: old"):
        KINDS.get("broken")


def test_requesting_a_broken_format_by_name_raises_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_format(tmp_path, monkeypatch, "broken", EXIT)
    with pytest.raises(CheckpointError, match=r"'broken' \(broken_format:entry\) cannot be loaded: SystemExit: 3"):
        FORMATS.get("broken")
