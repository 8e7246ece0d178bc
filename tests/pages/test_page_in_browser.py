"""What the document promises a script that runs in it, tried in a real browser from `file://`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import Bundle, read_manifest, write_page
from rl_clarity.pages.manifest import section_data
from rl_clarity.pages.results import open_results
from tests.pages.pages import random_arrays, write_small_page

pytestmark = pytest.mark.browser

# Loads chunks and images as docs/page-format.md says, and shows what it found.
SCRIPT = """
const handed = {};
window.rlClarityChunk = (name, header, text) => { handed[name] = { header, text }; };

async function load(name) {
  const element = document.querySelector(`script[data-chunk="${name}"]`);
  if (element) {
    const [header, text] = element.textContent.split("\\n");
    return unpack({ header: JSON.parse(header), text });
  }
  await new Promise((resolve, reject) => {
    const script = Object.assign(document.createElement("script"), { src: name, onload: resolve, onerror: reject });
    document.head.append(script);
  });
  return unpack(handed[name]);
}

async function unpack({ header, text }) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const { shape, filter } = header.arrays.codes;
  const codes = new Int8Array(buffer, 0, shape.reduce((a, b) => a * b));
  const stride = codes.length / shape[0];
  if (filter === "delta") for (let i = stride; i < codes.length; i += 1) codes[i] += codes[i - stride];
  return Array.from(codes);
}

async function imageSize(name) {
  const element = document.querySelector(`script[data-image="${name}"]`);
  const image = new Image();
  image.src = element ? `data:image/png;base64,${element.textContent}` : name;
  await image.decode();
  return [image.naturalWidth, image.naturalHeight];
}

class Interface {
  constructor({ target }) {
    const manifest = JSON.parse(document.getElementById("manifest").textContent);
    const data = (kind) => manifest.sections.find((section) => section.kind === kind).data;
    const layer = data("attribution").layers[0];
    const features = data("features").layers[layer.slug];
    Promise.all([load(layer.attribution.value[0][0]), imageSize(features.thumbnails[0])]).then(([codes, size]) => {
      window.found = { codes, size, theme: document.documentElement.dataset.theme ?? null };
      target.textContent = manifest.title;
    });
  }
}
"""


@pytest.fixture
def opened(chromium_browser: Any) -> Iterator[Any]:
    """A tab without a network that keeps what it was told."""
    context = chromium_browser.new_context(offline=True)
    page = context.new_page()
    page.told = []
    page.on("console", lambda message: page.told.append(message.text))
    page.on("pageerror", lambda error: page.told.append(str(error)))
    yield page
    context.close()


@pytest.fixture(params=["inline", "beside", "one file"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> LocalDirectory:
    directory, kind = LocalDirectory(tmp_path / "page"), request.param
    data = LocalDirectory(tmp_path / "work") if kind == "one file" else directory
    manifest = write_small_page(data, random_arrays(1), changes={"title": "a </script> \N{SNOWMAN}"})
    write_page(
        directory,
        manifest,
        bundle=Bundle(SCRIPT),
        data=data,
        inline_js=kind == "inline",
        single_file=kind == "one file",
    )
    return directory


def test_a_script_finds_manifest_chunks_and_pictures(directory: LocalDirectory, opened: Any) -> None:
    opened.goto((directory.path / "interface.html").as_uri())
    opened.wait_for_function("window.found", timeout=60_000)
    assert opened.told == []
    assert opened.title() == opened.inner_text("#app") == "a </script> \N{SNOWMAN}"
    results = open_results(directory.path)
    manifest = read_manifest(directory.read("interface.html"))
    layer = section_data(manifest, "attribution")["layers"][0]
    features = section_data(manifest, "features")["layers"][layer["slug"]]
    codes = results.chunk(layer["attribution"]["value"][0][0])["codes"]
    found = opened.evaluate("window.found")
    assert found["codes"] == codes.ravel().tolist()
    height, width, _ = results.image(features["thumbnails"][0]).shape
    assert found["size"] == [width, height]


def test_nothing_leaves_the_page(directory: LocalDirectory, opened: Any) -> None:
    opened.goto((directory.path / "interface.html").as_uri())
    opened.wait_for_function("window.found", timeout=60_000)
    outcome = opened.evaluate("fetch('https://example.org').then(() => 'sent', () => 'refused')")
    assert outcome == "refused"
    opened.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))")
    assert opened.evaluate("window.ran ?? null") is None
    assert any("connect-src" in line for line in opened.told)
    assert any("script-src" in line for line in opened.told)


def test_the_kept_theme_is_set_before_anything_is_shown(directory: LocalDirectory, opened: Any) -> None:
    address = (directory.path / "interface.html").as_uri()
    for kept, theme in (('{"theme": "dark"}', "dark"), ('{"theme": "system"}', None), ("{", None)):
        opened.goto(address)
        opened.wait_for_function("window.found", timeout=60_000)  # leaving it while it loads would be an error to tell
        opened.evaluate("(kept) => localStorage.setItem('rl-clarity:0123abcd:settings', kept)", kept)
        opened.reload()
        opened.wait_for_function("window.found", timeout=60_000)
        assert opened.evaluate("window.found.theme") == theme
    assert opened.told == []
