"""What several tests know about learners: small settings, and what one saw and read."""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import (
    BaseCallback,
)

from graphwrap import Transitions
from tests.builders import COLUMNS
from tests.helpers import line_vec

SMALL = {"policy_kwargs": {"net_arch": [8]}, "seed": 0, "device": "cpu"}


class Watch(BaseCallback):
    """Keeps what SB3 itself sees: every step, the buffer at the rollout's end, and each minibatch that is read."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[list[tuple]] = []
        self.buffers: list[dict[str, np.ndarray]] = []
        self.read: list[list[dict[str, np.ndarray]]] = []
        self.normalized: list[bool] = []

    def _on_training_start(self) -> None:
        model: Any = self.model
        evaluate = model.policy.evaluate_actions

        def spy(observations: Any, actions: Any, *further: Any, **named: Any) -> Any:
            self.normalized.append(model.normalize_advantage)
            return evaluate(observations, actions, *further, **named)

        model.policy.evaluate_actions = spy
        samples = model.rollout_buffer._get_samples

        def seen(*arguments: Any) -> Any:
            result = samples(*arguments)
            self.read[-1].append({name: getattr(result, name).numpy().copy() for name in result._fields[1:6]})
            return result

        model.rollout_buffer._get_samples = seen

    def _on_rollout_start(self) -> None:
        self.steps.append([])
        self.read.append([])

    def _on_step(self) -> bool:
        seen = {
            name: self.locals.get(name)
            for name in ("obs_tensor", "actions", "rewards", "dones", "infos", "new_obs")
        }
        self.steps[-1].append(tuple(v if name == "infos" else np.copy(v) for name, v in seen.items()))
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.model.rollout_buffer  # type: ignore[attr-defined]
        names = ("actions", "values", "log_probs", "advantages", "returns", "episode_starts", "rewards")
        self.buffers.append({name: getattr(buffer, name).copy() for name in names})

    def transitions(self, rollout: int, group_size: int) -> tuple[Transitions, np.ndarray]:
        """The rollout as an independent reading of what happened; and which rows belong to finished episodes.

        The rollout began with a reset, and the envs took their tickets in order.
        """
        columns: dict[str, list] = {name: [] for name in COLUMNS}
        num_envs = len(self.steps[rollout][0][2])
        ticket = iter(range(10**6))
        running = [next(ticket) for _ in range(num_envs)]
        count = [0] * num_envs
        ended = set()
        for observations, actions, rewards, dones, infos, after in self.steps[rollout]:
            over = []
            for env in range(num_envs):
                final = infos[env]["terminal_observation"] if dones[env] else after[env]
                cut = infos[env]["TimeLimit.truncated"]
                columns["task"].append(running[env] // group_size)
                columns["episode"].append(running[env])
                columns["step"].append(count[env])
                columns["state"].append(tuple(observations[env].tolist()))
                columns["action"].append(int(actions[env]))
                columns["next_state"].append(tuple(final.tolist()))
                columns["reward"].append(float(rewards[env]))
                columns["terminated"].append(bool(dones[env] and not cut))
                columns["truncated"].append(bool(cut))
                count[env] += 1
                if dones[env]:
                    ended.add(running[env])
                    over.append(env)
            for env in over:
                running[env], count[env] = next(ticket), 0
        finished = np.array([episode in ended for episode in columns["episode"]])
        return Transitions.from_columns(**columns), finished.reshape(-1, num_envs)


def rows_of(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Sorted rows of (action, value, log_prob, advantage, return)."""
    table = np.stack([np.asarray(array, np.float64).reshape(-1) for array in arrays.values()], axis=1)
    return table[np.lexsort(table.T)]


def numbered_buffer(algorithm: Any = PPO, policy: str = "MlpPolicy") -> Any:
    """The full buffer of a learner, 5 steps of 3 envs; the advantage of row (t, env) is 10 * t + env."""
    model = algorithm(policy, line_vec(3), n_steps=5, batch_size=5, **SMALL)
    _, callback = model._setup_learn(15)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, 5)
    model.rollout_buffer.advantages = (10.0 * np.arange(5)[:, None] + np.arange(3)).astype(np.float32)
    return model.rollout_buffer


def keep_windows(recorder: Any) -> list:
    """A list that will hold each window that the recorder returns."""
    windows: list = []
    assign = recorder.assign_credit

    def keep(unfinished: str) -> Any:
        windows.append(assign(unfinished))
        return windows[-1]

    recorder.assign_credit = keep
    return windows
