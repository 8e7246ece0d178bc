"""Zips of Stable-Baselines3 models of vectors, dictionaries and all actions: the agents that they are in memory."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
import pytest

import rl_clarity
from rl_clarity import formats
from rl_clarity.agents.actions import Gaussian, factor_columns
from rl_clarity.agents.held_inputs import is_recurrent, split_held
from rl_clarity.base.errors import CheckpointError, EnvironmentSetupError, SamplesError
from rl_clarity.cli import main
from rl_clarity.environments.action_spaces import ActionSpace
from rl_clarity.environments.images import image_axes
from rl_clarity.formats.sb3_spaces import read_actions, read_dictionary
from rl_clarity.integrations import sb3, sb3_networks
from rl_clarity.recordings.action_choice import ActionChoice, choose_actions
from tests.dictionaries import Dictionary, Steered
from tests.formats.sb3_models import make_model, save
from tests.point_world import Masked, PointWorld

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from sb3_contrib import ARS, QRDQN, TQC, TRPO, MaskablePPO, RecurrentPPO
from sb3_contrib.common.wrappers import ActionMasker
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:the (policy_logits|values) do not depend on")
load_agent: Any = formats.load_agent
"""Not typed, because the network decides which outputs are None."""
TOLERANCE = 1e-5
IMAGE = Box(0, 255, (36, 36, 3), np.uint8)
SMALL_IMAGE: dict[str, Any] = {"features_extractor_kwargs": {"cnn_output_dim": 8}}


def cart_pole() -> Any:
    return gymnasium.make("CartPole-v1")


def pendulum() -> Any:
    return gymnasium.make("Pendulum-v1")


def learned(
    algorithm: Any, policy: str, env: Any, steps: int = 24, *, use_sde: bool = False, **policy_kwargs: Any
) -> Any:
    """Return a model that has learned for a few steps."""
    off_policy = issubclass(algorithm, OffPolicyAlgorithm)
    options: dict[str, Any] = (
        {"buffer_size": 100, "learning_starts": 22, "batch_size": 4} if off_policy else {"n_steps": 8}
    )
    if use_sde:
        options["use_sde"] = True
    if not off_policy and algorithm is not A2C:
        options["batch_size"] = 8
    if policy == "CnnPolicy":
        policy_kwargs.setdefault("features_extractor_kwargs", {"features_dim": 16})
    return algorithm(policy, env, policy_kwargs=policy_kwargs, seed=0, device="cpu", **options).learn(steps)


MASKED = ("discrete", "multidiscrete", "multibinary")


def masked(kind: str) -> Any:
    return learned(MaskablePPO, "CnnPolicy", Masked(kind))


MODELS: Mapping[str, Callable[[], Any]] = {
    "a vector": lambda: learned(PPO, "MlpPolicy", cart_pole(), net_arch=[12, 10]),
    "a vector, ELU and separate sizes": lambda: learned(
        A2C, "MlpPolicy", cart_pole(), net_arch={"pi": [8], "vf": [8, 6]}, activation_fn=nn.ELU
    ),
    "a vector without layers": lambda: learned(TRPO, "MlpPolicy", cart_pole(), net_arch=[]),
    "a vector, action values": lambda: learned(DQN, "MlpPolicy", cart_pole(), net_arch=[12, 10]),
    "a vector, recurrent": lambda: learned(RecurrentPPO, "MlpLstmPolicy", cart_pole(), lstm_hidden_size=7),
    "a vector, one recurrent network": lambda: learned(
        RecurrentPPO, "MlpLstmPolicy", cart_pole(), lstm_hidden_size=7, shared_lstm=True, enable_critic_lstm=False
    ),
    "numbers": lambda: learned(PPO, "MlpPolicy", pendulum(), net_arch=[12]),
    "squashed numbers": lambda: learned(SAC, "MlpPolicy", pendulum(), net_arch=[12, 10]),
    "deterministic numbers": lambda: learned(TD3, "MlpPolicy", pendulum(), net_arch=[12, 10]),
    "numbers of DDPG": lambda: learned(DDPG, "MlpPolicy", pendulum(), net_arch=[12, 10]),
    "numbers of TQC": lambda: learned(TQC, "MlpPolicy", pendulum(), net_arch=[12]),
    "gSDE": lambda: learned(A2C, "CnnPolicy", PointWorld("box"), use_sde=True, net_arch=[12], full_std=False),
    "gSDE, squashed": lambda: learned(
        PPO, "MlpPolicy", pendulum(), use_sde=True, net_arch=[12], squash_output=True, use_expln=True, log_std_init=0.1
    ),
    "gSDE, actor": lambda: learned(SAC, "MlpPolicy", pendulum(), use_sde=True, net_arch=[12, 10], clip_mean=0.16),
    "gSDE, images and an unlimited actor": lambda: learned(
        SAC, "CnnPolicy", PointWorld("box"), use_sde=True, net_arch=[12], clip_mean=0, use_expln=True
    ),
    "gSDE, recurrent": lambda: learned(
        RecurrentPPO, "MlpLstmPolicy", pendulum(), use_sde=True, lstm_hidden_size=7, net_arch=[6]
    ),
    "quantiles of a vector": lambda: learned(QRDQN, "MlpPolicy", cart_pole(), net_arch=[12], n_quantiles=7),
    "quantiles of images": lambda: learned(QRDQN, "CnnPolicy", PointWorld("discrete")),
    "images, numbers": lambda: learned(PPO, "CnnPolicy", PointWorld("box")),
    "images, squashed numbers": lambda: learned(SAC, "CnnPolicy", PointWorld("box"), net_arch=[12]),
    "images, deterministic numbers": lambda: learned(TD3, "CnnPolicy", PointWorld("box"), net_arch=[12]),
    "images, choices": lambda: learned(PPO, "CnnPolicy", PointWorld("multidiscrete")),
    "images, switches": lambda: learned(A2C, "CnnPolicy", PointWorld("multibinary")),
    "gSDE without layers": lambda: learned(PPO, "MlpPolicy", pendulum(), use_sde=True, net_arch=[]),
    "gSDE, recurrent without layers": lambda: learned(
        RecurrentPPO, "MlpLstmPolicy", pendulum(), use_sde=True, lstm_hidden_size=7, net_arch=[]
    ),
    "flattened images": lambda: learned(PPO, "MlpPolicy", PointWorld("discrete"), net_arch=[12]),
    "flattened images, actor": lambda: learned(SAC, "MlpPolicy", PointWorld("box"), net_arch=[12]),
    "flattened images, action values": lambda: learned(
        DQN,
        "CnnPolicy",
        PointWorld("discrete"),
        net_arch=[12],
        features_extractor_class=FlattenExtractor,
        features_extractor_kwargs={},
    ),
    "flattened images, recurrent": lambda: learned(
        RecurrentPPO, "MlpLstmPolicy", PointWorld("discrete"), lstm_hidden_size=7, net_arch=[6]
    ),
    "flattened floats": lambda: make_model(PPO, "MlpPolicy", Box(-1, 1, (9, 8, 3)), net_arch=[12]),
    "flattened floats, channels first": lambda: make_model(PPO, "MlpPolicy", Box(0, 1, (3, 9, 8)), net_arch=[12]),
    "a dictionary with a flattened image": lambda: make_model(
        PPO, "MultiInputPolicy", Dict(speed=Box(0, 1, (2,)), camera=Box(0, 1, (9, 8, 3)))
    ),
    "a dictionary": lambda: learned(PPO, "MultiInputPolicy", Dictionary(), **SMALL_IMAGE),
    "a dictionary, not normalized": lambda: learned(
        PPO, "MultiInputPolicy", Dictionary(), normalize_images=False, **SMALL_IMAGE
    ),
    "a dictionary, separate extractors": lambda: learned(
        PPO, "MultiInputPolicy", Dictionary(), share_features_extractor=False, **SMALL_IMAGE
    ),
    "a dictionary, action values": lambda: learned(DQN, "MultiInputPolicy", Dictionary(), **SMALL_IMAGE),
    "a dictionary, recurrent": lambda: learned(
        RecurrentPPO, "MultiInputLstmPolicy", Dictionary(), lstm_hidden_size=7, **SMALL_IMAGE
    ),
    **{f"masks, {kind}": partial(masked, kind) for kind in MASKED},
    "a dictionary of everything": lambda: learned(SAC, "MultiInputPolicy", Steered(), net_arch=[12], **SMALL_IMAGE),
}


def observed(model: Any, count: int = 5) -> Any:
    """Return observations (B, ...) of the model's environment."""
    space = model.get_env().observation_space
    space.seed(1)
    samples = [space.sample() for _ in range(count)]
    if isinstance(space, Dict):
        return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
    return np.clip(np.stack(samples), -5, 255)


