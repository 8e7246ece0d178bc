"""Fixtures for all tests: golden numbers, checkpoints of other programs, a browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read once, when TensorFlow is first imported

import hypothesis
import pytest
from playwright.sync_api import Browser, sync_playwright

from scripts.chromium import FLAGS, find_chromium
from tests.golden_data import NETWORKS, Golden, load_golden

REPOSITORY = Path(__file__).resolve().parents[1]

# The first call of a network compiles it, so an example's time says nothing; the same examples in every run.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(scope="session", params=NETWORKS)
def golden(request: pytest.FixtureRequest) -> Golden:
    """Each network in turn; `@pytest.mark.parametrize("golden", ["clear"], indirect=True)` chooses."""
    return load_golden(request.param)


@pytest.fixture(scope="session")
def shared_formats() -> Path:
    """Folder of checkpoints that other programs made, one sub-folder a format; too large for the repository."""
    folder = Path(os.environ.get("RL_CLARITY_FORMATS") or REPOSITORY.parent / "shared" / "formats")
    if not folder.is_dir():
        pytest.skip(f"no checkpoints of other programs in {folder}: set RL_CLARITY_FORMATS to their folder")
    return folder


@pytest.fixture(scope="session")
def chromium_browser(chromium: Path) -> Iterator[Browser]:
    """One browser for all tests: a second Playwright cannot be started in the same thread."""
    with sync_playwright() as playwright:
        arguments = [flag for flag in FLAGS if not flag.startswith("--headless")]
        browser = playwright.chromium.launch(executable_path=str(chromium), args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def chromium() -> Path:
    """Program file of a Chromium: RL_CLARITY_CHROMIUM, or the first that is found."""
    found = find_chromium()
    if found is None:
        pytest.skip("no Chromium: `make test` sets one up, RL_CLARITY_CHROMIUM names one")
    return found
