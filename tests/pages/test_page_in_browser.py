"""The interface between a document and its script, in a real browser from `file://`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import Bundle, read_manifest, write_page
from rl_clarity.pages.manifest import section_data
from rl_clarity.pages.results import open_results
from tests.pages.pages import random_arrays, write_small_page

pytestmark = pytest.mark.browser

# Loads a chunk and an image as docs/page-format.md describes, and stores them in `window.loaded`.
SCRIPT = """
const chunks = {};
window.rlClarityChunk = (name, header, text) => { chunks[name] = { header, text }; };

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
  return unpack(chunks[name]);
}

async function unpack({ header, text }) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const { shape, filter } = header.arrays.codes;
  const stored = new Int8Array(buffer, 0, shape.reduce((a, b) => a * b));
  const depth = shape.at(-1);
  const codes = stored.map((_, i) => stored[(i % depth) * (stored.length / depth) + Math.floor(i / depth)]);
  const stride = codes.length / shape[0];
  if (filter === "delta planes") for (let i = stride; i < codes.length; i += 1) codes[i] += codes[i - stride];
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
      window.loaded = { codes, size, theme: document.documentElement.dataset.theme ?? null };
      target.textContent = manifest.title;
    });
  }
}
"""


@pytest.fixture
def tab(chromium_browser: Browser) -> Iterator[Page]:
    """An offline browser tab."""
    context = chromium_browser.new_context(offline=True)
    yield context.new_page()
    context.close()


@pytest.fixture
def messages(tab: Page) -> list[str]:
    """Messages and errors that the tab prints to its console."""
    messages: list[str] = []
    tab.on("console", lambda message: messages.append(message.text))
    tab.on("pageerror", lambda error: messages.append(str(error)))
    return messages


@pytest.fixture(params=["inline", "separate file", "single file"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> LocalDirectory:
    directory, kind = LocalDirectory(tmp_path / "page"), request.param
    data = LocalDirectory(tmp_path / "work") if kind == "single file" else directory
    manifest = write_small_page(data, random_arrays(1), changes={"title": "a </script> \N{SNOWMAN}"})
    write_page(
        directory,
        manifest,
        bundle=Bundle(SCRIPT),
        data=data,
        inline_js=kind == "inline",
        single_file=kind == "single file",
    )
    return directory


def test_the_script_loads_manifest_chunks_and_images(directory: LocalDirectory, tab: Page, messages: list[str]) -> None:
    tab.goto((directory.path / "interface.html").as_uri())
    tab.wait_for_function("() => window.loaded", timeout=60_000)
    assert messages == []
    assert tab.title() == tab.inner_text("#app") == "a </script> \N{SNOWMAN}"
    results = open_results(directory.path)
    manifest = read_manifest(directory.read("interface.html"))
    layer = section_data(manifest, "attribution")["layers"][0]
    features = section_data(manifest, "features")["layers"][layer["slug"]]
    codes = results.chunk(layer["attribution"]["value"][0][0])["codes"]
    loaded = tab.evaluate("window.loaded")
    assert loaded["codes"] == codes.ravel().tolist()
    height, width, _ = results.image(features["thumbnails"][0]).shape
    assert loaded["size"] == [width, height]


def test_the_page_blocks_network_requests_and_foreign_scripts(
    directory: LocalDirectory, tab: Page, messages: list[str]
) -> None:
    tab.goto((directory.path / "interface.html").as_uri())
    tab.wait_for_function("() => window.loaded", timeout=60_000)
    outcome = tab.evaluate("fetch('https://example.org').then(() => 'sent', () => 'refused')")
    assert outcome == "refused"
    tab.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))")
    assert tab.evaluate("window.ran ?? null") is None
    assert any("connect-src" in line for line in messages)
    assert any("script-src" in line for line in messages)


@pytest.mark.parametrize(
    ("settings", "theme"), [('{"theme": "dark"}', "dark"), ('{"theme": "system"}', None), ("{", None)]
)
def test_the_saved_theme_is_applied_before_the_script(
    directory: LocalDirectory, tab: Page, messages: list[str], settings: str, theme: str | None
) -> None:
    # Saved as the document opens: a document loaded again may have another process, which may see older settings.
    tab.add_init_script(f"localStorage.setItem('rl-clarity:0123abcd:settings', {json.dumps(settings)})")
    tab.goto((directory.path / "interface.html").as_uri())
    tab.wait_for_function("() => window.loaded", timeout=60_000)
    assert tab.evaluate("window.loaded.theme") == theme
    assert messages == []
