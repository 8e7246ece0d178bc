"""Read datasets of Minari (https://minari.farama.org) as recordings, and write recordings as datasets.

Minari stores images (H, W, C) as JPEG, which is lossy, and cannot read some of them back. Observations are therefore
written as stacks of a single image, (1, H, W, C), which Minari stores unchanged. The environment that a dataset names
is never created.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_clarity.base.errors import DependencyError, OptionError, SamplesError
from rl_clarity.environments.images import image_layout
from rl_clarity.recordings.episode import Episode
from rl_clarity.recordings.layout import DONE, STOPPED, TIME_LIMIT
from rl_clarity.recordings.metadata import check_metadata
from rl_clarity.recordings.recording import Recording

if TYPE_CHECKING:
    import gymnasium

METADATA = "metadata.json"
DATA = "data"


def find_dataset(location: Path) -> Path | None:
    """Return the folder with the files of a dataset: the location, or its subfolder `data`. Return None if there is no
    dataset.
    """
    folders = (location, location / DATA)
    return next((folder for folder in folders if (folder / METADATA).is_file()), None)


class MinariRecording(Recording):
    """A Minari dataset with discrete actions, whose observations are images or dictionaries with an image.

    Raises:
        DependencyError: Minari is not installed.
        SamplesError: The dataset is damaged, or has no images.
    """

    def __init__(self, folder: Path) -> None:
        storage = _import_minari().dataset.minari_storage.MinariStorage
        self.location = str(folder)
        try:
            raw = storage.read_raw_metadata(folder)
            if "observation_space" not in raw or "action_space" not in raw:
                raise ValueError("its spaces are missing")  # Minari would make the environment to get the spaces
            self._storage = storage.read(folder)
            self._count = int(self._storage.total_episodes)
            actions = self._storage.action_space
            self._first_action = int(getattr(actions, "start", 0))
            self._key, space = _image_space(self._storage.observation_space)
            name = raw.get("dataset_id", folder.name)
            self.metadata = check_metadata({"name": name, "environment": {"kind": "minari"}}, METADATA)
        except Exception as error:  # Minari raises any kind of error for a damaged file
            raise SamplesError(f"{folder} cannot be read as a Minari dataset ({error})") from error
        self._layout = image_layout(space)

    def __len__(self) -> int:
        return self._count

    def table(self) -> list[dict[str, Any]]:
        return [dict(episode.facts) for episode in self]

    def _episode(self, index: int) -> Episode:
        try:
            (data,) = self._storage.get_episodes([index])
            (facts,) = self._storage.get_episode_metadata([index])
            observations = data["observations"] if self._key is None else data["observations"][self._key]
            observations = self._layout.convert(np.asarray(observations))
            steps = len(data["rewards"])
            arrays = {
                "observations": observations[:steps],
                "actions": np.asarray(data["actions"]) - self._first_action,
                "rewards": np.asarray(data["rewards"]),
            }
            if len(observations) > steps:
                arrays["final_observation"] = observations[steps:]
            if any(len(array) != steps for name, array in arrays.items() if not name.startswith("final_")) or not steps:
                raise ValueError("its arrays have different lengths")
            arrays |= {f"info.{name}": array[:steps] for name, array in _numbers(data["infos"], steps)}
            end = TIME_LIMIT if data["truncations"][-1] else STOPPED
            end = DONE if data["terminations"][-1] else end
        except Exception as error:  # h5py and Pillow raise any kind of error for a damaged file
            raise SamplesError(f"{self.location} is damaged: episode {index} ({error})") from error
        names = ("environment", "level_seed", "start_step", "start_time", "training_step", "entropy")
        total = float(np.sum(data["rewards"], dtype=np.float64))
        known = {"episode": index, "number": index, "seed": facts.get("seed"), "end": end, "steps": steps}
        return Episode({**dict.fromkeys(names), **known, "return": total}, arrays)


def write_minari(recording: Recording, directory: str | os.PathLike[str], *, dataset_id: str | None = None) -> Path:
    """Write a recording as a Minari dataset, and return its directory.

    Observations have the shape (1, H, W, C), because Minari would store (H, W, C) as JPEG. Each episode has one more
    observation than actions; if the final observation was not recorded, the last one is repeated. Other fields except
    frames, such as the agent's outputs, become `infos`.

    Args:
        directory: A new directory. Minari finds the dataset by its id if this directory is inside
            `minari.storage.get_dataset_path()`.
        dataset_id: Id of the dataset; by default `rl_clarity/NAME-v0`, where NAME is the name of the recording.

    Raises:
        DependencyError: Minari is not installed.
        OptionError: The directory exists, or the recording has no episodes.
    """
    minari = _import_minari()
    import gymnasium

    path = Path(directory).absolute()  # Minari appends relative paths to each other
    if path.exists():
        raise OptionError(f"{path} already exists; use a different directory")
    if not len(recording):
        raise OptionError(f"{recording.location} has no episodes")
    first = recording[0]
    shape = first.observations.shape[1:]
    combos = recording.metadata.get("action_combos")
    logits = first.policy_logits if first.policy_logits is not None else first.q_values
    if combos or logits is not None:
        num_actions = len(combos) if combos else logits.shape[1]  # type: ignore[union-attr]
    else:
        num_actions = 1 + max(int(np.max(episode.actions)) for episode in recording)
    (path / DATA).mkdir(parents=True)
    storage = minari.dataset.minari_storage.MinariStorage.new(
        path / DATA,
        observation_space=gymnasium.spaces.Box(0, 255, (1, *shape), np.uint8),
        action_space=gymnasium.spaces.Discrete(num_actions),
    )
    storage.update_episodes(_episode_buffers(minari, recording))
    name = dataset_id or f"rl_clarity/{recording.metadata.get('name') or path.name}-v0"
    storage.update_metadata({"dataset_id": name, "minari_version": minari.__version__})
    return path


def _episode_buffers(minari: Any, recording: Recording) -> Iterator[Any]:
    for index, episode in enumerate(recording):
        observations = np.asarray(episode.observations)
        final = observations[-1] if episode.final_observation is None else episode.final_observation
        last = np.arange(len(episode)) == len(episode) - 1
        stored = ("observations", "frames", "actions", "rewards")
        infos = {name: np.asarray(array) for name, array in episode.fields.items() if name not in stored}
        yield minari.data_collector.EpisodeBuffer(
            id=index,
            seed=episode.facts["seed"],
            observations=np.concatenate([observations, final[None]])[:, None],
            actions=np.asarray(episode.actions),
            rewards=np.asarray(episode.rewards),
            terminations=last & (episode.end == DONE),
            truncations=last & (episode.end != DONE),
            infos=infos or None,
        )


def _import_minari() -> Any:
    try:
        import minari
        import minari.dataset.minari_storage
    except ImportError as error:
        raise DependencyError(f'Minari is not installed ({error}): pip install "rl-clarity[minari]"') from error
    return minari


def _image_space(space: gymnasium.Space[Any]) -> tuple[str | None, gymnasium.Space[Any]]:
    """Return the key of the images, or None if observations are not a dictionary, and the space of the images."""
    import gymnasium

    if not isinstance(space, gymnasium.spaces.Dict):
        return None, space
    images = [key for key, part in space.items() if isinstance(part, gymnasium.spaces.Box) and len(part.shape) >= 2]
    if len(images) != 1:
        raise ValueError(
            f"exactly one part of the observations must be an image; found {images or 'none'} in {list(space)}"
        )
    return images[0], space[images[0]]


def _numbers(infos: Any, steps: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the names and arrays of the numeric values in a dataset's `infos`."""
    for name, values in (infos or {}).items():
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and len(values) >= steps:
            yield name, values
