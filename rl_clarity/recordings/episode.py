"""An episode of a recording: its facts, and the arrays of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_clarity.base.errors import SamplesError, printable
from rl_clarity.base.renamed import RenamedAttribute
from rl_clarity.recordings.layout import ACTING, CAUSE, TIME_LIMIT, TRAINING_STEPS
from rl_clarity.recordings.step_arrays import StepArray

Field = StepArray | np.ndarray


class Episode:
    """An episode, with its facts and with arrays whose first axis is its T steps.

    Each step contains the observation before the action, the recurrent state before the step (reset where the episode
    begins), the outputs for both, the action, and the reward for it.
    """

    def __init__(self, facts: Mapping[str, Any], arrays: Mapping[str, Field]) -> None:
        self._arrays = arrays
        self.facts = facts
        """A row of `Recording.table()`: `episode`, `number`, `environment`, `seed`, `level_seed`, `start_step`,
        `start_time`, `training_step`, `agent`, `end`, `steps`, `return`, `entropy`."""

    def __len__(self) -> int:
        return int(self.facts["steps"])

    def __repr__(self) -> str:
        return f"<Episode {self.facts['episode']}: {len(self)} steps, {self.end}>"

    @property
    def index(self) -> int:
        """Index in the recording, which does not change when other episodes are removed."""
        return int(self.facts["episode"])

    @property
    def number(self) -> int:
        """Number in training or play, counted from 0 and including episodes that were not recorded."""
        return int(self.facts["number"])

    @property
    def end(self) -> str:
        """Why the episode ended: `done`, `time limit` or `stopped`; `still going` if it has not ended."""
        return str(self.facts["end"])

    @property
    def cause(self) -> str | None:
        """Cause of the end of the episode, such as `saw`, or None if it was not recorded."""
        text = self._arrays.get(CAUSE)
        return None if text is None else printable(bytes(np.asarray(text[-1], np.uint8)).decode(errors="replace"))[:200]

    @property
    def observations(self) -> Field:
        """(T, H, W, C) uint8 for images: the inputs of the network, before the actions."""
        return self._field("observations")

    @property
    def frames(self) -> Field | None:
        """(T, H', W', 3) uint8: images to show instead of the observations, if they differ."""
        return self._arrays.get("frames")

    @property
    def actions(self) -> Field:
        """(T,) int, or (T, D) float where actions are continuous."""
        return self._field("actions")

    @property
    def rewards(self) -> Field:
        """(T,) the environment's rewards for the actions at the same steps, without changes by wrappers."""
        return self._field("rewards")

    @property
    def training_rewards(self) -> Field | None:
        """(T,) rewards after wrappers changed them for training."""
        return self._arrays.get("training_rewards")

    @property
    def agents(self) -> np.ndarray | None:
        """(T,) int: the number of the checkpoint that acted, -1 where there was none; None if the recorder stored only
        the checkpoints with which episodes began.
        """
        numbers = self._arrays.get(ACTING)
        return None if numbers is None else np.asarray(numbers)

    @property
    def training_steps(self) -> np.ndarray | None:
        """(T,) int: the training step at each step. None unless the recorder stored checkpoints for updates and
        received the training step.
        """
        steps = self._arrays.get(TRAINING_STEPS)
        return None if steps is None else np.asarray(steps)

    @property
    def firsts(self) -> np.ndarray:
        """(T,) bool: true at the first step."""
        return np.arange(len(self)) == 0

    @property
    def truncated(self) -> np.ndarray:
        """(T,) bool: true at the last step if a time limit ended the episode."""
        return (np.arange(len(self)) == len(self) - 1) & (self.end == TIME_LIMIT)

    @property
    def policy_logits(self) -> Field | None:
        """(T, A) logits of the agent's policy, before noise is added."""
        return self._arrays.get("policy_logits")

    @property
    def behavior_logits(self) -> Field | None:
        """(T, A) logits of the distribution that actions were sampled from, if noise was added to the policy."""
        return self._arrays.get("behaviour_logits")

    behaviour_logits = RenamedAttribute("behavior_logits")

    @property
    def q_values(self) -> Field | None:
        """(T, A) action values."""
        return self._arrays.get("q_values")

    @property
    def values(self) -> Field | None:
        """(T,) values of the states."""
        return self._arrays.get("values")

    @property
    def states(self) -> tuple[Field, ...] | None:
        """Parts (T, ...) of the recurrent state before each step, or None."""
        return self._parts("states")

    @property
    def final_states(self) -> tuple[np.ndarray, ...] | None:
        """Parts (...) of the recurrent state after the last step."""
        parts = self._parts("final_states")
        return None if parts is None else tuple(np.asarray(part[-1]) for part in parts)

    @property
    def final_observation(self) -> np.ndarray | None:
        """(H, W, C) uint8: the observation after the last action, if the environment returned it."""
        final = self._arrays.get("final_observation")
        return None if final is None else np.asarray(final[-1])

    @property
    def final_value(self) -> float | None:
        """The value of the state after the last step, if it was recorded."""
        final = self._arrays.get("final_value")
        return None if final is None else float(final[-1])

    @property
    def info(self) -> dict[str, Field]:
        """Additional fields (T, ...) by name, as passed to `Recorder.add(info=...)`."""
        return {name.removeprefix("info."): array for name, array in self._arrays.items() if name.startswith("info.")}

    @property
    def fields(self) -> dict[str, Field]:
        """All stored fields (T, ...) by name: `observations`, `states.0`, `info.NAME`, ..."""
        return {name: array for name, array in self._arrays.items() if not name.startswith("final_")}

    def _field(self, name: str) -> Field:
        if name not in self._arrays:
            raise SamplesError(f"episode {self.index} has no {name}; its fields are {sorted(self._arrays)}")
        return self._arrays[name]

    def _parts(self, name: str) -> tuple[Field, ...] | None:
        parts = [key for key in self._arrays if key.startswith(f"{name}.")]
        return tuple(self._arrays[f"{name}.{i}"] for i in range(len(parts))) or None


def memory_parts(metadata: Mapping[str, Any], episode: Episode) -> tuple[Field, ...]:
    """Return the parts (T, ...) of the recurrent state before each step, without the inputs other than the image, which
    are stored with the state.
    """
    parts = episode.states or ()
    return parts[: len(parts) - len(metadata.get("inputs") or ())]


def observed_parts(metadata: Mapping[str, Any], episode: Episode) -> dict[str, Field]:
    """Return the inputs (T, ...) that the agent observes besides the image, by name. They are stored as the last parts
    of the states.
    """
    return dict(
        zip(metadata.get("inputs") or (), (episode.states or ())[len(memory_parts(metadata, episode)) :], strict=False)
    )
