"""A page with made-up data, written by plain numpy to docs/page-format.md: drawn frames, smooth blobs of attribution.

It shares no code with the writer of real pages but the document itself, so the two check each other.
"""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from rl_clarity.jobs.directory import LocalDirectory
from rl_clarity.pages.document import write_page
from rl_clarity.pages.files import ChunkName, ImageName
from tests.browser.drawn import (
    SIDE,
    draw_frame,
    draw_thumbnail,
    drifting_blobs,
    grey_color,
    hex_colors,
    hexagon_hues,
    smooth_columns,
    smooth_plane,
    to_codes,
)

LAYERS = (("1a", 64, 16), ("2a", 32, 32), ("2b", 32, 32), ("3a", 16, 32), ("4a", 8, 32))
K = 8
SEGMENT = 64
SCRUB_STEPS = 512
COMBOS = (
    ("LEFT", "DOWN"), ("LEFT",), ("LEFT", "UP"), ("DOWN",), (), ("UP",), ("RIGHT", "DOWN"), ("RIGHT",), ("RIGHT", "UP"),
    ("D",), ("A",),
)  # fmt: skip
LABELS = ("↙", "←", "↖", "↓", "no-op", "↑", "↘", "→", "↗", "D", "A")


@dataclass(frozen=True)
class Size:
    """How much of everything a page holds."""

    trajectories: int = 3
    steps: int = 100
    observations: int = 48
    policy: bool = True
    layers: tuple[tuple[str, int, int], ...] = LAYERS
    input_layer: bool = True


def write_synthetic_page(
    directory: Path,
    size: Size = Size(),
    *,
    single_file: bool = False,
    edit: Callable[[dict[str, Any]], None] = lambda manifest: None,
    **changes: Any,
) -> dict[str, Any]:
    """Write a page into a directory and return its manifest; `changes` replace its keys, then `edit` changes it."""
    page = LocalDirectory(directory / "data" if single_file else directory)
    rng = np.random.default_rng(7)
    manifest = _Writer(page, size, rng).manifest() | changes
    edit(manifest)
    write_page(LocalDirectory(directory), manifest, data=page, single_file=single_file)
    return manifest


