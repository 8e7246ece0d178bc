"""Routes of the page of recordings: what they answer, and what they refuse."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from rl_clarity.pages.chunks import decode_chunk, parse_script
from rl_clarity.pages.frames import read_frame
from rl_clarity.pages.images import decode_png
from rl_clarity.recordings.recorder import Recorder
from tests.recordings.episodes import add_episode, make_recording, step_values
from tests.viewer.test_changes import applied

pytest.importorskip("werkzeug")

from werkzeug.test import Client

from rl_clarity.viewer.application import Application, TokenRequired
from rl_clarity.viewer.page import RecordingsPage
from rl_clarity.viewer.runs import LogDirectory

COMBOS = [["LEFT"], ["RIGHT"], [], ["UP"], ["FIRE"]]
LENGTHS = (3, 70, 32)
SECRET = "not to be read"


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """Two runs, with a file beside their log directory that must not be read."""
    (tmp_path / "secret.txt").write_text(SECRET)
    runs = tmp_path / "runs"
    make_recording(runs / "exp1", LENGTHS, name="training", metadata={"action_combos": COMBOS, "gamma": 0.9})
    make_recording(runs / "exp2", (5,), name="training")
    return runs


def make_client(*directories: Path | str) -> Client:
    places = [LogDirectory.at(str(directory)) for directory in directories]
    return Client(Application(RecordingsPage(places, "runs")))


@pytest.fixture
def client(logdir: Path) -> Client:
    return make_client(logdir)


def read_manifest(client: Client) -> dict[str, Any]:
    manifest: dict[str, Any] = client.get("/data/manifest.json").get_json()
    return manifest


def listing(client: Client) -> dict[str, Any]:
    data: dict[str, Any] = read_manifest(client)["sections"][0]["data"]
    return data


def trajectories(client: Client, run: int = 0) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = read_manifest(client)["sections"][1 + run]["data"]["trajectories"]
    return entries


def read_entry(client: Client, trajectory: int, run: int = 0) -> dict[str, Any]:
    entry: dict[str, Any] = client.get(f"/data/{trajectories(client, run)[trajectory]['entry']}").get_json()
    return entry["trajectory"]


def read_chunk(client: Client, name: str) -> dict[str, np.ndarray]:
    response = client.get(f"/data/{name}")
    assert response.status_code == 200, response.text
    chunk = parse_script(response.data, name)
    assert chunk.name == name
    return decode_chunk(chunk)


def read_frames(client: Client, entry: dict[str, Any]) -> np.ndarray:
    frames = []
    for name in entry["frames"]:
        arrays = read_chunk(client, name)
        frames += [read_frame(name, arrays, index) for index in range(len(arrays["pixels"]))]
    return np.stack(frames)


def test_the_manifest_lists_runs_and_episodes(client: Client) -> None:
    manifest = read_manifest(client)
    assert (manifest["kind"], manifest["complete"], manifest["missing"]) == ("recordings", True, [])
    assert [one["name"] for one in manifest["recordings"]] == ["exp1", "exp2"]
    assert [action["label"] for action in manifest["agents"][0]["actions"]] == ["←", "→", "no-op", "↑", "FIRE"]
    data = manifest["sections"][0]["data"]
    assert data["live"] is True
    assert [(run["recording"], run["name"], run["error"]) for run in data["runs"]] == [
        ("recording-1", "exp1", None),
        ("recording-2", "exp2", None),
    ]
    assert [(row["run"], row["trajectory"], row["length"], row["end"]) for row in data["episodes"]] == [
        (0, 0, 3, "done"),
        (0, 1, 70, "done"),
        (0, 2, 32, "done"),
        (1, 0, 5, "done"),
    ]
    assert [row["return"] for row in data["episodes"]] == [sum(range(length)) for length in (*LENGTHS, 5)]


def test_served_episodes_equal_the_recorded_ones(client: Client) -> None:
    entry = read_entry(client, 1)
    assert [entry["steps"], len(entry["frames"]), len(entry["scrub"])] == [70, 2, 1]
    expected = [step_values(1, step) for step in range(70)]
    np.testing.assert_array_equal(read_frames(client, entry), [one["observation"] for one in expected])
    series = read_chunk(client, entry["series"])
    np.testing.assert_array_equal(series["actions"], [one["action"] for one in expected])
    np.testing.assert_allclose(series["rewards"], range(70))
    np.testing.assert_allclose(series["values"], [one["value"] for one in expected])
    np.testing.assert_allclose(series["logits"], [one["logits"] for one in expected])
    np.testing.assert_allclose(series["probabilities"].sum(1), 1, atol=1e-6)
    np.testing.assert_array_equal(series["info.lives"], np.full(70, 3))
    delta = expected[0]["reward"] + 0.9 * expected[1]["value"] - expected[0]["value"]
    assert series["advantages"][0] == pytest.approx(
        delta + 0.9 * 0.95 * series["advantages"][1], rel=1e-5
    )  # gamma of the recording
    strip = decode_png("strip", client.get(f"/data/{entry['scrub'][0]}").data)
    scrub = read_manifest(client)["sections"][1]["data"]["scrub"]
    assert strip.shape == (scrub["height"], 70 * scrub["step_width"], 3)


def test_a_served_episode_grows_while_it_is_recorded(tmp_path: Path) -> None:
    client = make_client(tmp_path)
    assert listing(client)["episodes"] == []
    with Recorder(tmp_path) as recorder:
        for step in range(80):
            recorder.add(**step_values(0, step), terminated=False)
        recorder._thread.submit(lambda: None).result()  # the first blocks are written
        client = make_client(tmp_path)
        (row,) = listing(client)["episodes"]
        assert row["end"] == "live"
        assert 16 <= row["length"] < 80
        early = read_entry(client, 0)
        before = client.get("/data/manifest.json").headers["ETag"]
        assert client.get("/data/manifest.json", headers={"If-None-Match": before}).status_code == 304
        for step in range(80, 200):
            recorder.add(**step_values(0, step), terminated=step == 199)
        (row,) = listing(client)["episodes"]
        assert (row["length"], row["end"], row["return"]) == (200, "done", sum(range(200)))
        assert client.get("/data/manifest.json", headers={"If-None-Match": before}).status_code == 200
        # Names that were listed before are still answered, with what they contained.
        assert len(read_chunk(client, early["series"])["rewards"]) == early["steps"]
        np.testing.assert_array_equal(
            read_frames(client, early), [step_values(0, step)["observation"] for step in range(early["steps"])]
        )
        late = read_entry(client, 0)
        assert late["frames"][0] == early["frames"][0] or early["steps"] < 64
        assert late["series"] != early["series"]
        add_episode(recorder, 1, 4)
        assert [row["length"] for row in listing(client)["episodes"]] == [200, 4]


def test_an_open_page_receives_only_changes_of_the_manifest(tmp_path: Path) -> None:
    location = tmp_path / "exp1/plugins/rl_clarity/training"
    make_recording(location, (3,) * 40)
    client = make_client(tmp_path)
    first = client.get("/data/manifest.json")
    etag = first.headers["ETag"].strip('"')
    same = client.get(f"/data/manifest.json?since={etag}", headers={"If-None-Match": first.headers["ETag"]})
    assert same.status_code == 304
    make_recording(location, (3,))
    second = client.get(f"/data/manifest.json?since={etag}")
    assert second.json["since"] == etag
    assert len(second.data) < len(first.data) / 10
    whole = client.get("/data/manifest.json")
    assert whole.headers["ETag"] == second.headers["ETag"] != first.headers["ETag"]
    assert applied(first.json, second.json["change"]) == whole.json
    assert client.get("/data/manifest.json?since=unknown").json == whole.json


def test_changing_files_are_sent_compressed(client: Client) -> None:
    for name in ("data/manifest.json", "page.js"):
        plain = client.get(f"/{name}")
        assert "Content-Encoding" not in plain.headers
        compressed = client.get(f"/{name}", headers={"Accept-Encoding": "gzip"})
        assert compressed.headers["Content-Encoding"] == "gzip"
        assert compressed.headers["Vary"] == "Accept-Encoding"
        assert gzip.decompress(compressed.data) == plain.data
        assert len(compressed.data) < len(plain.data) / 2
        part = client.get(f"/{name}", headers={"Accept-Encoding": "gzip", "Range": "bytes=0-9"})
        assert part.data == plain.data[:10]


def test_only_immutable_files_are_cached_by_the_browser(client: Client) -> None:
    entry = read_entry(client, 1)
    for name in (trajectories(client)[1]["entry"], entry["series"], *entry["frames"], *entry["scrub"]):
        response = client.get(f"/data/{name}")
        assert "immutable" in response.headers["Cache-Control"]
        again = client.get(f"/data/{name}", headers={"If-None-Match": response.headers["ETag"]})
        assert (again.status_code, again.data, again.content_type) == (304, b"", response.content_type)
    for name in ("data/manifest.json", "page.js", "index.js", ""):
        assert client.get(f"/{name}").headers["Cache-Control"] == "no-cache"


def test_responses_have_content_type_length_and_security_headers(client: Client) -> None:
    entry = read_entry(client, 0)
    types = {
        "": "text/html; charset=utf-8",
        "index.js": "text/javascript; charset=utf-8",
        "page.js": "text/javascript; charset=utf-8",
        "data/manifest.json": "application/json",
        f"data/{trajectories(client)[0]['entry']}": "application/json",
        f"data/{entry['series']}": "text/javascript; charset=utf-8",
        f"data/{entry['frames'][0]}": "text/javascript; charset=utf-8",
        f"data/{entry['scrub'][0]}": "image/png",
        "other": "text/plain; charset=utf-8",
    }
    for name, kind in types.items():
        response = client.get(f"/{name}")
        assert response.content_type == kind
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        head = client.head(f"/{name}")
        assert (head.status_code, head.data) == (response.status_code, b"")
        assert head.headers["Content-Length"] == response.headers["Content-Length"] == str(len(response.data))
    assert "script-src 'self' 'sha256-" in client.get("/").headers["Content-Security-Policy"]


def test_byte_range_requests_are_answered(client: Client) -> None:
    name = f"/data/{read_entry(client, 1)['frames'][0]}"
    content = client.get(name).data
    part = client.get(name, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.data) == (206, content[10:20])
    assert part.headers["Content-Range"] == f"bytes 10-19/{len(content)}"
    assert client.get(name, headers={"Range": f"bytes={len(content)}-"}).status_code == 416


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_http_methods_other_than_get_and_head_are_refused(client: Client, method: str) -> None:
    for path in ("/", "/data/manifest.json", f"/data/{trajectories(client)[0]['entry']}"):
        response = client.open(path, method=method)
        assert response.status_code == 405
        assert response.headers["Allow"] == "GET, HEAD"


def hostile_paths(key: str, recording: Path) -> list[str]:
    """Addresses below `/data/` that try to leave the log directory, or name files that are not listed."""
    secret = recording.parents[4] / "secret.txt"
    up = "../" * 6
    targets = ["secret.txt", "../secret.txt", f"{up}secret.txt", str(secret), f"/{secret}", secret.as_uri()]
    targets += [f"{key}/{up}secret.txt", f"{key}/0/{up}secret.txt", f"{key}/0/series-3.js/{up}secret.txt"]
    targets += [f"{key}/0/..", f"{key}/..", "..", ".", "", "/", "//", f"./{up}secret.txt", f"{key}//0/series-3.js"]
    encoded = [quote(target, safe="") for target in targets[:9]]
    twice = [quote(quote(target, safe=""), safe="") for target in targets[:9]]
    backslashes = [target.replace("/", "\\") for target in targets[2:9]] + ["..%5c..%5csecret.txt", "C:\\secret.txt"]
    others = [
        *(f"{key}/0/series-3.js{end}" for end in ("\0", "%00", "%00.txt", "\n", "%0a", "/", " ", ";x", ".png")),
        *(f"{key}/0/{name}" for name in ("recording.json", "episodes.bin", "data-00000.bin", "agents/00000.zip")),
        *(f"{key}/{index}/series-3.js" for index in ("-1", "99", "0x0", "٠", "00000000000", "1e0", "0%2f..", "NaN")),
        *("\u2025/secret.txt", "\uff0e\uff0e/secret.txt", "..\u2215secret.txt", "%c0%ae%c0%ae/secret.txt"),
        *(f"{key}/0/frames-{part}.js" for part in ("0-3", "1-0", "1-65", "2-3", "1-99", "999999999-1", "1-3-3", "-1")),
        *(f"{key}/0/series-{length}.js" for length in ("4", "2", "03x", "-3", "3-dead")),
        *(f"{key.upper()}x/0/series-3.js", "0" * 16 + "/0/series-3.js", f"{key[:-1]}/0/series-3.js"),
        *(
            "recording.json",
            "plugins/rl_clarity/training/recording.json",
            "exp1/plugins/rl_clarity/training/recording.json",
        ),
    ]
    return [*targets, *encoded, *twice, *backslashes, *others]


def test_paths_that_the_manifest_does_not_list_are_not_found(client: Client, logdir: Path) -> None:
    key = trajectories(client)[0]["entry"].split("/")[0]
    paths = hostile_paths(key, logdir / "exp1/plugins/rl_clarity/training")
    assert len({*paths}) >= 60
    for path in paths:
        raw = client.get("/", environ_overrides={"PATH_INFO": f"/data/{path}".encode().decode("latin1")})
        encoded = client.get("/data/" + path.replace("\n", "%0a").replace("\0", "%00"))
        for response in (raw, encoded):
            assert response.status_code in (400, 404), path
            assert SECRET not in response.text
        if path.strip("/."):  # not the page itself
            raw = client.get("/", environ_overrides={"PATH_INFO": f"/{path}".encode().decode("latin1")})
            assert raw.status_code == 404, path


def test_links_out_of_the_log_directory_are_listed_but_not_followed(tmp_path: Path) -> None:
    make_recording(tmp_path / "outside", (3,), name="training")
    runs = tmp_path / "runs"
    place = runs / "exp1/plugins/rl_clarity"
    place.mkdir(parents=True)
    (place / "training").symlink_to(tmp_path / "outside/plugins/rl_clarity/training")
    (runs / "exp2").symlink_to(tmp_path / "outside")
    make_recording(runs / "exp3", (4,), name="training")
    data = runs / "exp3/plugins/rl_clarity/training/data-00000.bin"
    data.rename(tmp_path / "data.bin")
    data.symlink_to(tmp_path / "data.bin")
    make_recording(runs / "exp4", (5,), name="training")
    client = make_client(runs)
    listed = listing(client)
    assert [run["name"] for run in listed["runs"]] == ["exp1", "exp2", "exp3", "exp4"]
    errors = [run["error"] for run in listed["runs"]]
    target = tmp_path / "outside"
    assert errors[0].startswith(f"a link to {target}/plugins/rl_clarity/training, not followed; use --follow-links")
    assert errors[1].startswith(f"a link to {target}, not followed; use --follow-links")
    assert errors[2].endswith(f"has links that lead out of {runs}: they are not followed")
    assert errors[3] is None
    assert [(row["run"], row["length"]) for row in listed["episodes"]] == [(3, 5)]
    data.unlink()
    (tmp_path / "data.bin").rename(data)
    assert listing(make_client(runs))["runs"][2]["error"] is None


def test_without_a_token_only_local_host_names_are_accepted(logdir: Path) -> None:
    page = RecordingsPage([LogDirectory.at(str(logdir))], "runs")
    client = Client(Application(page, local_only=True))
    names = ("localhost", "LOCALHOST", "localhost.", "127.0.0.1", "127.0.0.2", "[::1]")
    for host in (*names, *(f"{name}:6007" for name in names)):
        assert client.get("/", headers={"Host": host}).status_code == 200, host
    outside = ("attacker.example", "localhost.attacker.example", "127.0.0.1.attacker.example", "192.168.0.1", "[::2]")
    broken = ("", ".", "localhost..", "[", "[]", "[::1", "::1", "a@localhost", "localhost@a", "localhost:x")
    for host in (*outside, *broken, *(f"{name}:6007" for name in outside)):
        response = client.get("/", headers={"Host": host})
        assert response.status_code == 400, host
        assert response.content_type == "text/plain; charset=utf-8"


def test_a_token_is_required_in_the_url_and_kept_in_a_cookie(logdir: Path) -> None:
    page = RecordingsPage([LogDirectory.at(str(logdir))], "runs")
    client = Client(TokenRequired(Application(page), "correct"))
    for path in ("/", "/data/manifest.json", "/?token=", "/?token=wrong", "/?token=correct2", "/?token=c%C3%B6rrect"):
        assert client.get(path).status_code == 403
    response = client.get("/?token=correct")
    assert response.status_code == 200
    assert {"HttpOnly", "SameSite=Strict"} <= set(response.headers["Set-Cookie"].split("; "))
    assert client.get("/data/manifest.json").status_code == 200
    client.delete_cookie("rl-clarity-token")
    assert client.get("/data/manifest.json").status_code == 403
