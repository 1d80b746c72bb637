"""PPO on graph credit in one file: all it takes from graphwrap is `wrap` and `assign_credit()`.

Run as ``python scripts/ppo.py``; ``graphwrap compare --learner ppo`` compares credits with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
import typer
from torch import nn
from torch.distributions import Categorical

import graphwrap


@dataclass
class Args:
    """What the training depends on."""

    updates: int = 60
    n_steps: int = 15  # of each environment per update; the episodes' limit gives complete groups
    learning_rate: float = 1e-3
    epochs: int = 4
    batch_size: int = 128
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    outcome: bool = False  # train on GAE of the rewards instead of the credit
    seed: int = 0


def layer(made: Any, gain: float = 2**0.5) -> Any:
    """A linear or convolutional layer with orthogonal weights."""
    nn.init.orthogonal_(made.weight, gain)
    nn.init.zeros_(made.bias)
    return made


class Agent(nn.Module):
    """An actor and a critic that share nothing: convolutions over small grids (planes, H, W), else two layers."""

    def __init__(self, space: gymnasium.Space, num_actions: int) -> None:
        super().__init__()
        self.space = space
        self.actor = nn.Sequential(*self.features(), layer(nn.Linear(128, num_actions), 0.01))
        self.critic = nn.Sequential(*self.features(), layer(nn.Linear(128, 1), 1.0))

    def features(self) -> list[nn.Module]:
        """Layers from observations to 128 features."""
        convolutions, width = [], gymnasium.spaces.flatdim(self.space)
        if len(self.space.shape or ()) == 3:
            planes, rows, columns = self.space.shape  # type: ignore[misc]
            inner = layer(nn.Conv2d(planes, 32, 3)), nn.ReLU(), layer(nn.Conv2d(32, 32, 3, padding=1))
            convolutions, width = [*inner, nn.ReLU()], 32 * (rows - 2) * (columns - 2)
        linear = layer(nn.Linear(width, 128)), nn.ReLU(), layer(nn.Linear(128, 128)), nn.ReLU()
        return [*convolutions, nn.Flatten(), *linear]

    def tensor(self, observations: Any) -> torch.Tensor:
        """A batch of observations as float32 on the agent's device; numbers of a Discrete space become one-hot."""
        batch = torch.as_tensor(np.asarray(observations), device=next(self.parameters()).device)
        if isinstance(self.space, gymnasium.spaces.Discrete):
            return nn.functional.one_hot(batch.long() - int(self.space.start), int(self.space.n)).float()
        return batch.float()

    @torch.no_grad()
    def act(self, observations: Any, greedy: bool = False) -> np.ndarray:
        """Actions for a batch of observations."""
        logits = self.actor(self.tensor(observations))
        return (logits.argmax(-1) if greedy else Categorical(logits=logits).sample()).cpu().numpy()


def train(env: Any, args: Args) -> Iterator[tuple[Agent, dict[str, float]]]:
    """Train in a vector environment that `graphwrap.wrap` made and that resets in the NEXT_STEP.

    Yields:
        The agent and the numbers of each update, those of `WindowCredit.diagnostics` among them.
    """
    if env.metadata["autoreset_mode"] != gymnasium.vector.AutoresetMode.NEXT_STEP:
        raise ValueError(f"train takes a NEXT_STEP vector environment, got {env.metadata['autoreset_mode']}")
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    agent = Agent(env.single_observation_space, int(env.single_action_space.n)).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), args.learning_rate, eps=1e-5)
    for update in range(args.updates):
        began, seen, log, stats = time.perf_counter(), [], [], []
        observations, _ = env.reset(seed=None if update else args.seed)  # every group is played by one policy
        for _ in range(args.n_steps):
            seen.append(agent.tensor(observations))
            with torch.no_grad():
                policy = Categorical(logits=agent.actor(seen[-1]))
            actions = policy.sample()
            observations, *ends, _ = env.step(actions.cpu().numpy())
            ends = [torch.as_tensor(end, device=device) for end in ends]
            log.append([actions, policy.log_prob(actions), *ends])
        collected = time.perf_counter() - began
        credit = env.assign_credit()

        acted, old, rewards, terminated, truncated = map(torch.stack, zip(*log))
        with torch.no_grad():
            values = agent.critic(torch.cat([*seen, agent.tensor(observations)])).view(args.n_steps + 1, -1)
        gae = torch.zeros_like(values)
        for t in reversed(range(args.n_steps)):  # the value after an end is that of the final observation
            delta = rewards[t].float() + args.gamma * values[t + 1] * ~terminated[t] - values[t]
            gae[t] = delta + args.gamma * args.gae_lambda * gae[t + 1] * ~(terminated[t] | truncated[t])
        returns = (gae + values)[:-1].flatten()
        advantages = gae[:-1] if args.outcome else torch.tensor(credit.advantages, device=device).float()
        rows = torch.tensor(credit.is_step if args.outcome else credit.mask).flatten().nonzero()[:, 0]
        inputs, acted, old, advantages = torch.cat(seen), acted.flatten(), old.flatten(), advantages.flatten()

        for _ in range(args.epochs):
            for batch in rows[torch.randperm(len(rows))].to(device).split(args.batch_size):
                policy, advantage = Categorical(logits=agent.actor(inputs[batch])), advantages[batch]
                if args.outcome and len(batch) > 1:
                    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                log_ratio = policy.log_prob(acted[batch]) - old[batch]
                ratio = log_ratio.exp()
                clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
                gain = torch.min(ratio * advantage, clipped * advantage).mean()
                value_loss = nn.functional.mse_loss(agent.critic(inputs[batch])[:, 0], returns[batch])
                entropy = policy.entropy().mean()
                optimizer.zero_grad()
                (0.5 * value_loss - gain - args.entropy * entropy).backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
                stats.append(torch.stack([(ratio - 1 - log_ratio).mean(), entropy, value_loss]).detach())
        means = torch.stack(stats).mean(0).tolist() if stats else [float("nan")] * 3
        numbers = dict(credit.diagnostics, **dict(zip(("approx_kl", "entropy", "value_loss"), means)))
        numbers |= {"gradient_steps": len(stats), "trained_share": len(rows) / int(credit.is_step.sum())}
        yield agent, numbers | {"collect_seconds": collected, "update_seconds": time.perf_counter() - began}


def main(env: str = "graphwrap/Sokoban-v0", credit: str = "graphgpo", seed: int = 0) -> None:
    """Train PPO on graph credit, 16 groups of 8; the credit "outcome" is PPO's own advantage."""
    method = "grpo" if credit == "outcome" else credit
    venv = graphwrap.wrap(gymnasium.make_vec(env, 128), method, group_size=8)
    for update, (_, row) in enumerate(train(venv, Args(seed=seed, outcome=credit == "outcome")), 1):
        typer.echo(f"update {update:3d}  success {row['success_rate']:.3f}  KL {row['approx_kl']:.4f}")


if __name__ == "__main__":
    typer.run(main)
