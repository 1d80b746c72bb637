"""The recorded environments of a run, made the same way for every credit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RecordEpisodeStatistics

import graphwrap
from graphwrap.scripts.comparison.settings import SB3, SOKOBAN, CreditSpec, Settings

ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def recorded(settings: Settings, credit: CreditSpec, num_envs: int) -> Any:
    """The environments of a run, wrapped the same way for every credit: a `VecEnv` for SB3, else a `VectorEnv`."""
    env = vector_env(settings, num_envs)
    if settings.learner == SB3:
        from graphwrap.sb3 import as_vec_env

        env = as_vec_env(env)
    return graphwrap.wrap(
        env,
        credit=credit.make(),
        group_size=settings.group_size,
        member_noise=settings.member_noise,
        state=None if settings.round is None else graphwrap.StateKey(round=settings.round),
        success=None if settings.success_return is None else _success_by_return(settings.success_return),
    )


def vector_env(settings: Settings, num_envs: int) -> Any:
    """The bare vector environment: Sokoban's batch, any other environment one by one."""
    # An adapter has to reset in the same step anyway, and is quickest where that is left to the environment.
    mode = AutoresetMode.SAME_STEP if settings.learner == SB3 else AutoresetMode.NEXT_STEP
    if settings.env == SOKOBAN:
        return gymnasium.make_vec(settings.env, num_envs, autoreset_mode=mode, **settings.env_kwargs)
    wrappers: list[Callable[[Any], Any]] = [graphwrap.SeededReset]
    if settings.success_return is not None:
        wrappers.insert(0, RecordEpisodeStatistics)
    return gymnasium.make_vec(
        settings.env,
        num_envs,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        wrappers=wrappers,
        **settings.env_kwargs,
    )


def compile_kernels(settings: Settings, credit: CreditSpec) -> None:
    """Run everything that Numba compiles once, so that compiling is not measured as credit or rollout."""
    env = recorded(settings, credit, settings.group_size)
    actions = np.array([env.unwrapped.action_space.sample() for _ in range(settings.group_size)])
    if settings.learner == SB3:
        env.seed(0)
        env.reset()
    else:
        actions = env.action_space.sample()
        env.reset(seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env.step(actions)
        env.assign_credit()
    env.close()


def check_spaces(learner: str, observations: Any, actions: Any) -> None:
    """Check that a learner can learn with these spaces.

    Raises:
        ValueError: it cannot; says what it can.
    """
    if learner != SB3:
        fits = isinstance(observations, (spaces.Box, spaces.Discrete)) and isinstance(
            actions, spaces.Discrete
        )
        if not fits:
            raise ValueError(
                f"the learner {learner!r} takes Box or Discrete observations and Discrete actions, got {observations} "
                f"and {actions}; take --learner {SB3}, or choose other observations with --env-kwargs"
            )
        return
    for what, space in (("observations", observations), ("actions", actions)):
        parts = (
            space.spaces.values() if what == "observations" and isinstance(space, spaces.Dict) else [space]
        )
        for part in parts:
            if not isinstance(part, ARRAYS):
                raise ValueError(
                    f"Stable-Baselines3's PPO takes Box, Discrete, MultiDiscrete and MultiBinary {what}, and a flat "
                    f"Dict of such observations, not {type(part).__name__}; choose other {what} with --env-kwargs "
                    '(Sokoban: {"obs": "grid"})'
                )


def _success_by_return(least: float) -> Callable[..., bool]:
    def success(observation: Any, reward: float, terminated: bool, truncated: bool, info: dict) -> bool:
        return round(float(info["episode"]["r"]), 6) >= least  # a sum of tenths is no tenth

    return success
