"""Plain numbers that say whether a batch can carry graph credit, for any logger."""

from __future__ import annotations

import warnings

import numpy as np

from graphwrap._jit import jit
from graphwrap.graph import TransitionGraph
from graphwrap.kernels.grouping import BoolArray, FloatArray, Int32Array, ids_within
from graphwrap.kernels.propagation import count_ends_ahead, count_visitors
from graphwrap.transitions import Outcome
from graphwrap.values import outcome_targets

MOSTLY_UNIQUE = 0.9
"""Share of steps in node groups of one above which a warning is given."""


def diagnose(graph: TransitionGraph, advantages: FloatArray) -> dict[str, float]:
    """Describe a graph and the credit given on it.

    Args:
        graph: the graph of the batch.
        advantages: float64 (N,), the credit of its rows.

    Returns:
        A dict of floats (NaN where a share has no base):

        - `steps`, `episodes`, `groups` (tasks), `unscored_episodes`: counts.
        - `remembered_steps`: steps of earlier batches that distances and values come from as well (`PersistentGraph`).
        - `nodes`: distinct (task, state) pairs, without GOAL. `edges`: distinct (node, action, next node).
        - `reachable_share`: share of the nodes from which GOAL can be reached.
        - `node_group_size`: mean number of steps that leave a node which any step leaves.
        - `single_step_share`: share of steps whose node no other step leaves.
        - `zero_credit_fraction`: share of steps whose credit is exactly 0.
        - `single_episode_share`: share of groups with one episode: no outcome to compare with.
        - `no_success_share`, `only_success_share`: shares of groups, among those with a scored episode.
        - `progress_in_failures`, `progress_in_successes`: share of steps with d(s') < d(s) within failed and within
          successful episodes of groups with a success (GraphGPO, arXiv 2605.26684, Figure 1).
        - `propagation_degree`: mean over the steps of the number of scored episodes whose outcome reaches the value of
          the step's state (GRAFT, arXiv 2609.28963): those that end in a step from this state, or from one that can be
          reached from it. `single_propagation_share`: share of the steps where that is one episode at most.
        - `visit_degree`, `single_visit_share`: the same of the scored episodes that visit the state, whose returns are
          all that GiGPO (arXiv 2505.10978) compares there.
    """
    t = graph.transitions
    num_steps = len(graph.source)
    _, edge_offsets = ids_within(*graph.outgoing, t.action, graph.target)
    left, single = _node_groups(graph.outgoing[0])
    num_goals = t.num_tasks
    num_nodes = graph.num_nodes - num_goals

    outcomes = np.zeros((t.num_tasks, len(Outcome)), np.int64)
    np.add.at(outcomes, (t.episode_task, t.outcome), 1)
    scored = outcomes[:, Outcome.SUCCESS] + outcomes[:, Outcome.FAILURE]
    groups = int(np.count_nonzero(scored))
    no_success = int(np.count_nonzero((scored > 0) & (outcomes[:, Outcome.SUCCESS] == 0)))
    only_success = int(np.count_nonzero((scored > 0) & (outcomes[:, Outcome.FAILURE] == 0)))
    moved, progressed = _progress(
        graph.source,
        graph.target,
        graph.distances,
        t.order,
        t.episode_offsets,
        t.outcome,
        graph.solved[t.episode_task],
    )
    propagation = graph.at_nodes(_ends_ahead(graph.union))[graph.source]
    visits = count_visitors(*graph.outgoing, t.episode, _scored(t.outcome))[graph.source]
    # A step that no outcome reaches says something where there is an outcome.
    steps_of_known = num_steps if np.any(_scored(graph.union.transitions.outcome)) else 0
    steps_of_scored = num_steps if groups else 0

    return {
        "steps": float(num_steps),
        "episodes": float(t.num_episodes),
        "groups": float(t.num_tasks),
        "unscored_episodes": float(outcomes[:, Outcome.UNSCORED].sum()),
        "remembered_steps": float(len(graph.union.source) - num_steps),
        "nodes": float(num_nodes),
        "edges": float(edge_offsets[-1]),
        "reachable_share": _share(int(np.count_nonzero(graph.reachable)) - num_goals, num_nodes),
        "node_group_size": _share(num_steps, left),
        "single_step_share": _share(single, num_steps),
        "zero_credit_fraction": _share(num_steps - int(np.count_nonzero(advantages)), num_steps),
        "single_episode_share": _share(int(np.count_nonzero(outcomes.sum(axis=1) == 1)), t.num_tasks),
        "no_success_share": _share(no_success, groups),
        "only_success_share": _share(only_success, groups),
        "progress_in_failures": _share(progressed[Outcome.FAILURE], moved[Outcome.FAILURE]),
        "progress_in_successes": _share(progressed[Outcome.SUCCESS], moved[Outcome.SUCCESS]),
        "propagation_degree": _share(int(propagation.sum()), steps_of_known),
        "single_propagation_share": _share(int(np.count_nonzero(propagation <= 1)), steps_of_known),
        "visit_degree": _share(int(visits.sum()), steps_of_scored),
        "single_visit_share": _share(int(np.count_nonzero(visits <= 1)), steps_of_scored),
    }


