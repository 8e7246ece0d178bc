"""`rl_clarity.RecordEpisodes` records the episodes of a Gymnasium environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from rl_clarity.base.errors import EnvironmentSetupError, OptionError, SamplesError
from rl_clarity.environments.gymnasium_ import action_combos
from rl_clarity.environments.images import ImageLayout, image_layout
from rl_clarity.recordings.frames import RenderedFrames
from rl_clarity.recordings.info import InfoNumbers
from rl_clarity.recordings.recorder import Recorder


class RecordEpisodes(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Records the episodes that are played in an environment.

    The rendered frames of an environment with `render_mode="rgb_array"` are recorded, too. If rendering fails, there is
    a warning, and recording continues without frames. Images are stored as (H, W, C) uint8.

    Args:
        env: The environment with all other wrappers, so that observations are recorded as the agent gets them.
        directory: As in `rl_clarity.Recorder`.
        metadata: Additional metadata, which override those of the environment.
        value_range: Pixel values of black and white in images, if they are not the bounds of the observation space.
        info: Names in the environment's `info` whose values are recorded: numbers, or arrays of numbers whose shape
            stays the same. A step is recorded with the info that came with its observation, from `reset` or from the
            previous step, and with NaN for missing names. Values that are not numbers, and names that do not occur in
            the first episode, stop the recording, like any other error.
        options: Options of `rl_clarity.Recorder`: `every`, `max_episodes`, ...

    Raises:
        OptionError: Observations are not single arrays, or an option is invalid.
        SamplesError: The directory cannot be written.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        directory: str | os.PathLike[str],
        *,
        metadata: Mapping[str, Any] | None = None,
        value_range: tuple[float, float] | None = None,
        info: Sequence[str] = (),
        **options: Any,
    ) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, gymnasium.spaces.Box | gymnasium.spaces.Discrete):
            raise OptionError(f"observations are {space}, but a recording holds single arrays: wrap the environment")
        try:
            self._layout: ImageLayout | None = image_layout(space, value_range=value_range)
        except EnvironmentSetupError:
            self._layout = None
        renders = env.render_mode == "rgb_array"
        self._frames = RenderedFrames(lambda: {0: self.env.render()}) if renders else None
        if self._layout is not None:
            value_range = 0, 255  # images after conversion
        self._info = InfoNumbers(info)
        about = {**_metadata(env), **(metadata or {})}
        self.recorder = Recorder(directory, metadata=about, value_range=value_range, **options)
        """The recorder. Its method `agent` sets the checkpoint for the episodes that begin after the call."""
        self._outputs: dict[str, Any] = {}
        self._before: dict[str, Any] = {}

    def outputs(self, **values: Any) -> None:
        """Set the agent's outputs for the next step: `logits`, `value`, `state`, ..., as in `Recorder.add`."""
        self._outputs = values

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.recorder.stop_episodes()
        observation, info = super().reset(seed=seed, options=options)
        if self._frames is not None:
            self._frames.begin(0)
        self._before = self._shown(observation, info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        self.recorder.add(
            **{"observation": None, **self._before, **self._outputs},
            action=action,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            final_observation=lambda: self._converted(observation),
        )
        if terminated or truncated:
            try:
                self._info.check_found()
                if self._layout is not None:
                    self._layout.check_observed()
            except SamplesError as error:
                self.recorder.stop(error)
        self._before, self._outputs = self._shown(observation, info), {}
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        self.recorder.close()
        super().close()

    def _shown(self, observation: Any, info: Mapping[str, Any]) -> dict[str, Any]:
        """Return the observation, its info and the frame before the next step, if that step may be recorded."""
        if not self.recorder.recording:
            return {}
        try:
            frame = {} if self._frames is None else {"frame": self._frames.read().get(0)}
            numbers = {name: values[0] for name, values in self._info.read([info]).items()}
            return {"observation": self._converted(observation), "info": numbers, **frame}
        except Exception as error:
            self.recorder.stop(error)
            return {}

    def _converted(self, observation: Any) -> np.ndarray:
        # Copy, because some environments reuse their array.
        return np.array(observation if self._layout is None else self._layout.convert(np.asarray(observation)[None])[0])


def _metadata(env: gymnasium.Env[Any, Any]) -> dict[str, Any]:
    name = None if env.spec is None else env.spec.id
    metadata: dict[str, Any] = (
        {} if name is None else {"name": name, "environment": {"kind": "gymnasium", "name": name}}
    )
    if isinstance(env.action_space, gymnasium.spaces.Discrete):
        metadata["action_combos"] = action_combos(env, int(env.action_space.n))
    return metadata
