"""A^E, the outcome part of the group methods: an episode's return against the other episodes of its task."""

from __future__ import annotations

import numpy as np

from graphwrap.graph import TransitionGraph
from graphwrap.kernels.grouping import BoolArray, FloatArray, rows_by_key
from graphwrap.kernels.statistics import largest_by_group, normalise
from graphwrap.transitions import Outcome


def scored_episodes(graph: TransitionGraph) -> BoolArray:
    """bool (E,): the episodes that take part in statistics of returns, successes and failures."""
    outcome = graph.transitions.outcome
    return (outcome == Outcome.SUCCESS) | (outcome == Outcome.FAILURE)


def scored_rows(graph: TransitionGraph) -> BoolArray:
    """bool (N,): the rows of `scored_episodes`."""
    return scored_episodes(graph)[graph.transitions.episode]


def episode_advantages(
    graph: TransitionGraph, *, episode_statistics: str, std: bool, eps: float
) -> FloatArray:
    """A^E of every row: norm of its episode's return within the task's group (GRPO, arXiv 2402.03300).

    Args:
        graph: the graph of the batch.
        episode_statistics: "trajectory" counts each episode once, "step" once per step.
        std: divide by the standard deviation.
        eps: added to the standard deviation.

    Returns:
        float64 (N,), the same for all steps of an episode; 0 for unfinished and unscored episodes.
    """
    t = graph.transitions
    scored = scored_episodes(graph)
    returns = np.where(scored, t.returns(), 0.0)
    scale = largest_by_group(returns, t.episode_task, t.num_tasks, scored)
    if episode_statistics == "trajectory":
        of_episode = normalise(returns, *graph.task_episodes, scored, scale, std, eps, False)
        return of_episode[t.episode]
    by_task = rows_by_key(t.task, t.num_tasks)
    return normalise(returns[t.episode], *by_task, scored[t.episode], scale, std, eps, False)
