"""Environments described by the metadata of checkpoints."""

from __future__ import annotations

import pytest

from rl_clarity.base.errors import EnvironmentSetupError
from rl_clarity.environments import spec_from_metadata


def test_metadata_default_to_procgen_and_ignore_training_options() -> None:
    spec = spec_from_metadata(
        {
            "env_name": "coinrun",
            "num_levels": 100000,
            "distribution_mode": "easy",
            "paint_vel_info": None,
            "num_envs": 64,
            "gamma": 0.999,
            "cnn": "clear",
            "frame_stack": 2,
            "epsilon_greedy": 0.1,
            "reward_scale": 0.5,
        }
    )
    assert (spec.kind, spec.name) == ("procgen", "coinrun")
    assert dict(spec.options) == {"num_levels": 100000, "distribution_mode": "easy", "frame_stack": 2}
    assert (spec.epsilon_greedy, spec.reward_scale) == (0.1, 0.5)


def test_atari_metadata_set_episodic_life_as_the_training_library_does() -> None:
    spec = spec_from_metadata({"env_kind": "atari", "env_id": "breakout", "frame_stack": 4, "use_sticky_actions": 1})
    assert (spec.kind, spec.name) == ("atari", "breakout")
    assert dict(spec.options) == {"frame_stack": 4, "use_sticky_actions": 1, "episodic_life": True}
    other = spec_from_metadata({"env_kind": "atari", "env_id": "breakout", "library": "stable_baselines3"})
    assert "episodic_life" not in other.options
    explicit = spec_from_metadata({"env_kind": "atari", "env_id": "breakout", "episodic_life": False})
    assert explicit.options["episodic_life"] is False


def test_coinrun_old_gets_as_many_actions_as_the_policy_has() -> None:
    metadata = {"env_name": "coinrun_old", "paint_vel_info": 1, "start_level": 0}
    assert spec_from_metadata(metadata).kind == "coinrun_old"
    assert dict(spec_from_metadata(metadata, num_actions=7).options) == {"paint_vel_info": 1}
    assert dict(spec_from_metadata(metadata, num_actions=9).options) == {"paint_vel_info": 1, "extra_actions": 2}


def test_gymnasium_ids_are_case_sensitive() -> None:
    assert spec_from_metadata({"env_kind": "gymnasium", "env_id": "CarRacing-v3"}).name == "CarRacing-v3"


def test_metadata_without_an_environment_name_are_rejected() -> None:
    with pytest.raises(EnvironmentSetupError, match="neither env_name nor env_id"):
        spec_from_metadata({"gamma": 0.99})
