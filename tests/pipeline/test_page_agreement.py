"""The agreement of attribution and effects on the small run's page."""

from __future__ import annotations

import numpy as np
import pytest

from rl_clarity.analyses.objects.agreement import box_sums, compare
from tests.pipeline.small import SmallRun


def test_agreement_is_that_of_the_stored_attribution_and_effects(small_run: SmallRun) -> None:
    results = small_run.results
    section = results.section("agreement")
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
        change = np.concatenate(changes)
        expected = compare(
            np.concatenate(predictions), change, np.zeros(len(change)), np.concatenate(episodes), section["threshold"]
        )
        assert section["count"] == expected.count
        assert section["large"] == expected.large
        for name in ("correlation", "signs", "magnitudes"):
            value = getattr(expected, name).value
            assert layer[name]["value"] == (None if np.isnan(value) else pytest.approx(value, abs=1e-3))
