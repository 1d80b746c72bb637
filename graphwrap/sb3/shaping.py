"""Rewards shaped by a potential of the graph, in a rollout buffer of Stable-Baselines3."""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnvWrapper, VecNormalize

from graphwrap.graph import GOAL_STATE, TransitionGraph
from graphwrap.methods import METHODS
from graphwrap.recording.windows import WindowCredit


def check_potential(method: Any) -> None:
    """Check that a credit method has a potential.

    Raises:
        ValueError: It has none. Names those that have one.
    """
    if not getattr(method, "has_potential", False):
        names = [other.__name__ for other in METHODS.values() if other().has_potential]
        raise ValueError(
            f"mode='reward' shapes rewards with the credit method's potential, and {type(method).__name__} has none; "
            f"take one of {', '.join(names)}, or mode='advantage'"
        )


class RecomputedReturns:
    """Lets a rollout buffer compute its returns and advantages once more, with the same values of the last states.

    Not every learner leaves these values where a callback finds them, so the buffer's next call is watched.
    """

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer
        self._compute = buffer.compute_returns_and_advantage
        self._arguments: dict[str, Any] = {}
        buffer.compute_returns_and_advantage = self._watch

    def _watch(self, last_values: Any, dones: np.ndarray) -> None:
        self.stop()
        self._arguments = {"last_values": last_values, "dones": np.copy(dones)}
        self._compute(**self._arguments)

    def again(self) -> None:
        """Compute returns and advantages from the rewards that the buffer has now."""
        self._compute(**self._arguments)

    def stop(self) -> None:
        """Give the buffer its own method back, if the call has not come."""
        vars(self._buffer).pop("compute_returns_and_advantage", None)


def shaping(graph: TransitionGraph, potential: np.ndarray, gamma: float) -> np.ndarray:
    """What potential-based shaping adds to the reward of each row: gamma * Phi(s') - Phi(s).

    Phi(s') is 0 where the step terminated its episode. Elsewhere, and so where it was truncated, s' is the state that
    was observed. Source: Ng, Harada and Russell 1999.

    Args:
        graph: N rows; its union, where it has one, M nodes.
        potential: float64 (M,), Phi of the nodes of `graph.union`, 0 at GOAL.
        gamma: The learner's discount.

    Returns:
        float64 (N,).
    """
    whole = graph.union
    target, task, next_state = (
        graph.at_rows(column)
        for column in (whole.target, whole.transitions.task, whole.transitions.next_state)
    )
    terminated = graph.transitions.terminated
    after = potential[target]
    after[terminated] = 0.0
    # A success that was truncated leads to GOAL in the graph, and to the observed state here.
    cut = np.flatnonzero((whole.node_state[target] == GOAL_STATE) & ~terminated)
    for row in cut.tolist():
        begin, end = whole.task_offsets[task[row] : task[row] + 2]
        observed = begin + np.flatnonzero(whole.node_state[begin:end] == next_state[row])
        after[row] = potential[observed[0]] if len(observed) else 0.0
    return gamma * after - potential[graph.at_rows(whole.source)]


def shaping_of_window(credit: WindowCredit, shaped: np.ndarray) -> np.ndarray:
    """Return the entries of the window's rows, float64 (T, n), of an array with one for each row of its transitions."""
    rows = np.asarray(credit.rows)
    return np.where(rows >= 0, shaped[rows], 0.0)


def shaped_return(credit: WindowCredit, shaped: np.ndarray) -> float:
    """Mean return with shaping, not discounted, over the episodes of complete groups; NaN where there is none.

    These are the episodes that `outcome_return` is about.
    """
    t = credit.transitions
    complete = np.zeros(t.num_tasks, np.bool_)
    complete[t.task[credit.rows[credit.group_complete]]] = True
    returns = np.bincount(t.episode, t.reward + shaped, t.num_episodes)[complete[t.episode_task]]
    return float(np.mean(returns)) if len(returns) else float("nan")


def reward_scale(env: Any) -> float:
    """Return what the `VecNormalize` around `env` currently multiply a reward by; 1.0 without any.

    A potential times a number is a potential, so rewards that are normalised can be shaped in their own unit.
    """
    scale = 1.0
    while isinstance(env, VecEnvWrapper):
        if isinstance(env, VecNormalize) and env.norm_reward:
            scale /= float(np.sqrt(env.ret_rms.var + env.epsilon))
        env = env.venv
    return scale