def own_outputs(model: Any, observations: Any, state: Any) -> list[np.ndarray]:
    """Return what the library computes: logits, means or tangents, and values."""
    tensors, _ = model.policy.obs_to_tensor(observations)
    with torch.no_grad():
        if isinstance(model, DQN):
            return [model.q_net(tensors).numpy()]
        if isinstance(model, QRDQN):
            return [model.quantile_net(tensors).mean(dim=1).numpy()]
        parts = [torch.as_tensor(part)[None] for part in state]
        ones = torch.zeros(len(next(iter(observations.values())) if isinstance(observations, dict) else observations))
        recurrent = [(tuple(pair), ones) for pair in (parts[:2], parts[-2:])] if parts else ()
        outputs = sb3_networks.own_outputs(model.policy, tensors, recurrent)
        return [outputs[name].numpy() for name in ("policy_logits", "values") if name in outputs]


@pytest.fixture(scope="module", params=MODELS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    model = MODELS[request.param]()
    return model, save(model, tmp_path_factory.mktemp("zip"))


def given(agent: Any, model: Any) -> tuple[Any, np.ndarray, Any]:
    """Return observations, and the images or vectors and the state that the agent is given for them."""
    observations, state = observed(model), None
    if is_recurrent(agent):
        rng = np.random.default_rng(3)
        memory, _ = split_held(agent, agent.initial_state(5))
        state = tuple(rng.normal(0, 0.5, part.shape).astype(np.float32) for part in memory)
    space = model.get_env().observation_space
    if not isinstance(observations, dict):
        return observations, as_images(observations, space), state
    converted = {name: as_images(array, space[name]) for name, array in observations.items()}
    return observations, *agent.image_and_state(converted, state)


def as_images(array: np.ndarray, space: Any) -> np.ndarray:
    """Return images (B, H, W, C) from 0 to 255, without rounding; other arrays as they are."""
    if array.ndim != 4:
        return array
    ordered = array.transpose(0, *(axis + 1 for axis in image_axes(space.shape)))
    return (
        ordered if ordered.dtype == np.uint8 else (ordered - space.low.min()) * (255 / np.ptp([space.low, space.high]))
    )


def test_an_sb3_zip_computes_the_outputs_of_the_library(pair: tuple[Any, Path]) -> None:
    model, path = pair
    agent: Any = load_agent(path)
    observations, images, state = given(agent, model)
    outputs = agent.forward(images, state)
    if outputs.policy_logits is None:
        ours = [outputs.q_values]
    else:
        comparable = sb3_networks.comparable_outputs(
            torch.as_tensor(outputs.policy_logits), agent.action_factors
        ).numpy()
        ours = [comparable] + ([] if outputs.values is None else [outputs.values])
    expected = own_outputs(model, observations, split_held(agent, state)[0])
    assert len(ours) == len(expected)
    for actual, own in zip(ours, expected, strict=True):
        np.testing.assert_allclose(actual, own, rtol=TOLERANCE, atol=TOLERANCE)
    assert np.ptp(ours[0], axis=0).max() > 1e-4


def test_an_sb3_zip_gives_the_same_agent_as_the_model_in_memory(pair: tuple[Any, Path]) -> None:
    model, path = pair
    agent: Any = load_agent(path)
    memory: Any = sb3.agent(model)
    assert dict(agent.layers) == dict(memory.layers)
    for factor, other in zip(agent.action_factors, memory.action_factors, strict=True):
        assert type(factor) is type(other)
        for name, value in vars(factor).items():
            assert vars(other)[name] == (pytest.approx(value) if isinstance(value, float) else value)
    assert dict(agent.held_inputs) == dict(memory.held_inputs)
    assert agent.heads == memory.heads
    _, images, state = given(agent, model)
    before = state and tuple(part.reshape(own.shape) for part, own in zip(state, memory.initial_state(5), strict=True))
    ours, theirs = agent.forward(images, state), memory.forward(images, before)
    for name in ("policy_logits", "values", "q_values"):
        if getattr(ours, name) is not None:
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=TOLERANCE, atol=TOLERANCE)
    score = 0 if "values" not in agent.heads else "value"
    for layer in [*agent.layers][:1]:
        gradients = [
            one.gradients(images, layer, [score], state=given) for one, given in ((agent, state), (memory, before))
        ]
        np.testing.assert_allclose(
            gradients[0], gradients[1], rtol=1e-3, atol=TOLERANCE * max(1, np.abs(gradients[0]).max())
        )


