"""What agents make at their first calls is made once, although several threads call them."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from rl_clarity.agents import jax_agent, keras_agent, torch_agent
from rl_clarity.agents.batched import BatchedAgent
from rl_clarity.agents.once import MadeOnce

SHAPE = (16, 16, 3)
THREADS = 4
SECONDS = 120

KerasAgent: Any = keras_agent.KerasAgent
JaxAgent: Any = jax_agent.JaxAgent
TorchAgent: Any = torch_agent.TorchAgent


def keras_network() -> Any:
    import keras

    layers = keras.layers
    x = images = keras.Input(SHAPE)
    x = layers.Conv2D(4, 4, strides=4, activation="relu")(x)
    x = layers.Dense(8, activation="relu")(layers.Flatten()(x))
    return keras.Model(images, [layers.Dense(5, name="logits")(x), layers.Dense(1, name="value")(x)])


def keras_agents() -> Iterator[Any]:
    model = keras_network()
    while True:
        yield KerasAgent(model)


def jax_agents() -> Iterator[Any]:
    pytest.importorskip("flax")
    from tests.agents import jax_networks

    network = jax_networks.initialized("Residual", SHAPE)
    while True:
        yield JaxAgent(*network, SHAPE, check=False)


def torch_agents() -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    parts = torch.nn.Conv2d(3, 4, 4, stride=4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 6)
    module = torch.nn.Sequential(*parts)
    while True:
        agent = TorchAgent(
            module, SHAPE, forward=lambda m, x, _: dict(zip(("logits", "value"), m(x).split([5, 1], 1), strict=True))
        )
        yield agent


def in_threads(works: list[Callable[[], Any]]) -> list[Any]:
    """The results of functions that threads call at the same time; raises what they raise."""
    start = threading.Barrier(len(works))
    results: list[Any] = [None] * len(works)

    def run(index: int) -> None:
        start.wait()
        try:
            results[index] = works[index]()
        except BaseException as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive(), "a deadlock"
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Let threads take turns as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[Any]:
    """How often each value of an agent was made."""
    counts: Counter[Any] = Counter()
    cached, trace = BatchedAgent._cached, jax_agent.JaxAgent._trace_program

    def counting(agent: BatchedAgent, key: Any, make: Callable[[], Any]) -> Any:
        def counted() -> Any:
            counts[id(agent), key] += 1
            return make()

        return cached(agent, key, counted)

    def counting_programs(agent: jax_agent.JaxAgent, batch: int) -> Any:
        counts[id(agent), f"program of {batch}"] += 1
        return trace(agent, batch)

    monkeypatch.setattr(BatchedAgent, "_cached", counting)
    monkeypatch.setattr(jax_agent.JaxAgent, "_trace_program", counting_programs)
    return counts


def calls(agent: Any) -> list[Callable[[], Any]]:
    """Calls that need most of what an agent makes, each as the first."""
    observations = np.random.default_rng(0).integers(0, 256, (3, *SHAPE), np.uint8)
    layer = "relu" if isinstance(agent, jax_agent.JaxAgent) else None

    def along_path() -> np.ndarray:
        (tail,) = agent.tails(observations, layer or next(iter(agent.layers)), ["value"])
        return np.asarray(tail.linear_path_gradients([0.5, 1.0], [0.5, 0.5]))

    return [
        lambda: agent.forward(observations).policy_logits,
        lambda: agent.gradients(observations, "input", ["value", 1]),
        along_path,
        lambda: np.asarray([len(agent.sites), len(agent.layers), agent.parallel_calls]),
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("many_switches", "single_thread")
@pytest.mark.parametrize("agents", [keras_agents, jax_agents, torch_agents])
def test_concurrent_first_calls_build_each_cached_object_once(
    agents: Callable[[], Iterator[Any]], made: Counter[Any]
) -> None:
    fresh = agents()
    expected = [call() for call in calls(next(fresh))]
    for _ in range(3):
        made.clear()
        works = calls(agent := next(fresh))
        orders = [[*works[i:], *works[:i]] for i in range(THREADS)]
        results = in_threads([partial(lambda order: [call() for call in order], order) for order in orders])
        assert any(key == (id(agent), "sites") for key in made)
        assert not {key: count for (_, key), count in made.items() if count > 1}
        for i, result in enumerate(results):
            for array, other in zip(result, [*expected[i:], *expected[:i]], strict=True):
                np.testing.assert_allclose(array, other, rtol=1e-5, atol=1e-6)


def test_cached_values_that_need_each_other_do_not_deadlock() -> None:
    values = MadeOnce()
    inner, outer = threading.Event(), threading.Event()

    def make_outer() -> int:
        outer.set()
        assert inner.wait(SECONDS)
        return int(values.get("inner", lambda: 0)) + 1

    def make_inner() -> int:
        inner.set()
        assert outer.wait(SECONDS)
        return 1

    assert in_threads([lambda: values.get("outer", make_outer), lambda: values.get("inner", make_inner)]) == [2, 1]


def test_concurrent_threads_wait_for_the_one_that_computes_a_cached_value() -> None:
    values, calls = MadeOnce(), Counter[str]()

    def make() -> int:
        calls["made"] += 1
        time.sleep(0.1)  # the others ask meanwhile
        return calls["made"]

    assert in_threads([lambda: values.get("a", make)] * THREADS) == [1] * THREADS
    assert calls["made"] == 1


def test_a_cached_value_whose_computation_failed_is_computed_again() -> None:
    values = MadeOnce()
    with pytest.raises(ZeroDivisionError):
        values.get("a", lambda: 1 / 0)
    assert values.get("a", lambda: 1) == 1
