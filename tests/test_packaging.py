"""Dependencies, extras and the workflows of continuous integration."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def package_name(requirement: str) -> str:
    match = re.match(r"[\w-]+", requirement)
    assert match is not None
    return match[0].lower()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_github_actions_are_pinned_by_commit(path: Path) -> None:
    uses = re.findall(r"uses: (\S+)(.*)", path.read_text())
    assert uses
    for action, comment in uses:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v[\d.]+", comment), f"{action} needs its version in a comment"


def test_each_github_action_is_pinned_to_one_commit() -> None:
    text = "".join(path.read_text() for path in WORKFLOWS)
    pins = set(re.findall(r"uses: ([\w/-]+)@([0-9a-f]{40})", text))
    assert len(pins) == len({action for action, _ in pins})


def test_an_install_without_extras_has_no_framework() -> None:
    assert not {"keras", "tensorflow", "jax", "torch"} & {
        package_name(requirement) for requirement in PROJECT["dependencies"]
    }


def test_the_all_extra_includes_every_user_extra_but_mpich_and_ocatari() -> None:
    (extras,) = re.findall(r"\[(.*)\]", EXTRAS["all"][0])
    assert set(extras.split(",")) == set(EXTRAS) - {"all", "mpich", "ocatari", "test", "interop", "docs", "lint", "dev"}


def test_constraints_include_all_tested_dependencies() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()[1:]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    constrained = {line.split("==")[0].lower() for line in lines}
    extras = ("tensorflow", "procgen", "atari", "test", "lint")
    tested = [*PROJECT["dependencies"], *(requirement for extra in extras for requirement in EXTRAS[extra])]
    assert {package_name(requirement) for requirement in tested} <= constrained, "run: make constraints"
