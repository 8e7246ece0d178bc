"""Read pages in Python: `Page`, which `run` returns, and `Results`, the arrays of any page.

For example, `open_results("out").attribution("2b", trajectory=0)` returns the attribution to the layer 2b.
"""

from __future__ import annotations

import base64
import binascii
import copy
import html
import json
import os
import webbrowser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from rl_clarity.base.errors import ClarityError, OptionError
from rl_clarity.base.keys import JsonObject
from rl_clarity.base.parsing import path_text, typed
from rl_clarity.base.renamed import RenamedAttribute, warn_renamed
from rl_clarity.jobs.directory import Directory, open_directory
from rl_clarity.pages.chunks import Chunk, decode_chunk, parse_embedded, parse_script
from rl_clarity.pages.document import PAGE, embedded_files, read_manifest
from rl_clarity.pages.frames import read_frame
from rl_clarity.pages.images import decode_png
from rl_clarity.pages.manifest import section_data
from rl_clarity.pages.manifest_check import check_manifest
from rl_clarity.pages.result_arrays import ReducedAttribution, SaliencyMaps, Segment, StateMap, Totals, Window
from rl_clarity.pages.section_types import (
    SECTION_TYPES,
    AblationSection,
    AttributionSection,
    FeaturesSection,
    LayerEntry,
    LayerFeaturesEntry,
    ObjectsSection,
    SaliencySection,
    StateMapSection,
    TrajectoriesSection,
    TrajectoryEntry,
    WindowsSection,
)
from rl_clarity.reduction import ChannelReduction
from rl_clarity.reduction.matching import MatchedFeature, match_components
from rl_clarity.visualization.quantization import dequantize
from rl_clarity.visualization.totals import output_decomposition

Data = TypeVar("Data")
KINDS = {form: kind for kind, form in SECTION_TYPES.items()}
Steps = range | Sequence[int] | None
"""Steps of a trajectory, counted from 0, or None for all steps."""


def open_results(directory: str | os.PathLike[str]) -> Results:
    """Open the page in a directory, or at the path of its `interface.html`.

    Raises ClarityError if the directory does not contain a page, or if its format version is not supported.
    """
    return Results(*locate(directory))


def locate(page: str | os.PathLike[str]) -> tuple[Directory, str]:
    """Return the directory of a page and the name of its document, from the path or address of either."""
    text = path_text(page, "page")
    location, name = os.path.split(text) if text.endswith(".html") else (text, PAGE)
    return open_directory(location or "."), name


def read_document(directory: Directory, name: str) -> bytes:
    """Return the bytes of a page's document. Raises ClarityError if it does not exist."""
    try:
        return directory.read(name)
    except (FileNotFoundError, NotADirectoryError):
        raise ClarityError(f"{directory.location} contains no page {name}") from None


@dataclass(frozen=True)
class Page:
    """A finished page. A notebook displays it if it is the value of a cell."""

    path: Path | str
    """The page's `interface.html`; a string if it is an address such as `s3://bucket/page/interface.html`."""

    def open(self) -> None:
        """Open the page in the browser."""
        webbrowser.open(self.path if isinstance(self.path, str) else self.path.absolute().as_uri())

    def results(self) -> Results:
        """Return the `Results` of the page."""
        return open_results(self.path)

    def _repr_html_(self) -> str:
        # A notebook can only show files below its directory, by their relative path.
        address = self.path if isinstance(self.path, str) else Path(os.path.relpath(self.path)).as_posix()
        source = html.escape(address)
        return (
            f'<iframe src="{source}" width="100%" height="800" style="border: 0" title="rl-clarity"></iframe>'
            f'<p><a href="{source}" target="_blank">open the page by itself</a></p>'
        )


