"""Two million steps through the wrapper and Stable-Baselines3: memory stays flat after the first tenth."""

from __future__ import annotations

import json
import sys
from typing import Any

from graphwrap.scripts.benchmarks import Settings
from graphwrap.scripts.benchmarks.memory import resident
from graphwrap.scripts.benchmarks.processes import run_python
from graphwrap.scripts.benchmarks.ratio import Amount, Measured

NUM_ENVS, N_STEPS = 128, 15


def measure(settings: Settings) -> list[Measured]:
    """Growth of resident memory in one long run, in a process of its own."""
    found: dict[str, Any] = run_python("-m", __spec__.name, str(settings.sized(2_000_000, 40_000)))
    settings.on_pair()
    return [
        Amount(
            "load, memory of a long run",
            f"{found['steps']:,} steps of {NUM_ENVS} Sokoban environments, PPO with groups and CreditCallback",
            "most memory of the last nine tenths, above the most of the first tenth",
            "MB",
            [max(found["later"] - found["early"], 0) / 1e6],
            10.0,
            True,
            details={
                "MB in the first tenth, at most": found["early"] / 1e6,
                "MB at the end": found["end"] / 1e6,
            },
        )
    ]


def train(steps: int) -> dict[str, float]:
    """Train for `steps` steps with little learning, and watch this process's resident memory.

    Raises:
        OSError: Not on Linux.
    """
    import warnings

    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    import graphwrap
    from graphwrap.sb3 import CreditCallback, as_vec_env

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")

    seen: list[int] = []

    class Watch(BaseCallback):
        """Notes the resident bytes after every rollout."""

        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            seen.append(resident("VmRSS"))

    venv = as_vec_env(gymnasium.make_vec("graphwrap/Sokoban-v0", num_envs=NUM_ENVS))
    venv = graphwrap.wrap(venv, credit=graphwrap.GraphGPO(omega=0.8), group_size=8)
    rows = NUM_ENVS * N_STEPS
    model = PPO("MlpPolicy", venv, n_steps=N_STEPS, batch_size=rows, n_epochs=1, seed=0, device="cpu")
    model.learn(steps, callback=[CreditCallback(), Watch()], log_interval=10)
    tenth = max(len(seen) // 10, 1)
    return {
        "steps": model.num_timesteps,
        "early": max(seen[:tenth]),
        "later": max(seen[tenth:]),
        "end": seen[-1],
    }


if __name__ == "__main__":
    print(json.dumps(train(int(sys.argv[1]))))
