from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from rl_clarity.base.errors import OptionError
from rl_clarity.environments import spec_from_metadata
from rl_clarity.ppo.options import TrainOptions, train_options

ORIGINAL_DEFAULTS = {
    "env_kind": "procgen",
    "num_envs": 64,
    "learning_rate": 5e-4,
    "entropy_coeff": 0.01,
    "gamma": 0.999,
    "lambda": 0.95,
    "num_steps": 256,
    "num_minibatches": 8,
    "ppo_epochs": 3,
    "clip_range": 0.2,
    "clip_vf": True,
    "timesteps_per_proc": 1e9,
    "cnn": "clear",
    "use_lstm": False,
    "gru_units": 0,
    "stack_channels": "16_32_32",
    "emb_size": 256,
    "epsilon_greedy": 0,
    "reward_scale": 1,
    "frame_stack": 1,
    "reward_processing": "none",
    "save_interval": 10,
    "save_all": False,
}


def test_training_defaults_are_those_of_the_original() -> None:
    args = train_options({"env_name": "coinrun"}).checkpoint_args()
    assert {name: args[name] for name in ORIGINAL_DEFAULTS} == ORIGINAL_DEFAULTS


def test_unknown_training_options_suggest_the_nearest_name() -> None:
    with pytest.raises(OptionError, match=r"'learning_rat'.*'learning_rate'"):
        train_options({"env_name": "coinrun", "learning_rat": 1})


@pytest.mark.parametrize("key", ["lambda", "lam", "lambda_"])
def test_lambda_has_aliases(key: str) -> None:
    assert train_options({"env_name": "coinrun", key: 0.5}).lambda_ == 0.5


def test_aliases_of_lambda_cannot_be_combined() -> None:
    with pytest.raises(OptionError, match="twice"):
        train_options({"env_name": "coinrun", "lambda": 0.5, "lam": 0.5})


def test_flags_can_be_passed_as_0_and_1() -> None:
    options = train_options({"env_name": "coinrun", "clip_vf": 0, "use_lstm": 0, "use_backgrounds": 1})
    assert (options.clip_vf, options.use_lstm, options.use_backgrounds) == (False, False, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "env_name"),
        ({"env_name": "coinrun", "env_id": "procgen:procgen-coinrun-v0"}, "env_id"),
        ({"env_name": "coinrun", "num_envs": 0}, "num_envs=0"),
        ({"env_name": "coinrun", "gamma": 1.5}, "gamma=1.5"),
        ({"env_name": "coinrun", "lambda": -1}, "lambda=-1"),
        ({"env_name": "coinrun", "learning_rate": 0}, "learning_rate=0"),
        ({"env_name": "coinrun", "learning_rate": "fast"}, "learning_rate='fast'"),
        ({"env_name": "coinrun", "reward_processing": "sign"}, "'sign'.*clip"),
        ({"env_name": "coinrun", "precision": "float16"}, "'float16'.*bfloat16"),
        ({"env_name": "coinrun", "num_minibatches": 7}, "num_minibatches=7"),
        ({"env_name": "coinrun", "timesteps_per_proc": float("inf")}, "timesteps_per_proc=inf"),
        ({"env_name": "coinrun", "max_grad_norm": float("inf")}, "max_grad_norm=inf"),
        ({"env_name": "coinrun", "seed": -1}, "seed=-1"),
        ({"env_name": "coinrun", "value_loss_coeff": -1}, "value_loss_coeff=-1"),
        ({"env_name": "coinrun", "entropy_coeff": float("inf")}, "entropy_coeff=inf"),
        ({"env_name": "coinrun", "reward_scale": 0}, "reward_scale=0"),
        ({"env_name": "coinrun", "use_sticky_actions": 1}, "use_sticky_actions=True.*'procgen'"),
        ({"env_name": "pong", "env_kind": "atari", "num_levels": 10}, "num_levels=10.*'atari'"),
        ({"env_id": "CarRacing-v3", "env_kind": "gymnasium", "distribution_mode": "easy"}, "distribution_mode='easy'"),
        ({"env_name": "coinrun", "env_kind": "coinrun_old", "center_agent": False}, "center_agent=False"),
    ],
)
def test_invalid_training_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        train_options(options)


@pytest.mark.parametrize(
    "options",
    [
        {"env_name": "pong", "env_kind": "atari", "use_sticky_actions": True, "num_levels": 0},
        {"env_name": "coinrun", "env_kind": "coinrun_old", "num_levels": 10},
        {"env_name": "coinrun_old", "num_levels": 10},
        {"env_name": "coinrun", "use_sticky_actions": False},
    ],
)
def test_options_of_other_environment_types_are_accepted_at_their_default(options: dict[str, Any]) -> None:
    train_options(options)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"env_id": "procgen:procgen-coinrun-v0"}, "coinrun"),
        ({"env_name": "coinrun"}, "coinrun"),
        ({"env_id": "BreakoutNoFrameskip-v4", "env_kind": "atari"}, "BreakoutNoFrameskip-v4"),
        ({"env_id": "my_module:Mine-v0", "env_kind": "gymnasium"}, "my_module:Mine-v0"),
    ],
)
def test_environment_ids_and_names_are_equivalent(options: dict[str, Any], name: str) -> None:
    assert train_options(options).environment().name == name


def test_training_scales_rewards_instead_of_the_environment() -> None:
    options: dict[str, Any] = {"env_name": "coinrun", "num_levels": 50, "epsilon_greedy": 0.1, "reward_scale": 3}
    spec = train_options(options).environment()
    assert spec.options["num_levels"] == 50
    assert spec.epsilon_greedy == 0.1
    assert spec.reward_scale == 1


def test_metadata_of_a_trained_checkpoint_describe_its_environment() -> None:
    for keywords in (
        {"env_id": "procgen:procgen-coinrun-v0", "num_levels": 50, "distribution_mode": "easy"},
        {"env_id": "BreakoutNoFrameskip-v4", "env_kind": "atari", "frame_stack": 4},
    ):
        options = train_options(keywords)
        assert spec_from_metadata(options.checkpoint_args()) == options.environment()


def test_the_help_text_describes_the_training_options() -> None:
    import tyro

    with pytest.raises(SystemExit) as exited:
        tyro.cli(TrainOptions, args=["--help"])
    assert exited.value.code == 0


def test_importing_training_options_imports_no_framework() -> None:
    code = (
        "import sys, rl_clarity.ppo, rl_clarity.ppo.options\n"
        "assert not {'tensorflow', 'keras', 'mpi4py', 'procgen'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_rl_clarity_train_remains_a_function_after_importing_submodules() -> None:
    code = (
        "import rl_clarity, rl_clarity.ppo.session\n"
        "assert callable(rl_clarity.ppo.train) and callable(rl_clarity.train)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
