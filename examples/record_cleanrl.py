"""Record episodes while an agent learns by PPO, in a script of the structure of CleanRL's.

    python examples/record_cleanrl.py                 # a minute: learns the game
    python examples/record_cleanrl.py --size tiny     # a few updates, as a test

The lines with `recorder` are those to copy. The environment is `Catch` of own_environment.py.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from own_environment import Catch

import rl_clarity

NUM_ENVS, NUM_STEPS, EPOCHS, MINIBATCHES = 8, 126, 4, 4
GAMMA, GAE_LAMBDA, CLIP, ENTROPY, VALUE, LEARNING_RATE = 0.99, 0.95, 0.2, 0.01, 0.5, 1e-3
new_recorder = partial(rl_clarity.Recorder, every=20, checkpoint_every=1)
SIZES = {"tiny": 2 * NUM_ENVS * NUM_STEPS, "small": 60 * NUM_ENVS * NUM_STEPS}


def make_env() -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.RecordEpisodeStatistics(Catch())


def make_agent(num_actions: int) -> Any:
    """Return a module with the parts `network`, `actor` and `critic`."""
    from torch import nn

    body = nn.Sequential(
        *(nn.Conv2d(3, 16, 4, stride=4), nn.ReLU()),
        *(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 8 * 8, 128), nn.ReLU()),
    )
    return nn.ModuleDict({"network": body, "actor": nn.Linear(128, num_actions), "critic": nn.Linear(128, 1)})


def main(output_dir: Path, size: str, seed: int = 0) -> None:
    import torch

    torch.manual_seed(seed)
    envs = gymnasium.vector.SyncVectorEnv(
        [make_env] * NUM_ENVS, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
    )
    agent = make_agent(3)
    optimizer = torch.optim.Adam(agent.parameters(), lr=LEARNING_RATE, eps=1e-5)
    metadata = {
        "name": "Catch",
        "loader": "record_cleanrl:load",
        "action_combos": [["LEFT"], [], ["RIGHT"]],
        "gamma": GAMMA,
        "lambda": GAE_LAMBDA,
    }
    recorder = new_recorder(output_dir, metadata=metadata)

    shape = (NUM_STEPS, NUM_ENVS)
    obs = torch.zeros((*shape, *Catch.observation_space.shape), dtype=torch.uint8)
    actions, logprobs, rewards, dones, values = (torch.zeros(shape) for _ in range(5))
    next_obs = torch.as_tensor(envs.reset(seed=seed)[0])
    next_done = torch.zeros(NUM_ENVS)
    returns: list[float] = []
    global_step = 0
    while global_step < SIZES[size]:
        recorder.agent(lambda path: torch.save(agent.state_dict(), path))
        for step in range(NUM_STEPS):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                hidden = agent["network"](images(next_obs))
                logits, value = agent["actor"](hidden), agent["critic"](hidden).flatten()
            policy = torch.distributions.Categorical(logits=logits)
            actions[step] = action = policy.sample()
            logprobs[step], values[step] = policy.log_prob(action), value
            following, reward, terminations, truncations, infos = envs.step(action.numpy())
            recorder.add(
                observation=obs[step],
                action=action,
                reward=reward,
                terminated=terminations,
                truncated=truncations,
                logits=logits,
                value=value,
                final_observation=infos.get("final_obs"),
                training_step=global_step,
            )
            global_step += NUM_ENVS
            rewards[step] = torch.as_tensor(reward)
            next_obs, next_done = torch.as_tensor(following), torch.as_tensor(terminations | truncations).float()
            if "final_info" in infos:
                returns += infos["final_info"]["episode"]["r"][infos["final_info"]["_episode"]].tolist()
        learn(agent, optimizer, obs, actions, logprobs, rewards, dones, values, next_obs, next_done)
        print(f"{global_step} steps: mean return {np.mean(returns[-200:]):.2f}", flush=True)
    recorder.close()
    envs.close()
    recording = rl_clarity.open_recording(output_dir)
    print(f"{len(recording)} episodes of {len(returns)} are recorded in {recording.location}")
    print(f"To see them: tensorboard --logdir {output_dir} (or rl-clarity serve {output_dir})")


def load(path: str) -> rl_clarity.TorchAgent:
    """Load the agent of a checkpoint: rl-clarity explain runs/catch --agent record_cleanrl:load."""
    import torch

    agent = make_agent(3)
    agent.load_state_dict(torch.load(path, weights_only=True))

    def forward(module: Any, observations: Any, state: Any) -> dict[str, Any]:
        hidden = module["network"](images(observations))
        return {"policy_logits": module["actor"](hidden), "values": module["critic"](hidden).flatten()}

    options: dict[str, Any] = {"channels_first": False, "input_divisor": 1, "forward": forward}
    return rl_clarity.TorchAgent(agent, Catch.observation_space.shape, **options)


def images(observations: Any) -> Any:
    """Input of the network for observations (B, H, W, C) uint8."""
    return observations.permute(0, 3, 1, 2) / 255


def learn(
    agent: Any,
    optimizer: Any,
    obs: Any,
    actions: Any,
    logprobs: Any,
    rewards: Any,
    dones: Any,
    values: Any,
    next_obs: Any,
    next_done: Any,
) -> None:
    """Estimate advantages, and optimize policy and value for some epochs."""
    import torch

    with torch.no_grad():
        next_value = agent["critic"](agent["network"](images(next_obs))).flatten()
        advantages, last = torch.zeros_like(rewards), torch.zeros(NUM_ENVS)
        for t in reversed(range(NUM_STEPS)):
            following, going = (next_value, 1 - next_done) if t == NUM_STEPS - 1 else (values[t + 1], 1 - dones[t + 1])
            delta = rewards[t] + GAMMA * following * going - values[t]
            advantages[t] = last = delta + GAMMA * GAE_LAMBDA * going * last
    batch = obs.flatten(0, 1), actions.flatten(), logprobs.flatten(), advantages.flatten(), values.flatten()
    for _ in range(EPOCHS):
        for rows in torch.randperm(NUM_ENVS * NUM_STEPS).chunk(MINIBATCHES):
            b_obs, b_actions, b_logprobs, b_advantages, b_values = (part[rows] for part in batch)
            hidden = agent["network"](images(b_obs))
            policy = torch.distributions.Categorical(logits=agent["actor"](hidden))
            ratio = (policy.log_prob(b_actions) - b_logprobs).exp()
            normalized = (b_advantages - b_advantages.mean()) / (b_advantages.std() + 1e-8)
            policy_loss = -torch.min(normalized * ratio, normalized * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            value_loss = 0.5 * (agent["critic"](hidden).flatten() - b_advantages - b_values).pow(2).mean()
            loss = policy_loss + VALUE * value_loss - ENTROPY * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output-dir", type=Path, default=Path("runs/catch"), help="a log directory")
    parser.add_argument("--size", choices=SIZES, default="small")
    arguments = parser.parse_args()
    main(arguments.output_dir, arguments.size)
