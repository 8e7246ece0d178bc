"""`rl_clarity.Recorder` records episodes while an agent plays or learns."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal
from weakref import WeakSet

import numpy as np

from rl_clarity.base.errors import OptionError, SamplesError
from rl_clarity.base.parsing import path_text
from rl_clarity.base.renamed import renamed_arguments
from rl_clarity.environments.images import ImageLayout
from rl_clarity.recordings.blocks import check_type
from rl_clarity.recordings.checkpoints import BUDGET, NewCheckpoints, check_options
from rl_clarity.recordings.episode_buffer import EpisodeBuffer, to_array
from rl_clarity.recordings.layout import ACTING, DONE, METADATA, PLUGIN, STOPPED, TIME_LIMIT, TRAINING_STEPS
from rl_clarity.recordings.metadata import new_metadata
from rl_clarity.recordings.recording_files import RecordingFiles
from rl_clarity.recordings.recording_writer import RecordingWriter
from rl_clarity.recordings.retention import Limits
from rl_clarity.recordings.step_values import Values, check_first_values, final_arrays, item, state_parts

NAME = "training"
"""Default name of a recording in a log directory."""
MOST_PROBED = 256
"""Largest number of fixed observations."""
AUTORESET = ("same_step", "next_step", "disabled")
ON_ERROR = ("warn", "raise")


_RECORDERS: WeakSet[Recorder] = WeakSet()
"""Recorders of this process, and of the process that it was forked from."""


class Recorder:
    """Appends episodes to a recording, from a loop in which an agent acts or learns.

    Call `add` once per step and `close` at the end, or use the recorder as a context manager. Arguments of `add` are
    copied, and compressed in a thread. When `add` returns from an episode's last step, the episode is on disk. If the
    process is killed, at most the last 64 steps of unfinished episodes are lost (at an address such as `s3://`, what
    has not been uploaded, at most the last minute).

    It needs NumPy, but no deep-learning framework. An error while it records (a full disk, values of another shape)
    ends the recording with a warning, and does not stop the training.

    Args:
        directory: A log directory, such as that of TensorBoard's event files, or an address. The recording is in
            `plugins/rl_clarity/NAME` there. Episodes are appended to an existing recording; `directory` may also be the
            path of that recording.
        name: Name of the recording in the log directory; None if `directory` itself is to be the recording.
        every: Record every n-th episode. A function receives an episode's number, counted from 0, and returns whether
            to record it. Episodes of all environments in `envs` are counted together, in the order in which they begin;
            those of other environments are not counted. In a recording that is continued, numbers go on after the last
            one.
        envs: Which of several parallel environments to record; None for all.
        autoreset: When vector environments reset, as Gymnasium's `AutoresetMode` says. With `next_step`, the step after
            an episode's last one only resets, and is not recorded.
        channels_first: Whether observations are (C, H, W); they are stored as (H, W, C).
        value_range: Values of black and white in images (H, W, C), which are stored as uint8 from 0 to 255. By default
            values are stored as they are, and recording stops at the end of an episode whose images of uint8 have only
            the values 0 and 1, which look black; `(0, 255)` records these, too.
        max_episodes: Keep at most so many episodes: the newest half, and ever fewer of the older ones. Episodes under
            way are not counted.
        max_bytes: Keep at most about so many bytes of data and checkpoints, in the same manner.
        checkpoint_every: Also store a checkpoint while an episode is recorded, at every n-th call of `agent`: with 1,
            each step can be explained with the network that acted. None stores only the checkpoints with which episodes
            begin. With a number, a checkpoint is stored as the difference from the one before where that is smaller.
        checkpoint_bytes: Once checkpoints take so many bytes, a warning is given and only those with which episodes
            begin are stored.
        checkpoint_tolerance: Round large weights in these differences, each by at most this share, such as 2e-5, of the
            root mean square of its tensor. They take half as much space, and outputs change by about 1e-5. Errors do
            not accumulate; biases, small tensors and buffers stay exact. None stores everything exactly.
        on_error: `warn` ends the recording with a warning; `raise` raises the error.
        seed: Seed of the environments, to be stored with the episodes.
        metadata: JSON values about agent and environment, to be stored with a new recording. Names that
            rl_clarity uses: `name`, `loader`, `checkpoint`, `environment`, `action_combos`, `gamma`, `lambda`,
            `sampling`; their values are described with the recording format.

    Raises:
        OptionError: An option has an invalid value, or one of `metadata` has.
        SamplesError: The directory cannot be written, is being written by another process, or holds a recording with
            other metadata. It is raised before training, whatever `on_error` says.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        name: str | None = NAME,
        every: int | Callable[[int], bool] = 1,
        envs: Sequence[int] | None = (0,),
        autoreset: Literal["same_step", "next_step", "disabled"] = "same_step",
        channels_first: bool = False,
        value_range: tuple[float, float] | None = None,
        max_episodes: int | None = None,
        max_bytes: int | None = None,
        checkpoint_every: int | None = None,
        checkpoint_bytes: int = BUDGET,
        checkpoint_tolerance: float | None = None,
        on_error: Literal["warn", "raise"] = "warn",
        seed: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        for option, value, choices in (("autoreset", autoreset, AUTORESET), ("on_error", on_error, ON_ERROR)):
            if value not in choices:
                raise OptionError(f"{option}={value!r} must be one of {', '.join(choices)}")
        if isinstance(every, int):
            if every < 1:
                raise OptionError(f"every={every} must be at least 1, or a function of the episode's number")
            self._is_recorded: Callable[[int], bool] = lambda number: number % every == 0
        else:
            self._is_recorded = every
        check_options(checkpoint_every, checkpoint_tolerance)
        about = new_metadata(metadata or {}, checkpoint_tolerance)
        self.location = _location(directory, name)
        """Path or address of the recording, for `open_recording`."""
        self._writer = RecordingWriter(self.location, about, Limits(max_episodes, max_bytes))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rl-clarity-recorder")
        self._envs, self._seed, self._channels_first = envs, seed, channels_first
        self._value_range = value_range
        self._resets_next_step, self._raises = autoreset == "next_step", on_error == "raise"
        self._checkpoints = NewCheckpoints(self._writer, checkpoint_every, checkpoint_bytes, checkpoint_tolerance)
        self._thinning: Future[None] | None = None
        self._recorded_envs: Sequence[int] = ()
        self._slots: list[_Slot] = []
        self._per_environment: dict[str, bool] = {}
        """Whether functions that are passed to `add` are called for each environment, by name."""
        self._vector = False
        self._num_envs = 0
        self._calls = 0
        self._episodes = self._writer.next_number
        self._busy = True  # whether an episode is recorded or begins, or `add` has not been called yet
        self._closed = self._stopped = self._inherited = False
        _RECORDERS.add(self)

    @property
    def recording(self) -> bool:
        """Whether the next step will be recorded in any environment.

        Use it before the step to decide whether to render the frame, or compute values that are needed only for
        recording.
        """
        if self._stopped or not self._busy:
            return False
        slots = self._slots or [_Slot(0)]
        begins = self._is_recorded(self._episodes)
        return any(slot.block is not None or (slot.begins and begins) for slot in slots)

    def agent(self, checkpoint: str | os.PathLike[str] | Callable[[str], object]) -> None:
        """Set the checkpoint of the agent that acts from here on.

        It is stored when the next recorded episode begins, or with `checkpoint_every` at the next recorded step, so
        this may be called after each update.

        Args:
            checkpoint: A file, or a function that saves one: it is called with a path, to which it may add a suffix,
                as in `lambda path: torch.save(network.state_dict(), path)`.
        """
        self._checkpoints.update(checkpoint)

    def probe(self, observations: Any, state: Any = None) -> None:
        """Store fixed observations, on which `rl-clarity explain` compares each stored checkpoint with the one before.

        Call it once, before training or later. In a recording that has such observations, these stay.

        Args:
            observations: (n, H, W, C) or vectors (n, k), 1 to 256 of them, as `add` takes one; they are read from
                different episodes, for example those of a random policy and later ones.
            state: Recurrent state before each, (n, ...), an array or a tuple of arrays; by default the initial one.

        Raises:
            OptionError: There are none, or too many, or the states are of another number; whatever `on_error` says.
        """
        rows = to_array("observations", observations)
        states = {name: to_array(name, part) for name, part in state_parts("states", state).items()}
        if rows.ndim < 2 or not 1 <= len(rows) <= MOST_PROBED:
            raise OptionError(
                f"observations has shape {rows.shape}; it must be (n, ...) with n from 1 to {MOST_PROBED}, one row for "
                "each observation"
            )
        for name, part in states.items():
            if len(part) != len(rows):
                raise OptionError(f"{name} has shape {part.shape}; there are {len(rows)} observations")
        try:
            slot = _Slot(0)
            stored = [slot.images(self._last_axis(row), self._value_range) for row in rows]
            arrays = {"observations": np.stack(stored), **states}
            self._writer.add_probe({name: check_type(name, array) for name, array in arrays.items()})
        except Exception as error:
            self.stop(error)

    def _last_axis(self, observation: np.ndarray) -> np.ndarray:
        """Return an observation with its channels last."""
        return np.moveaxis(observation, 0, -1) if self._channels_first else observation

    @renamed_arguments(behaviour_logits="behavior_logits")
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
        behavior_logits: Any = None,
        training_reward: Any = None,
        state: Any = None,
        info: Mapping[str, Any] | None = None,
        final_observation: Any = None,
        final_state: Any = None,
        final_value: Any = None,
        cause: Any = None,
        level_seed: Any = None,
        training_step: int | None = None,
        idle: Any = None,
    ) -> None:
        """Add a step: what the agent observed, computed and did, and the reward and end that followed.

        With N parallel environments, each value is an array (or sequence) with a first axis N. Tensors of PyTorch, JAX
        and TensorFlow are accepted, and copied only for steps that are recorded; functions that return a value are
        called only for these. A function without a parameter returns the values of all environments; one with a
        parameter is called for each recorded environment, with its index, and returns the value for that one. The
        fields of the first step of an episode are those of all its steps.

        Args:
            observation: What the network took, before the action: (H, W, C) uint8 for images.
            action: The action.
            reward: The game's own reward for it.
            terminated: Whether the episode ended with this step.
            truncated: Whether a time limit ended it.
            frame: An image (H', W', 3) uint8 to show instead of the observation. It must show what the observation
                shows: render it before the environment's step (see `recording`), not after.
            logits: (A,) of the policy, for the observation.
            q_values: (A,) action values for the observation.
            value: The value of the observation.
            behavior_logits: (A,) logits of the distribution that the action was sampled from, if noise was added.
            training_reward: What a wrapper made of the reward.
            state: Recurrent state before the step, reset where an episode begins: an array or a tuple of arrays.
            info: More numbers or arrays by name, the same names at each step, such as labels of the state that the
                observation shows. Texts and other objects are refused.
            final_observation: The observation after the step, read where an episode ends. For one environment, or
                vector environments that do not reset in the same step, this is the observation that the step
                returned; else `infos.get("final_obs")`, or `[info.get("terminal_observation") for info in infos]`
                from Stable-Baselines3. It may be a sequence or a mapping by environment, with gaps.
            final_state: The state after the step, likewise.
            final_value: The value of the observation after the step, read where an episode ends.
            cause: What ended the episode, a text, read where one ends; likewise.
            level_seed: Seed of the level. It is read where an episode begins.
            training_step: The training step. It is read where an episode begins, with `checkpoint_every` at each step.
            idle: Whether an environment only reset and ignored the action; such steps are not recorded.

        Raises:
            SamplesError: Values that do not match those of earlier steps, or that cannot be written; only with
                `on_error="raise"`.
        """
        self._calls += 1
        if self._stopped:
            self._warn_if_inherited()
            return
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
            "behaviour_logits": behavior_logits,
            "training_rewards": training_reward,
            **state_parts("states", state),
        }
        for name, number in (info or {}).items():
            values[f"info.{name}"] = number
        final = {"observation": final_observation, "state": final_state, "value": final_value, "cause": cause}
        start = {"level_seed": level_seed, "training_step": training_step}
        if not self._slots:
            self._set_up(reward)
        try:
            self._add(values, terminated, truncated, final, start, idle)
        except Exception as error:  # functions that the caller passed, and tensors of libraries, can raise anything
            self.stop(error)

    def stop_episodes(self) -> None:
        """End unfinished episodes as stopped, because the environments are reset before their ends."""
        try:
            for slot in self._slots:
                if not self._stopped and not slot.begins:
                    self._finish(slot, STOPPED, {})
        except Exception as error:
            self.stop(error)

    def close(self) -> None:
        """Write the remaining steps, and end unfinished episodes as stopped. Calling it again has no effect."""
        if self._closed:
            return
        self._closed = True
        try:
            self.stop_episodes()
        finally:
            self._thread.shutdown()
            with suppress(*(() if self._raises else (Exception,))):
                self._writer.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def stop(self, error: Exception) -> None:
        """Stop recording because of an error: raise it or warn, depending on `on_error`."""
        if self._raises:
            raise error
        if not self._stopped:
            self._stopped = True
            warnings.warn(f"rl_clarity stopped recording to {self.location}: {error}", RuntimeWarning, stacklevel=3)

    def _leave_to_parent(self) -> None:
        """Stop in a forked process, because the writing thread was not copied and the files belong to the parent."""
        if not self._closed:
            self._closed = self._stopped = self._inherited = True
            self._writer.leave_to_parent()

    def _warn_if_inherited(self) -> None:
        if self._inherited:
            self._inherited = False
            warnings.warn(
                f"the recorder of {self.location} belongs to the process that created it, and records nothing in this "
                "one, which was forked from it: create a recorder where the agent acts",
                RuntimeWarning,
                stacklevel=3,
            )

    def _thin(self) -> None:
        """Wait for the previous thinning in the background, and start another one."""
        if self._thinning is not None:
            self._thinning.result()
        self._thinning = self._thread.submit(self._writer.thin)

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
        read = Values(values, self._per_environment)
        for slot in self._slots:
            index = slot.env if self._vector else None
            if slot.resets or (idle is not None and item(idle, index)):
                slot.resets = False
                continue
            if slot.begins:
                self._begin(slot, start, index)
            if slot.block is not None:
                arrays = read.arrays(index)
                acting = self._checkpoints.step()
                if acting is not None:
                    arrays[ACTING] = np.array(acting, np.int32)
                    slot.last_agent = acting
                    if start["training_step"] is not None:
                        arrays[TRAINING_STEPS] = np.array(int(start["training_step"]), np.int64)
                if not slot.steps:
                    check_first_values(arrays, self._writer.metadata.get("action_combos"))
                if "observations" in arrays:
                    arrays["observations"] = slot.images(self._last_axis(arrays["observations"]), self._value_range)
                slot.block.add(arrays)
                slot.steps += 1
                slot.total += float(slot.block.last("rewards"))
            ended = bool(item(terminated, index))
            if ended or (truncated is not False and item(truncated, index)):
                self._finish(slot, DONE if ended else TIME_LIMIT, final)
                slot.resets = self._resets_next_step and self._vector
        self._busy = any(slot.begins or slot.block is not None for slot in self._slots)

    def _finish(self, slot: _Slot, end: str, final: Mapping[str, Any]) -> None:
        """End an episode."""
        if slot.block is not None:
            arrays = final_arrays(final, slot.env if self._vector else None) if final else {}
            if self._channels_first and "final_observation" in arrays:
                arrays["final_observation"] = np.ascontiguousarray(np.moveaxis(arrays["final_observation"], 1, -1))
            if "final_observation" in arrays:
                arrays["final_observation"] = slot.images(arrays["final_observation"][0], self._value_range)[None]
            result = {"end": end, "steps": slot.steps, "return": slot.total, "last_agent": slot.last_agent}
            slot.block.finish(result, arrays)
            slot.block = None
            self._thin()
            if slot.layout is not None:
                slot.layout.check_observed()
        slot.begins = self._busy = True

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
            "level_seed": None if level_seed is None else int(item(level_seed, index)),
            "start_step": (self._calls - 1) * self._num_envs,
            "start_time": time.time(),
            "training_step": None if training_step is None else int(training_step),
            "agent": self._checkpoints.begin(),
        }
        slot.block = EpisodeBuffer(self._writer, self._thread, facts)


