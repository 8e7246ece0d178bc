"""Record episodes while a model of Stable-Baselines3 or sb3-contrib learns: `sb3.RecorderCallback`."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor

from rl_clarity.agents.actions import is_single_choice
from rl_clarity.base.errors import EnvironmentSetupError, OptionError
from rl_clarity.environments.action_spaces import ActionSpace
from rl_clarity.environments.images import ImageLayout, image_layout
from rl_clarity.integrations.sb3 import action_combos, model_metadata
from rl_clarity.integrations.sb3_networks import Network, policy_network
from rl_clarity.recordings.frames import RenderedFrames
from rl_clarity.recordings.info import InfoNumbers
from rl_clarity.recordings.recorder import Recorder


class RecorderCallback(BaseCallback):
    """Records episodes during training: `model.learn(total_timesteps, callback=RecorderCallback("runs/exp1"))`.

    The model's values, logits or action values, and recurrent states are recorded, too. A checkpoint, as `model.save`
    writes it, is stored with recorded episodes if the model has changed since the last checkpoint. With
    `checkpoint_every=1`, checkpoints are also stored when the model is updated during an episode, and they contain no
    optimizer. Rewards are those that `Monitor` counts if the environments are in this process, and otherwise those of
    the `VecEnv`; `training_rewards` are those that the model learns from. Images are stored as (H, W, C) uint8.

    Args:
        directory: As in `rl_clarity.Recorder`.
        frames: Also record the images that the environments render (`render_mode="rgb_array"`). If rendering fails,
            there is a warning, and recording continues without frames.
        checkpoints: Store checkpoints.
        metadata: Additional metadata, which override those of the model.
        probe: Fixed observations (n, ...) of the environments, on which checkpoints are compared; see `Recorder.probe`.
        info: Names in the environments' `info` whose numbers are recorded, as in `rl_clarity.RecordEpisodes`.
        options: Options of `rl_clarity.Recorder`: `every`, `envs`, `max_episodes`, ...

    Raises:
        OptionError: Observations are not single arrays (when training begins).
        SamplesError: The directory cannot be written (when training begins).
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        frames: bool = False,
        checkpoints: bool = True,
        metadata: Mapping[str, Any] | None = None,
        probe: np.ndarray | None = None,
        info: Sequence[str] = (),
        verbose: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(verbose)
        self._directory, self._checkpoints = directory, checkpoints
        self._frames = RenderedFrames(self._render) if frames else None
        self._metadata_options, self._options = metadata or {}, options
        self._probe, self._info = probe, InfoNumbers(info)
        self._infos: list[Mapping[str, Any]] = []
        """The `info` that came with the observations of the next step, for each environment."""
        self.recorder: Recorder | None = None
        """The recorder, or None before training begins."""

    def _on_training_start(self) -> None:
        space = self.model.observation_space
        if hasattr(space, "spaces"):
            raise OptionError(f"the model's observations are {space}, but a recording holds single arrays")
        try:
            self._layout: ImageLayout | None = image_layout(space)
        except EnvironmentSetupError:
            self._layout = None
        self._module, self._network, self._is_recurrent = self._find_network()
        envs = self._options.get("envs", (0,))
        self._envs = [*range(self.training_env.num_envs)] if envs is None else [*envs]
        self._monitors = _Monitors(self.training_env, self._envs)
        begins = self.model._last_episode_starts  # all, unless an earlier call of `learn` is continued
        resets = self.training_env.unwrapped.reset_infos
        self._infos = [info if first else {} for info, first in zip(resets, begins, strict=True)]
        self.recorder = Recorder(self._directory, metadata=self._metadata(), **self._options)
        if self._probe is not None:
            self.recorder.probe(self._converted(self._probe))
        self._rendered = self._read_frames()

    def _on_rollout_start(self) -> None:
        if self._checkpoints and self.recorder is not None:
            per_update = self._options.get("checkpoint_every") is not None
            self.recorder.agent(self._save_parameters if per_update else self.model.save)

    def _save_parameters(self, path: str) -> None:
        """Save the model without its optimizers. Parameters come first in the file, so that they have the same offset
        in each checkpoint, as the storage of differences between checkpoints requires.
        """
        saved = io.BytesIO()
        self.model.save(saved)
        with zipfile.ZipFile(saved) as model, zipfile.ZipFile(f"{path}.zip", "w") as file:
            for name in sorted(model.namelist(), key=lambda name: (not name.endswith(".pth"), name)):
                if "optimizer" not in name:
                    file.writestr(zipfile.ZipInfo(name), model.read(name))

    def _on_step(self) -> bool:
        assert self.recorder is not None
        try:
            self._record_step(self.recorder)
        except Exception as error:
            self.recorder.stop(error)
        return True

    def _on_training_end(self) -> None:
        if self.recorder is not None:
            self.recorder.close()

    def _record_step(self, recorder: Recorder) -> None:
        dones, infos, rewards = self.locals["dones"], self.locals["infos"], self.locals["rewards"]
        truncated = dones & [bool(info.get("TimeLimit.truncated")) for info in infos]
        game_rewards = self._monitors.rewards(rewards)
        recorded = self._recorded(infos, truncated) if recorder.recording else {}
        recorder.add(
            **{"observation": None, "action": None, **recorded},
            reward=game_rewards,
            training_reward=rewards,
            terminated=dones & ~truncated,
            truncated=truncated,
            training_step=self.num_timesteps - len(dones),
        )
        if dones[self._envs].any():
            self._info.check_found()
        resets = self.training_env.unwrapped.reset_infos
        self._infos = [reset if done else info for info, reset, done in zip(infos, resets, dones, strict=True)]
        if self._frames is not None:
            for env in np.flatnonzero(dones).tolist():
                self._frames.begin(env)
        self._rendered = self._read_frames()

    def _recorded(self, infos: Any, truncated: np.ndarray) -> dict[str, Any]:
        """Return those arguments of `Recorder.add` that are needed only for recorded episodes, by environment."""
        rows = self._envs
        last = {env: infos[env]["terminal_observation"] for env in rows if "terminal_observation" in infos[env]}
        observations = np.asarray(self.model._last_obs)[rows]
        state = self._state()
        outputs = self._outputs(observations, state)
        after = outputs.pop("state", None)
        result = {
            "observation": self._by_env(self._converted(observations)),
            "frame": self._rendered,
            "info": self._info.read(self._infos),
            "action": self.locals.get("clipped_actions", self.locals["actions"]),
            "final_observation": {env: self._converted(frame[None])[0] for env, frame in last.items()},
            **{name: self._by_env(values) for name, values in outputs.items()},
        }
        if state is not None:
            result["state"] = tuple(map(self._by_env, state))
        if after is not None:
            result["final_state"] = tuple(map(self._by_env, after))
        if any(truncated[env] for env in last) and "value" in outputs:
            final = observations.copy()
            for env, frame in last.items():
                final[rows.index(env)] = frame
            values = self._outputs(final, after)["value"]
            result["final_value"] = {env: values[rows.index(env)] for env in last if truncated[env]}
        return result

    def _outputs(self, observations: np.ndarray, state: Any) -> dict[str, Any]:
        """Return the network's outputs by their names in `Recorder.add`. `state` is the state after the step."""
        if self._network is None:
            return {}
        import torch

        with torch.no_grad():
            x = torch.as_tensor(observations, device=self.model.device)
            outputs = self._network(self._module, x, state)
        names = {"policy_logits": "logits", "values": "value", "q_values": "q_values", "state": "state"}
        result = {names[name]: value for name, value in outputs.items()}
        if "value" in result:
            result["value"] = result["value"].flatten()
        return result

    def _state(self) -> tuple[Any, ...] | None:
        """Return the hidden and cell states (rows, layers, units) before the step. They are reset where an episode
        begins.
        """
        if not self._is_recurrent:
            return None
        before, begins = self.model._last_lstm_states, self.locals["episode_starts"]
        parts = (*before.pi, *(before.vf if self.model.policy.lstm_critic is not None else ()))
        going = 1 - begins[self._envs, None, None]
        return tuple(part[:, self._envs].transpose(0, 1) * going for part in parts)

    def _by_env(self, values: Any) -> dict[int, Any]:
        return dict(zip(self._envs, values, strict=True))

    def _converted(self, observations: np.ndarray) -> np.ndarray:
        return np.array(observations) if self._layout is None else self._layout.convert(observations)

    def _read_frames(self) -> dict[int, np.ndarray] | None:
        """Return the frames before the next step, or None if that step will not be recorded."""
        if self._frames is None or self.recorder is None or not self.recorder.recording:
            return None
        return self._frames.read()

    def _render(self) -> dict[int, Any]:
        return self._by_env(self.training_env.env_method("render", indices=self._envs))

    def _find_network(self) -> tuple[Any, Network | None, bool]:
        try:
            if not is_single_choice(ActionSpace(self.model.action_space).factors):
                return None, None, False
            module, network, initial_state = policy_network(self.model.policy)
        except (EnvironmentSetupError, OptionError):  # continuous actions, or an algorithm with other outputs
            return None, None, False
        return module, network, initial_state is not None

    def _metadata(self) -> dict[str, Any]:
        known = model_metadata(self.model, self._layout)
        result: dict[str, Any] = {name: known[name] for name in ("gamma", "lambda") if name in known}
        name = known.get("env_name")
        result |= {"name": name, "environment": {"kind": "gymnasium", "name": name}} if name else {}
        if self._network is not None:
            result["action_combos"] = action_combos(self.training_env, ActionSpace(self.model.action_space).num_actions)
        return {**result, **self._metadata_options}


class _Monitors:
    """The rewards that `Monitor` wrappers counted, before outer wrappers clipped or normalized them."""

    def __init__(self, venv: Any, rows: list[int]) -> None:
        environments = getattr(venv.unwrapped, "envs", [])
        monitors = {row: _monitor(environments[row]) for row in rows} if environments else {}
        self._monitors = {row: monitor for row, monitor in monitors.items() if monitor is not None}
        self._remember()

    def rewards(self, rewards: np.ndarray) -> np.ndarray:
        """Return the rewards (N,) of a step before clipping and normalization, also where an environment was reset."""
        result = np.array(rewards, np.float64)
        for row, (counted, before) in self._counted.items():
            result[row] = sum(counted[before:])
        self._remember()
        return result

    def _remember(self) -> None:
        # A monitor begins a new list when it is reset.
        self._counted = {row: (monitor.rewards, len(monitor.rewards)) for row, monitor in self._monitors.items()}


def _monitor(environment: Any) -> Any:
    """Return the `Monitor` among the wrappers of an environment, if there is one."""
    while not isinstance(environment, Monitor):
        if not hasattr(environment, "env"):
            return None
        environment = environment.env
    return environment
