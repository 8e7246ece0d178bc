"""The analysis `what_if`: the network of a page's agent in ONNX, which the panel What if evaluates in the browser."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from rl_clarity.agents.onnx_export import KEY, check_export
from rl_clarity.agents.protocol import Agent
from rl_clarity.analyses.analysis import Analysis, Subject, SubjectOptions
from rl_clarity.analyses.attribution.baselines import BLURS, blur_matrices
from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import NoOptions
from rl_clarity.formats.onnx_file import onnx_of_agent
from rl_clarity.jobs.tasks import Results, Task, TaskResult, Work
from rl_clarity.pages.browser_runtime import VERSION, check_runtime, runtime_files
from rl_clarity.pages.document import panel_module
from rl_clarity.pages.files import ChunkName
from rl_clarity.pages.frames import hidden_observations
from rl_clarity.pages.sections import Note, SectionData

NETWORK, RUNTIME = ChunkName("what_if/network.js"), ChunkName("what_if/runtime.js")
PANEL = "what_if"
NOTE = Note(
    "What if",
    "The agent's network is stored beside the page in ONNX, and onnxruntime-web computes it in the browser. The panel "
    "opens only if the network reproduces the outputs that the page stores.",
)


@dataclass(frozen=True)
class WhatIfSection(SectionData):
    """The network that the panel What if evaluates: a file beside the page, or the network of a server."""

    kind = PANEL
    title = "What if"
    module = panel_module(PANEL)
    network: ChunkName | None = None
    """Chunk with the network in ONNX (`onnx`; see `rl_clarity.agents.onnx_export`), its initial state (`state.0`, ...),
    and for each blur (`blur`, `narrow-blur`) the matrices that blur columns (`blur.down`) and rows (`blur.across`).
    None if a server has the network."""
    runtime: ChunkName | None = None
    """Chunk with onnxruntime-web: its module (`script`) and the WebAssembly that the module runs (`wasm`)."""
    sha256: str = ""
    """SHA-256 of the network."""
    layers: Sequence[str] = ()
    """Short names of the layers that the network can replace, in the order of its inputs `write.0`, ..."""


class WhatIfAnalysis(Analysis[NoOptions, WhatIfSection]):
    """Writes the network in ONNX and onnxruntime-web beside the page."""

    kind = PANEL

    def check(self, agent: Agent, options: NoOptions, page: SubjectOptions) -> None:
        """Raise OptionError for an agent whose network is edited or that has numeric inputs in addition to the image,
        and DependencyError if a package or onnxruntime-web is missing.
        """
        check_export(agent)
        check_runtime()

    def tasks(self, subject: Subject, options: NoOptions) -> Iterable[Task]:
        problem = hidden_observations(asdict(subject.info.observation), subject.agent)
        if problem:
            raise OptionError(f"live=True requires a page that shows what its agent observed, but {problem}")
        yield self.task(subject, self.task_name("network"), partial(_write_network, subject))
        yield self.task(subject, self.task_name("runtime"), partial(_write_runtime, subject), VERSION)

    def sections(self, subject: Subject, options: NoOptions, results: Results) -> Iterable[WhatIfSection]:
        facts = results[self.task_name("network")]
        yield WhatIfSection(network=NETWORK, runtime=RUNTIME, sha256=facts["sha256"], layers=facts["layers"])

    def notes(self, options: NoOptions) -> Sequence[Note]:
        return [NOTE]


def _write_network(subject: Subject, work: Work) -> TaskResult:
    import onnx

    content = onnx_of_agent(subject.agent)
    metadata = {entry.key: entry.value for entry in onnx.load_from_string(content).metadata_props}
    facts: dict[str, Any] = json.loads(metadata[KEY])
    arrays: dict[str, np.ndarray | bytes] = {"onnx": content}
    arrays |= {f"state.{i}": np.asarray(part, np.float32) for i, part in enumerate(facts["states"])}
    height, width, _ = subject.agent.observation_shape
    for name, sigma in BLURS.items():
        arrays[f"{name}.down"], arrays[f"{name}.across"] = blur_matrices(height, width, sigma)
    subject.files.write_chunk(NETWORK, arrays)
    return TaskResult({"sha256": hashlib.sha256(content).hexdigest(), "layers": facts["layers"]}, [NETWORK])


def _write_runtime(subject: Subject, work: Work) -> TaskResult:
    subject.files.write_chunk(RUNTIME, runtime_files())
    return TaskResult(files=[RUNTIME])
