"""Record episodes while an agent plays or learns: `rl_clarity.Recorder`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import numpy as np

from rl_clarity.errors import OptionError, SamplesError
from rl_clarity.keys import to_plain
from rl_clarity.recordings.blocks import MAX_BYTES, MAX_STEPS, check_name, check_type, encode_block
from rl_clarity.recordings.layout import DONE, STOPPED, TIME_LIMIT
from rl_clarity.recordings.recording_files import RecordingWriter


class Recorder:
    """Appends episodes to a recording, from a loop in which an agent acts.

    Call `add` once a step, and `close` at the end, or use it as a context manager. What `add` receives is copied;
    compression happens on a thread. When `add` returns from an episode's last step, the episode is on disk; if the
    process is killed, the last 64 steps of episodes under way are lost at most (at an address such as `s3://`, what
    has not been uploaded: the last minute).

    Args:
        directory: A directory or address; episodes are appended to a recording that it holds.
        every: Record every n-th episode, or those for whose number, counted from 0, a function returns True.
        envs: Which of several parallel environments to record; None for all.
        seed: Seed of the environments, to be stored with the episodes.
        metadata: JSON values about agent and environment, to be stored with a new recording. Names that
            rl_clarity uses: `name`, `checkpoint`, `environment`, `action_combos`, `gamma`, `lambda`, `sampling`.

    Raises:
        SamplesError: The directory cannot be written, is being written by another process, or holds a recording with
            other metadata.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        every: int | Callable[[int], bool] = 1,
        envs: Sequence[int] | None = (0,),
        seed: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(every, int):
            if every < 1:
                raise OptionError(f"every={every} must be at least 1, or a function of the episode's number")
            self._is_recorded: Callable[[int], bool] = lambda number: number % every == 0
        else:
            self._is_recorded = every
        plain = {**to_plain(metadata or {}), "begun": time.time()}
        self._writer = RecordingWriter(directory, plain)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rl-clarity-recorder")
        self._envs, self._seed = envs, seed
        self._recorded_envs: Sequence[int] = ()
        self._slots: list[_Slot] = []
        self._vector = False
        self._num_envs = 0
        self._calls = 0
        self._episodes = 0
        self._busy = True  # an episode is recorded or begins, or `add` has not been called yet
        self._closed = False

    def add(
        self,
        *,
        observation: Any,
        action: Any,
        reward: Any,
        terminated: Any,
        truncated: Any = False,
        frame: Any = None,
        logits: Any = None,
        q_values: Any = None,
        value: Any = None,
        behaviour_logits: Any = None,
        training_reward: Any = None,
        state: Any = None,
        info: Mapping[str, Any] | None = None,
        final_observation: Any = None,
        final_state: Any = None,
        final_value: Any = None,
        level_seed: Any = None,
        training_step: int | None = None,
        idle: Any = None,
    ) -> None:
        """Add a step: what the agent saw, what it computed and did, and what came of it.

        With N parallel environments, each value is an array (or sequence) with a first axis N. Tensors of PyTorch, JAX
        and TensorFlow are accepted. The fields of the first step of an episode are those of all its steps.

        Args:
            observation: What the network took, before the action: (H, W, C) uint8 for images.
            action: The action.
            reward: The game's own reward for it.
            terminated: Whether the episode ended with this step.
            truncated: Whether a time limit ended it.
            frame: An image (H', W', 3) uint8 to show instead of the observation, or a function that returns it, which
                is called only for recorded steps. It must show what the observation shows.
            logits: (A,) of the policy, for the observation.
            q_values: (A,) action values for the observation.
            value: The value of the observation.
            behaviour_logits: (A,) logits of the distribution that the action was sampled from, if noise was added.
            training_reward: What a wrapper made of the reward.
            state: Recurrent state before the step, reset where an episode begins: an array or a tuple of arrays.
            info: More numbers or arrays by name.
            final_observation: The observation after the step, read where an episode ends; it may be a sequence or a
                mapping by environment, with gaps.
            final_state: The state after the step, likewise.
            final_value: The value of the observation after the step, read where an episode ends.
            level_seed: Seed of the level. It is read where an episode begins.
            training_step: The training step at which an episode begins.
            idle: Whether an environment only reset and ignored the action; such steps are not recorded.

        Raises:
            SamplesError: Values that do not match those of earlier steps, or that cannot be written.
        """
        self._calls += 1
        if not self._busy:
            if not self._vector:
                if not (terminated or truncated):
                    return
            else:
                for env in self._recorded_envs:
                    if terminated[env] or (truncated is not False and truncated[env]):
                        break
                else:
                    return
        values = {
            "observations": observation,
            "frames": frame,
            "actions": action,
            "rewards": reward,
            "policy_logits": logits,
            "q_values": q_values,
            "values": value,
            "behaviour_logits": behaviour_logits,
            "training_rewards": training_reward,
            **_parts("states", state),
        }
        for name, number in (info or {}).items():
            values[f"info.{name}"] = number
        final = {"observation": final_observation, "state": final_state, "value": final_value}
        start = {"level_seed": level_seed, "training_step": training_step}
        self._add(values, terminated, truncated, final, start, idle)

    def close(self) -> None:
        """Write what is left, and end episodes under way as stopped. Calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            for slot in self._slots:
                if slot.block is not None:
                    slot.block.finish({"end": STOPPED, **slot.result()}, {})
        finally:
            self._thread.shutdown()
            self._writer.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _add(
        self,
        values: dict[str, Any],
        terminated: Any,
        truncated: Any,
        final: Mapping[str, Any],
        start: Mapping[str, Any],
        idle: Any,
    ) -> None:
        if self._closed:
            raise SamplesError("the recorder is closed")
        if not self._slots:
            self._set_up(values["rewards"])
        values = {name: value for name, value in values.items() if value is not None}
        for slot in self._slots:
            index = slot.env if self._vector else None
            if idle is not None and _item(idle, index):
                continue
            if slot.begins:
                self._begin(slot, start, index)
            if slot.block is not None:
                frame = values.get("frames")
                if callable(frame):
                    values["frames"] = frame()
                slot.block.add({name: _to_array(name, _item(value, index)) for name, value in values.items()})
                slot.steps += 1
                slot.total += float(slot.block.last("rewards"))
            ended = bool(_item(terminated, index))
            if ended or (truncated is not False and _item(truncated, index)):
                if slot.block is not None:
                    result = {"end": DONE if ended else TIME_LIMIT, **slot.result()}
                    slot.block.finish(result, _final_arrays(final, index))
                    slot.block = None
                slot.begins = True
        self._busy = any(slot.begins or slot.block is not None for slot in self._slots)

    def _set_up(self, reward: Any) -> None:
        shape = np.shape(reward)
        self._vector = len(shape) > 0
        self._num_envs = shape[0] if shape else 1
        self._recorded_envs = range(self._num_envs) if self._envs is None or not self._vector else self._envs
        if not all(0 <= env < self._num_envs for env in self._recorded_envs):
            raise OptionError(f"envs={self._envs} must be from 0 to {self._num_envs - 1}")
        self._slots = [_Slot(env) for env in self._recorded_envs]

    def _begin(self, slot: _Slot, start: Mapping[str, Any], index: int | None) -> None:
        number = self._episodes
        self._episodes += 1
        slot.begins, slot.steps, slot.total = False, 0, 0.0
        if not self._is_recorded(number):
            return
        level_seed, training_step = start["level_seed"], start["training_step"]
        facts = {
            "number": number,
            "environment": slot.env,
            "seed": self._seed,
            "level_seed": None if level_seed is None else int(_item(level_seed, index)),
            "start_step": (self._calls - 1) * self._num_envs,
            "start_time": time.time(),
            "training_step": None if training_step is None else int(training_step),
        }
        slot.block = _EpisodeBuffer(self._writer, self._thread, facts)


class _Slot:
    """What happens in one environment."""

    def __init__(self, env: int) -> None:
        self.env = env
        self.begins = True
        self.block: _EpisodeBuffer | None = None
        self.steps, self.total = 0, 0.0

    def result(self) -> dict[str, Any]:
        return {"steps": self.steps, "return": self.total}


class _EpisodeBuffer:
    """Collects the steps of an episode in blocks, and hands these to the thread that writes.

    There are two sets of arrays: one is filled while the other is written.
    """

    def __init__(self, writer: RecordingWriter, thread: ThreadPoolExecutor, facts: Mapping[str, Any]) -> None:
        self._writer, self._thread, self._facts = writer, thread, facts
        self._sets: list[dict[str, np.ndarray]] = []
        self._rows = self._count = self._start = 0
        self._pending: Future[None] | None = None
        self._filters: dict[str, bool] = {}
        self._index = -1

    def add(self, values: Mapping[str, np.ndarray]) -> None:
        """Copy the values of a step."""
        if not self._sets:
            self._allocate(values)
        elif self._count == self._rows:
            self._hand_over(None, {})
        buffers, count = self._sets[0], self._count
        if len(values) != len(buffers):
            changed = sorted(values.keys() ^ buffers.keys())
            raise SamplesError(f"{', '.join(changed)}: give the same fields at all steps of an episode")
        for name, value in values.items():
            buffer = buffers.get(name)
            if buffer is None or value.shape != buffer.shape[1:] or value.dtype != buffer.dtype:
                _check_same(name, value, buffer)
            buffer[count] = value  # type: ignore[index]
        self._count += 1

    def last(self, name: str) -> Any:
        """The value of a field at the last step."""
        return self._sets[0][name][self._count - 1]

    def finish(self, result: Mapping[str, Any], final: Mapping[str, np.ndarray]) -> None:
        """Write the last block, and wait until it is written."""
        if self._count:
            self._hand_over(result, final)
        if self._pending is not None:
            self._pending.result()

    def _allocate(self, values: Mapping[str, np.ndarray]) -> None:
        step_bytes = sum(check_type(name, value).nbytes for name, value in values.items())
        self._rows = int(np.clip(MAX_BYTES // max(1, step_bytes), 1, MAX_STEPS))
        for name in values:
            check_name(name)
        self._sets = [
            {
                name: np.empty((self._rows, *value.shape), value.dtype.newbyteorder("<"))
                for name, value in values.items()
            }
            for _ in range(2)
        ]

    def _hand_over(self, result: Mapping[str, Any] | None, final: Mapping[str, np.ndarray]) -> None:
        if self._pending is not None:
            self._pending.result()
        arrays = {name: buffer[: self._count] for name, buffer in self._sets[0].items()} | dict(final)
        self._pending = self._thread.submit(self._write, arrays, self._start, self._count, result)
        self._sets.reverse()
        self._start, self._count = self._start + self._count, 0

    def _write(
        self, arrays: Mapping[str, np.ndarray], start: int, steps: int, result: Mapping[str, Any] | None
    ) -> None:
        if start == 0:
            self._index = self._writer.begin(self._facts)
        header, data = encode_block(self._index, start, arrays, self._filters)
        self._writer.append(self._index, start, steps, header, data)
        if result is not None:
            self._writer.end(self._index, {**self._facts, **result})


def _parts(name: str, state: Any) -> dict[str, Any]:
    """The parts of a state by name."""
    if state is None:
        return {}
    parts = state if isinstance(state, tuple | list) else (state,)
    return {f"{name}.{i}": part for i, part in enumerate(parts)}


def _item(value: Any, index: int | None) -> Any:
    """The value of one of several environments, or of the only one (None)."""
    return value if index is None else value[index]


def _to_array(name: str, value: Any) -> np.ndarray:
    """Convert a number, array or tensor; numbers of Python are int64 as actions and else float64."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, bool | int | float) and name != "actions":
        return np.asarray(float(value))
    if hasattr(value, "detach"):  # PyTorch
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def _final_arrays(final: Mapping[str, Any], index: int | None) -> dict[str, np.ndarray]:
    """Arrays of one row by name, where there are any for this environment."""
    values = {"final_observation": _final(final["observation"], index), "final_value": _final(final["value"], index)}
    if final["state"] is not None:
        parts = final["state"] if isinstance(final["state"], tuple | list) else (final["state"],)
        values |= _parts("final_states", [_final(part, index) for part in parts])
    arrays = {name: _to_array(name, value)[None] for name, value in values.items() if value is not None}
    return {name: np.array(check_type(name, array)) for name, array in arrays.items()}


def _final(value: Any, index: int | None) -> Any:
    if index is None or value is None:
        return value
    return value.get(index) if isinstance(value, Mapping) else value[index]


def _check_same(name: str, value: np.ndarray, buffer: np.ndarray | None) -> None:
    """Raise SamplesError unless a value can be stored in an array without loss of its kind."""
    if buffer is None:
        raise SamplesError(f"{name}: give the same fields at all steps of an episode")
    if value.shape != buffer.shape[1:]:
        raise SamplesError(f"{name} has shape {value.shape}; it had {buffer.shape[1:]} earlier in the episode")
    if not np.can_cast(value.dtype, buffer.dtype, "same_kind"):
        raise SamplesError(f"{name} has type {value.dtype}; it had {buffer.dtype} earlier in the episode")
