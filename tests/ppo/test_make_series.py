"""The script that adds a series of checkpoints, and its card, to the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rl_clarity import formats
from rl_clarity.formats import included as models
from rl_clarity.ppo import train
from rl_clarity.sources.curves import read_curve
from scripts.make_series import MAX_BYTES, main
from tests.ppo.small import tiny


@pytest.mark.slow
def test_the_script_writes_a_series_in_half_precision_with_log_and_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tmp_path / "run", **tiny(8, save_interval=1, save_all=True))
    folder = tmp_path / "models" / "columns"
    arguments = ["ship", str(tmp_path / "run"), "columns", "--models", str(tmp_path / "models"), "--episodes", "2"]
    with pytest.raises(SystemExit, match="has 8 checkpoints; --count 5 must be from 6 to this number"):
        main([*arguments, "--count", "5"])
    main([*arguments, "--count", "6", "--machine", "one core"])
    names = sorted(path.name for path in folder.glob("*.jd"))
    assert len(names) == 6
    assert {"checkpoint-1.jd", "checkpoint-8.jd"} <= set(names)
    first = formats.read(folder / "checkpoint-1.jd")
    assert {array.dtype.name for array in first.parameters.values()} == {"float16"}
    assert first.metadata["training_step"] == 32
    assert sum(path.stat().st_size for path in folder.iterdir()) < MAX_BYTES
    assert read_curve(folder / "progress.csv").steps[-1] == 256
    facts = json.loads((folder / "series.json").read_text())
    assert [one["timesteps"] for one in facts["checkpoints"]] == sorted(
        one["timesteps"] for one in facts["checkpoints"]
    )
    card = (tmp_path / "models" / "columns.md").read_text()
    assert card.count("| checkpoint-") == 6
    for words in ("| random policy |", "rl-clarity compare models:columns out/columns", "one core", "256 environment"):
        assert words in card
    assert str(tmp_path) not in card
    monkeypatch.setattr(models, "models_directory", lambda: tmp_path / "models")
    assert models.path_of("columns") == folder
