"""PPO of Stable-Baselines3 with graphwrap's credit against PPO without, on the batched Sokoban."""

from __future__ import annotations

import warnings

from graphwrap.scripts.benchmarks import Settings
from graphwrap.scripts.benchmarks.ratio import Measured, Ratio, interleaved, seconds

ENV_ID = "graphwrap/Sokoban-v0"


def measure(settings: Settings) -> list[Measured]:
    """Environment steps per second, each measurement with a new model from the same seed.

    Both meet the same stage of learning. Making the environments and the model is not timed. Settings and network are
    those of the comparison.
    """
    import gymnasium
    import torch

    import graphwrap
    from graphwrap.sb3 import CreditCallback, as_vec_env
    from graphwrap.scripts.comparison.learners import sb3_ppo
    from graphwrap.scripts.comparison.settings import Settings as Comparison

    usual = Comparison()
    num_envs, updates = settings.sized(128, 16), settings.sized(5, 1)
    gradient_steps: dict[bool, int] = {}

    def measure(credited: bool) -> float:
        venv = as_vec_env(gymnasium.make_vec(ENV_ID, num_envs=num_envs))
        if credited:
            venv = graphwrap.wrap(venv, credit=graphwrap.GraphGPO(omega=0.8), group_size=usual.group_size)
        model = sb3_ppo(usual, venv, seed=0)
        counted = [0]
        model.policy.optimizer.register_step_post_hook(lambda *_: counted.__setitem__(0, counted[0] + 1))
        steps = updates * usual.n_steps * num_envs
        callback = CreditCallback() if credited else None
        took = seconds(lambda: model.learn(steps, callback=callback, log_interval=updates + 1))
        gradient_steps[credited] = counted[0]
        venv.close()
        return steps / took

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message="You have specified a mini-batch size", category=UserWarning
            )
            measure(True)
            measure(False)
            ours, other = interleaved(
                lambda: measure(True), lambda: measure(False), settings.pairs, settings.on_pair
            )
    finally:
        torch.set_num_threads(threads)
    return [
        Ratio(
            "training",
            f"batched Sokoban, {num_envs} environments, {usual.n_steps} steps, {updates} updates of {usual.epochs} "
            "epochs, one torch thread",
            f"SB3 PPO with wrapper, groups of {usual.group_size} and CreditCallback",
            "steps/s",
            ours,
            0.97,
            False,
            "bare SB3 PPO",
            other,
            details={
                "gradient steps with": float(gradient_steps[True]),
                "gradient steps bare": float(gradient_steps[False]),
            },
        )
    ]
