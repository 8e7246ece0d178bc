"""Recordings whose writer is killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rl_clarity.recordings.recorder import Recorder
from rl_clarity.recordings.recording import Recording, StoredRecording, open_recording
from tests.pipeline.small import REPOSITORY
from tests.recordings.episodes import add_episode, step_values

LENGTHS = (5, 40, 150, 3, 64, 97)
MOMENTS = 20
PROGRAM = f"""
import sys
from rl_clarity.recordings.recorder import Recorder
from tests.recordings.episodes import step_values
recorder = Recorder(sys.argv[1])
recorder.agent(lambda path: open(path, "w").write("agent"))
for episode in range(10**6):
    length = {LENGTHS}[episode % {len(LENGTHS)}]
    for step in range(length):
        recorder.add(**step_values(episode, step), terminated=step == length - 1)
        print(episode, step, flush=True)
"""


def start(directory: Path, options: str = "") -> subprocess.Popen[str]:
    """Start the writer; `options` are further arguments of its recorder."""
    program = PROGRAM.replace("Recorder(sys.argv[1])", f"Recorder(sys.argv[1]{options})")
    command = [sys.executable, "-c", program, str(directory)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY, text=True)


def kill(process: subprocess.Popen[str], steps: int) -> tuple[int, int]:
    """Kill the writer after so many steps. Return the episode and the step that it printed last."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(steps)]
    process.kill()
    lines += process.stdout.read().splitlines()  # printed before it was killed
    process.wait()
    episode, step = [line.split() for line in lines if len(line.split()) == 2][-1]
    return int(episode), int(step)


def check_episodes(recording: Recording, last: tuple[int, int]) -> None:
    """Check that finished episodes are complete, and that only the end of the last one may be missing."""
    episode, step = last
    rows = recording.table()
    finished = [index for index, row in enumerate(rows) if row["end"] == "done"]
    assert finished == list(range(len(finished)))
    complete = episode + (step == LENGTHS[episode % len(LENGTHS)] - 1)
    assert len(finished) >= complete
    for index in finished:
        assert rows[index]["steps"] == LENGTHS[index % len(LENGTHS)]
    written = rows[complete]["steps"] if len(rows) > complete else 0
    assert written >= step + 1 - 64 or complete > episode
    for index, row in enumerate(rows):
        observations = np.asarray(recording[index].observations) if row["steps"] else ()
        expected = [step_values(index, t)["observation"] for t in range(row["steps"])]
        np.testing.assert_array_equal(observations, expected)


@pytest.mark.slow
def test_a_killed_recorder_loses_at_most_64_steps(tmp_path: Path) -> None:
    rng = random.Random(0)
    for moment in range(MOMENTS):
        directory = tmp_path / str(moment)
        last = kill(start(directory), rng.randint(1, 700))
        recording = open_recording(directory)
        check_episodes(recording, last)
        assert all(Path(recording.checkpoint(one) or "").read_text() == "agent" for one in recording)
        before = len(recording)
        with Recorder(directory) as recorder:
            add_episode(recorder, 0, 3)
        ends = [row["end"] for row in open_recording(directory).table()]
        assert ends[-1] == "done"
        assert len(ends) == before + 1
        assert ends.count("still going") == 0


@pytest.mark.slow
def test_a_concurrent_reader_sees_only_complete_episodes(tmp_path: Path) -> None:
    process = start(tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    recording = StoredRecording(tmp_path / "plugins/rl_clarity/training")
    seen = 0
    while seen < 60:
        os.read(process.stdout.fileno(), 2**16)  # keeps the writer going
        rows = recording.refresh().table()
        assert len(rows) >= seen
        for row in rows[seen:]:
            if row["end"] == "done":
                assert row["steps"] == LENGTHS[row["episode"] % len(LENGTHS)]
            observations = recording[row["episode"]].fields.get("observations", ())
            for step in range(0, row["steps"], 13):
                np.testing.assert_array_equal(observations[step], step_values(row["episode"], step)["observation"])
        seen = len(rows)
    process.kill()
    process.wait()
    process.stdout.close()
