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
"""Largest number of observations that `Recorder.probe` accepts."""
AUTORESET = ("same_step", "next_step", "disabled")
ON_ERROR = ("warn", "raise")


_RECORDERS: WeakSet[Recorder] = WeakSet()
"""Recorders of this process, and of the process that it was forked from."""


class Recorder:
    """Appends episodes to a recording, from a loop in which an agent acts or learns.

    Call `add` once per step and `close` at the end, or use the recorder as a context manager. `add` copies its
    arguments, which a thread compresses. When `add` returns from an episode's last step, the episode is on disk. If the
    process is killed, at most the last 64 steps of unfinished episodes are lost. A recording at an address such as
    `s3://` is uploaded every minute, so at most the last minute is lost.

    The recorder needs NumPy, but no deep-learning framework. If an error occurs while recording (such as a full disk,
    or values whose shape has changed), recording stops with a warning and training continues, unless `on_error` is
    `raise`.

    Args:
        directory: Path or address of a log directory, such as that of TensorBoard's event files. The recording is in
            `plugins/rl_clarity/NAME` there. Episodes are appended to an existing recording; `directory` may also be the
            path of that recording.
        name: Name of the recording in the log directory; None if `directory` itself is to be the recording.
        every: Record every n-th episode. A function receives an episode's number, counted from 0, and returns whether
            to record it. Episodes of all environments in `envs` are counted together, in the order in which they begin;
            those of other environments are not counted. If a recording is continued, numbers continue after the last
            recorded one.
        envs: Indices of the parallel environments to record; None for all.
        autoreset: When vector environments reset, as in Gymnasium's `AutoresetMode`. With `next_step`, the step after
            the last step of an episode only resets the environment, and is not recorded.
        channels_first: Whether observations are (C, H, W); they are stored as (H, W, C).
        value_range: Values of black and white in image observations, which are then stored as uint8 from 0 to 255. By
            default, values are stored as they are, and recording stops after an episode whose uint8 images contain only
            the values 0 and 1, because they would look black. Use `(0, 255)` to record such images.
        max_episodes: Largest number of complete episodes to keep. If there are more, episodes are removed from the
            older half, so that old episodes become sparse. Unfinished episodes are not counted.
        max_bytes: Approximate largest size of data and checkpoints in bytes. Episodes are removed in the same way.
        checkpoint_every: Also store a checkpoint while an episode is recorded, at every n-th call of `agent`: with 1,
            each step can be explained with the network that acted. A checkpoint is then stored as the difference from
            the previous one if that is smaller. None stores only the checkpoints with which episodes begin.
        checkpoint_bytes: Once the stored checkpoints take this many bytes, a warning is issued and only those with
            which episodes begin are stored.
        checkpoint_tolerance: Round the values of large weight tensors in these differences, each by at most this
            fraction, such as 2e-5, of the root mean square of its tensor. The differences take half as much space, and
            outputs change by about 1e-5. Errors do not accumulate; biases, small tensors and buffers stay exact. None
            stores everything exactly.
        on_error: `warn` stops recording with a warning; `raise` raises the error.
        seed: Seed of the environments, to be stored with the episodes.
        metadata: JSON values about the agent and environment, which are stored when the recording is created.
            rl_clarity reads the names `name`, `loader`, `checkpoint`, `environment`, `action_combos`, `gamma`, `lambda`
            and `sampling`; docs/recording-format.md describes their values.

    Raises:
        OptionError: An option or an entry of `metadata` has an invalid value, or `max_episodes` or `max_bytes` is given
            for a recording at an address.
        SamplesError: The directory cannot be written, is being written by another process, or contains a recording with
            different metadata.

    The constructor raises these errors regardless of `on_error`.
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
                raise OptionError(f"every={every} must be at least 1, or a function that takes the episode's number")
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
        """Whether functions that are passed to `add` are called once per environment, by argument name."""
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
        """Set the checkpoint of the agent that acts from now on.

        It is stored when the next recorded episode begins, or with `checkpoint_every` at the next recorded step, so
        this method can be called after each update.

        Args:
            checkpoint: Path of a checkpoint, or a function that saves one. The function is called with a path, to which
                it may add a suffix, as in `lambda path: torch.save(network.state_dict(), path)`.
        """
        self._checkpoints.update(checkpoint)

    def probe(self, observations: Any, state: Any = None) -> None:
        """Store fixed observations, on which `rl-clarity explain` compares each stored checkpoint with the previous
        one.

        Call it once, before or during training. If the recording already has such observations, these are kept.

        Args:
            observations: Images (n, H, W, C) or vectors (n, k), with n from 1 to 256, in the format of `add`. Take them
                from different episodes, for example from episodes of a random policy and of later policies.
            state: Recurrent state before each observation, an array (n, ...) or a tuple of arrays; by default the
                agent's initial state.

        Raises:
            OptionError: There are no observations or more than 256, or the number of states differs from the number of
                observations. This error is raised regardless of `on_error`.
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
                raise OptionError(f"{name} has shape {part.shape}, but there are {len(rows)} observations")
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
        """Add a step: the observation, the agent's outputs and action, and the reward and end of episode that followed.

        With N parallel environments, each value is an array or sequence whose first axis has the length N. Tensors of
        PyTorch, JAX and TensorFlow are accepted, and are copied only for recorded steps. A value that is to be stored
        can also be given as a function, which is called only for recorded steps. A function without a parameter returns
        the values of all environments. A function with a parameter is called with the index of each recorded
        environment, and returns the value for that one. All steps of an episode must have the same fields.

        Args:
            observation: The input of the network, before the action: (H, W, C) uint8 for images.
            action: The action.
            reward: The environment's reward for the action, without changes by wrappers.
            terminated: Whether the episode ended with this step.
            truncated: Whether a time limit ended the episode.
            frame: An image (H', W', 3) uint8 to show instead of the observation. It must show what the observation
                shows: render it before the environment's step (see `recording`), not after.
            logits: The policy's logits (A,) for the observation.
            q_values: Action values (A,) for the observation.
            value: The value of the observation.
            behavior_logits: Logits (A,) of the distribution that the action was sampled from, if noise was added.
            training_reward: The reward after wrappers changed it for training.
            state: Recurrent state before the step, reset where an episode begins: an array or a tuple of arrays.
            info: Additional numbers or arrays by name, such as labels of the observed state. All steps must have the
                same names. Strings and other objects are not supported.
            final_observation: The observation after the step, which is used only where an episode ends. For one
                environment, or vector environments that do not reset in the same step, pass the observation that the
                step returned. Otherwise pass `infos.get("final_obs")`, or with Stable-Baselines3
                `[info.get("terminal_observation") for info in infos]`. A sequence with None for other environments, or
                a mapping by the index of the environment, is accepted.
            final_state: The recurrent state after the step, which is used only where an episode ends.
            final_value: The value of the observation after the step, which is used only where an episode ends.
            cause: Text that names what ended the episode, which is used only where an episode ends.
            level_seed: Seed of the level, which is used only where an episode begins.
            training_step: The training step. It is used where an episode begins, and with `checkpoint_every` at each
                step.
            idle: Whether an environment only reset and ignored the action; such steps are not recorded.

        Raises:
            OptionError: `envs` contains the index of an environment that does not exist. This error is raised at the
                first step, regardless of `on_error`.
            SamplesError: Values do not match those of earlier steps, or cannot be written; raised only with
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
        """End unfinished episodes as stopped. Call this before environments are reset in the middle of an episode."""
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
                "process, which was forked from it. Create a recorder in the process where the agent acts",
                RuntimeWarning,
                stacklevel=3,
            )

    def _thin(self) -> None:
        """Wait until the previous removal of episodes is finished, and start the next one in the background."""
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
            raise OptionError(f"envs={self._envs} must be indices from 0 to {self._num_envs - 1}")
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
    """The recording state of one environment."""

    def __init__(self, env: int) -> None:
        self.env = env
        self.begins = True
        self.resets = False
        """Whether the next step only resets the environment."""
        self.block: EpisodeBuffer | None = None
        self.steps, self.total = 0, 0.0
        self.last_agent = -1
        self.layout: ImageLayout | None = None
        """Layout of image observations, which also checks their values."""

    def images(self, observation: np.ndarray, value_range: tuple[float, float] | None) -> np.ndarray:
        """Return an observation in the form in which it is stored. With `value_range`, an image (H, W, C) is converted
        to uint8. Vectors, (n,) or (1, 1, n), do not change, and neither do other images.
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
    """Return the path or address of the recording; see `Recorder`."""
    place = path_text(directory, "directory").rstrip("/")
    if name is None or RecordingFiles(place).exists(METADATA):
        return place
    if not isinstance(name, str) or not name.isprintable() or not name or "/" in name or name.startswith("."):
        raise OptionError(f"name={name!r} must be a printable folder name without '/' that does not begin with '.'")
    return f"{place}/{PLUGIN}/{name}"