def warn_if_useless(graph: TransitionGraph, advantages: FloatArray, stacklevel: int) -> None:
    """Warn where nearly all states are unique, where every group holds one episode, and where all credit is 0.

    The texts hold no number of the batch, so that Python's default filter shows each of them once.
    """
    num_steps = len(graph.source)
    many = MOSTLY_UNIQUE * num_steps
    # Where there are fewer nodes than that, no look at them is needed.
    if graph.num_nodes - graph.transitions.num_tasks > many and _node_groups(graph.outgoing[0])[1] > many:
        warnings.warn(
            "almost all states are unique, so steps can hardly be compared: more than 90% of the steps leave a state "
            "that no other step leaves. Use round= for floats, or state= to say what makes two states the same",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
    t = graph.transitions
    if t.num_episodes > 1 and t.num_tasks == t.num_episodes:
        warnings.warn(
            "every group holds a single episode, so outcomes cannot be compared: episodes of one task must share their "
            "`task`, which is not the episode's own id",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
    if num_steps > 0 and not np.any(advantages):
        warnings.warn(
            "every step of this batch has credit 0, so nothing is learnt from it: all episodes of every group ended "
            "alike. Larger groups, easier tasks, or a look at success= may help",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def _ends_ahead(graph: TransitionGraph) -> Int32Array:
    """int32 (M,): the scored episodes whose outcome reaches the value of each node."""
    t = graph.transitions
    ends = np.bincount(graph.source[t.last_rows[_scored(t.outcome)]], minlength=graph.num_nodes)
    indptr, rows = graph.outgoing
    return count_ends_ahead(indptr, outcome_targets(graph)[rows], graph.task_offsets, ends.astype(np.int32))


def _scored(outcome: np.ndarray) -> BoolArray:
    return (outcome == Outcome.SUCCESS) | (outcome == Outcome.FAILURE)


def _share(part: int, whole: int) -> float:
    return float(part / whole) if whole else float("nan")


@jit
def _node_groups(indptr: Int32Array) -> tuple[int, int]:
    """Number of nodes that any row leaves, and of those that a single row leaves."""
    left, single = 0, 0
    for node in range(len(indptr) - 1):
        size = indptr[node + 1] - indptr[node]
        left += size > 0
        single += size == 1
    return left, single


@jit
def _progress(
    source: Int32Array,
    target: Int32Array,
    distance: FloatArray,
    order: Int32Array,
    episode_offsets: np.ndarray,
    outcome: np.ndarray,
    counts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Steps, and steps that come closer to GOAL, by the outcome of their episode; `counts` bool (E,)."""
    moved = np.zeros(4, np.int64)
    progressed = np.zeros(4, np.int64)
    for episode in range(len(outcome)):
        if not counts[episode]:
            continue
        moved[outcome[episode]] += episode_offsets[episode + 1] - episode_offsets[episode]
        for k in range(episode_offsets[episode], episode_offsets[episode + 1]):
            progressed[outcome[episode]] += distance[target[order[k]]] < distance[source[order[k]]]
    return moved, progressed
