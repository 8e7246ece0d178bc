import base64
import hashlib
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.base.errors import OutputError
from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages import document as document_module
from rl_clarity.pages.document import Bundle, compiled_bundle, read_manifest, write_page
from rl_clarity.pages.files import ChunkName, PageFiles
from rl_clarity.pages.manifest import FORMAT, VERSION, section_data
from rl_clarity.pages.sections import Section, SectionData
from tests.pages.pages import random_arrays, write_parts, write_small_page

HOSTILE = "</script><script>alert(1)</script><!--\"'&\u2028\u2029 \N{RIGHT-TO-LEFT OVERRIDE}\N{SNOWMAN}\ud800"


@pytest.fixture
def directory(tmp_path: Path) -> LocalDirectory:
    return LocalDirectory(tmp_path / "page")


def document(directory: LocalDirectory) -> str:
    return directory.read("interface.html").decode()


def test_a_page_without_missing_files_is_complete(directory: LocalDirectory) -> None:
    manifest = write_small_page(directory, images=True)
    written = read_manifest(directory.read("interface.html"))
    assert written["complete"] is True
    assert written["missing"] == []
    layers = [section_data(page, "attribution")["layers"] for page in (written, manifest)]
    assert layers[0][0]["attribution"] == layers[1][0]["attribution"]
    assert written["format"] == "rl-clarity-page"


def test_an_incomplete_page_lists_missing_files(directory: LocalDirectory) -> None:
    manifest = write_small_page(directory)
    directory.remove("attribution/2b/1/value-2.js")
    directory.remove("thumbnails/2b/thumbnail-1.png")
    missing = write_page(directory, manifest, bundle=Bundle(""))
    assert missing == ["attribution/2b/1/value-2.js", "thumbnails/2b/thumbnail-1.png"]
    written = read_manifest(directory.read("interface.html"))
    assert written["complete"] is False
    assert written["missing"] == missing


def test_the_manifest_names_every_file(directory: LocalDirectory) -> None:
    write_small_page(directory, images=True, inline_js=False)
    text = document(directory)
    assert [name for name in directory.names() if name != "interface.html" and f'"{name}"' not in text] == []


def test_absent_fields_are_left_out_of_the_manifest(directory: LocalDirectory) -> None:
    write_small_page(directory)
    manifest = read_manifest(directory.read("interface.html"))
    assert list(section_data(manifest, "features")["layers"]) == ["2b"]
    assert not {"optimized", "images"} & set(section_data(manifest, "features")["layers"]["2b"])
    assert not {"images", "scrubs"} & set(section_data(manifest, "attribution")["layers"][0])
    assert not {"notes", "module", "panel"} & set(manifest["sections"][0])


def test_numpy_precision_rounds_numbers_in_the_manifest(directory: LocalDirectory) -> None:
    write_small_page(directory, changes={"numpy_precision": 3})
    manifest = read_manifest(directory.read("interface.html"))
    assert section_data(manifest, "trajectories")["bookmarks"]["high"][0]["advantage"] == 0.123


def test_hostile_text_is_escaped_in_the_html(directory: LocalDirectory) -> None:
    changes: dict[str, Any] = {"title": HOSTILE, "kind": HOSTILE, "id": '"><script>'}
    write_small_page(directory, changes=changes)
    text = document(directory)
    assert text.lower().count("<script") == text.lower().count("</script") == 3  # theme, manifest, page
    assert text.count("<!--") == 1  # the hash in the last line
    manifest = read_manifest(directory.read("interface.html"))
    assert manifest["kind"] == HOSTILE
    title = re.search(r"<title>(.*?)</title>", text, re.DOTALL)
    assert title is not None
    assert not re.search("[<>\"']", title[1])


def test_the_security_policy_allows_only_the_scripts_of_the_page(directory: LocalDirectory) -> None:
    script = "class Interface {} const text = '</script><!--';\r\nconst pattern = /<script>/;"
    write_small_page(directory)
    manifest = read_manifest(directory.read("interface.html"))
    write_page(directory, manifest, bundle=Bundle(script))
    text = document(directory)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    bodies = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(bodies) == 2
    for body in bodies:
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'none'" in policy[1]
    assert "\r" not in text
    assert "'\\x3c/script>\\x3c!--'" in text


def test_css_cannot_close_its_style_element(directory: LocalDirectory) -> None:
    manifest = write_small_page(directory)
    write_page(directory, manifest, bundle=Bundle("", "a::after { content: '</style>' }"))
    assert document(directory).count("</style>") == 1


