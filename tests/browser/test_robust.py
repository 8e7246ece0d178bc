"""Missing and damaged files, hostile names, incomplete pages, a page of one file."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from rl_clarity.pages.document import read_manifest
from rl_clarity.pages.manifest import section_data
from tests.browser.pages import Visitor, read_canvas
from tests.browser.synthetic import Size, write_synthetic_page

Open = Callable[..., Visitor]
HOSTILE = """</script><img src=x onerror="document.title='broken'">'"&amp; \u202eסוף\u2028 🪙"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, small_size: Size) -> Path:
    """A page that tests do not change."""
    directory = tmp_path_factory.mktemp("whole")
    write_synthetic_page(directory, small_size)
    return directory


@pytest.fixture
def small(whole: Path, tmp_path: Path) -> Path:
    """A copy that a test damages."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_missing_data_chunk_is_named_and_other_panels_work(small: Path, open_page: Open) -> None:
    (small / "attribution/2a/1/value-1.js").unlink()
    visitor = open_page(small, wait=False, expect_messages=True)
    error = visitor.by("data-error").first
    error.wait_for()
    assert "attribution/2a/1/value-1.js is missing" in error.inner_text()
    expect(visitor.by("decomposition")).to_be_visible()
    visitor.click("layer-3a")
    visitor.settle()
    assert visitor.attribution("pos").max() > 0
    expect(visitor.by("data-error")).to_have_count(0)


def test_loading_a_missing_data_chunk_can_be_retried(small: Path, open_page: Open) -> None:
    chunk = small / "attribution/2a/1/value-1.js"
    kept = chunk.read_bytes()
    chunk.unlink()
    visitor = open_page(small, wait=False, expect_messages=True)
    visitor.by("data-error").first.wait_for()
    chunk.write_bytes(kept)
    visitor.page.get_by_role("button", name="Try again").click()
    visitor.page.mouse.move(5, 700)  # a bar comes to lie under the pointer, and isolates
    assert visitor.attribution("pos").max() > 0


@pytest.mark.parametrize("damage", ["cut", "garbled", "empty"])
def test_a_damaged_data_chunk_is_named_in_an_error(small: Path, open_page: Open, damage: str) -> None:
    chunk = small / "attribution/2a/1/value-1.js"
    text = chunk.read_text()
    payload = text.rindex(', "') + 3
    broken = {"cut": text[:-200], "garbled": text[:payload] + "AAAA" + text[payload + 4 :], "empty": ""}[damage]
    chunk.write_text(broken)
    visitor = open_page(small, wait=False, expect_messages=True)
    visitor.by("data-error").first.wait_for()
    assert "attribution/2a/1/value-1.js is damaged" in visitor.text("data-error")
    assert visitor.text("next-action") != "–"


@pytest.mark.parametrize("damage", ["cut", "empty"])
@pytest.mark.parametrize("kind", ["film", "atlas"])
def test_a_damaged_image_is_named_in_an_error(small: Path, open_page: Open, kind: str, damage: str) -> None:
    manifest = read_manifest((small / "interface.html").read_bytes())
    film = section_data(manifest, "trajectories")["trajectories"][0]["scrub"][0]
    name = film if kind == "film" else section_data(manifest, "features")["observations"]["images"][0]
    content = (small / name).read_bytes()
    (small / name).write_bytes(content[: len(content) // 2] if damage == "cut" else b"")
    visitor = open_page(small, "" if kind == "film" else "?feature=1", wait=False, expect_messages=True)
    alert = visitor.by("failed-images")
    alert.wait_for()
    assert f"An image is missing or damaged: {name}." in " ".join(alert.inner_text().split())


def test_missing_frames_and_series_are_named_in_errors(small: Path, open_page: Open) -> None:
    (small / "trajectories/1/frames-1.js").unlink()
    (small / "trajectories/1/series.js").unlink()
    visitor = open_page(small, wait=False, expect_messages=True)
    visitor.page.wait_for_function("() => document.querySelectorAll('[data-testid=data-error]').length >= 3")
    errors = " ".join(visitor.by("data-error").all_inner_texts())
    assert "trajectories/1/frames-1.js is missing" in errors
    assert "trajectories/1/series.js is missing" in errors
    assert visitor.overlay("pos").get_attribute("data-state") == "ready"


def test_a_copied_html_file_without_its_data_names_the_missing_files(
    small: Path, open_page: Open, tmp_path: Path
) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(small / "interface.html", alone)
    visitor = open_page(alone, wait=False, expect_messages=True)
    message = visitor.by("data-error").filter(visible=True).first  # small images hide it
    message.wait_for()
    assert "is missing" in message.inner_text()
    expect(visitor.page.get_by_role("heading", name="CoinRun")).to_be_visible()


def test_an_incomplete_page_shows_a_message(tmp_path: Path, small_size: Size, open_page: Open) -> None:
    from rl_clarity.jobs.directory import LocalDirectory
    from rl_clarity.pages.document import write_page

    manifest = write_synthetic_page(tmp_path, small_size)
    (tmp_path / "attribution/2a/1/value-1.js").unlink()
    write_page(LocalDirectory(tmp_path), manifest)
    visitor = open_page(tmp_path, wait=False)
    visitor.by("data-error").first.wait_for()
    assert "attribution/2a/1/value-1.js is not computed yet" in visitor.text("data-error")
    assert "unfinished" in visitor.page.get_by_role("note").inner_text()


def test_hostile_names_show_as_text(tmp_path: Path, small_size: Size, open_page: Open) -> None:
    def edit(manifest: dict[str, Any]) -> None:
        manifest["title"] = manifest["recordings"][0]["env_name"] = HOSTILE
        manifest["provenance"] = [{"group": HOSTILE, "items": [[HOSTILE, HOSTILE]]}]
        attribution = section_data(manifest, "attribution")
        for labelled in (*manifest["agents"][0]["actions"], *attribution["outputs"]):
            labelled["label"] = HOSTILE
        for layer in attribution["layers"]:
            layer["name"] += f" {HOSTILE}"
        hostile = {"kind": HOSTILE, "title": HOSTILE, "notes": [{"title": HOSTILE, "text": HOSTILE}], "data": {}}
        manifest["sections"].append(hostile)

    write_synthetic_page(tmp_path / "hostile", small_size, edit=edit)
    visitor = open_page(tmp_path / "hostile", "?frame=3")
    assert visitor.page.title() != "broken"
    assert visitor.page.locator("h1").text_content() == HOSTILE
    assert visitor.by("next-action").text_content() == HOSTILE
    visitor.press("t")
    visitor.by("provenance").wait_for()
    visitor.press("f", "e", "n")
    expect(visitor.page.locator("img[src=x]")).to_have_count(0)
    visitor.page.evaluate("rlClarity.select({ layer: 1 })")
    visitor.page.wait_for_url("**layer=3a**")
    visitor.page.reload()
    visitor.settle()
    assert visitor.state()["layer"] == 1


def test_the_security_policy_blocks_all_network_connections(small: Path) -> None:
    policy = re.search(
        r'http-equiv="Content-Security-Policy" content="([^"]*)"', (small / "interface.html").read_text()
    )
    assert policy
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'none'" in policy[1]
    assert "unsafe-eval" not in policy[1]


def test_a_single_file_page_works_without_data_files(tmp_path: Path, small_size: Size, open_page: Open) -> None:
    write_synthetic_page(tmp_path, small_size, single_file=True)
    shutil.rmtree(tmp_path / "data")
    assert [path.name for path in tmp_path.iterdir()] == ["interface.html"]
    visitor = open_page(tmp_path, "?frame=3")
    assert visitor.attribution("pos").max() > 0
    assert np.ptp(read_canvas(visitor.by("observation-canvas"))) > 50
    widths = visitor.page.locator("[data-testid^=legend-] img").evaluate_all("all => all.map(i => i.naturalWidth)")
    assert all(width > 0 for width in widths)
    visitor.by("legend-1").locator(".card").click()
    visitor.click("tab-place")
    visitor.page.wait_for_selector('[data-testid=feature-grid][data-loaded="1"]')


@pytest.mark.parametrize("manifest", ["none", "another format", "no trajectories"])
def test_an_html_file_without_a_valid_manifest_shows_an_error(small: Path, open_page: Open, manifest: str) -> None:
    document = small / "interface.html"
    text = document.read_text()
    if manifest == "none":
        text = text.replace('id="manifest"', 'id="lost"')
    elif manifest == "another format":
        text = re.sub(r'"version":\s*2\b', '"version":99', text)
    else:
        text = re.sub(r'"trajectories":\[.*?\],"bookmarks"', '"trajectories":[],"bookmarks"', text)
    document.write_text(text)
    visitor = open_page(small, wait=False)
    assert visitor.page.get_by_role("alert").inner_text() != ""


def test_the_page_of_a_q_value_agent_shows_action_values(tmp_path: Path, small_size: Size, open_page: Open) -> None:
    """No value function, no probabilities: the page shows the values of actions instead."""
    manifest = write_synthetic_page(tmp_path, small_size)
    from rl_clarity.pages.chunks import encode_chunk
    from tests.browser.synthetic import read_chunk

    name = section_data(manifest, "trajectories")["trajectories"][0]["series"]
    arrays = {key: value for key, value in read_chunk(tmp_path, name).items() if key not in ("values", "probabilities")}
    (tmp_path / name).write_bytes(encode_chunk(name, arrays).script())
    visitor = open_page(tmp_path, "?frame=3&rows=action-7")
    expect(visitor.by("policy").get_by_role("listitem")).to_have_count(len(manifest["agents"][0]["actions"]))
    expect(visitor.track("action-7")).to_have_count(1)
    expect(visitor.page.get_by_label("probabilities over time")).to_have_count(0)
