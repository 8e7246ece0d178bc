"""`rl_clarity.record` and `rl-clarity record`: let the agent of a checkpoint play, and record it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import parse
from rl_clarity.formats.included import open_agent
from rl_clarity.recordings.agent_play import record_agent
from rl_clarity.recordings.options import RecordOptions
from rl_clarity.recordings.recording import Recording, is_recording, open_recording


def record(
    checkpoint: str | os.PathLike[str] | Agent,
    directory: str | os.PathLike[str],
    *,
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> Recording:
    """Let the agent of a checkpoint play in its environment, record the episodes, and return the recording.

    If `directory` contains a recording of the same agent, environment and options with a different seed, the episodes
    are appended to it. The same arguments give the same episodes. Recorded rewards are the unscaled rewards of the
    game; if training scaled them, the scaled rewards are recorded as `training_rewards`.

    Args:
        checkpoint: A checkpoint of any supported format, an included agent (`models:coinrun`), or an agent, which may
            be edited (`rl_clarity.edit`). The metadata of an agent that was not loaded from a checkpoint must name
            its environment: `TorchAgent(module, shape, {"env_kind": "gymnasium", "env_name": "CarRacing-v3"})`.
        directory: A directory, or an address such as `s3://bucket/recording`.
        metadata: Metadata that override the checkpoint's: `env_name`, `num_levels`, ...
        options: See `RecordOptions`: `episodes`, `steps`, `whole_games`, `seed`, `temperature`, `greedy`,
            `action_noise`, `full_resolution`.

    Raises:
        OptionError: An option is invalid, or the recording already has episodes with this seed.
        SamplesError: The directory cannot be written, or contains a recording with different metadata.
        CheckpointError: The checkpoint cannot be read.
        EnvironmentSetupError: The agent's environment cannot be created.
    """
    chosen = parse(RecordOptions, options)
    _check_new(directory, chosen.seed)
    read, agent = open_agent(checkpoint, metadata, in_memory=True)
    return record_agent(agent, read, directory, chosen)


def _check_new(directory: str | os.PathLike[str], seed: int) -> None:
    if is_recording(directory) and any(row["seed"] == seed for row in open_recording(directory).table()):
        raise OptionError(
            f"seed={seed}: {os.fspath(directory)} already has episodes with this seed; use a different seed to "
            "add new episodes, or a different directory"
        )