def test_the_script_can_be_written_to_a_separate_file(directory: LocalDirectory) -> None:
    write_small_page(directory, inline_js=False)
    assert '<script src="interface.js"></script>' in document(directory)
    script = directory.read("interface.js").decode()
    assert script.startswith("class Interface")
    assert script.endswith('new Interface({ target: document.getElementById("app") });\n')


def test_a_page_can_be_written_as_a_single_file(tmp_path: Path, directory: LocalDirectory) -> None:
    manifest = write_small_page(directory, data=LocalDirectory(tmp_path / "work"), single_file=True, images=True)
    assert directory.names() == {"interface.html"}
    text = document(directory)
    written = read_manifest(text.encode())
    assert written["complete"] is True
    assert "images" not in section_data(written, "trajectories")["trajectories"][0]
    assert "images" not in section_data(written, "attribution")["layers"][0]
    trajectory = section_data(manifest, "trajectories")["trajectories"][0]
    for name in (trajectory["series"], *trajectory["frames"]):
        assert f'data-chunk="{name}"' in text
    features = section_data(manifest, "features")
    for name in (*features["layers"]["2b"]["thumbnails"], *features["observations"]["images"]):
        assert f'data-image="{name}"' in text


def test_the_script_of_a_custom_panel_is_embedded_with_its_hash(directory: LocalDirectory) -> None:
    module = "rlClarity.panel('custom', (element) => { element.textContent = '</script>'; });"

    @dataclass(frozen=True)
    class Custom(SectionData):
        kind = "custom"
        title = "Custom"
        file: ChunkName

    Custom.module = module
    section = Section(Custom(ChunkName("custom/1.js")))
    manifest = write_parts(PageFiles(directory), random_arrays())
    missing = write_page(directory, replace(manifest, sections=[*manifest.sections, section]), bundle=Bundle(""))
    assert missing == ["custom/1.js"]
    text = document(directory)
    body = re.search(r'<script type="module" data-panel="custom">(.*?)</script>', text, re.DOTALL)
    assert body is not None
    assert body[1] == module.replace("</script>", "\\x3c/script>")
    digest = base64.b64encode(hashlib.sha256(body[1].encode()).digest()).decode()
    assert f"'sha256-{digest}'" in text
    assert "module" not in read_manifest(text.encode())["sections"][-1]


def test_writing_the_same_page_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = LocalDirectory(tmp_path / "first"), LocalDirectory(tmp_path / "second")
    for directory in (first, second):
        write_small_page(directory, random_arrays(3), images=True)
    assert first.names() == second.names()
    assert all(first.read(name) == second.read(name) for name in first.names())


def test_the_error_for_a_missing_bundle_names_the_build_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(document_module, "COMPILED", tmp_path)
    with pytest.raises(OutputError, match="recompile_js"):
        compiled_bundle("agent")


def test_the_manifest_is_json_with_sorted_keys(directory: LocalDirectory) -> None:
    write_small_page(directory)
    match = re.search(r'id="manifest">(.*?)</script>', document(directory), re.DOTALL)
    assert match is not None
    manifest = json.loads(match[1])
    assert list(manifest) == sorted(manifest)
    assert list(manifest["sections"][0]) == sorted(manifest["sections"][0])


def test_sections_of_earlier_pages_are_read_under_their_present_names() -> None:
    def read(section: object) -> Any:
        manifest = {"format": FORMAT, "version": VERSION, "sections": section}
        return read_manifest(f'<script type="application/json" id="manifest">{json.dumps(manifest)}</script>'.encode())

    data = {"targets": [], "paths": ["memory"], "stretches": [{"frame": 3}]}
    (section,) = read([{"kind": "stretches", "agent": "agent-1", "data": data}])["sections"]
    assert section == {
        "kind": "windows",
        "agent": "agent-1",
        "data": {"targets": [], "paths": ["memory"], "windows": [{"frame": 3}]},
    }
    (simulator,) = read([{"kind": "simulator", "data": {"films": ["a.png"], "context": 3}}])["sections"]
    assert simulator["data"] == {"context": 3, "clips": ["a.png"]}
    entries = [{"label": "exchanged", "film": "a.png"}, {"label": "collapsed", "film": None}, 1]
    (interventions,) = read([{"kind": "interventions", "data": {"episodes": 2, "interventions": entries}}])["sections"]
    changed = [{"label": "exchanged", "clip": "a.png"}, {"label": "collapsed", "clip": None}, 1]
    assert interventions["data"] == {"episodes": 2, "interventions": changed}
    for damaged in (None, [1, {"kind": "stretches"}, {"kind": "stretches", "data": []}, {"kind": "interventions"}]):
        assert read(damaged)["sections"] == damaged
