"""The agreement of attribution and effects on the small run's page."""

from __future__ import annotations

import numpy as np
import pytest

from rl_clarity.analyses.objects.agreement import box_sums, compare
from tests.pipeline.small import SmallRun


def test_agreement_on_the_page_equals_that_of_stored_numbers(small_run: SmallRun) -> None:
    results = small_run.results
    section = results.section("agreement")
    choice = results.section("baseline")
    assert choice["chosen"] == results.baseline == "blur"  # too few effects of a random network are large
    assert section["output"] == "value"
    assert [layer["layer"] for layer in section["layers"]] == [name for name in results.layers if name != "input"]
    for layer in section["layers"]:
        predictions, changes, episodes = [], [], []
        for trajectory in range(len(results.section("objects")["trajectories"])):
            chunk = results.objects(trajectory)
            frames = sorted({*chunk["frame"].tolist()})
            attribution = results.attribution(layer["layer"], trajectory, "value", frames)
            assert attribution.residual is not None
            maps = attribution.channels.sum(axis=-1) + attribution.residual[..., 0]
            step = np.searchsorted(frames, chunk["frame"])
            predictions.append(box_sums(maps, step, chunk["box"], (64, 64)))
            changes.append(chunk["effect.value"].astype(np.float64))
            firsts = results.series(trajectory)["firsts"]
            episodes.append(1000 * trajectory + np.cumsum(firsts)[chunk["frame"]])
        change, episode = np.concatenate(changes), np.concatenate(episodes)
        judged = np.unique(episode, return_inverse=True)[1] % 2 == 0  # the others chose the baseline
        assert choice["count"] + judged.sum() == len(change)
        expected = compare(
            np.concatenate(predictions)[judged],
            change[judged],
            np.zeros(judged.sum()),
            episode[judged],
            section["threshold"],
        )
        assert section["count"] == expected.count
        assert section["large"] == expected.large
        for name in ("correlation", "signs", "magnitudes"):
            value = getattr(expected, name).value
            assert layer[name]["value"] == (None if np.isnan(value) else pytest.approx(value, abs=1e-3))
