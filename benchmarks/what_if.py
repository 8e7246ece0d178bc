"""Measure the panel What if of a page that is opened from a file, with its network: `python -m benchmarks.what_if`.

Each change paints a box of another color over the observation. For it, onnxruntime-web evaluates the network once, in
Chromium, with WebAssembly and one thread; this forward pass is measured in milliseconds. Also measured are the time
until the answer is drawn, the processor time of the page's main thread for it, and onnxruntime in Python with one
thread. The load of the machine is printed with them.
"""

from __future__ import annotations

import os
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from benchmarks.job import Sizes, make_agent, make_samples
from benchmarks.page import task_seconds
from scripts.chromium import FLAGS, find_chromium

AGENTS = {"coinrun": ("clear", "2b"), "fruitbot": ("impala", "block2"), "starpilot-lstm": ("nature + LSTM", "Relu_1")}
"""The network of each agent, and the layer that its page shows."""
GOALS_MS = {"clear": 60.0}
"""Largest median time of a forward pass, in milliseconds, by network."""
CHANGES = 40
STEPS = 40

# The runtime is imported from an object URL; importing it again gives the same module, whose sessions are then timed.
TIME_SESSIONS = """(() => {
  const create = URL.createObjectURL.bind(URL);
  URL.createObjectURL = (blob) => {
    const address = create(blob);
    if (blob.type === "text/javascript") {
      import(address).then(({ InferenceSession: { prototype } }) => {
        const run = prototype.run;
        prototype.run = async function (...arguments_) {
          const start = performance.now();
          const results = await run.apply(this, arguments_);
          window.forwards.push(performance.now() - start);
          return results;
        };
      });
    }
    return address;
  };
  window.forwards = [];
})();"""

CHANGE = """async (edit) => {
  const row = document.querySelector("[data-testid=what-if-value]");
  window.forwards.length = 0;
  const drawn = new Promise((resolve) => {
    const observer = new MutationObserver(() => {
      observer.disconnect();
      resolve();
    });
    observer.observe(row, { attributeFilter: ["data-after"] });
  });
  const start = performance.now();
  rlClarity.select({ edit });
  await drawn;
  document.body.getBoundingClientRect();
  return { answer: performance.now() - start, forwards: [...window.forwards] };
}"""


def measure() -> dict[str, Any]:
    """Return, for each agent, the times of its page, that of onnxruntime in Python, and the load of the machine."""
    from benchmarks.parts import SkippedError
    from rl_clarity.pages.browser_runtime import missing_file

    program = find_chromium()
    if program is None:
        raise SkippedError("no Chromium: set RL_CLARITY_CHROMIUM")
    packages = [name for name in ("torch", "onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if packages or missing_file():
        raise SkippedError(f"{', '.join(packages) or 'onnxruntime-web'} is missing")
    results = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(program), args=FLAGS)
        for name, (network, layer) in AGENTS.items():
            with tempfile.TemporaryDirectory() as folder:
                content = _write_page(Path(folder), name, layer)
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                results[name] = {"network": network, **_answers(page, Path(folder)), "python_ms": _python(content)}
                page.close()
        browser.close()
    return results


def _write_page(folder: Path, model: str, layer: str) -> bytes:
    """Write a page with its network; return the network in ONNX."""
    import rl_clarity
    from rl_clarity.pages.chunks import decode_chunk, parse_script

    agent = make_agent(0, model)
    played, varied = make_samples(Sizes(frames=STEPS), agent.num_actions)
    layers = {"name_contains_one_of": [layer]}
    rl_clarity.generate(agent, played, varied, folder, layers=layers, analyses={"what_if": {}})
    return decode_chunk(parse_script((folder / "what_if/network.js").read_bytes()))["onnx"].tobytes()


def _answers(page: Page, folder: Path) -> dict[str, float]:
    """Return the times until the panel's first answer, of the forward passes after changes, and until their answers are
    drawn.
    """
    profiler = page.context.new_cdp_session(page)
    profiler.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.add_init_script(TIME_SESSIONS)
    page.goto(f"{(folder / 'interface.html').resolve().as_uri()}?frame={STEPS // 2}")
    page.wait_for_function("window.rlClarity")
    if page.get_by_test_id("tour-skip").count():
        page.get_by_test_id("tour-skip").click()
    start = page.evaluate("() => { rlClarity.select({ edit: 'open' }); return performance.now(); }")
    page.get_by_test_id("what-if-value").wait_for()
    opened = page.evaluate("performance.now()") - start
    forwards, answers, cpu = [], [], []
    load = os.getloadavg()[0]
    for i in range(CHANGES + 1):
        before = task_seconds(profiler)
        timed = page.evaluate(CHANGE, f"color~8.16.40.56~{i:02x}{255 - i:02x}{5 * i:02x}")
        cpu.append(1000 * (task_seconds(profiler) - before))
        answers.append(timed["answer"])
        (forward,) = timed["forwards"]
        forwards.append(forward)
    times = {"forward": forwards[1:], "answer": answers[1:], "answer_cpu": cpu[1:]}  # the first one compiles the code
    summaries = {f"{name}_ms": float(np.median(each)) for name, each in times.items()}
    summaries |= {f"{name}_ms_p95": float(np.percentile(each, 95)) for name, each in times.items()}
    return {"opened_ms": opened, "load": load, **summaries}


def _python(content: bytes) -> float:
    """Return the milliseconds of a forward pass of onnxruntime in Python, with one thread and one observation."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
    shapes = {one.name: [1 if isinstance(n, str) else n for n in one.shape] for one in session.get_inputs()}
    feeds = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    times = []
    for _ in range(CHANGES + 1):
        start = time.perf_counter()
        session.run(None, feeds)
        times.append(1000 * (time.perf_counter() - start))
    return float(np.median(times[1:]))


def lines(results: dict[str, Any]) -> list[str]:
    """Return the results as a table."""
    rows = [
        f"medians and 95th percentiles of {CHANGES} changes, in milliseconds",
        f"{'agent':16} {'network':14} {'opened':>7} {'forward':>9} {'p95':>6} {'Python':>7} {'ratio':>6} "
        f"{'answer':>7} {'p95':>6} {'cpu':>6} {'load':>5}",
    ]
    for name, result in results.items():
        goal = GOALS_MS.get(result["network"])
        rows.append(
            f"{name:16} {result['network']:14} {result['opened_ms']:7.0f} "
            f"{result['forward_ms']:9.1f} {result['forward_ms_p95']:6.1f} "
            f"{result['python_ms']:7.1f} {result['forward_ms'] / result['python_ms']:6.1f} "
            f"{result['answer_ms']:7.1f} {result['answer_ms_p95']:6.1f} {result['answer_cpu_ms']:6.1f} "
            f"{result['load']:5.1f}" + (f"   (goal: a forward pass takes at most {goal:.0f})" if goal else "")
        )
    return rows


if __name__ == "__main__":
    print("\n".join(lines(measure())))
