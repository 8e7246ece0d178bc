"""The analysis `what_if` writes the agent's network beside the page, or says why it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rl_clarity
from rl_clarity.agents.editing import Ablate
from rl_clarity.base.errors import DependencyError, OptionError
from rl_clarity.pages import browser_runtime
from rl_clarity.pages.results import open_results
from tests.live.pages import tiny_agent, write_page

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

from tests.live.torch_networks import policy_agent  # noqa: E402

OPTIONS: dict[str, Any] = {
    "analyses": {"what_if": {}},
    "layers": {"name_contains_one_of": ["body"]},
    "objects": {"every": None},
    "ablation": {"every": None},
}


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Files in place of those of onnxruntime-web, which only a browser runs."""
    folder = tmp_path / "runtime"
    folder.mkdir()
    for name in browser_runtime.FILES.values():
        (folder / name).write_bytes(name.encode())
    monkeypatch.setattr(browser_runtime, "DIRECTORY", folder)
    return folder


@pytest.mark.slow
def test_the_page_contains_the_onnx_export_of_the_network(runtime: Path, tmp_path: Path) -> None:
    from rl_clarity.agents.onnx_export import export_onnx

    agent = policy_agent()
    results = open_results(write_page(tmp_path / "page", agent, **OPTIONS))
    section = results.section("what_if")
    assert section["layers"] == list(agent.layers)
    assert results.chunk(section["network"])["onnx"].tobytes() == export_onnx(agent)
    files = results.chunk(section["runtime"])
    assert {key: files[key].tobytes().decode() for key in files} == browser_runtime.FILES
    document = (tmp_path / "page" / "interface.html").read_text()
    assert "'wasm-unsafe-eval'" in document
    assert "connect-src 'none'" in document


def test_pages_without_what_if_do_not_allow_webassembly(tmp_path: Path) -> None:
    write_page(tmp_path, policy_agent(), **{**OPTIONS, "analyses": {}})
    document = (tmp_path / "interface.html").read_text()
    assert "wasm-unsafe-eval" not in document
    assert not (tmp_path / "what_if").exists()


def test_a_missing_onnx_runtime_is_reported_before_any_work(runtime: Path, tmp_path: Path) -> None:
    (runtime / browser_runtime.FILES["wasm"]).unlink()
    with pytest.raises(DependencyError, match=r"ort-wasm.*is missing: run `make onnxruntime`"):
        write_page(tmp_path / "page", policy_agent(), **OPTIONS)
    assert not (tmp_path / "page").exists()


@pytest.mark.usefixtures("runtime")
def test_what_if_refuses_agents_that_cannot_be_exported_to_onnx(tmp_path: Path) -> None:
    edited = rl_clarity.edit(policy_agent(), Ablate("body.1", unit=0))
    with pytest.raises(OptionError, match="needs a network without edits"):
        write_page(tmp_path / "edited", edited, **OPTIONS)
    with pytest.raises(OptionError, match="networks are exported by PyTorch"):
        write_page(tmp_path / "tiny", tiny_agent(), analyses=OPTIONS["analyses"])
    with pytest.raises(OptionError, match=r"cannot be exported to ONNX.*bessel_i0"):
        write_page(tmp_path / "bessel", policy_agent(activation=torch.special.i0), **OPTIONS)
