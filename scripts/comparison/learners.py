"""The learners of a comparison: unmodified SB3 PPO, and the PPO of `graphwrap.scripts.ppo`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from graphwrap.scripts.comparison.settings import OUTCOME, PPO, SB3, CreditSpec, Rows, Settings
from graphwrap.scripts.comparison.training import is_evaluated, make_row

Act = Callable[[Any, bool], Any]
"""Actions for a batch of observations, greedy ones or sampled ones."""


def train_sb3(
    settings: Settings,
    credit: CreditSpec,
    seed: int,
    env: Any,
    evaluate: Callable[[Act], dict[str, float]],
    on_update: Callable[[dict[str, float]], None] | None,
) -> tuple[Rows, dict[str, Any]]:
    """Train unmodified SB3 PPO with a `CreditCallback`; see `LEARNERS`."""
    from graphwrap.sb3 import CreditCallback
    from graphwrap.scripts.comparison.tracking import Tracker

    model = sb3_ppo(settings, env, seed)

    def rates() -> dict[str, float]:
        return evaluate(lambda batch, greedy: model.predict(batch, deterministic=greedy)[0])

    applied = credit.name != OUTCOME
    tracker = Tracker(settings, applied, rates, on_update)
    # Never dumped: the tracker takes what was logged.
    never = settings.updates + 1
    model.learn(
        settings.updates * settings.steps_per_update,
        callback=[tracker, CreditCallback(apply=applied)],
        log_interval=never,
    )
    return tracker.rows, {
        "steps": int(model.num_timesteps),
        "policy": policy_for(env.observation_space)[0],
        "network_parameters": int(sum(np.prod(part.shape) for part in model.policy.parameters())),
    }


def train_ppo(
    settings: Settings,
    credit: CreditSpec,
    seed: int,
    env: Any,
    evaluate: Callable[[Act], dict[str, float]],
    on_update: Callable[[dict[str, float]], None] | None,
) -> tuple[Rows, dict[str, Any]]:
    """Train the PPO of `graphwrap.scripts.ppo`; see `LEARNERS`."""
    from graphwrap.scripts.ppo import Args, train

    args = Args(
        updates=settings.updates,
        n_steps=settings.n_steps,
        learning_rate=settings.learning_rate,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        entropy=settings.entropy,
        outcome=credit.name == OUTCOME,
        seed=seed,
    )
    rows: Rows = []
    parameters = 0
    for update, (agent, numbers) in enumerate(train(env, args), 1):
        numbers |= {
            "success": numbers["success_rate"],
            "credit_seconds": numbers["seconds"],
            "seconds": numbers["update_seconds"],
        }
        rates = evaluate(agent.act) if is_evaluated(settings, update) else None
        rows.append(make_row(settings, update, numbers, rates))
        if on_update is not None:
            on_update(rows[-1])
        parameters = sum(part.numel() for part in agent.parameters())
    facts = {"steps": int(rows[-1]["steps"]), "policy": "Agent", "network_parameters": parameters}
    return rows, facts


LEARNERS = {SB3: train_sb3, PPO: train_ppo}
"""By name; functions of (settings, credit, seed, recorded environments, what plays the held-out episodes, what is told
of each row) that return the rows of `train_run` and plain facts."""


def sb3_ppo(settings: Settings, env: Any, seed: int) -> Any:
    """Unmodified SB3 PPO with the settings of a comparison, on the CPU."""
    from stable_baselines3 import PPO as SB3PPO

    policy, policy_kwargs = policy_for(env.observation_space)
    return SB3PPO(
        policy,
        env,
        learning_rate=settings.learning_rate,
        n_steps=settings.n_steps,
        batch_size=settings.batch_size,
        n_epochs=settings.epochs,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        ent_coef=settings.entropy,
        policy_kwargs=policy_kwargs,
        seed=seed,
        device="cpu",
    )


def policy_for(space: Any) -> tuple[str, dict[str, Any]]:
    """The SB3 policy for observations of `space`, the same for every credit: its name and `policy_kwargs`."""
    import torch
    from stable_baselines3.common.preprocessing import is_image_space

    from graphwrap.agents.features import GridExtractor
    from graphwrap.envs.cells import NUM_CODES

    if isinstance(space, spaces.Dict):
        return "MultiInputPolicy", {}
    if isinstance(space, spaces.Box):
        if len(space.shape) == 3 and space.shape[0] == NUM_CODES and space.dtype == np.float32:
            # A value loss of returns around 10 would rule the features if policy and critic shared them.
            return "MlpPolicy", {
                "features_extractor_class": GridExtractor,
                "share_features_extractor": False,
                "net_arch": [128],
                "activation_fn": torch.nn.ReLU,
            }
        if is_image_space(space) and min(space.shape[:2]) >= 36:
            return "CnnPolicy", {}
    return "MlpPolicy", {}
