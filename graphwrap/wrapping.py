"""`graphwrap.wrap`: one line around any environment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import gymnasium

from graphwrap.credit import CreditMethod
from graphwrap.recording.env_wrapper import CreditEnv
from graphwrap.states import StateKey


def wrap(
    env: Any,
    credit: str | CreditMethod = "graphgpo",
    *,
    task: str | Callable[[Any, dict], Any] = "start",
    group_size: int | None = None,
    success: str | Callable[..., bool | None] | None = None,
    state: StateKey | Callable[[Any, dict], Any] | None = None,
    member_noise: bool = False,
    online: bool = False,
    gamma: float | None = None,
) -> Any:
    """Record what happens in an environment, and credit it with `assign_credit()`.

    The result is an environment of the same kind, and what a learner sees of it stays the same. It remembers every step
    until `assign_credit()` is called, which returns a `WindowCredit`. Wrappers that end episodes, such as `TimeLimit`,
    go inside: an episode that is only reset from outside is unfinished.

    Args:
        env: The id of a Gymnasium environment, a Gymnasium `Env` or `VectorEnv`, or a Stable-Baselines3 `VecEnv`.
        credit: A name from `graphwrap.credit_names()`, or a method such as `GraphGPO(omega=0.8)`.
        task: Which episodes are compared with each other: "start", those that start in the same state; "single", all;
            another string, those with equal `info[task]` at reset; or a function of (first observation, info).
        group_size: Play every task G times: G episodes are reset with one seed, and are each other's group. Not
            together with `task`. The environment must choose its start by the seed alone. The number of
            sub-environments of a `VectorEnv` or `VecEnv` must be a multiple of it.
        success: What says whether an episode succeeded, at its last step: the name of an info entry, or a function of
            (observation, reward, terminated, truncated, info) that returns True, False or None. None: the first of
            `info["is_success"]`, `info["success"]` and `info["won"]` that is there. Where nothing says so, an episode
            succeeded if it terminated with a positive return; a named entry that is not there is warned about once.
        state: What makes two states the same. None: equal observations; `StateKey(round=2)`: equal when rounded; or a
            function of (observation, info) that returns anything with a key.
        member_noise: Give every member of a group a random generator of its own after the reset. Otherwise equal
            actions have equal results within a group, since the seed fixes the noise too.
        online: Shape the rewards at once, for learners that compute their own advantages or learn off-policy: a reward
            r becomes r + gamma Phi(s') - Phi(s), where Phi is the potential of `credit` in what is remembered of past
            episodes of the task, which leaves the best policy as it is. `info["outcome_reward"]` keeps r, and there
            are no windows to credit. A `PersistentGraph` says how much is remembered. Not together with `group_size`.
        gamma: The learner's discount, for `online`. None: 0.99.

    Returns:
        `CreditEnv` for an id or an `Env`, `CreditVectorEnv` for a `VectorEnv`, `CreditVecEnv` for a `VecEnv`.

    Raises:
        TypeError: `env` or an option has the wrong type.
        ValueError: An unknown credit name, options that do not go together, an environment that is wrapped already, or
            a `VectorEnv` or `VecEnv` that cannot be wrapped.

    Example:
        >>> import graphwrap
        >>> env = graphwrap.wrap("CartPole-v1", "gigpo", task="single")
        >>> observation, info = env.reset(seed=7)
        >>> step = env.step(0)
        >>> env.assign_credit(unfinished="graph").advantages.shape
        (1,)
    """
    options: dict[str, Any] = {
        "task": task,
        "group_size": group_size,
        "success": success,
        "state": state,
        "member_noise": member_noise,
        "online": online,
        "gamma": gamma,
    }
    if isinstance(env, str):
        return CreditEnv(gymnasium.make(env), credit, **options)
    if isinstance(env, gymnasium.vector.VectorEnv):
        from graphwrap.recording.vector_env import CreditVectorEnv

        return CreditVectorEnv(env, credit, **options)
    if isinstance(env, gymnasium.Env):
        return CreditEnv(env, credit, **options)
    # Whoever has a VecEnv has imported Stable-Baselines3.
    vec_env = sys.modules.get("stable_baselines3.common.vec_env")
    if vec_env is not None and isinstance(env, vec_env.VecEnv):
        from graphwrap.recording.vec_env import CreditVecEnv

        return CreditVecEnv(env, credit, **options)
    raise TypeError(
        "wrap takes an environment id (str), a Gymnasium Env or VectorEnv, or a Stable-Baselines3 VecEnv, got "
        f"{type(env).__module__}.{type(env).__qualname__}"
    )