def test_a_converted_sb3_zip_computes_the_same_outputs(pair: tuple[Any, Path], tmp_path: Path) -> None:
    model, path = pair
    formats.convert(path, tmp_path / "copy.safetensors")
    agent, copy = load_agent(path), load_agent(tmp_path / "copy.safetensors")
    _, images, state = given(agent, model)
    one, other = vars(agent.forward(images, state)), vars(copy.forward(images, state))
    for name in ("policy_logits", "values", "q_values"):
        np.testing.assert_array_equal(one[name], other[name])
    assert agent.action_factors == copy.action_factors


@pytest.mark.parametrize("kind", MASKED)
def test_masked_actions_of_an_sb3_zip_equal_those_of_the_library(kind: str, tmp_path: Path) -> None:
    model = masked(kind)
    agent: Any = load_agent(save(model, tmp_path))
    observations, images, _ = given(agent, model)
    env = Masked(kind)
    masks = []
    for step in range(len(images)):
        env._steps = step
        masks.append(env.action_masks())
    valid = ActionSpace(env.action_space).masks(masks)
    outputs, rng = agent.forward(images), np.random.default_rng(0)
    ours = choose_actions(outputs, rng, ActionChoice(greedy=True), valid, agent.action_factors)
    theirs, _ = model.predict(observations, action_masks=valid, deterministic=True)
    np.testing.assert_array_equal(ours, theirs)
    tensor, _ = model.policy.obs_to_tensor(observations)
    with torch.no_grad():
        distribution = model.policy.get_distribution(tensor, action_masks=valid)
    parts = getattr(distribution, "distributions", None) or [distribution.distribution]
    logits = np.where(valid, outputs.policy_logits, -np.inf)
    for part, where in zip(parts, factor_columns(agent.action_factors), strict=True):
        log_probabilities = logits[:, where] - np.logaddexp.reduce(logits[:, where], axis=1, keepdims=True)
        np.testing.assert_allclose(
            log_probabilities[valid[:, where]], part.logits.numpy()[valid[:, where]], atol=TOLERANCE
        )


