"""The page of recorded episodes: its table, player, tracks and state map, from files and from a server."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, expect

import rl_clarity
from rl_clarity.cli.arguments import parse_arguments
from tests.browser.drawn import SIDE, draw_frame
from tests.browser.pages import FIGURE_MARGIN, Visitor, read_canvas
from tests.browser.recording_pages import LENGTHS, RUNS, RecordingsPage, write_recordings_page
from tests.browser.recordings_server import serve_recordings
from tests.browser.test_accessibility import violations
from tests.browser.training_pages import EVERY

Open = Callable[..., Visitor]
FIRST, LAST = "exp2~50", f"{RUNS[0]}~100"
EXPLAINED = "?episode=exp2~50"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> RecordingsPage:
    return write_recordings_page(tmp_path_factory.mktemp("recordings"))


@pytest.fixture
def open_recordings(open_page: Open, recordings: RecordingsPage) -> Open:
    """`open_recordings(query)` opens the page and waits until the chosen episodes are loaded."""

    def open_at(query: str = "", directory: Path = recordings.directory, **options: object) -> Visitor:
        visitor: Visitor = open_page(directory, query, wait=False, **options)
        settle(visitor)
        return visitor

    return open_at


def settle(visitor: Visitor) -> None:
    visitor.page.wait_for_function(
        """() => {
          const chosen = window.rlClarity?.state().chosen.length;
          const rows = document.querySelectorAll('[data-testid=over-time]');
          const frames = [...document.querySelectorAll('[data-testid=episode] [data-testid=training-observation]')];
          return chosen === rows.length && frames.every((frame) => frame.dataset.frame);
        }"""
    )


def keys_shown(visitor: Visitor) -> list[str]:
    keys: list[str] = visitor.by("episode-row").evaluate_all("rows => rows.map((row) => row.dataset.key)")
    return keys


def drag(visitor: Visitor, track: str, first: int, last: int, steps: int) -> None:
    """Drag over a track of an episode that is shown as a whole."""
    well = visitor.well(track).first
    well.scroll_into_view_if_needed()
    box = well.bounding_box()
    assert box
    at = [box["x"] + (step + 0.5) * box["width"] / steps for step in (first, last)]
    visitor.page.mouse.move(at[0], box["y"] + 20)
    visitor.page.mouse.down()
    visitor.page.mouse.move(at[1], box["y"] + 22, steps=3)
    visitor.page.mouse.up()


def test_the_newest_episode_is_selected_at_first(open_recordings: Open) -> None:
    visitor = open_recordings()
    assert visitor.state()["chosen"] == [LAST]
    assert keys_shown(visitor) == [LAST, "exp2~50", f"{RUNS[0]}~50", "exp2~0", f"{RUNS[0]}~0"]
    assert visitor.by("episode").get_attribute("data-steps") == str(LENGTHS[0][2])


def test_the_episode_table_can_be_sorted_and_filtered(open_recordings: Open) -> None:
    visitor = open_recordings()
    visitor.click("sort-length")
    lengths = [90, 70, 60, 50, 40]
    assert visitor.by("episode-row").evaluate_all("rows => rows.map((row) => +row.cells[5].textContent)") == lengths
    visitor.click("sort-length")
    assert keys_shown(visitor)[0] == f"{RUNS[0]}~0"
    visitor.by("filter").fill("^exp")
    assert keys_shown(visitor) == ["exp2~0", "exp2~50"]
    assert visitor.text("episode-count") == "2 of 5"
    visitor.by("filter").fill("exp(")
    assert visitor.by("filter").get_attribute("aria-invalid") == "true"
    visitor.by("filter").fill("")
    visitor.click("filter-columns")
    visitor.by("filter-length").fill("60..80")
    visitor.by("filter-episode").fill("> 60")
    assert keys_shown(visitor) == [LAST]


def test_checked_episodes_are_shown_side_by_side(open_recordings: Open) -> None:
    visitor = open_recordings()
    visitor.by("episode-row").nth(1).get_by_test_id("compare").check()
    settle(visitor)
    assert visitor.state()["chosen"] == [LAST, "exp2~50"]
    expect(visitor.by("episode")).to_have_count(2)
    visitor.by("frame-slider").fill("65")
    texts = visitor.by("episode").get_by_test_id("frame-number").all_inner_texts()
    assert texts == ["65", "60"], "the shorter one stays at its end"
    visitor.by("sync").select_option("progress")
    assert visitor.by("episode").nth(1).get_by_test_id("frame-number").inner_text() == "56"
    visitor.page.wait_for_url("**episode=exp2%7E50*")
    for _ in range(3):
        visitor.page.get_by_role("button", name="Undo").click()
    assert visitor.state()["chosen"] == [LAST]
    visitor.by("episode-row").nth(2).click()
    assert visitor.state()["chosen"] == [f"{RUNS[0]}~50"]


def test_displayed_numbers_of_a_step_equal_those_computed_by_numpy(
    open_recordings: Open, recordings: RecordingsPage
) -> None:
    visitor = open_recordings(f"{EXPLAINED}&step=31")
    series, t = recordings.series[1][1], 30
    probabilities = series["probabilities"][t].astype(float)
    expected = {
        "reward": series["rewards"][t], "return": series["rewards"][: t + 1].sum(), "value": series["values"][t],
        "advantage": series["advantages"][t], "entropy": -(probabilities * np.log(probabilities)).sum(),
    }  # fmt: skip
    for name, number in expected.items():
        shown = float(visitor.text(f"number-{name}").replace("\u2212", "-"))
        np.testing.assert_allclose(shown, number, rtol=1e-3, err_msg=name)
    action = int(series["actions"][t])
    assert visitor.by("action").get_attribute("data-action") == str(action)
    assert visitor.text("action-name") == ("no-op", "←", "→", "A")[action]
    expect(visitor.by("policy-list").locator("li")).to_have_count(4)


def test_displayed_frames_and_maps_equal_those_computed_by_numpy(
    open_recordings: Open, recordings: RecordingsPage
) -> None:
    visitor = open_recordings(f"{EXPLAINED}&step=22&scale=frame&overlay=policy")
    frame = visitor.by("episode").get_by_test_id("training-observation")
    assert frame.get_attribute("data-frame") == "1/21"
    np.testing.assert_array_equal(read_canvas(frame)[..., :3], draw_frame(1, 21))
    canvas = visitor.by("episode").get_by_test_id("saliency-canvas")
    assert canvas.get_attribute("data-step") == str(21 - 21 % EVERY)
    codes = recordings.maps[1][1]["policy"][21 // EVERY]
    np.testing.assert_allclose(read_canvas(canvas)[2::4, 2::4, 3], codes, atol=40)
    visitor.press("o")
    assert visitor.state()["shows"] == "frame"
    assert read_canvas(canvas).max() == 0
    visitor.press("o")
    expect(frame, "maps alone").to_have_count(0)
    np.testing.assert_allclose(read_canvas(canvas)[2::4, 2::4, 3], codes, atol=40)


def test_dragging_over_a_track_selects_a_range_of_steps(open_recordings: Open) -> None:
    visitor = open_recordings(EXPLAINED)
    drag(visitor, "value", 10, 25, steps=60)
    assert visitor.state()["range"] == [10, 25]
    for track in ("film", "return", "policy"):
        assert visitor.track(track).get_attribute("data-marks") == "1"
    visitor.page.wait_for_url("**range=11-26*")
    visitor.press("f")
    assert visitor.text("find-count") == "16 steps are marked:"
    visitor.page.wait_for_selector('[data-testid=find-results] canvas[data-frame="1/12"]')
    visitor.by("find-results").get_by_role("button").nth(2).click()
    assert visitor.state()["step"] == 12
    visitor.by("range").get_by_label("Last step of the range").fill("40")
    visitor.press("Enter", "Escape")
    assert visitor.state()["range"] == [10, 39]
    visitor.click("clear-range")
    assert visitor.track("value").get_attribute("data-marks") == "0"


def test_the_search_finds_steps_by_a_condition(open_recordings: Open, recordings: RecordingsPage) -> None:
    visitor = open_recordings(EXPLAINED)
    rewarded = np.flatnonzero(recordings.series[1][1]["rewards"] != 0)
    visitor.press("f")
    visitor.by("find-go").focus()
    visitor.press("Enter")
    assert visitor.text("find-count").startswith(f"{len(rewarded)} step")
    visitor.page.wait_for_url("**find=reward%7Enot%7E0*")
    runs = 1 + int((np.diff(rewarded) > 1).sum())
    for track in ("film", "value", "policy"):
        assert visitor.track(track).get_attribute("data-marks") == str(runs)
    visitor.press("Escape", "g")
    assert visitor.state()["step"] == rewarded[0]
    visitor.press("g", "g", "G")
    assert visitor.state()["step"] == rewarded[1]
    assert visitor.text("find-place") == f"2 of {len(rewarded)} found"
    visitor.click("find-next")
    assert visitor.state()["step"] == rewarded[2]
    visitor.page.get_by_test_id("find-steps").get_by_test_id("find-clear").click()
    assert visitor.track("value").get_attribute("data-marks") == "0"
    visitor.page.get_by_role("button", name="Undo").click()
    assert visitor.track("value").get_attribute("data-marks") == str(runs), "undo"


def test_a_search_with_several_conditions_is_kept_in_the_address(
    open_recordings: Open, recordings: RecordingsPage
) -> None:
    series = recordings.series[1][1]
    shares = series["probabilities"]
    entropy = -(shares * np.log(shares.clip(1e-30))).sum(1)
    limit = float(np.round(np.median(entropy), 3))
    steps = np.flatnonzero((series["actions"] == 1) & (entropy > limit))
    assert 0 < len(steps) < len(entropy)
    visitor = open_recordings(f"{EXPLAINED}&find=action~1,entropy~above~{limit}")
    assert visitor.text("find-place").split()[-2:] == [str(len(steps)), "found"]
    visitor.press("f")
    expect(visitor.by("find-kind")).to_have_count(2)
    assert visitor.by("find-action").input_value() == "1"
    visitor.by("find-kind").last.select_option("end")
    visitor.by("find-kind").first.select_option("end")
    visitor.click("find-go")
    assert visitor.text("find-count") == "1 step is marked:"
    drag(visitor, "value", 10, 25, steps=60)
    assert visitor.state()["find"] is None, "a range replaces the search"


def test_clicking_a_track_goes_to_that_step(open_recordings: Open) -> None:
    visitor = open_recordings(EXPLAINED)
    drag(visitor, "advantage", 33, 33, steps=60)
    assert visitor.state()["step"] == 33
    assert visitor.state()["range"] is None


def test_every_control_has_a_key(open_recordings: Open) -> None:
    visitor = open_recordings(f"{EXPLAINED}&step=1")
    visitor.press(".", "ArrowRight")
    assert visitor.state()["step"] == 11
    visitor.by("jump").fill("25")
    visitor.press("Enter")
    visitor.page.keyboard.press("Tab")
    visitor.press("b", ".", "b", ",")
    state = visitor.state()
    assert (state["step"], state["range"]) == (11, [11, 36])
    visitor.press("b", "]")
    state = visitor.state()
    assert (state["range"], state["chosen"]) == (None, [f"{RUNS[0]}~50"])
    visitor.press("[")
    assert visitor.state()["chosen"] == ["exp2~50"]


def test_recorded_info_values_can_be_shown_as_tracks(open_recordings: Open) -> None:
    visitor = open_recordings(f"{EXPLAINED}&step=60")
    visitor.click("tracks")
    visitor.by("track-info.lives").check()
    visitor.by("track-entropy").check()
    visitor.by("track-advantage").uncheck()
    assert visitor.track("info.lives").locator(".value").inner_text() == "0"
    expect(visitor.track("entropy")).to_have_count(1)
    expect(visitor.track("advantage")).to_have_count(0)
    visitor.page.wait_for_url("**tracks=film%2Creturn%2Cvalue%2Cpolicy%2Cinfo.lives%2Centropy*")


def test_exports_of_recordings_contain_the_selected_data(open_recordings: Open, recordings: RecordingsPage) -> None:
    visitor = open_recordings(f"{EXPLAINED}&episode={LAST}&step=22&range=11-12")
    visitor.by("filter").fill("exp2")
    visitor.click("open-export")

    def rows(name: str) -> list[dict[str, str]]:
        with visitor.saved(f"export-{name}").open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    steps, series = rows("csv"), recordings.series[1][1]
    assert len(steps) == LENGTHS[1][1] + LENGTHS[0][2]
    assert [(row["run"], row["episode"], row["step"]) for row in steps[59:61]] == [
        ("exp2", "50", "60"),
        (RUNS[0], "100", "1"),
    ]
    assert [row["marked"] for row in steps[9:13]] == ["0", "1", "1", "0"]
    for column, values in {
        "reward": series["rewards"], "return so far": np.cumsum(series["rewards"]), "value": series["values"],
        "lives": series["info.lives"], "probability of ←": series["probabilities"][:, 1],
    }.items():  # fmt: skip
        np.testing.assert_allclose([float(row[column]) for row in steps[:60]], values, rtol=1e-6, err_msg=column)
    assert [row["episode"] for row in rows("table")] == ["50", "0"], "as filtered and sorted"
    arrays = np.load(visitor.saved("export-npz"))
    np.testing.assert_array_equal(arrays["exp2~50/advantages"], series["advantages"])
    np.testing.assert_array_equal(arrays["exp2~50/maps/codes.value"], recordings.maps[1][1]["value"])
    image = np.asarray(Image.open(visitor.saved("export-png")).convert("RGB"))
    assert image.shape[1] > 2 * 4 * SIDE
    top = FIGURE_MARGIN + 19 + 14 + 2 * 19  # below the caption and the episode's name and step
    shown = image[top + 2 : top + 4 * SIDE : 4, FIGURE_MARGIN + 2 : FIGURE_MARGIN + 4 * SIDE : 4].astype(int)
    assert (np.abs(shown - draw_frame(1, 21)).max(-1) == 0).mean() > 0.2, "the frame, where the maps show nothing"
    for name in ("svg", "tracks"):
        assert ElementTree.parse(visitor.saved(f"export-{name}")).getroot().tag.endswith("svg")
    visitor.by("export-from").fill("20")
    visitor.by("export-to").fill("22")
    assert getattr(Image.open(visitor.saved("export-apng")), "n_frames", 0) == 3


def test_looped_playback_restarts_at_the_end(open_recordings: Open) -> None:
    visitor = open_recordings(f"{EXPLAINED}&step=58")
    visitor.click("loop")
    visitor.click("play")
    visitor.page.wait_for_function("() => rlClarity.state().step < 20")
    visitor.click("play")


@pytest.mark.slow
def test_a_table_of_50000_episodes_draws_only_visible_rows(open_recordings: Open, tmp_path: Path) -> None:
    def many(manifest: dict[str, Any]) -> None:
        listing = manifest["sections"][0]["data"]
        first = listing["episodes"][0]
        listing["episodes"] = [{**first, "episode": k, "time": k, "return": k % 977} for k in range(50_000)]

    write_recordings_page(tmp_path, ((20,),), edit=many)
    visitor = open_recordings("", tmp_path)
    assert visitor.state()["chosen"] == [f"{RUNS[0]}~49999"]
    assert visitor.by("episode-row").count() < 60
    visitor.by("episodes-table").evaluate("box => (box.scrollTop = 25000 * 28)")
    visitor.page.wait_for_selector(f'[data-key="{RUNS[0]}~24999"]')
    assert visitor.by("episode-row").count() < 60
    visitor.by("filter").fill("976")
    visitor.click("sort-return")
    assert 0 < visitor.by("episode-row").count() < 60


def test_damaged_or_newer_recordings_are_reported_and_others_work(open_page: Open, tmp_path: Path) -> None:
    def damage(manifest: dict[str, Any]) -> None:
        listing = manifest["sections"][0]["data"]
        listing["runs"][1]["error"] = "exp2 has version 9: update rl-clarity"
        listing["episodes"][1]["error"] = "block 3 is damaged"
        listing["episodes"] = listing["episodes"][:3]

    write_recordings_page(tmp_path, edit=damage)
    visitor = open_page(tmp_path, f"?episode={RUNS[0]}~50", wait=False)
    assert visitor.text("data-error").startswith("block 3 is damaged")
    assert visitor.text("run-error") == "exp2: exp2 has version 9: update rl-clarity"
    visitor.by("episode-row").first.click()
    settle(visitor)
    expect(visitor.by("track")).to_have_count(5)


def test_a_page_without_episodes_shows_the_code_to_add_to_the_loop(open_page: Open, tmp_path: Path) -> None:
    def empty(manifest: dict[str, Any]) -> None:
        listing = manifest["sections"][0]["data"]
        listing |= {"runs": [], "episodes": [], "logdir": "/data/my runs"}
        manifest |= {"sections": manifest["sections"][:1], "agents": [], "recordings": []}

    write_recordings_page(tmp_path, edit=empty)
    visitor = open_page(tmp_path, wait=False, viewport={"width": 1000, "height": 600})
    code = visitor.by("command").first.inner_text()
    assert 'rl_clarity.Recorder("/data/my runs", every=50)' in code
    compile(code, "loop", "exec")
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 1000


def test_the_explain_command_to_copy_has_the_options_of_the_run(open_page: Open, tmp_path: Path) -> None:
    def in_directory(manifest: dict[str, Any]) -> None:
        manifest["sections"][0]["data"]["logdir"] = "/data/my runs"

    write_recordings_page(tmp_path, edit=in_directory)
    visitor = open_page(tmp_path, f"?episode={LAST}", wait=False, permissions=["clipboard-read", "clipboard-write"])
    visitor.by("not-explained").get_by_role("button", name="Copy").click()
    copied = shlex.split(visitor.page.evaluate("navigator.clipboard.readText()"))
    assert copied[:3] == ["rl-clarity", "explain", "/data/my runs"]
    assert copied[3:] == ["--methods", "perturbation", "--every", str(EVERY), "--embeddings", "tsne"]
    assert copied == shlex.split(visitor.by("not-explained").get_by_test_id("command").inner_text())
    parse_arguments(copied[1:])


def test_selections_in_the_state_map_and_the_tracks_are_linked(
    open_recordings: Open, recordings: RecordingsPage
) -> None:
    visitor = open_recordings(EXPLAINED, viewport={"width": 1366, "height": 1400})
    cloud = visitor.by("state-map")
    cloud.scroll_into_view_if_needed()
    box = cloud.bounding_box()
    assert box
    points = recordings.points[1]
    x, y = points["x"].astype(float), points["y"].astype(float)
    place = np.stack([
        box["x"] + 10 + (x - x.min()) / np.ptp(x) * (box["width"] - 20),
        box["y"] + box["height"] - 10 - (y - y.min()) / np.ptp(y) * (box["height"] - 20),
    ], 1)  # fmt: skip
    middle = int(np.flatnonzero((points["trajectory"] == 0) & (points["frame"] == 25))[0])
    visitor.page.mouse.move(*place[middle])
    visitor.by("frame-preview").wait_for()
    visitor.page.mouse.click(*place[middle])
    settle(visitor)
    assert visitor.state()["chosen"] == ["exp2~0"]
    assert abs(visitor.state()["step"] - 25) <= 1
    low, high = place[:20].min(0) - 8, place[:20].max(0) + 8
    visitor.page.mouse.move(*low)
    visitor.page.mouse.down()
    for corner in ((high[0], low[1]), (high[0], high[1]), (low[0], high[1]), tuple(low)):
        visitor.page.mouse.move(*corner, steps=4)
    visitor.page.mouse.up()
    visitor.by("find-results").wait_for()
    inside = ((place >= low) & (place <= high)).all(1).sum()
    count = int(visitor.text("find-count").split()[0])
    assert abs(count - inside) <= 1
    assert visitor.track("value").get_attribute("data-marks") == "1"
    visitor.press("Escape", "z")
    assert visitor.track("value").get_attribute("data-marks") == "0", "undo"


def test_the_state_map_is_not_redrawn_as_playback_advances(open_recordings: Open, recordings: RecordingsPage) -> None:
    visitor = open_recordings(EXPLAINED)
    visitor.by("map-color").select_option("action")
    visitor.page.evaluate(
        """() => {
          const { putImageData } = CanvasRenderingContext2D.prototype;
          window.painted = 0;
          CanvasRenderingContext2D.prototype.putImageData = function (...all) {
            if (this.canvas.dataset.testid === "state-map-points") window.painted += 1;
            putImageData.apply(this, all);
          };
        }"""
    )
    visitor.press("ArrowRight", "ArrowRight")
    here = np.flatnonzero((recordings.points[1]["trajectory"] == 1) & (recordings.points[1]["frame"] == 2))
    visitor.page.wait_for_selector(f'[data-testid=state-map][data-here="{here[0]}"]')
    assert visitor.by("map-color").input_value() == "action"
    visitor.by("state-map").hover(position={"x": 12, "y": 12})
    assert visitor.page.evaluate("window.painted") == 0
    visitor.by("map-color").select_option("value")
    assert visitor.page.evaluate("window.painted") == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_recordings_passes_axe(open_recordings: Open, axe: str, scheme: str) -> None:
    visitor = open_recordings(f"{EXPLAINED}&episode={RUNS[0]}~50&range=5-9", color_scheme=scheme)
    assert violations(visitor, axe) == []
    for key in ("f", "n", "t", "?"):
        visitor.press(key)
        visitor.by("drawer").wait_for()
        assert violations(visitor, axe) == [], f"with the panel of {key}"


@pytest.mark.parametrize("width", [1000, 390])
def test_the_page_of_recordings_never_scrolls_sideways(open_recordings: Open, width: int) -> None:
    visitor = open_recordings(EXPLAINED, viewport={"width": width, "height": 600})
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width


def play(recorder: rl_clarity.Recorder, steps: int, *, end: bool = True) -> None:
    """Record steps of an episode whose frames have the number of the step as their color."""
    for t in range(steps):
        recorder.add(
            observation=np.full((16, 16, 3), t, np.uint8), action=t % 3, reward=1.0,
            terminated=end and t == steps - 1, truncated=False, frame=np.full((16, 16, 3), t, np.uint8),
            logits=np.array([0.0, 1.0, 2.0], np.float32), value=float(t), training_step=t,
        )  # fmt: skip


ORDER = """
new MutationObserver(() => {
  const canvas = document.querySelector("[data-testid=training-observation]");
  const isListed = document.querySelector("[data-testid=episode-row], [data-testid=returns-chart]");
  if (isListed) window.frameAtList ??= canvas?.dataset.frame ?? "none";
}).observe(document, { childList: true, subtree: true });
"""
"""Notes which frame is drawn when the list of episodes or a panel below the player appears."""


def test_the_first_frame_is_loaded_before_the_list_and_other_panels(chromium_browser: Browser, tmp_path: Path) -> None:
    metadata = {"action_combos": [["LEFT"], ["RIGHT"], ["FIRE"]]}
    with rl_clarity.Recorder(tmp_path / "exp1", metadata=metadata) as recorder:
        for _ in range(3):
            play(recorder, 12)
    with serve_recordings(tmp_path) as server:
        page, asked = chromium_browser.new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        page.add_init_script(ORDER)
        page.goto(server.address)
        page.wait_for_selector("[data-testid=episode-row]")
        assert page.evaluate("frameAtList") == "2/0"
        page.wait_for_selector("[data-testid=returns-chart]")
        kinds = [re.split(r"[-.]", address.rpartition("/")[2])[0] for address in asked]
        assert kinds[5] == "entry"
        assert sorted(kinds[6:8]) == ["frames", "series"], "what the first frame needs comes first"
        assert kinds[8:] == ["scrub"]
        page.close()


def test_a_served_page_updates_running_episodes_and_adds_new_ones(chromium_browser: Browser, tmp_path: Path) -> None:
    with serve_recordings(tmp_path) as server:
        context = chromium_browser.new_context(viewport={"width": 1366, "height": 768})
        page, asked = context.new_page(), []
        context.on("request", lambda request: asked.append(request.url))
        visitor = Visitor(page, tmp_path)
        page.goto(server.address + "?token=kept")
        visitor.by("tour-skip").click()
        assert str(tmp_path) in visitor.text("start"), "nothing is recorded yet"
        metadata = {"action_combos": [["LEFT"], ["RIGHT"], ["FIRE"]]}
        with rl_clarity.Recorder(tmp_path / "exp1", metadata=metadata) as recorder:
            play(recorder, 70, end=False)
            page.wait_for_selector("[data-testid=live]")
            settle(visitor)
            before = int(visitor.by("episode").get_attribute("data-steps") or 0)
            assert 32 <= before <= 70
            visitor.by("frame-slider").fill("31")
            assert read_canvas(visitor.by("training-observation"))[0, 0, 0] == 30
            assert "rl-clarity explain" in visitor.text("not-explained")
            play(recorder, 80)
            page.wait_for_selector('[data-testid=episode][data-steps="150"]')
            assert visitor.state()["step"] == 30
            expect(visitor.by("live"), "it has ended").to_have_count(0)
            play(recorder, 12)
        page.wait_for_function("() => rlClarity.episodes().length === 2")
        state = visitor.state()
        assert (state["chosen"], state["step"]) == (["exp1~0"], 30), "new ones do not move the selection"
        assert page.url.startswith(f"{server.address}?token=kept#"), "the server's part of the address stays"
        visitor.by("episode-row").first.click()
        page.wait_for_selector('[data-testid=episode][data-steps="12"]')
        with page.expect_response(lambda answer: "manifest.json?since=" in answer.url and answer.status == 304):
            pass
        assert visitor.messages == []
        assert all(url.startswith((server.address, "data:", "blob:")) for url in asked)
        server.gone = True
        visitor.by("server-gone").wait_for()
        assert visitor.by("episode").get_attribute("data-steps") == "12", "what is loaded stays"
        server.gone = False
        visitor.by("server-gone").wait_for(state="detached")
        context.close()