class Results:
    """The manifest and arrays of a page. Each call reads the required files; nothing is cached."""

    def __init__(self, directory: Directory, page: str = PAGE) -> None:
        self._directory = directory
        document = read_document(directory, page)
        self.manifest: dict[str, Any] = read_manifest(document)
        check_manifest(self.manifest)
        self._embedded = embedded_files(document)

    @property
    def location(self) -> str:
        """The path or address of the page's directory."""
        return self._directory.location

    @property
    def directory(self) -> Directory:
        """The page's directory."""
        return self._directory

    def section(self, kind: str) -> dict[str, Any]:
        """Return the data of the page's first section of a kind, as docs/page-format.md describes it.

        Raises ClarityError if the page has no such section.
        """
        return section_data(self.manifest, kind)

    @property
    def options(self) -> dict[str, Any]:
        """The page's options by name. Options of an analysis are in a dict under its name, such as `windows`."""
        listed = [one["items"] for one in self.manifest.get("provenance", ()) if one["group"] == "Options"]
        options: dict[str, Any] = {}
        for name, value in typed({name: text for items in listed for name, text in items}).items():
            group, _, own = name.rpartition(".")
            (options.setdefault(group, {}) if group else options)[own] = value
        return options

    def each_agent(self) -> Iterator[Results]:
        """Yield the results of each agent of the page, such as each checkpoint of a training run.

        Each of them has only the sections of its own agent.
        """
        for agent in self.manifest["agents"]:
            own = copy.copy(self)
            sections = [section for section in self.manifest["sections"] if section.get("agent") == agent["id"]]
            own.manifest = {**self.manifest, "agents": [agent], "sections": sections}
            yield own

    def _data(self, form: type[Data]) -> Data:
        """Return the data of the section that a type describes. Raises ClarityError if the page has none."""
        return cast(Data, section_data(self.manifest, KINDS[form]))

    def has(self, kind: str) -> bool:
        """Return whether the page has a section of a kind."""
        return any(section["kind"] == kind for section in self.manifest["sections"])

    @property
    def agent(self) -> JsonObject:
        """The manifest entry for the first agent: network, actions, observation size, ..."""
        agent: JsonObject = self.manifest["agents"][0]
        return agent

    @property
    def layers(self) -> list[str]:
        """Names of the layers that have attribution, in order."""
        return [layer["name"] for layer in self._data(AttributionSection)["layers"]]

    @property
    def baseline(self) -> str:
        """Name of the baseline of attribution, which `integrated_gradients` accepts. If the page's option is `auto`,
        this is the baseline that was chosen.
        """
        return self._data(AttributionSection).get("baseline") or "zero-layer"

    @property
    def outputs(self) -> list[str]:
        """Ids of the outputs that have attribution, in order."""
        return [output["id"] for output in self._data(AttributionSection)["outputs"]]

    def error_limit(self, output: str = "value") -> float | None:
        """Return the completeness error above which integrated gradients use more points on the path.

        It is 5 % of the output's range over all steps, or None for an output that does not vary, and for older pages.
        Raises OptionError for an unknown output.
        """
        limits = {one["id"]: one.get("error_limit") for one in self._data(AttributionSection)["outputs"]}
        if output not in limits:
            raise OptionError(f"unknown output {output!r}; the page has {', '.join(limits)}")
        return limits[output]

    def incomplete(self, layer: str, trajectory: int, output: str = "value") -> np.ndarray:
        """Return (T,) bool: whether the completeness error exceeds `error_limit`, at each of T steps of a trajectory.

        At these steps, the page draws attribution hatched and without colors. All values are False for the input layer,
        and on older pages.

        Raises OptionError for an unknown trajectory, layer or output.
        """
        limit = self.error_limit(output)
        if limit is None or self._layer(layer)["kind"] == "input":
            return np.zeros(self.trajectory(trajectory)["steps"], bool)
        return np.abs(self.decomposition(trajectory, layer, output)["completeness_error"]) > limit

    def layer(self, name: str | None = None) -> JsonObject:
        """Return the manifest entry for a layer, by default the first.

        The key `features` is the layer's entry in the section `features`, or None. Raises OptionError for an unknown
        layer.
        """
        entry = self._layer(name)
        return {**entry, "features": self._features(entry)}

    def _layer(self, name: str | None) -> LayerEntry:
        for layer in self._data(AttributionSection)["layers"]:
            if name is None or layer["name"] == name:
                return layer
        raise OptionError(f"unknown layer {name!r}; the page has {', '.join(self.layers) or 'none'}")

    def _features(self, layer: LayerEntry) -> LayerFeaturesEntry | None:
        return self._data(FeaturesSection)["layers"].get(layer["slug"]) if self.has("features") else None

    def feature_names(self, layer: str) -> dict[int, str]:
        """Return the names of a layer's named features, by their number as on the page, counted from 1."""
        entry = self._features(self._layer(layer))
        names = [] if entry is None else entry.get("names", [])
        return {number: name for number, name in enumerate(names, start=1) if name}

    def feature_ids(self, layer: str) -> list[str]:
        """Return the ids of a layer's features, which are independent of their numbers. Older pages have none."""
        entry = self._features(self._layer(layer))
        return [] if entry is None else list(entry.get("ids", []))

    def match_features(self, other: Results, layer: str) -> list[MatchedFeature | None]:
        """Return, for each feature of a layer, the matching feature of this layer on the page `other`, or None.

        `other` is another page of the same agent. Components are matched one to one so that the sum of their cosine
        similarities is largest. Matches with a similarity below 0.8 are discarded. Raises OptionError for a layer that
        one of the pages does not have.
        """
        return match_components(self.reduction(layer).components, other.reduction(layer).components)

    def trajectory(self, trajectory: int) -> JsonObject:
        """Return the manifest entry for a trajectory, counted from 0. Raises OptionError for an unknown one."""
        return dict(self._trajectory(trajectory))

    def _trajectory(self, trajectory: int) -> TrajectoryEntry:
        entries = self._data(TrajectoriesSection)["trajectories"]
        if not 0 <= trajectory < len(entries):
            raise OptionError(f"trajectory {trajectory} is out of range: the page has {len(entries)}, counted from 0")
        return entries[trajectory]

    def series(self, trajectory: int) -> dict[str, np.ndarray]:
        """Return the arrays (T, ...) of a trajectory by name: actions, rewards, firsts, advantages, values, ..."""
        return self.chunk(self._trajectory(trajectory)["series"])

    def frames(self, trajectory: int, steps: Steps = None) -> np.ndarray:
        """Return the frames (n, H, W, 1 | 3) uint8 at n steps, as the page shows them."""
        names = self._trajectory(trajectory)["frames"]
        return np.stack([read_frame(part.name, part.arrays, at) for part, at in self._at(trajectory, names, steps)])

    def attribution(
        self, layer: str, trajectory: int, output: str = "value", steps: Steps = None
    ) -> ReducedAttribution:
        """Return the attribution of an output to a layer's reduced channels, at some or all steps of a trajectory."""
        entry = self._layer(layer)
        self._trajectory(trajectory)
        parts = np.stack([self._attribution(entry, trajectory, part, steps) for part in self._parts(entry, output)])
        values = parts.sum(axis=0, dtype=np.float32)
        count = entry["channels"]
        residual = values[..., count:] if values.shape[-1] > count else None
        scale = float(entry["scales"][output][trajectory])
        return ReducedAttribution(values[..., :count], residual, scale, np.array(entry["hues"], np.float32))

    def _parts(self, layer: LayerEntry, output: str) -> list[str]:
        """Return the outputs with stored attribution that add up to an output: itself, or the actions of a group."""
        stored = layer["attribution"]
        (group,) = [one.get("group") for one in self._data(AttributionSection)["outputs"] if one["id"] == output] or [
            None
        ]
        members = [] if group is None else [f"action-{i}" for i in self.agent["action_groups"][group]["actions"]]
        parts = [output] if output in stored else members
        if not parts or any(part not in stored for part in parts):
            raise OptionError(f"unknown output {output!r}; the page has {', '.join(self.outputs)}")
        return parts

    def _attribution(self, layer: LayerEntry, trajectory: int, output: str, steps: Steps) -> np.ndarray:
        """Return stored attribution (n, h, w, K + 1) to K features and the residual, or (n, H, W, C) for the input."""
        places = self._at(trajectory, layer["attribution"][output][trajectory], steps)
        parts = [(part.entry("codes", at), part.entry("scales", at)) for part, at in places]
        return dequantize(np.stack([codes for codes, _ in parts]), np.array([scale for _, scale in parts]))

    def totals(self, layer: str, trajectory: int) -> dict[str, Totals]:
        """Return the totals of a layer's attribution along a trajectory, by output."""
        self._trajectory(trajectory)
        arrays = self.chunk(self._layer(layer)["totals"][trajectory])
        outputs = [key.partition(".")[2] for key in arrays if key.startswith("totals.")]
        return {
            output: Totals(arrays[f"totals.{output}"], arrays.get(f"gap.{output}"), arrays.get(f"memory.{output}"))
            for output in outputs
        }

    def decomposition(self, trajectory: int, layer: str, output: str = "value") -> dict[str, np.ndarray]:
        """Decompose an output along a trajectory into terms that add up to it.

        output = baseline + sum of features + residual + memory + completeness_error. `features` is (T, K), for T steps
        and K features; the other terms and `output` are (T,). All are float64. `memory` is 0 for an agent without a
        recurrent state. docs/reading-the-page.md explains the terms.

        Raises OptionError for an unknown trajectory, layer or output, and for the input layer, whose gradients do not
        add up to an output.
        """
        entry = self._layer(layer)
        if entry["kind"] == "input":
            raise OptionError(f"layer {layer!r} is the input: its gradients do not add up to an output")
        totals = self.totals(layer, trajectory)
        if output not in totals:
            raise OptionError(f"unknown output {output!r}; the page has {', '.join(totals)}")
        sums = totals[output]
        if sums.completeness is None:
            raise ClarityError(f"chunk {entry['totals'][trajectory]} is damaged: it has no gap.{output}")
        return output_decomposition(sums.totals, sums.completeness, sums.memory)

    def account(self, trajectory: int, layer: str, output: str = "value") -> dict[str, np.ndarray]:
        """Return `decomposition` with the names of version 0.1, `rest` and `gap`. Deprecated."""
        warn_renamed("Results.account", "Results.decomposition, whose terms are named residual and completeness_error")
        terms = self.decomposition(trajectory, layer, output)
        terms["rest"], terms["gap"] = terms.pop("residual"), terms.pop("completeness_error")
        return terms

    def saliency(self, trajectory: int, method: str = "perturbation", output: str = "policy") -> SaliencyMaps:
        """Return the saliency maps of an output along a trajectory.

        Raises OptionError for an unknown trajectory, method or output; ClarityError for a page without saliency.
        """
        self._trajectory(trajectory)
        entries = {one["name"]: one for one in self._data(SaliencySection)["methods"]}
        if method not in entries:
            raise OptionError(f"unknown method {method!r}; the page has {', '.join(entries)}")
        entry = entries[method]
        outputs = [one["id"] for one in entry["outputs"]]
        if output not in outputs:
            raise OptionError(f"unknown output {output!r}; the page has {', '.join(outputs)}")
        names = (f"codes.{output}", f"scales.{output}", f"totals.{output}", "steps")
        chunks = [self.chunk(name) for name in entry["maps"][trajectory]]
        codes, scales, totals, steps = (np.concatenate([chunk[name] for chunk in chunks]) for name in names)
        values = codes / np.float32(127 if entry["signed"] else 255) * scales[:, None, None]
        centers = entry["centers"]
        return SaliencyMaps(steps, values, totals, np.array(centers["rows"]), np.array(centers["columns"]))

    def objects(self, trajectory: int) -> dict[str, np.ndarray]:
        """Return the measured effects of the objects of a trajectory, as docs/page-format.md describes the arrays.

        Unlike in the stored arrays, `type` and `together.type` are names, and `mask` is (n, H, W) bool. Raises
        OptionError for an unknown trajectory, and ClarityError for a page without measured effects.
        """
        section = self._data(ObjectsSection)
        self._trajectory(trajectory)
        entry = section["trajectories"][trajectory]
        arrays = self.chunk(entry["chunk"])
        names = np.array(entry["types"], str)
        arrays |= {name: names[arrays[name]] for name in ("type", "together.type")}
        return {**arrays, "mask": np.unpackbits(arrays["mask"], axis=-1, count=section["width"]).astype(bool)}

    def state_map(self, method: str = "tsne") -> StateMap:
        """Return the map of the agent's states, which `run(..., state_map=True)` computes.

        Raises OptionError for a method that the page does not have; ClarityError for a page without a map.
        """
        entries = {one["method"]: one for one in self._data(StateMapSection)["maps"]}
        if method not in entries:
            raise OptionError(f"unknown method {method!r}; the page has {', '.join(entries)}")
        entry = entries[method]
        arrays = self.chunk(entry["chunk"])
        colors = {key.removeprefix("color."): values for key, values in arrays.items() if key.startswith("color.")}
        positions = np.stack([arrays[axis] for axis in "xyz" if axis in arrays], axis=1)
        return StateMap(positions, arrays["trajectory"], arrays["frame"], colors, entry["source"], entry["perplexity"])

    def window(self, number: int) -> Window:
        """Return a window of steps whose last step is explained, on a page of the kind `memory`.

        Windows are counted from 0. Raises OptionError for a number that is out of range, and ClarityError for a page
        without windows.
        """
        section = self._data(WindowsSection)
        entries = section["windows"]
        if not 0 <= number < len(entries):
            raise OptionError(f"window {number} is out of range: the page has {len(entries)}, counted from 0")
        entry = entries[number]
        arrays = self.chunk(entry["chunk"])
        paths = [path for path in section["paths"] if path in arrays]
        scales = {path: arrays[f"{path}.scale"][:, None, None, None] for path in paths}
        return Window(
            entry["trajectory"],
            range(entry["first"], entry["frame"] + 1),
            tuple(entry["targets"]),
            {path: arrays[path] / np.float32(127) * scales[path] for path in paths},
            {path: arrays[f"{path}.components"] for path in paths},
            entry.get("partner"),
        )

    stretch = RenamedAttribute("window")

    def layer_facts(self, layer: str) -> JsonObject:
        """Return how much the features of a layer explain, and the effect of their ablation.

        - `variance_share` {output: share}: share of the output's variance over frames that features and residual
          explain (1 - var(output - features - residual) / var(output); None if the output does not vary)
        - `coverage` {output: share}: share of the features in the total magnitude of attribution over positions
        - `error_held_out`: relative error of the features' reconstruction on held-out observations
        - `next_feature`: increase of the coverage by one more feature
        - `ablation` {output: (K,)}: mean change of the output when each of K features is ablated

        Values that an older page does not contain are None or, in the dicts, missing. Raises OptionError for an unknown
        layer and for the input.
        """
        entry = self._layer(layer)
        if entry["kind"] == "input":
            raise OptionError(f"layer {layer!r} is the input, which has no features; choose another layer")
        features = self._features(entry) or {"thumbnails": []}
        covered, reduction = features.get("facts"), features.get("reduction")
        ablated = self._data(AblationSection)["layers"].get(entry["slug"]) if self.has("ablation") else None
        changes = {} if ablated is None else ablated.get("outputs", {})
        return {
            "variance_share": dict(entry.get("variance_share", {})),
            "coverage": {} if covered is None else dict(covered.get("coverage", {})),
            "error_held_out": None if reduction is None else reduction.get("error_held_out"),
            "next_feature": None if covered is None else covered["next_feature"],
            "ablation": {output: np.array(change["mean"]) for output, change in changes.items()},
        }

    def features(self, layer: str) -> dict[str, np.ndarray]:
        """Return the arrays of dataset examples of a layer's channels, which docs/page-format.md describes.

        The dict is empty for the input layer.
        """
        entry = self._features(self._layer(layer))
        return {} if entry is None else self.chunk(entry["chunk"])

    def reduction(self, layer: str) -> ChannelReduction:
        """Return the channel reduction of a layer, whose `components` (K, c) are K features in c channels.

        Raises OptionError for the input layer, and ClarityError for a page that does not contain the components.
        """
        if self._layer(layer)["kind"] == "input":
            raise OptionError(f"layer {layer!r} is the input, which is not reduced")
        arrays = self.features(layer)
        if "components" not in arrays:
            raise ClarityError(f"the page does not contain the components of layer {layer!r}: create it again with run")
        return ChannelReduction(arrays["components"])

    def features_meta(self, layer: str) -> JsonObject:
        """Return the densities and zooms of a layer's dataset examples, or an empty dict for the input layer."""
        entry = self._features(self._layer(layer))
        return {} if entry is None else dict(json.loads(self._chunk(entry["chunk"]).header).get("meta", {}))

    def chunk(self, name: str) -> dict[str, np.ndarray]:
        """Return the arrays of the chunk with this name."""
        return decode_chunk(self._chunk(name))

    def image(self, name: str) -> np.ndarray:
        """Return the image (H, W, 1 | 3 | 4) uint8 with this name."""
        text = self._embedded.get(("image", name))
        if text is None:
            return decode_png(name, self._read(name))
        try:
            return decode_png(name, base64.b64decode(text, validate=True))
        except binascii.Error as error:
            raise ClarityError(f"image {name} is damaged: {error}") from error

    def _chunk(self, name: str) -> Chunk:
        text = self._embedded.get(("chunk", name))
        return parse_embedded(name, text) if text is not None else parse_script(self._read(name), name)

    def _read(self, name: str) -> bytes:
        try:
            return self._directory.read(name)
        except FileNotFoundError:
            raise ClarityError(f"{name} is missing in {self._directory.location}: the page is not complete") from None

    def _at(self, trajectory: int, names: Sequence[str], steps: Steps) -> list[tuple[Segment, int]]:
        """Return, for each step, the segment that contains it and the step's index there. Each segment is read once.

        `names` are the chunks of the trajectory's segments. Raises OptionError for an unknown step, or if `steps` is
        empty.
        """
        count, length = self._trajectory(trajectory)["steps"], self._data(TrajectoriesSection)["segment"]
        wanted = range(count) if steps is None else steps
        for step in wanted:
            if not 0 <= step < count:
                raise OptionError(f"step {step} is out of range: the trajectory has {count}, counted from 0")
        if not wanted:
            raise OptionError("steps is empty")
        numbers = sorted({step // length for step in wanted})
        segments = {number: Segment(names[number], self.chunk(names[number])) for number in numbers}
        return [(segments[step // length], step % length) for step in wanted]