@pytest.mark.parametrize("kind", MASKED)
def test_action_masks_are_respected_by_collect_and_evaluate(kind: str, tmp_path: Path) -> None:
    """The environment raises an error for actions that it does not allow."""
    model = masked(kind)
    agent: Any = load_agent(save(model, tmp_path))
    for player in (agent, sb3.agent(model)):
        collected, _ = rl_clarity.collect(player, Masked(kind), 24, 2, obs_every=2)
        assert len(np.unique(collected.actions)) > 1
    for mode in AutoresetMode:
        vector = SyncVectorEnv([partial(Masked, kind)] * 2, autoreset_mode=mode)
        rl_clarity.collect(agent, vector, 24, 2, obs_every=2)
    rl_clarity.evaluate(agent, Masked(kind), episodes=2, random=kind == "discrete")
    gymnasium.register(f"ClarityMasked{kind}-v0", cast(Any, partial(Masked, kind)), disable_env_checker=True)
    rl_clarity.evaluate(agent.checkpoint.path, episodes=2, metadata={"env_name": f"ClarityMasked{kind}-v0"})


def test_an_environment_without_action_masks_is_refused(tmp_path: Path) -> None:
    agent: Any = load_agent(save(masked("discrete"), tmp_path))
    unmasked = PointWorld("discrete")
    for env in (unmasked, SyncVectorEnv([lambda: unmasked])):
        with pytest.raises(EnvironmentSetupError, match=r"has no method action_masks\(\).*action_masks=False"):
            rl_clarity.collect(agent, env, 4, 1, obs_every=1)
    every: Any = load_agent(agent.checkpoint.path, action_masks=False)
    collected, _ = rl_clarity.collect(every, unmasked, 4, 1, obs_every=1)
    assert collected.actions.shape == (1, 4)
    wrapped = ActionMasker(unmasked, lambda _: np.array([False, True, False, False]))
    assert set(rl_clarity.collect(agent, wrapped, 24, 1, obs_every=1)[0].actions.ravel()) == {1}


