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
SIDE, GAP, ALONE = 256, 4, 83
"""Pixels of an image, between images, and of the images of single features beside one."""
SVG = "{http://www.w3.org/2000/svg}"
FIRST, LAST = 30, 34
MARGIN, HEAD = 8, 71
"""Pixels around a figure, and from there to its first row of images."""
CAPTION = f"trajectory 2, frame {FIRST} \u00b7 layer 2b \u00b7 value function \u00b7 full color "
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


def exported(directory: Path, target: Path, frames: str, layer: str) -> Path:
    code = main(["export", str(directory), str(target), "--trajectory", "2", "--frames", frames, "--layer", layer])
    assert not code
    return target


def frames_of(path: Path | io.BytesIO, mode: str = "RGB") -> np.ndarray:
    with Image.open(path) as image:
        count = getattr(image, "n_frames", 1)
        frames = []
        for frame in range(count):
            image.seek(frame)
            frames.append(np.asarray(image.convert(mode), np.float64))
    return np.stack(frames)


def images_of(frames: np.ndarray, row: int = 0, beside: int = 0) -> np.ndarray:
    """The images in figures of the page, side by side as the command writes them; `beside`: pixels between signs."""
    top = MARGIN + HEAD + row * (SIDE + 2 * 19 + 14)
    lefts = [MARGIN + sign * (SIDE + GAP) + (beside if sign == 2 else 0) for sign in range(3)]
    return np.concatenate([frames[:, top : top + SIDE, left : left + SIDE] for left in lefts], axis=2)


def test_images_saved_by_the_page_equal_those_of_the_export_command(
    synthetic: Path, open_page: Open, tmp_path: Path
) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}&mixed=1&residual=0")
    visitor.press("e")
    shown = frames_of(visitor.saved("export-png"))
    written = frames_of(exported(synthetic, tmp_path / "one.png", str(FIRST), "2b"))
    assert np.abs(images_of(shown) - written).max() <= TOLERANCE
    canvas = read_canvas(visitor.by("observation-canvas"))[..., :3]
    assert np.array_equal(written[0, 2:SIDE:4, 2:SIDE:4], canvas)


def texts_of(figure: Path) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(figure.read_text()).iter(f"{SVG}text")]


