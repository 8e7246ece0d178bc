"""The tab in a real TensorBoard, and `rl-clarity serve`, in Chromium, while episodes are recorded."""

from __future__ import annotations

import functools
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, FrameLocator, Locator, Page, expect

from rl_clarity.recordings.layout import EPISODE
from rl_clarity.recordings.recorder import Recorder
from tests.explaining.recordings import explain, record
from tests.pipeline.small import REPOSITORY
from tests.recordings.episodes import make_recording, step_values
from tests.viewer.test_page import Reader

pytest.importorskip("tensorboard")
pytest.importorskip("waitress")

COMBOS = [["LEFT"], ["RIGHT"], [], ["UP"], ["FIRE"]]
LABELS = ["←", "→", "no-op", "↑", "FIRE"]
SECONDS = 60_000


class Loop:
    """A training loop that takes as many steps as a test asks for."""

    def __init__(self, directory: Path) -> None:
        self.recorder = Recorder(directory, metadata={"action_combos": COMBOS})
        self.episode = self.step = 0

    def advance(self, steps: int, *, end: bool = False) -> None:
        for i in range(steps):
            self.recorder.add(**step_values(self.episode, self.step), terminated=end and i == steps - 1)
            self.step += 1
        self.recorder._thread.submit(lambda: None).result()  # what is complete is on disk
        if end:
            self.episode, self.step = self.episode + 1, 0


@contextmanager
def process(*arguments: str) -> Iterator[str]:
    """Run a Python module that serves until it is interrupted; yields its address."""
    running = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # Processes started in the background may inherit that SIGINT is ignored.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert running.stdout is not None
    lines: list[str] = []
    try:
        for line in running.stdout:
            lines.append(line)
            if match := re.search(r"http://[^\s/]+:\d+/\S*", line):
                break
        else:
            raise AssertionError("".join(lines))
        reader = threading.Thread(target=lambda: [*map(lines.append, running.stdout or ())], daemon=True)
        reader.start()  # so that it does not wait for its output to be read
        yield match[0]
        running.send_signal(signal.SIGINT)
        assert running.wait(30) in (0, 130, -signal.SIGINT), "".join(lines)
        assert "Traceback" not in "".join(lines)
    finally:
        running.kill()
        running.wait()


@contextmanager
def opened(browser: Browser, address: str, prefix: str, **options: Any) -> Iterator[Page]:
    """A page whose messages, from what is below a prefix, and whose requests elsewhere fail the test."""
    context = browser.new_context(viewport={"width": 1366, "height": 768}, **options)
    page = context.new_page()
    messages: list[str] = []
    requests: list[str] = []
    page.on("console", lambda one: messages.append(f"{one.type}: {one.text} ({one.location['url']})"))
    page.on("pageerror", lambda error: messages.append(f"{prefix}: {error}"))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)
    yield page
    context.close()
    assert [one for one in messages if prefix in one] == []
    origin = re.match(r"https?://[^/]+", address)
    assert origin is not None
    assert [one for one in requests if not one.startswith((origin[0], "data:", "blob:"))] == []


def rows(frame: FrameLocator | Page) -> list[list[str]]:
    """Episodes of the table, newest first: run, number, length, state."""
    found = frame.get_by_test_id("episode-row").evaluate_all(
        "rows => rows.map(row => [1, 2, 5, 7].map(i => row.cells[i].innerText.trim()))"
    )
    return found


def check_live_episode(frame: FrameLocator | Page, loop: Loop) -> None:
    """The newest episode is shown, and grows; the next one appears, and does not move the selection."""
    shown = frame.get_by_test_id("episode")
    expect(shown).to_have_attribute("data-key", re.compile(f"~{loop.episode}$"), timeout=SECONDS)
    expect(shown.get_by_test_id("live")).to_be_visible()
    steps = int(shown.get_attribute("data-steps") or 0)
    key = shown.get_attribute("data-key")
    loop.advance(128)
    expect(shown).not_to_have_attribute("data-steps", str(steps), timeout=SECONDS)
    assert int(shown.get_attribute("data-steps") or 0) > steps
    loop.advance(1, end=True)
    expect(shown.get_by_test_id("live")).to_have_count(0, timeout=SECONDS)
    expect(shown).to_have_attribute("data-steps", re.compile("9$"))
    count = frame.get_by_test_id("episode-row").count()
    loop.advance(70)
    expect(frame.get_by_test_id("episode-row")).to_have_count(count + 1, timeout=SECONDS)
    assert rows(frame)[0][3] == "live"
    expect(shown).to_have_attribute("data-key", str(key))