@pytest.mark.parametrize(
    ("space", "mask", "message"),
    [
        (Discrete(3), [True, True], r"arrays of the sizes \[2\]"),
        (MultiBinary(2), [True, False], "two per switch"),
        (MultiDiscrete([2, 2]), [True, True, False, False], "allows no action"),
        (Box(0, 1, (2,)), [True, True], "two per switch"),
    ],
)
def test_invalid_action_masks_are_refused(space: Any, mask: list[bool], message: str) -> None:
    with pytest.raises(SamplesError, match=message):
        ActionSpace(space).masks([np.array(mask)])


SIZES: dict[str, Any] = {
    "trajectories": {"num_envs": 1, "num_steps": 12},
    "observations": {"num_envs": 1, "num_obs": 8, "obs_every": 1},
}
for name, make in {
    "Dictionary": Dictionary,
    "Box": lambda: PointWorld("box"),
    "Choices": lambda: PointWorld("multidiscrete"),
    "Switches": lambda: Masked("multibinary"),
}.items():
    gymnasium.register(f"ClarityZips{name}-v0", cast(Any, make))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "env", "factors", "inputs"),
    [
        ("a vector", "CartPole-v1", 1, [f"input {i}" for i in range(1, 5)]),
        ("a dictionary", "ClarityZipsDictionary-v0", 1, ["direction", "speed 1", "speed 2"]),
        ("images, squashed numbers", "ClarityZipsBox-v0", 2, []),
        ("images, choices", "ClarityZipsChoices-v0", 2, []),
        ("masks, multibinary", "ClarityZipsSwitches-v0", 3, []),
    ],
)
def test_run_writes_a_page_for_an_sb3_zip(name: str, env: str, factors: int, inputs: list[str], tmp_path: Path) -> None:
    model = MODELS[name]()
    results = rl_clarity.run(
        save(model, tmp_path), tmp_path / "page", env_name=env, features={"count": 2}, **SIZES
    ).results()
    assert len(results.manifest["agents"][0].get("factors") or [1]) == factors
    assert results.manifest["agents"][0]["has_value"] == (not isinstance(model, SAC))
    assert (results.section("trajectories").get("inputs") or []) == inputs
    layer = next(iter(results.section("features")["layers"]))
    assert np.isfinite(results.attribution(layer, 0, results.outputs[0]).channels).all()


