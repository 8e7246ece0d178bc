"""Fixtures for all tests: golden numbers, checkpoints of other programs, a browser."""

from __future__ import annotations

import itertools
import os
import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read once, when TensorFlow is first imported
# Tests compile many small functions and call each a few times: optimizing them takes most of the time.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# Threads of PyTorch wait for each other by spinning: where workers have more of them than cores, tests take three times
# as long.
if (WORKERS := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))) > 1:
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // WORKERS)))

import hypothesis
import numpy as np
import pytest
from playwright.sync_api import Browser, sync_playwright

from rl_clarity.jobs import forecast
from rl_clarity.recordings.equivalence import find_equivalent_actions
from rl_clarity.sources import checkpoint as source
from scripts.chromium import FLAGS, find_chromium
from tests.golden_data import NETWORKS, Golden, load_golden

REPOSITORY = Path(__file__).resolve().parents[1]
MEASURE = forecast._measure
TORCH_SEED = 67280421310721
"""The one that PyTorch starts with, so that tests which import it first see the same numbers."""

# The first call of a network compiles it, so deadlines are meaningless; every run uses the same examples.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeatable")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Seed the global generators, so that new networks do not depend on the tests that ran before."""
    random.seed(0)
    np.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(TORCH_SEED)


@pytest.fixture(scope="session", autouse=True)
def _few_trials() -> Iterator[None]:
    """Compare actions in few states, since this takes most of the time of a small run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "find_equivalent_actions", partial(find_equivalent_actions, states=8))
        yield


@pytest.fixture(scope="session", autouse=True)
def _unsynchronized_files() -> Iterator[None]:
    """Do not wait for the disk: only a power failure would show the difference. Closed files are still errors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="session", autouse=True)
def _unmeasured_forecasts() -> Iterator[None]:
    """Forecasts cost nothing: measuring takes a third of a small run. `measured_forecasts` undoes this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forecast, "_measure", lambda *task: forecast.Cost())
        yield


@pytest.fixture
def measured_forecasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure pieces of tasks, as users' forecasts do."""
    monkeypatch.setattr(forecast, "_measure", MEASURE)


@pytest.fixture
def even_clock(measured_forecasts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every measured piece of work takes a second, whatever else the machine does."""
    clock = SimpleNamespace(perf_counter=itertools.count().__next__)
    for module in ("jobs.forecast", "sources.preview"):
        monkeypatch.setattr(f"rl_clarity.{module}.time", clock)


@pytest.fixture(scope="session", params=NETWORKS)
def golden(request: pytest.FixtureRequest) -> Golden:
    """Run a test for every network; `@pytest.mark.parametrize("golden", ["clear"], indirect=True)` selects some."""
    return load_golden(request.param)


@pytest.fixture(scope="session")
def shared_formats() -> Path:
    """Folder of checkpoints from other programs, a subfolder for each format; too large for the repository."""
    folder = Path(os.environ.get("RL_CLARITY_FORMATS") or REPOSITORY.parent / "shared" / "formats")
    if not folder.is_dir():
        pytest.skip(f"no checkpoints of other programs in {folder}: set RL_CLARITY_FORMATS to their folder")
    return folder


@pytest.fixture(scope="session")
def chromium_browser(chromium: Path) -> Iterator[Browser]:
    """One browser for all tests, because Playwright cannot be started twice in a thread."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def chromium() -> Path:
    """Path of Chromium: RL_CLARITY_CHROMIUM, or the first one found."""
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium: `make test` sets one up, RL_CLARITY_CHROMIUM names one")
    return path