def _leave_to_parent() -> None:
    for recorder in _RECORDERS:
        recorder._leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


class _Slot:
    """The state of recording one environment."""

    def __init__(self, env: int) -> None:
        self.env = env
        self.begins = True
        self.resets = False
        """Whether the next step only resets."""
        self.block: EpisodeBuffer | None = None
        self.steps, self.total = 0, 0.0
        self.last_agent = -1
        self.layout: ImageLayout | None = None
        """Layout of observations that are images, which also checks their values."""

    def images(self, observation: np.ndarray, value_range: tuple[float, float] | None) -> np.ndarray:
        """Return an observation as it is stored: an image (H, W, C) of uint8, converted from `value_range` if that is
        given. Vectors (n,) and (1, 1, n) stay as they are.
        """
        if (
            observation.ndim != 3
            or observation.shape[:2] == (1, 1)
            or (observation.dtype != np.uint8 and value_range is None)
        ):
            return observation
        if self.layout is None:
            height, width, channels = observation.shape
            low, high = value_range or (0, 255)
            kept, assumed = (low, high) == (0, 255), value_range is None
            self.layout = ImageLayout((height, width, channels), (0, 1, 2), low, high, kept, assumed)
        return self.layout.convert(observation[None])[0]


def _location(directory: str | os.PathLike[str], name: str | None) -> str:
    """Return where the recording is; see `Recorder`."""
    place = path_text(directory, "directory").rstrip("/")
    if name is None or RecordingFiles(place).exists(METADATA):
        return place
    if not isinstance(name, str) or not name.isprintable() or not name or "/" in name or name.startswith("."):
        raise OptionError(f"name={name!r} must be the name of a folder: printable text without '/' or '.' at its start")
    return f"{place}/{PLUGIN}/{name}"
