"""The networks of Stable-Baselines3's policies as functions of observations, and the factors of their actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from rl_clarity.agents.actions import SWITCH, Binary, Categorical, Factor, Gaussian, factor_columns
from rl_clarity.base.errors import OptionError
from rl_clarity.environments.action_spaces import ActionSpace

Network = Callable[[Any, Any, Any], dict[str, Any]]
LOG_STD_RANGE = (-20, 2)
"""Range to which SAC clips the logarithm of the standard deviation."""
OWN_FORWARD = (
    "Use rl_clarity.TorchAgent(model.policy, (height, width, channels), input_divisor=1, forward=...) with a function "
    "forward(policy, observations, state) that returns logits and values, or action values"
)


def is_maskable(policy: Any) -> bool:
    """Return whether a policy belongs to MaskablePPO, which chooses among valid actions."""
    return hasattr(getattr(policy, "action_dist", None), "apply_masking")


def policy_factors(policy: Any, space: Any) -> tuple[Factor, ...]:
    """Return the factors of a policy's actions, such as a discrete choice or a Gaussian component.

    With gSDE, standard deviations depend on the observation. Raises EnvironmentSetupError for action spaces that
    `ActionSpace` does not support.
    """
    factors = ActionSpace(space).factors
    if is_maskable(policy):  # a switch has a logit for off, too
        return tuple(Categorical(2, choices=SWITCH) if isinstance(one, Binary) else one for one in factors)
    if hasattr(policy, "actor"):
        std = None if hasattr(policy.actor, "log_std") else 0.0
        return tuple(replace(cast(Gaussian, factor), std=std, squashed=True) for factor in factors)
    if not hasattr(policy, "log_std"):
        return factors
    if policy.use_sde:
        return tuple(replace(cast(Gaussian, factor), std=None, squashed=policy.squash_output) for factor in factors)
    stds = policy.log_std.detach().exp().flatten().tolist()
    return tuple(replace(cast(Gaussian, factor), std=std) for factor, std in zip(factors, stds, strict=True))


def policy_network(policy: Any) -> tuple[Any, Network, tuple[np.ndarray, ...] | None]:
    """Return the module that contains the layers, the function that runs it, and the initial state.

    For SAC, TD3 and DDPG, this is the actor only: their critics also take an action, and have separate layers. Raises
    OptionError for the policy of any other algorithm.
    """
    if hasattr(policy, "q_net"):
        return policy.q_net, lambda q_net, x, _: {"q_values": q_net(x)}, None
    if hasattr(policy, "quantile_net"):
        return policy.quantile_net, lambda quantile_net, x, _: {"q_values": quantile_net(x).mean(dim=1)}, None
    if hasattr(getattr(policy, "actor", None), "mu"):
        return policy.actor, _actor, None
    missing = [name for name in ("mlp_extractor", "action_net", "value_net") if not hasattr(policy, name)]
    if missing:
        raise OptionError(
            f"a {type(policy).__name__} has no {', '.join(missing)}: it is not a policy of PPO, A2C, TRPO, DQN, QRDQN, "
            f"SAC, TD3, DDPG, RecurrentPPO or MaskablePPO. {OWN_FORWARD}"
        )
    if not hasattr(policy, "lstm_actor"):
        return policy, _actor_critic, None
    lstms = [lstm for lstm in (policy.lstm_actor, policy.lstm_critic) if lstm is not None]
    state = tuple(np.zeros((lstm.num_layers, lstm.hidden_size), np.float32) for lstm in lstms for _ in range(2))
    return policy, _recurrent_actor_critic, state


def own_outputs(policy: Any, x: Any, recurrent: Any = ()) -> dict[str, Any]:
    """Return the outputs that the library computes for observations.

    These are `values` (B,) and, as `policy_logits`, normalized logits of discrete choices and means of continuous
    actions. For SAC, TD3 and DDPG, only `policy_logits` are returned: the actions, from -1 to 1. `recurrent` contains
    the additional arguments of a recurrent policy and of its critic.
    """
    import torch

    if hasattr(policy, "actor"):
        return {
            "policy_logits": policy.actor(x, deterministic=True)
            if hasattr(policy.actor, "log_std")
            else policy.actor(x)
        }
    distribution = policy.get_distribution(x, *(recurrent[0] if recurrent else ()))
    values = policy.predict_values(x, *(recurrent[1] if recurrent else ()))
    distribution = distribution[0] if recurrent else distribution
    distribution = distribution.distributions if hasattr(distribution, "distributions") else distribution.distribution
    parts = distribution if isinstance(distribution, list) else [distribution]
    outputs = [part.mean if isinstance(part, torch.distributions.Normal) else part.logits for part in parts]
    result = torch.cat(outputs, dim=1)
    return {"policy_logits": result.tanh() if policy.squash_output else result, "values": values[:, 0]}


def comparable_outputs(outputs: Any, factors: tuple[Factor, ...]) -> Any:
    """Convert outputs (B, A) of the agent to the form in which `own_outputs` returns them."""
    import torch

    columns = []
    for where, factor in zip(factor_columns(factors), factors, strict=True):
        part = outputs[:, where]
        if isinstance(factor, Categorical):
            columns.append(part.log_softmax(dim=1))
        else:
            columns.append(part[:, :1].tanh() if isinstance(factor, Gaussian) and factor.squashed else part[:, :1])
    return torch.cat(columns, dim=1)


def _actor(actor: Any, x: Any, _state: Any) -> dict[str, Any]:
    import torch

    features = actor.extract_features(x, actor.features_extractor)
    if not hasattr(actor, "log_std"):
        return {"policy_logits": actor.mu[:-1](features)}  # without the hyperbolic tangent
    latent = actor.latent_pi(features)
    if actor.use_sde:
        log_stds = _state_dependent(actor.action_dist, actor.log_std, latent)
    else:
        log_stds = actor.log_std(latent).clamp(*LOG_STD_RANGE)
    return {"policy_logits": torch.stack([actor.mu(latent), log_stds], dim=2).flatten(1)}


def _state_dependent(distribution: Any, log_std: Any, latent: Any) -> Any:
    """Return the logarithms of the standard deviations (B, n) of gSDE for the last layer (B, m).

    The noise of an action is the product of the layer with a matrix of normal noise (Raffin et al., 2021,
    https://arxiv.org/abs/2005.05719).
    """
    return (latent**2 @ distribution.get_std(log_std) ** 2 + distribution.epsilon).log() / 2


def _policy_outputs(policy: Any, latent: Any) -> Any:
    import torch

    outputs = policy.action_net(latent)
    if not getattr(policy, "use_sde", False):
        return outputs
    log_stds = _state_dependent(policy.action_dist, policy.log_std, latent)
    return torch.stack([outputs, log_stds], dim=2).flatten(1)


def _actor_critic(policy: Any, x: Any, _state: Any) -> dict[str, Any]:
    features = policy.extract_features(x)
    if policy.share_features_extractor:
        latent_pi, latent_vf = policy.mlp_extractor(features)
    else:
        latent_pi = policy.mlp_extractor.forward_actor(features[0])
        latent_vf = policy.mlp_extractor.forward_critic(features[1])
    return {"policy_logits": _policy_outputs(policy, latent_pi), "values": policy.value_net(latent_vf)}


def _recurrent_actor_critic(policy: Any, x: Any, state: Any) -> dict[str, Any]:
    features = policy.extract_features(x)
    features_pi, features_vf = (features, features) if policy.share_features_extractor else features
    latent_pi, after = _lstm(policy.lstm_actor, features_pi, state[:2])
    if policy.lstm_critic is not None:
        latent_vf, after_vf = _lstm(policy.lstm_critic, features_vf, state[2:])
        after += after_vf
    else:
        latent_vf = latent_pi if policy.shared_lstm else policy.critic(features_vf)
    return {
        "policy_logits": _policy_outputs(policy, policy.mlp_extractor.forward_actor(latent_pi)),
        "values": policy.value_net(policy.mlp_extractor.forward_critic(latent_vf)),
        "state": after,
    }


def _lstm(lstm: Any, features: Any, state: Any) -> tuple[Any, tuple[Any, ...]]:
    """Apply an LSTM to the features (B, n) of one step. Unlike in PyTorch, the batch is the first axis of the state."""
    result, after = lstm(features[None], tuple(part.transpose(0, 1).contiguous() for part in state))
    return result[0], tuple(part.transpose(0, 1) for part in after)