class _Writer:
    def __init__(self, page: LocalDirectory, size: Size, rng: np.random.Generator) -> None:
        self.page, self.size, self.rng = page, size, rng
        self.outputs: list[dict[str, Any]] = [{"id": "value", "kind": "value", "label": "value function"}]
        if size.policy:
            self.outputs += [{"id": f"action-{k}", "kind": "action", "action": k, "label": LABELS[k]} for k in (7,)] + [
                {"id": "group-0", "kind": "group", "group": 0, "label": "RIGHT"}
            ]
        self.series = [self._series() for _ in range(size.trajectories)]

    def manifest(self) -> dict[str, Any]:
        size = self.size
        view = {
            "video_height": "16em", "video_width": "16em", "video_speed": 12, "policy_display_height": "2em",
            "policy_display_width": "40em", "navigator_width": "24em", "scrubber_height": "4em",
            "scrubber_width": "48em", "scrubber_visible_duration": 256, "legend_item_height": "6em",
            "legend_item_width": "6em", "feature_viewer_height": "40em", "feature_viewer_width": "40em",
            "attribution_weight": 0.9, "trajectory_color": "blue", "single_channels": True,
            "graph_colors": {"v": "green", "action": "red", "action_group": "orange", "advantage": "blue"},
        }  # fmt: skip
        return {
            "format": "rl-clarity-page", "version": 2, "kind": "agent", "id": "synthetic-0001", "title": "CoinRun",
            "complete": True, "missing": [],
            "agents": [self._agent()],
            "recordings": [{"id": "recording-1", "agent": "agent-1", "env_name": "coinrun"}],
            "sections": [
                self._section("trajectories", {
                    "segment": SEGMENT,
                    "scrub": {"steps": SCRUB_STEPS, "height": SIDE, "step_width": 2},
                    "film": {"columns": 8},
                    "trajectories": [self._trajectory(i) for i in range(size.trajectories)],
                    "bookmarks": self._bookmarks(),
                }),
                self._section("features", self._features_data()),
                self._section("attribution", {"outputs": self.outputs, "layers": self._layers()}),
            ],
            "view": view,
            "numpy_precision": 6,
            "provenance": [
                {"group": "Checkpoint", "items": [["file", "coinrun.jd"], ["sha256", "8f14e45f" * 8]]},
                {"group": "Environment", "items": [["id", "coinrun"], ["seed", "0"], ["distribution mode", "hard"]]},
                {"group": "Options", "items": [["integration", "Gauss-Legendre, 5 points"], ["features", "8"],
                                                ["layer_kwargs", '{"bottleneck_only": true, "ops": ["relu"]}']]},
                {"group": "Versions", "items": [["rl-clarity", "1.0.0"], ["keras", "3.15"]]},
            ],
        }  # fmt: skip

    def _agent(self) -> dict[str, Any]:
        return {
            "id": "agent-1", "network": "clear", "kind": "policy", "has_value": True, "recurrent": False,
            "num_actions": len(LABELS),
            "observation": {
                "height": SIDE, "width": SIDE, "channels": 3, "frame_height": SIDE, "frame_width": SIDE, "stack": 1,
            },
            "actions": [
                {"label": label, "combo": list(combo), "color": grey_color(k, len(LABELS))}
                for k, (label, combo) in enumerate(zip(LABELS, COMBOS, strict=True))
            ],
            "action_groups": [{"label": "RIGHT", "actions": [6, 7, 8]}, {"label": "LEFT", "actions": [0, 1, 2]}],
        }  # fmt: skip

    @staticmethod
    def _section(kind: str, data: dict[str, Any]) -> dict[str, Any]:
        return {
            "kind": kind, "version": 1, "title": kind.capitalize(), "agent": "agent-1", "recording": "recording-1",
            "data": data,
        }  # fmt: skip

    # --- trajectories

    def _series(self) -> dict[str, np.ndarray]:
        steps, actions = self.size.steps, len(LABELS)
        logits = smooth_columns(self.rng.normal(size=(steps, actions)), 6) * 8
        logits = logits + 1.5 * (np.arange(actions) == 7)
        exponentials = np.exp(logits - logits.max(1, keepdims=True))
        firsts = np.zeros(steps, bool)
        firsts[np.r_[0, np.sort(self.rng.choice(np.arange(steps // 5, steps), 3, replace=False))]] = True
        rewards = np.where(np.r_[firsts[1:], False], 10.0, 0.0)
        values = 5 + smooth_columns(self.rng.normal(size=(steps, 1)), 8)[:, 0] * 12
        values = values - 2.0 * firsts
        return {
            "actions": np.argmax(logits + self.rng.gumbel(size=logits.shape), 1).astype(np.int32),
            "rewards": rewards.astype(np.float32),
            "firsts": firsts.astype(np.uint8),
            "advantages": (smooth_columns(self.rng.normal(size=(steps, 1)), 5)[:, 0] * 4).astype(np.float32),
            "values": values.astype(np.float32),
            "probabilities": (exponentials / exponentials.sum(1, keepdims=True)).astype(np.float32),
            "logits": logits.astype(np.float32),
            "groups": np.stack([logits[:, 6:9].sum(1), logits[:, :3].sum(1)], 1).astype(np.float32),
        }

    def _trajectory(self, index: int) -> dict[str, Any]:
        steps = self.size.steps
        frames = [draw_frame(index, t) for t in range(steps)]
        names = []
        for segment, start in enumerate(range(0, steps, SEGMENT)):
            part = frames[start : start + SEGMENT]
            encoded = [encode_png(frame) for frame in part]
            offsets = np.cumsum([0] + [len(data) for data in encoded]).astype(np.int32)
            as_images = {"offsets": offsets, "png": b"".join(encoded)}
            arrays = as_images if index % 2 else {"pixels": np.stack(part)}  # as of large and of small frames
            names.append(self._chunk(f"trajectories/{index + 1}/frames-{segment + 1}.js", arrays))
        scrub = [
            self._image(
                f"trajectories/{index + 1}/scrub-{part + 1}.png",
                np.concatenate([frame[:, 42:44] for frame in frames[start : start + SCRUB_STEPS]], axis=1),
            )
            for part, start in enumerate(range(0, steps, SCRUB_STEPS))
        ]
        series = self._chunk(f"trajectories/{index + 1}/series.js", self.series[index])
        return {"steps": steps, "series": series, "scrub": scrub, "frames": names, "images": []}

    def _bookmarks(self) -> dict[str, Any]:
        marks = [
            {"trajectory": i, "frame": int(t), "advantage": float(series["advantages"][t])}
            for i, series in enumerate(self.series)
            for t in np.argsort(series["advantages"])[[0, 1, 2, -3, -2, -1]]
        ]
        return {
            "high": sorted((m for m in marks if m["advantage"] > 0), key=lambda m: -m["advantage"]),
            "low": sorted((m for m in marks if m["advantage"] < 0), key=lambda m: m["advantage"]),
        }

    # --- layers

    def _layers(self) -> list[dict[str, Any]]:
        layers = [self._layer(*layer) for layer in self.size.layers]
        return ([self._input_layer()] if self.size.input_layer else []) + layers

    def _layer(self, name: str, side: int, depth: int) -> dict[str, Any]:
        hues = hexagon_hues(K)
        layer = {
            "name": name, "slug": name, "full_name": f"ppo2_model/pi/{name}/Relu", "kind": "layer", "height": side,
            "width": side, "depth": depth, "channels": K, "hues": hues.tolist(), "colors": hex_colors(hues),
        }  # fmt: skip
        return layer | self._attribution(name, side, K + 1, hues)

    def _input_layer(self) -> dict[str, Any]:
        hues = np.eye(3)
        layer = {
            "name": "input", "slug": "input", "full_name": "input", "kind": "input", "height": SIDE, "width": SIDE,
            "depth": 3, "channels": 3, "hues": hues.tolist(), "colors": hex_colors(hues),
        }  # fmt: skip
        return layer | self._attribution("input", SIDE, 3, hues)

    def _attribution(self, name: str, side: int, depth: int, hues: np.ndarray) -> dict[str, Any]:
        chunks: dict[str, list[list[str]]] = {output["id"]: [] for output in self.outputs}
        scales: dict[str, list[float]] = {output["id"]: [] for output in self.outputs}
        totals: list[str] = []
        sums: dict[str, list[np.ndarray]] = {output["id"]: [] for output in self.outputs}
        for trajectory in range(self.size.trajectories):
            arrays = {}
            for output in self.outputs:
                values = drifting_blobs(self.rng, self.size.steps, side, depth, len(hues))
                peaks = values[..., : len(hues)].max(axis=(1, 2, 3))
                scales[output["id"]].append(float(np.median(peaks)) or 1.0)
                names = []
                for segment, start in enumerate(range(0, self.size.steps, SEGMENT)):
                    codes, frame_scales = to_codes(values[start : start + SEGMENT])
                    path = f"attribution/{name}/{trajectory + 1}/{output['id']}-{segment + 1}.js"
                    names.append(self._chunk(path, {"codes": codes, "scales": frame_scales}, delta="codes"))
                chunks[output["id"]].append(names)
                parts = np.stack([np.maximum(values, 0).sum((1, 2)), np.minimum(values, 0).sum((1, 2))], -1)
                arrays[f"totals.{output['id']}"] = parts.astype(np.float32)
                sums[output["id"]].append(parts.sum(-1).mean(0))
                if name != "input":
                    whole = values.sum((1, 2, 3))
                    gap = whole * (1 + self.rng.normal(size=len(whole)) * 0.08)
                    arrays[f"gap.{output['id']}"] = np.stack([whole, gap, gap + 1], 1).astype(np.float32)
            if name != "input":
                arrays["activation"] = np.abs(values[..., : len(hues)]).max(axis=(1, 2)).astype(np.float32)
            totals.append(self._chunk(f"attribution/{name}/{trajectory + 1}/totals.js", arrays))
        effects = {key: np.mean(rows, 0).tolist() for key, rows in sums.items()}
        spread = {key: [[value - 1, value + 1] for value in row] for key, row in effects.items()}
        return {
            "attribution": chunks, "scales": scales, "totals": totals, "effects": effects, "effect_spread": spread
        }  # fmt: skip

    # --- dataset examples

    def _features_data(self) -> dict[str, Any]:
        layers = {
            name: {
                "reduction": {"error": 0.21 + side / 400, "error_held_out": 0.23 + side / 400, "fitted_on": 1024},
                "thumbnails": [
                    self._image(f"thumbnails/{name}/thumbnail-{k + 1}.png", draw_thumbnail(self.rng)) for k in range(K)
                ],
                "chunk": self._features(name, side),
                "receptive_field": {"height": 10, "width": 12, "effective_height": 8, "effective_width": 6},
                "statistics": [
                    {
                        "strongest": 2.0,
                        "frames": 0.1 * (k + 1),
                        "positions": 0.01 * (K - k),
                        "error": 0.2,
                        "stability": round(0.6 + (k * 3 % K) / 20, 2),
                        "twins": {0: [2], 2: [0]}.get(k, []),
                    }
                    for k in range(K)
                ],
                "signs": {output["id"]: [[0.05 * k, 0.3] for k in range(K)] for output in self.outputs},
            }
            for name, side, _ in self.size.layers
        }
        return {"layers": layers, "observations": self._atlas()}

    def _features(self, name: str, side: int) -> str:
        arrays: dict[str, np.ndarray] = {}
        for density in (0.25, 0.5, 1, 2):
            cells = round(density * (side + 1) + 1) - 2 if density != 1 else side
            centres = (np.arange(cells) + 0.5) * side / cells
            index = self.rng.integers(0, self.size.observations, (K, cells, cells))
            strength = np.stack([smooth_plane(self.rng.random((cells, cells))) for _ in range(K)])
            strength = (strength - strength.min()) / np.ptp(strength)
            key = f"{density:g}"
            arrays[f"index.{key}"] = index.astype(np.int32)
            arrays[f"opacity.{key}"] = np.round(255 * np.minimum(1, 0.06 + 0.94 * strength / 0.8)).astype(np.uint8)
            arrays[f"position.{key}"] = np.stack(np.meshgrid(centres, centres, indexing="ij"), -1).astype(np.float32)
        count = min(12, self.size.observations)
        positions = self.rng.integers(0, side**2, (5, K, count))
        for kind, at in zip(("excites", "middle", "lowest"), positions, strict=False):
            shown = np.stack([self.rng.permutation(self.size.observations)[:count] for _ in range(K)])
            arrays[kind] = np.stack([shown, at], axis=-1).astype(np.int32)
            arrays[f"{kind}_strength"] = np.sort(self.rng.random((K, count)))[:, ::-1].astype(np.float32)
        for output in [one["id"] for one in self.outputs]:
            for kind, at in zip(("raises", "lowers"), positions[3:], strict=True):
                trajectories = self.rng.integers(0, self.size.trajectories, (K, count))
                frames = np.stack([np.sort(self.rng.choice(self.size.steps, count)) for _ in range(K)])
                arrays[f"{kind}.{output}"] = np.stack([trajectories, frames, at], axis=-1).astype(np.int32)
                strengths = np.sort(self.rng.random((K, count)))[:, ::-1].astype(np.float32)
                arrays[f"{kind}_strength.{output}"] = strengths if kind == "raises" else -strengths
            arrays[f"net.{output}"] = self.rng.integers(0, 40, (K, 24)).astype(np.int32)
            arrays[f"net_limit.{output}"] = np.full(K, 2, np.float32)
        arrays["histogram"] = self.rng.integers(0, 40, (K, 24)).astype(np.int32)
        overlap = np.eye(K, dtype=np.float32)
        overlap[0, 2] = overlap[2, 0] = 0.75
        arrays["overlap"] = overlap
        meta = {
            "subdiv_mults": [0.25, 0.5, 1, 2],
            "subdiv_mult_default": 1,
            "expand_mults": [1, 2, 4, 8],
            "expand_mult_default": 4,
        }
        return self._chunk(f"features/{name}/grids.js", arrays, meta=meta)

    def _atlas(self) -> dict[str, Any]:
        count, columns = self.size.observations, 8
        frames = [draw_frame(9 + i % 5, i * 13) for i in range(count)]
        rows = -(-count // columns)
        sheet = np.zeros((rows * SIDE, columns * SIDE, 3), np.uint8)
        for i, frame in enumerate(frames):
            y, x = divmod(i, columns)
            sheet[y * SIDE : (y + 1) * SIDE, x * SIDE : (x + 1) * SIDE] = frame
        origins: list[list[int] | None] = [[i % self.size.trajectories, i] if i % 2 else None for i in range(count)]
        return {
            "count": count, "images": [self._image("observations/observations-1.png", sheet)], "columns": columns,
            "per_image": count, "height": SIDE, "width": SIDE, "origins": origins,
            "episodes": [i // 2 for i in range(count)],
            "indices": [5 * i for i in range(count)],
        }  # fmt: skip

    # --- files

    def _chunk(self, name: str, arrays: dict[str, Any], delta: str = "", meta: dict[str, Any] | None = None) -> str:
        return write_chunk(self.page, name, arrays, delta, meta)

    def _image(self, name: str, image: np.ndarray) -> str:
        return write_image(self.page, name, image)


def write_image(page: LocalDirectory, name: str, image: np.ndarray) -> str:
    """Write a PNG and return its name."""
    page.write(name, encode_png(image))
    return ImageName(name)


def write_chunk(
    page: LocalDirectory, name: str, arrays: dict[str, Any], delta: str = "", meta: dict[str, Any] | None = None
) -> str:
    """Write a chunk and return its name; the array `delta` is coded as differences."""
    header: dict[str, Any] = {"arrays": {}}
    parts = []
    for key, array in arrays.items():
        if isinstance(array, bytes):
            header["arrays"][key] = {"dtype": "bytes", "shape": [len(array)]}
            parts.append(array)
            continue
        header["arrays"][key] = {"dtype": array.dtype.name, "shape": list(array.shape)}
        if key == delta:
            header["arrays"][key]["filter"] = "delta"
            array = np.diff(array.view(np.uint8), axis=0, prepend=np.zeros_like(array[:1]).view(np.uint8))
        parts.append(np.ascontiguousarray(array).tobytes())
    if meta:
        header["meta"] = meta
    data = base64.b64encode(zlib.compress(b"".join(parts), 1)).decode()
    script = f'rlClarityChunk({json.dumps(name)}, {json.dumps(header, separators=(",", ":"))}, "{data}");\n'
    page.write(name, script.encode())
    return ChunkName(name)


def read_chunk(directory: Path, name: str) -> dict[str, np.ndarray]:
    """The arrays of a chunk beside a page."""
    text = (directory / name).read_text()
    header, data = json.loads("[" + text[text.index("(") + 1 : text.rindex(")")] + "]")[1:]
    stream = zlib.decompress(base64.b64decode(data))
    arrays, offset = {}, 0
    for key, entry in header["arrays"].items():
        dtype = np.dtype("uint8" if entry["dtype"] == "bytes" else entry["dtype"])
        count = int(np.prod(entry["shape"]))
        array = np.frombuffer(stream, dtype, count, offset)
        offset += count * dtype.itemsize
        *rest, depth = entry["shape"]
        if "planes" in entry.get("filter", ""):
            array = np.ascontiguousarray(np.moveaxis(array.reshape(depth, *rest), 0, -1))
        array = array.reshape(entry["shape"])
        if "delta" in entry.get("filter", ""):
            array = np.cumsum(array.view(np.uint8), axis=0, dtype=np.uint8).view(dtype)
        arrays[key] = array
    return arrays


def encode_png(image: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
