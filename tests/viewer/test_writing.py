"""The page of recordings beside a writer: while it writes and removes episodes, and after it was killed."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest

from rl_clarity.pages.chunks import decode_chunk, parse_script
from rl_clarity.viewer.page import RecordingsPage
from rl_clarity.viewer.runs import LogDirectory
from tests.recordings.episodes import step_values
from tests.recordings.test_killed import LENGTHS, MOMENTS, kill, start


def read_all(page: RecordingsPage, newest: int = 3) -> dict[int, int]:
    """Read the newest episodes with their frames; return the steps that the list says of all, by number."""
    sections = json.loads(page.manifest().data)["sections"]
    rows = sections[0]["data"]["episodes"]
    assert [row["error"] for row in rows] == [None] * len(rows)
    for row in rows[-newest:]:
        listed = sections[1]["data"]["trajectories"][row["trajectory"]]
        if not row["length"]:
            continue
        found = page.file(listed["entry"])
        if found is None:
            continue  # the writer has removed it
        entry = json.loads(found.data)["trajectory"]
        assert entry["steps"] >= row["length"]
        for name in (entry["series"], *entry["frames"], *entry["scrub"]):
            content = page.file(name)
            if content is None:
                break
            if name == entry["series"]:
                series = decode_chunk(parse_script(content.data))
                expected = [step_values(row["episode"], step)["value"] for step in range(entry["steps"])]
                np.testing.assert_allclose(series["values"], expected)
    return {row["episode"]: row["length"] for row in rows if row["end"] == "done"}


@pytest.mark.slow
def test_all_finished_episodes_of_a_killed_recorder_are_shown(tmp_path: Path) -> None:
    rng = random.Random(1)
    for moment in range(MOMENTS):
        directory = tmp_path / str(moment)
        episode, step = kill(start(directory), rng.randint(1, 700))
        finished = read_all(RecordingsPage([LogDirectory.at(str(directory))], ""), newest=100)
        complete = episode + (step == LENGTHS[episode % len(LENGTHS)] - 1)
        assert len(finished) >= complete
        assert all(steps == LENGTHS[number % len(LENGTHS)] for number, steps in finished.items())


@pytest.mark.slow
@pytest.mark.parametrize("options", [", max_episodes=6", ", max_bytes=300_000"])
def test_no_reader_fails_while_episodes_are_written_and_removed(tmp_path: Path, options: str) -> None:
    process = start(tmp_path, options)
    assert process.stdout is not None
    process.stdout.readline()
    page = RecordingsPage([LogDirectory.at(str(tmp_path))], "")
    for _ in range(20):
        os.read(process.stdout.fileno(), 2**16)  # keeps the writer going
        finished = read_all(page)
        assert all(steps == LENGTHS[number % len(LENGTHS)] for number, steps in finished.items())
    process.kill()
    process.wait()
    process.stdout.close()
    assert finished