def test_exported_figures_have_a_caption_and_a_legend(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}&name=2b~3~coin")
    visitor.press("e")
    with Image.open(visitor.saved("export-png")) as image:
        size, shown = image.size, np.asarray(image.convert("RGB"))
    figure = visitor.saved("export-svg")
    texts = texts_of(figure)
    assert texts[0] == "CoinRun \u00b7 checkpoint coinrun.jd (SHA-256 8f14e45f)"
    assert texts[1].startswith(CAPTION)
    alone = [
        [str(e.get_attribute("data-feature")) for e in visitor.by("multiples").nth(sign).locator("button").all()]
        for sign in (0, 1)
    ]
    assert texts[2:-9] == ["observation", "positive attribution", *alone[0], "negative attribution", *alone[1]]
    assert texts[-9:] == ["1", "2", "3 coin", "4", "5", "6", "7", "8", "residual"]
    root = ElementTree.fromstring(figure.read_text())
    assert (int(root.attrib["width"]), int(root.attrib["height"])) == size, "the image is the same figure"
    shown_images = root.findall(f"{SVG}image")  # without that of the pattern for the residual
    images = [frames_of(io.BytesIO(base64.b64decode(i.attrib["href"].partition(",")[2]))) for i in shown_images]
    signs, single = [images[0], images[1], images[3]], [images[2], images[4]]
    assert np.abs(np.concatenate(signs, 2) - images_of(shown[None], beside=ALONE + GAP)).max() == 0
    assert {image.shape for image in single} == {(1, SIDE, ALONE, 3)}
    left, top = MARGIN + 2 * (SIDE + GAP), MARGIN + HEAD
    below_chips = slice(20, SIDE // 4)
    assert np.array_equal(shown[top : top + SIDE, left : left + ALONE][below_chips], single[0][0, below_chips])
    assert (shown[MARGIN : MARGIN + 19].min((1, 2)) < 128).any(), "there is a caption"
    legend = shown[MARGIN + HEAD + SIDE :].reshape(-1, 3)
    colors = visitor.page.evaluate("rlClarity.manifest.layers.find(({ slug }) => slug === '2b').colors")
    for color in colors:
        rgb = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
        assert (legend == rgb).all(-1).sum() >= 100, color


def test_exported_figures_contain_all_attribution_rows(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}&rows=value,action-7~4a,value~~1")
    visitor.press("e")
    image = frames_of(visitor.saved("export-png"))
    figure = visitor.saved("export-svg")
    captions = [text for text in texts_of(figure) if text.startswith("trajectory")]
    assert [caption.rpartition(" \u00b7 full")[0] for caption in captions] == [
        f"trajectory 2, frame {FIRST} \u00b7 layer 2b \u00b7 value function",
        f"trajectory 2, frame {FIRST} \u00b7 layer 4a \u00b7 action \u2192",
        f"trajectory 1, frame {FIRST} \u00b7 layer 2b \u00b7 value function",
    ]
    assert {text for text in texts_of(figure) if text.endswith(":")} == {"layer 2b:", "layer 4a:"}
    observations = [images_of(image, row)[0, 2:SIDE:4, 2:SIDE:4] for row in range(3)]
    shown = [read_canvas(canvas)[..., :3] for canvas in visitor.by("observation-canvas").all()]
    assert np.array_equal(observations[0], shown[0])
    assert np.array_equal(observations[2], shown[1])
    assert len(shown) == 2, "one of each trajectory"
    assert observations[1].min() == 255


def test_the_bar_chart_can_be_exported_as_svg(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}&name=2b~3~coin")
    visitor.press("e")
    figure = visitor.saved("export-bars")
    texts = texts_of(figure)
    shown = visitor.page.locator("[data-part]").evaluate_all("all => all.map((e) => Number(e.dataset.value))")
    assert texts[2::2] == ["baseline", "1", "2", "coin", "4", "5", "6", "7", "8", "residual", "error", "output"]
    assert [float(text.replace("\N{MINUS SIGN}", "-")) for text in texts[3::2]] == pytest.approx(
        shown, rel=6e-3, abs=1e-5
    )
    bars = [
        e for e in ElementTree.fromstring(figure.read_text()).iter(f"{SVG}rect") if e.attrib["fill"].startswith("url")
    ]
    assert len(bars) == 1, "the residual is hatched"


def test_timeline_tracks_can_be_exported_as_svg(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}&box=16.8.40.36")
    visitor.track("box").wait_for()
    visitor.by("totals-over-time").check()
    visitor.page.get_by_label("probabilities over time").check()
    visitor.press("e")
    shown = visitor.by("track").evaluate_all("all => all.map((e) => e.querySelector('.text').textContent)")
    root = ElementTree.fromstring(visitor.saved("export-tracks").read_text())
    tracks = list(root.findall(f"{SVG}svg"))
    names = [e.text for e in root.findall(f"{SVG}text") if e.attrib.get("font-weight") == "bold"]
    assert names == [name for name in shown if name != "Filmstrip"]
    assert all(list(track.iter(f"{SVG}path")) or list(track.iter(f"{SVG}image")) for track in tracks)
    assert len(tracks) == len(names) >= 5


@pytest.mark.slow
def test_exported_videos_show_the_same_figures_as_images(synthetic: Path, open_page: Open, tmp_path: Path) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}")
    visitor.press("e")
    visitor.by("export-from").fill(str(FIRST))
    visitor.by("export-to").fill(str(LAST))
    content = visitor.saved("export-video").read_bytes()
    assert content.startswith(b"\x1a\x45\xdf\xa3") or content[4:8] == b"ftyp"  # WebM or MP4
    path = tmp_path / f"video.{'mp4' if content[4:8] == b'ftyp' else 'webm'}"
    path.write_bytes(content)
    cv2 = pytest.importorskip("cv2")
    video = cv2.VideoCapture(str(path))
    frames = [frame[..., ::-1].astype(float) for read, frame in iter(video.read, (False, None)) if read]
    assert len(frames) == LAST - FIRST + 1
    visitor.goto(f"?layer=2b&trajectory=2&frame={LAST}")
    visitor.press("e")
    image = frames_of(visitor.saved("export-png"))[0]
    height, width = image.shape[:2]
    assert frames[-1].shape[0] - height in (0, 1)
    assert frames[-1].shape[1] - width in (0, 1)
    assert np.abs(frames[-1][:height, :width] - image).mean() < 6


def test_labels_of_small_exported_figures_are_not_cut_off(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}")
    visitor.press("e")
    visitor.by("drawer").get_by_label("Size").select_option(label="1 \u00d7")
    figure = visitor.saved("export-svg").read_text()
    cut = visitor.page.evaluate(_TEXTS_OUTSIDE, figure)
    assert cut == []


def test_the_page_can_be_printed(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b")
    visitor.press("e")
    visitor.page.evaluate("() => (window.print = () => (window.printed = true))")
    visitor.click("export-print")
    assert visitor.page.evaluate("() => window.printed")
    assert visitor.page.pdf().startswith(b"%PDF")


def test_animations_saved_by_the_page_equal_those_of_the_export_command(
    synthetic: Path, open_page: Open, tmp_path: Path
) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}&mixed=1&residual=0")
    visitor.press("e")
    visitor.by("export-from").fill(str(FIRST))
    visitor.by("export-to").fill(str(LAST))
    shown = images_of(frames_of(visitor.saved("export-apng")))
    frames = f"{FIRST}:{LAST}"
    assert np.abs(shown - frames_of(exported(synthetic, tmp_path / "range.png", frames, "2b"))).max() <= TOLERANCE
    of_gif = frames_of(exported(synthetic, tmp_path / "range.gif", frames, "2b"))
    assert len(of_gif) == LAST - FIRST + 1
    assert np.abs(shown - of_gif).mean() < 8, "256 colors a frame"


def test_tables_saved_by_the_page_equal_those_of_the_export_command(
    synthetic: Path, open_page: Open, tmp_path: Path
) -> None:
    visitor = open_page(synthetic, f"?layer=2b&trajectory=2&frame={FIRST}")
    visitor.press("e")
    with visitor.saved("export-csv").open(encoding="utf-8", newline="") as file:
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


def test_arrays_of_open_results_equal_the_pixels_of_the_canvas(
    generated: Generated, open_page: Open, tmp_path: Path
) -> None:
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