def check_player(frame: FrameLocator | Page, episode: int) -> None:
    """Frames and numbers of a step are those that were recorded, and the player moves."""
    shown = frame.get_by_test_id("episode")
    for _ in range(3):
        frame.get_by_label("Step forward").click()
    expect(shown.get_by_test_id("frame-number")).to_have_text("4")
    values = step_values(episode, 3)
    expect(shown.get_by_test_id("action-name")).to_have_text(LABELS[values["action"]])
    expect(shown.get_by_test_id("number-reward")).to_have_text("3.00")
    canvas = shown.get_by_test_id("training-observation")
    expect(canvas).to_have_attribute("data-frame", re.compile("/3$"))
    pixel = canvas.evaluate("canvas => [...canvas.getContext('2d').getImageData(2, 1, 1, 1).data]")
    assert pixel == [*values["observation"][1, 2].tolist(), 255]
    frame.get_by_test_id("play").click()
    expect(shown.get_by_test_id("frame-number")).not_to_have_text("4")
    frame.get_by_test_id("play").click()


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that are finished: one explained, one damaged, one of a newer format."""
    directory = tmp_path_factory.mktemp("logdir")
    location = directory / "explained/plugins/rl_clarity/training"
    record(location, (70, 12), metadata={"action_combos": COMBOS})
    explain(location)
    for name in ("damaged", "newer"):
        make_recording(directory / name, (3,), name="training")
    (directory / "damaged/plugins/rl_clarity/training/episodes.bin").write_bytes(b"x" * 2 * EPISODE.itemsize)
    metadata = directory / "newer/plugins/rl_clarity/training/recording.json"
    metadata.write_text(metadata.read_text().replace('"version": 3', '"version": 4'))
    return directory


def skip_tour(frame: FrameLocator | Page) -> None:
    frame.get_by_test_id("tour-skip").click(timeout=SECONDS)


@pytest.mark.slow
@pytest.mark.browser
def test_the_tensorboard_tab_shows_episodes_while_they_are_recorded(chromium_browser: Browser, logdir: Path) -> None:
    loop = Loop(logdir / "going")
    loop.advance(100)
    prefix = "/data/plugin/rl_clarity/"
    with (
        process("tensorboard.main", "--logdir", str(logdir), "--port", "0", "--path_prefix", "/board") as address,
        opened(chromium_browser, address, prefix) as page,
    ):
        page.get_by_role("tab", name="RL CLARITY").or_(page.get_by_text("RL CLARITY")).first.click(timeout=SECONDS)
        frame = page.frame_locator("iframe")
        skip_tour(frame)
        check_live_episode(frame, loop)
        check_player(frame, 0)
        errors = " ".join(frame.get_by_test_id("run-error").all_inner_texts())
        assert "episodes.bin is damaged" in errors
        assert "has version 4; this version of rl-clarity reads versions 2 and 3" in errors
        # The state map and saliency maps of an explained episode.
        frame.get_by_label("Show explained, episode 0").click()
        expect(frame.get_by_test_id("saliency-canvas")).to_have_attribute("data-step", re.compile("."), timeout=SECONDS)
        check_state_map(page, frame, Reader(logdir / "explained"))
        check_theme(page, frame)
    loop.recorder.close()


def check_state_map(page: Page, frame: FrameLocator, reader: Reader) -> None:
    """Hover and lasso of the map, and ranges of tracks, are linked; two episodes are side by side."""
    cloud = frame.get_by_test_id("state-map")
    cloud.scroll_into_view_if_needed()
    points = reader.chunk(reader.section("state_map")["maps"][0]["chunk"])
    steps = points["frame"]
    first = points["trajectory"] == 0
    places = places_of(cloud, points)
    distances = np.hypot(*(places[:, None] - places[None]).T) + 99 * np.eye(len(places))
    alone = distances.min(0) > 6  # no other point is painted over these

    # The pointer shows the frame of a point, and a click goes there.
    index = int(np.flatnonzero(first & alone)[-1])
    hover(page, cloud, places[index])
    preview = frame.get_by_test_id("frame-preview").locator("canvas")
    expect(preview).to_have_attribute("data-frame", f"0/{steps[index]}")
    pixel = preview.evaluate("canvas => [...canvas.getContext('2d').getImageData(2, 1, 1, 1).data]")
    assert pixel == [*step_values(0, int(steps[index]))["observation"][1, 2].tolist(), 255]
    page.mouse.down()
    page.mouse.up()
    expect(frame.get_by_test_id("step-number")).to_have_text(str(steps[index] + 1))

    # A lasso around the left half marks its steps.
    middle = float(np.median(places[:, 0]))
    height = size_of(cloud)[1]
    hover(page, cloud, (2, 2))
    page.mouse.down()
    for corner in ((middle, 2), (middle, height - 2), (2, height - 2)):
        hover(page, cloud, corner)
    page.mouse.up()
    inside = first & (places[:, 0] < middle)
    for name in ("film", "value"):
        track = frame.locator(f'[data-testid=track][data-track="{name}"]')
        expect(track).to_have_attribute("data-marks", str(inside.sum()))  # every second step is on the map
    expect(frame.get_by_test_id("find-count")).to_contain_text(f"{(places[:, 0] < middle).sum()} ")
    assert bright(frame, places[alone]) == (places[:, 0] < middle)[alone].tolist()
    page.keyboard.press("Escape")

    # A range of a track makes its points bright.
    well = frame.locator('[data-testid=track][data-track="value"]').get_by_test_id("well")
    well.scroll_into_view_if_needed()
    width, height = size_of(well)
    hover(page, well, (10.5 * width / 70, height / 2))
    page.mouse.down()
    hover(page, well, (30.5 * width / 70, height / 2))
    page.mouse.up()
    expect(frame.get_by_label("First step of the range")).to_have_value("11")
    expect(frame.get_by_label("Last step of the range")).to_have_value("31")
    cloud.scroll_into_view_if_needed()
    assert bright(frame, places[alone]) == (first & (steps >= 10) & (steps <= 30))[alone].tolist()

    # Two episodes are side by side.
    frame.get_by_label("Compare explained, episode 1").check()
    shown = frame.get_by_test_id("episode")
    expect(shown).to_have_count(2)
    frame.get_by_test_id("frame-slider").fill("5")
    for number in range(2):
        canvas = shown.nth(number).get_by_test_id("training-observation")
        expect(canvas).to_have_attribute("data-frame", f"{number}/4")


def places_of(cloud: Locator, points: dict[str, np.ndarray]) -> np.ndarray:
    """Pixels (n, 2) of points on the map, whose edge is 10 pixels wide."""
    x, y = (points[key].astype(float) for key in "xy")
    width, height = size_of(cloud)
    left = 10 + (x - x.min()) / np.ptp(x) * (width - 20)
    return np.stack([left, height - 10 - (y - y.min()) / np.ptp(y) * (height - 20)], 1)


def size_of(element: Locator) -> tuple[float, float]:
    box = element.bounding_box()
    assert box is not None
    return box["width"], box["height"]


def hover(page: Page, element: Locator, place: Sequence[float] | np.ndarray) -> None:
    """Move the pointer to a place of an element; a button that is down stays down."""
    box = element.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + place[0], box["y"] + place[1])


def bright(frame: FrameLocator, places: np.ndarray) -> list[bool]:
    """Whether points of the map are opaque; those beside marked ones are faint."""
    read = "(canvas, all) => all.map((at) => canvas.getContext('2d').getImageData(...at, 1, 1).data[3])"
    opacity = frame.get_by_test_id("state-map-points").evaluate(read, places.round().astype(int).tolist())
    return [one == 255 for one in opacity]


def check_theme(page: Page, frame: FrameLocator) -> None:
    """The tab follows TensorBoard's theme."""
    root = frame.locator("html")
    expect(root).to_have_attribute("data-theme", "light")
    page.get_by_label("Menu for changing light or dark theme").click()
    page.get_by_role("menuitem", name="Dark").click()
    expect(root).to_have_attribute("data-theme", "dark")
    assert frame.locator("body").evaluate("body => getComputedStyle(body).backgroundColor") == "rgb(19, 21, 24)"


@pytest.mark.slow
@pytest.mark.browser
def test_the_serve_command_shows_the_same_page_as_tensorboard(chromium_browser: Browser, logdir: Path) -> None:
    loop = Loop(logdir / "served")
    loop.advance(100)
    with (
        process("rl_clarity", "serve", str(logdir), "--port", "0") as address,
        opened(chromium_browser, address, address) as page,
    ):
        skip_tour(page)
        check_live_episode(page, loop)
        check_player(page, 0)
    loop.recorder.close()


@pytest.mark.slow
@pytest.mark.browser
def test_an_empty_log_directory_shows_the_recorder_code_to_add(chromium_browser: Browser, tmp_path: Path) -> None:
    with (
        process("rl_clarity", "serve", str(tmp_path), "--port", "0") as address,
        opened(chromium_browser, address, address) as page,
    ):
        skip_tour(page)
        expect(page.get_by_test_id("start")).to_contain_text(f'rl_clarity.Recorder("{tmp_path}"')
        make_recording(tmp_path / "exp1", (5,), name="training")
        expect(page.get_by_test_id("episode")).to_be_visible(timeout=SECONDS)
