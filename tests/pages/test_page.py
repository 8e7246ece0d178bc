import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from rl_clarity.errors import OutputError
from rl_clarity.pages import page as page_module
from rl_clarity.pages.document import read_manifest
from rl_clarity.pages.files import LocalDirectory
from rl_clarity.pages.page import Bundle, compiled_bundle, write_page
from tests.pages.pages import random_arrays, write_small_page

HOSTILE = "</script><script>alert(1)</script><!--\"'&\u2028\u2029 \N{RIGHT-TO-LEFT OVERRIDE}\N{SNOWMAN}\ud800"


@pytest.fixture
def directory(tmp_path: Path) -> LocalDirectory:
    return LocalDirectory(tmp_path / "page")


def document(directory: LocalDirectory) -> str:
    return directory.read("interface.html").decode()


def test_a_page_knows_that_it_is_complete(directory: LocalDirectory) -> None:
    manifest = write_small_page(directory, pictures=True)
    written = read_manifest(directory.read("interface.html"))
    assert written["complete"] is True
    assert written["missing"] == []
    assert written["layers"][0]["attribution"] == manifest["layers"][0]["attribution"]
    assert written["format"] == "rl-clarity-page"


def test_an_unfinished_page_names_what_is_missing(directory: LocalDirectory) -> None:
    manifest = write_small_page(directory)
    directory.remove("attribution/2b/1/value-2.js")
    directory.remove("thumbnails/2b/thumbnail-1.png")
    missing = write_page(directory, manifest, bundle=Bundle(""))
    assert missing == ["attribution/2b/1/value-2.js", "thumbnails/2b/thumbnail-1.png"]
    written = read_manifest(directory.read("interface.html"))
    assert written["complete"] is False
    assert written["missing"] == missing


def test_every_file_belongs_to_the_manifest(directory: LocalDirectory) -> None:
    write_small_page(directory, pictures=True, inline_js=False)
    text = document(directory)
    assert [name for name in directory.names() if name != "interface.html" and f'"{name}"' not in text] == []


def test_absent_fields_are_left_out_or_null(directory: LocalDirectory) -> None:
    write_small_page(directory)
    layers = read_manifest(directory.read("interface.html"))["layers"]
    assert layers[1]["nmf"] is None
    assert layers[1]["features"] is None
    assert not {"optimized", "feature_pictures", "attribution_pictures"} & set(layers[0])
    assert "error_held_out" not in layers[0]["nmf"]


def test_numbers_have_the_figures_asked_for(directory: LocalDirectory) -> None:
    write_small_page(directory, changes={"numpy_precision": 3})
    assert read_manifest(directory.read("interface.html"))["bookmarks"]["high"][0]["advantage"] == 0.123


def test_hostile_text_stays_text(directory: LocalDirectory) -> None:
    changes: dict[str, Any] = {"title": HOSTILE, "env_name": HOSTILE, "id": '"><script>'}
    write_small_page(directory, changes=changes)
    text = document(directory)
    assert text.lower().count("<script") == text.lower().count("</script") == 3  # theme, manifest, page
    assert "<!--" not in text
    manifest = read_manifest(directory.read("interface.html"))
    assert manifest["env_name"] == HOSTILE.replace("\ud800", "?")
    title = re.search(r"<title>(.*?)</title>", text, re.DOTALL)
    assert title is not None
    assert not re.search("[<>\"']", title[1])


def test_the_policy_lets_only_the_pages_own_scripts_run(directory: LocalDirectory) -> None:
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


def test_a_style_cannot_end_its_element(directory: LocalDirectory) -> None:
    manifest = write_small_page(directory)
    write_page(directory, manifest, bundle=Bundle("", "a::after { content: '</style>' }"))
    assert document(directory).count("</style>") == 1


def test_the_script_may_lie_beside_the_page(directory: LocalDirectory) -> None:
    write_small_page(directory, inline_js=False)
    assert '<script src="interface.js"></script>' in document(directory)
    script = directory.read("interface.js").decode()
    assert script.startswith("class Interface")
    assert script.endswith('new Interface({ target: document.getElementById("app") });\n')


def test_a_page_of_one_file_needs_no_other(tmp_path: Path, directory: LocalDirectory) -> None:
    manifest = write_small_page(directory, data=LocalDirectory(tmp_path / "work"), single_file=True, pictures=True)
    assert directory.names() == {"interface.html"}
    text = document(directory)
    written = read_manifest(text.encode())
    assert written["complete"] is True
    assert written["trajectories"][0]["pictures"] == []
    assert "attribution_pictures" not in written["layers"][0]
    for name in (manifest["trajectories"][0]["series"], *manifest["trajectories"][0]["frames"]):
        assert f'data-chunk="{name}"' in text
    for name in (*manifest["layers"][0]["thumbnails"], *manifest["observations"]["pictures"]):
        assert f'data-picture="{name}"' in text


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = LocalDirectory(tmp_path / "first"), LocalDirectory(tmp_path / "second")
    for directory in (first, second):
        write_small_page(directory, random_arrays(3), pictures=True)
    assert first.names() == second.names()
    assert all(first.read(name) == second.read(name) for name in first.names())


def test_a_missing_bundle_says_how_to_make_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(page_module.resources, "files", lambda package: tmp_path)
    with pytest.raises(OutputError, match="recompile_js"):
        compiled_bundle()


def test_the_manifest_is_json_of_sorted_keys(directory: LocalDirectory) -> None:
    write_small_page(directory)
    match = re.search(r'id="manifest">(.*?)</script>', document(directory), re.DOTALL)
    assert match is not None
    manifest = json.loads(match[1])
    assert list(manifest) == sorted(manifest)
    assert list(manifest["layers"][0]) == sorted(manifest["layers"][0])
