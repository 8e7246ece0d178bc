"""The frames of a segment as a chunk: the pixels of small frames, or a PNG file for each larger frame.

Deflate finds repetitions that are at most 32 kB apart. The pixels of small frames are compressed together, because most
of a frame repeats the previous frame: frames of Procgen become 1.2 to 20 times smaller than as PNG files. For larger
frames, the previous frame is too far away.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rl_clarity.agents.protocol import Agent
from rl_clarity.base.errors import ClarityError
from rl_clarity.base.keys import JsonObject
from rl_clarity.pages.images import decode_png, encode_pngs

STACK = "stack_"
"""Prefix of the names of arrays that contain all frames of stacked observations, side by side."""
_WINDOW = 1 << 15


def frame_arrays(
    frames: np.ndarray, stacks: np.ndarray | None = None, workers: int = 1
) -> dict[str, np.ndarray | bytes]:
    """Return the arrays of a chunk with the frames (n, H, W, 1 | 3) uint8 of a segment of n steps.

    `stacks` (n, H, W', 1 | 3) contain all frames of stacked observations side by side. `workers` is the number of
    threads that encode PNG files.
    """
    arrays = _arrays("", frames, workers)
    return arrays if stacks is None else arrays | _arrays(STACK, stacks, workers)


def read_frame(name: str, arrays: Mapping[str, np.ndarray], index: int, prefix: str = "") -> np.ndarray:
    """Return the frame (H, W, 1 | 3) uint8 at an index of a chunk's arrays.

    With the prefix `STACK`, return all frames of an observation side by side. Raises ClarityError, which contains the
    chunk's `name`, if the chunk does not contain the frame.
    """
    try:
        pixels = arrays.get(f"{prefix}pixels")
        if pixels is not None:
            frame: np.ndarray = pixels[index]
            return frame
        start, stop = arrays[f"{prefix}offsets"][index : index + 2]
        return decode_png(name, arrays[f"{prefix}png"][start:stop].tobytes())
    except (KeyError, IndexError, ValueError) as error:
        raise ClarityError(f"chunk {name} is damaged: it has no frame {index} ({error})") from None


def _arrays(prefix: str, frames: np.ndarray, workers: int) -> dict[str, np.ndarray | bytes]:
    if frames[0].size <= _WINDOW:
        return {f"{prefix}pixels": frames}
    pngs = encode_pngs(frames, workers)
    offsets = np.cumsum([0, *map(len, pngs)]).astype(np.int32)
    return {f"{prefix}offsets": offsets, f"{prefix}png": b"".join(pngs)}


def hidden_observations(observation: JsonObject, agent: Agent) -> str:
    """Return why the frames of a page are not the observations of its agent, or an empty string if they are.

    `observation` is the `ObservationInfo` of the page as JSON.
    """
    stack, shape = int(observation["stack"]), tuple(agent.observation_shape)
    sizes = (observation["height"], observation["width"])
    frames = (observation["frame_height"], observation["frame_width"])
    if getattr(agent, "held_inputs", None):
        return "the agent observes numbers beside the image"
    if sizes == (1, 1):
        return "the agent observes a vector"
    if (*sizes, observation["channels"]) != shape:
        return f"its observations have the shape {(*sizes, observation['channels'])}, but the agent takes {shape}"
    if shape[-1] not in (stack, 3 * stack):
        return f"observations with {shape[-1]} channels are shown as images with fewer channels"
    if stack == 1 and (frames != sizes or observation.get("region")):
        return "its frames are not the agent's observations but were drawn at a different resolution"
    return ""
