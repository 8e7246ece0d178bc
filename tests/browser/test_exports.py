"""What the page shows, what it saves, what `rl-clarity export` writes and what `open_results` gives are the same."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from rl_clarity.cli import main
from rl_clarity.pages.results import open_results
from tests.browser.generated import Generated
from tests.browser.pages import TOLERANCE, Visitor, close, expected_image, read_canvas

Open = Callable[..., Visitor]
SIDE, GAP = 256, 4
SVG = "{http://www.w3.org/2000/svg}"
FIRST, LAST = 30, 34
HEAD, FOOT = 40, 22
_FIRST_FRAME = """async (uri) => {
  const video = Object.assign(document.createElement("video"), { src: uri, muted: true });
  await new Promise((resolve, reject) => Object.assign(video, { oncanplay: resolve, onerror: reject }));
  const { videoWidth: width, videoHeight: height } = video;
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  canvas.getContext("2d").drawImage(video, 0, 0);
  return canvas.toDataURL().split(",")[1];
}"""
_TEXTS_OUTSIDE = """(figure) => {
  const element = document.createElement("div");
  element.innerHTML = figure;
  document.body.append(element);
  const svg = element.firstChild;
  const { width, height } = svg.viewBox.baseVal;
  const boxes = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBBox()]);
  const outside = ([, box]) => box.x < 0 || box.y < 0 || box.x + box.width > width || box.y + box.height > height;
  const covered = ([, one], i) =>
    boxes.some(([, other], j) => i < j && one.y === other.y && one.x + one.width > other.x);
  return boxes.filter((box, i) => outside(box) || covered(box, i)).map(([text]) => text);
}"""


def saved(visitor: Visitor, testid: str) -> Path:
    with visitor.page.expect_download() as download:
        visitor.click(testid)
    return download.value.path()


def exported(directory: Path, target: Path, frames: str, layer: str) -> Path:
    code = main(["export", str(directory), str(target), "--trajectory", "2", "--frames", frames, "--layer", layer])
    assert not code
    return target


def frames_of(path: Path, mode: str = "RGB") -> np.ndarray:
    with Image.open(path) as image:
        count = getattr(image, "n_frames", 1)
        frames = []
        for frame in range(count):
            image.seek(frame)
            frames.append(np.asarray(image.convert(mode), np.float64))
    return np.stack(frames)


def without_gaps(frames: np.ndarray) -> np.ndarray:
    """The page leaves a gap between panels, the command does not."""
    return np.concatenate([frames[:, :, start : start + SIDE] for start in range(0, 3 * SIDE, SIDE + GAP)], axis=2)


def test_images_of_page_and_command_are_the_same(synthetic: Path, open_page: Open, tmp_path: Path) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}")
    visitor.press("e")
    shown = frames_of(saved(visitor, "export-png"))
    written = frames_of(exported(synthetic, tmp_path / "one.png", str(FIRST), "2b"))
    assert np.abs(without_gaps(shown) - written).max() <= TOLERANCE
    canvas = read_canvas(visitor.by("observation-canvas"))[..., :3]
    assert np.array_equal(written[0, 2:SIDE:4, 2:SIDE:4], canvas)


def test_figures_have_labels_as_text(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}")
    visitor.press("e")
    image = saved(visitor, "export-png").read_bytes()
    figure = ElementTree.fromstring(saved(visitor, "export-svg").read_text())
    texts = [element.text for element in figure.iter(f"{SVG}text")]
    assert texts[:4] == [
        f"trajectory 2, frame {FIRST} \u00b7 2b \u00b7 value function",
        *("observation", "positive attribution", "negative attribution"),
    ]
    assert texts[4:] == [str(channel) for channel in range(1, 9)]
    (embedded,) = figure.iter(f"{SVG}image")
    assert base64.b64decode(embedded.attrib["href"].partition(",")[2]) == image


def test_videos_have_frames_and_labels(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}")
    visitor.press("e")
    visitor.by("export-from").fill(str(FIRST))
    visitor.by("export-to").fill(str(LAST))
    content = saved(visitor, "export-video").read_bytes()
    assert content.startswith(b"\x1a\x45\xdf\xa3") or content[4:8] == b"ftyp"  # WebM or MP4
    uri = f"data:video/mp4;base64,{base64.b64encode(content).decode()}"
    player = visitor.page.context.new_page()  # the page itself loads no videos
    video = Image.open(io.BytesIO(base64.b64decode(player.evaluate(_FIRST_FRAME, uri)))).convert("RGB")
    image = Image.open(saved(visitor, "export-png")).convert("RGB")
    assert video.size == (image.width, image.height + HEAD + FOOT)


def test_labels_of_small_figures_fit(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}")
    visitor.press("e")
    visitor.by("drawer").get_by_label("Size").select_option(label="1 \u00d7")
    figure = saved(visitor, "export-svg").read_text()
    cut = visitor.page.evaluate(_TEXTS_OUTSIDE, figure)
    assert cut == []


def test_the_page_is_printed(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b")
    visitor.press("e")
    visitor.page.evaluate("() => (window.print = () => (window.printed = true))")
    visitor.click("export-print")
    assert visitor.page.evaluate("() => window.printed")
    assert visitor.page.pdf().startswith(b"%PDF")


def test_animations_of_page_and_command_are_the_same(synthetic: Path, open_page: Open, tmp_path: Path) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}")
    visitor.press("e")
    visitor.by("export-from").fill(str(FIRST))
    visitor.by("export-to").fill(str(LAST))
    shown = without_gaps(frames_of(saved(visitor, "export-apng")))
    frames = f"{FIRST}:{LAST}"
    assert np.abs(shown - frames_of(exported(synthetic, tmp_path / "range.png", frames, "2b"))).max() <= TOLERANCE
    of_gif = frames_of(exported(synthetic, tmp_path / "range.gif", frames, "2b"))
    assert len(of_gif) == LAST - FIRST + 1
    assert np.abs(shown - of_gif).mean() < 8, "256 colors a frame"


def test_tables_of_page_and_command_are_the_same(synthetic: Path, open_page: Open, tmp_path: Path) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}")
    visitor.press("e")
    with saved(visitor, "export-csv").open(encoding="utf-8", newline="") as file:
        names, *shown = csv.reader(file)
    target = exported(synthetic, tmp_path / "table.csv", f"{FIRST}:{LAST}", "2b")
    with target.open(encoding="utf-8", newline="") as file:
        columns, *written = csv.reader(file)
    assert columns == names
    for here, there in zip(shown[FIRST - 1 : LAST], written, strict=True):
        for name, cell, other in zip(names, here, there, strict=True):
            if name == "action":
                assert cell == other
            else:
                assert float(cell) == pytest.approx(float(other), rel=1e-5, abs=1e-7), name


def test_arrays_are_what_the_canvas_shows(generated: Generated, open_page: Open, tmp_path: Path) -> None:
    directory, layer = generated.directory, "Relu_1"
    path = exported(directory, tmp_path / "arrays.npz", str(FIRST), layer)
    arrays = np.load(path)
    results = open_results(directory)
    found = results.attribution(layer, 1, "value", [FIRST - 1])
    np.testing.assert_array_equal(arrays["channels"], found.channels)
    assert found.residual is not None
    np.testing.assert_array_equal(arrays["residual"], found.residual)
    np.testing.assert_array_equal(arrays["frames"], results.frames(1, range(FIRST - 1, FIRST)))
    visitor = open_page(directory, f"?layer={layer}&trajectory=2&frame={FIRST}")
    for direction in ("pos", "neg"):
        assert close(visitor.attribution(direction), expected_image(found, 0, direction))
    np.testing.assert_array_equal(read_canvas(visitor.by("observation-canvas"))[..., :3], arrays["frames"][0])
    series = results.series(1)
    for key in ("advantages", "values", "rewards", "actions"):
        assert float(arrays[key][0]) == pytest.approx(float(series[key][FIRST - 1]))
    shown = float(visitor.track("value").locator(".value").inner_text().replace("−", "-"))
    assert shown == pytest.approx(float(arrays["values"][0]), rel=6e-3)