def test_inspect_record_and_evaluate_accept_sb3_zips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(learned(PPO, "MlpPolicy", cart_pole(), net_arch=[12]), tmp_path)
    assert main(["inspect", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "mlp_extractor.policy_net.1 (1 x 1 x 12)" in printed
    assert "note: the network gets observations as the environment returns them. If VecNormalize" in printed
    returns = rl_clarity.evaluate(path, episodes=2, metadata={"env_name": "CartPole-v1"})["agent"].returns
    assert (returns > 1).all()


def test_gymnasium_spaces_are_parsed_from_their_text() -> None:
    def written(space: Any) -> dict[str, Any]:
        text = {name: str(getattr(space, name)) for name in ("low", "high", "nvec") if hasattr(space, name)}
        return {":type:": str(type(space)), "_shape": list(space.shape), **text}

    assert read_actions(written(Discrete(3))) is None
    assert read_actions(written(MultiDiscrete(np.array([[2, 3], [4, 5]])))) == [["choice", n] for n in (2, 3, 4, 5)]
    assert read_actions(written(MultiBinary([2, 2]))) == [["switch"]] * 4
    box = Box(np.array([-np.inf, -1e-3], np.float32), np.array([0.1, np.inf], np.float32))
    assert read_actions(written(box)) == [["number", None, pytest.approx(0.1)], ["number", pytest.approx(-1e-3), None]]
    entries, image = read_dictionary(str(dict(Steered.observation_space.spaces)))
    assert [entry["name"] for entry in entries] == list(Steered.observation_space.spaces)
    assert image == {"_shape": [36, 36, 3], "low": "0", "high": "255", "dtype": "uint8"}
    old, _ = read_dictionary("OrderedDict([('a', Box(0, 255, (3, 9, 9), uint8)), (\"b\", Discrete(4))])")
    assert old == [{"name": "a", "shape": [3, 9, 9]}, {"name": "b", "shape": [], "sizes": [4]}]


REFUSED: Mapping[str, tuple[Callable[[], Any], str]] = {
    "ARS": (
        lambda: ARS("LinearPolicy", pendulum()),
        "are supported. Its network can be explained in memory as your own (see docs/guides/own-network.md): "
        "rl_clarity.TorchAgent(model.policy",
    ),
    "numbers alone": (
        lambda: make_model(PPO, "MultiInputPolicy", Dict(speed=Box(0, 1, (2,)))),
        "with images: none; exactly one image is needed",
    ),
    "two images": (
        lambda: make_model(PPO, "MultiInputPolicy", Dict(left=IMAGE, right=IMAGE)),
        "with images: left, right; exactly one image is needed",
    ),
    "choices alone": (lambda: make_model(PPO, "MlpPolicy", Discrete(3)), "its observation space is a 'Discrete'"),
}


@pytest.mark.parametrize(("env", "policy"), [(pendulum, "LinearPolicy"), (cart_pole, "MlpPolicy")])
def test_the_documented_workaround_for_ars_models_works(env: Any, policy: str, tmp_path: Path) -> None:
    """The example of the guide."""
    model = ARS(policy, env(), device="cpu", seed=0)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    with pytest.raises(CheckpointError, match=r"sb3_contrib\.ars\.policies") as error:
        formats.read(save(model, tmp_path))
    assert "rl_clarity.TorchAgent(model.policy, shape, input_divisor=1, forward=...)" in str(error.value)

    def forward(policy: Any, observations: Any, _state: Any) -> dict[str, Any]:
        return {"policy_logits": policy.action_net(observations)}

    is_box = isinstance(model.action_space, Box)
    agent = rl_clarity.TorchAgent(
        model.policy,
        model.observation_space.shape,
        heads=("policy_logits",),
        input_divisor=1,
        forward=forward,
        actions=[Gaussian(-2, 2, std=0)] if is_box else None,
    )
    observations = observed(model)
    outputs = agent.forward(observations)
    greedy = choose_actions(outputs, np.random.default_rng(0), ActionChoice(greedy=True), None, agent.action_factors)
    np.testing.assert_allclose(greedy, model.predict(observations)[0], rtol=TOLERANCE, atol=TOLERANCE)
    samples = rl_clarity.collect(agent, env(), 24, 8, obs_every=1)
    page = rl_clarity.generate(agent, *samples, tmp_path / "page", features={"count": 2})
    assert np.isfinite(page.results().attribution("input", 0, page.results().outputs[0]).channels).all()


@pytest.mark.parametrize("cause", REFUSED)
def test_unsupported_sb3_zips_are_refused(cause: str, tmp_path: Path) -> None:
    make, message = REFUSED[cause]
    with pytest.raises(CheckpointError, match=re.escape(message)) as error:
        formats.read(save(make(), tmp_path))
    assert "\n" not in str(error.value)


def test_action_spaces_that_do_not_match_the_tensors_are_refused(tmp_path: Path) -> None:
    checkpoint = formats.read(save(MODELS["images, choices"](), tmp_path))
    for actions in ([["choice", 3]], [["switch"]] * 4, [["number", -1, 1]] * 3):
        changed = dataclasses.replace(checkpoint, architecture={**checkpoint.architecture, "actions": actions})
        with pytest.raises(CheckpointError, match=r"its action_space has \d factors, which"):
            formats.build_agent(changed)
