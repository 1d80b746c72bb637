"""Phi of the nodes, to shape rewards with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphwrap
from graphwrap import GRAFT, GraphGPO, RewardFlow, TransitionGraph, Transitions
from graphwrap.graph import GOAL_STATE
from graphwrap.methods import METHODS

from ..builders import transitions

WITH_POTENTIAL = ["graphgpo", "graft", "rewardflow"]


def two_tasks(**columns: list) -> TransitionGraph:
    """Task t: s -> near -> GOAL, and s -> pit (failed). Task u: s -> near (failed)."""
    return TransitionGraph.from_transitions(
        Transitions.from_columns(
            task=["t", "t", "t", "u"],
            episode=["win", "win", "loss", "other"],
            step=[0, 1, 0, 0],
            state=["s", "near", "s", "s"],
            action=[0, 1, 2, 0],
            next_state=["near", "end", "pit", "near"],
            reward=[-1.0, 5.0, -2.0, -3.0],
            terminated=[False, True, True, True],
            truncated=[False] * 4,
            success=[True, True, False, False],
            **columns,
        )
    )


def by_name(graph: TransitionGraph, potential: np.ndarray) -> dict[tuple[str, str], float]:
    t = graph.transitions
    names = ["GOAL" if s == GOAL_STATE else t.state_labels[s] for s in graph.node_state]
    tasks = [t.task_labels[k] for k in graph.node_task]
    assert potential.dtype == np.float64
    return dict(zip(zip(tasks, names), potential.tolist(), strict=True))


@pytest.mark.parametrize(
    ("method", "costs", "s", "near"),
    [
        (GraphGPO(), None, 0.1, 1.0),
        (GraphGPO(omega=0.5, r_succ=8.0), None, 2.0, 4.0),
        (GraphGPO(omega=0.5), [2.0, 3.0, 1.0, 1.0], 10 / 32, 10 / 8),
        (GRAFT(), None, 0.99**2 / 2, 0.99),
        (GRAFT(gamma=0.5), None, 0.125, 0.5),
        # r(s, 0) = -1, r(s, 2) = -2, r(near, 1) = 5, both sinks 0
        (GRAFT(gamma=0.5, step_rewards=True), None, (-1 + 0.5 * 5 - 2) / 2, 5.0),
        (RewardFlow(), None, 8.1, 9.0),
        (RewardFlow(gamma=0.5, r_succ=4.0), [2.0, 3.0, 1.0, 1.0], 1.0, 2.0),
    ],
)
def test_literals(method, costs, s, near):
    graph = two_tasks(**({} if costs is None else {"cost": costs}))
    found = by_name(graph, method.potential(graph))
    expected = {
        ("t", "GOAL"): 0.0,
        ("t", "s"): s,
        ("t", "near"): near,
        ("t", "pit"): 0.0,
        ("u", "GOAL"): 0.0,
        ("u", "s"): 0.0,
        ("u", "near"): 0.0,
    }
    assert found == pytest.approx(expected, abs=1e-12)


def test_graft_weighs_actions_as_it_is_set():
    graph = TransitionGraph.from_transitions(
        Transitions.from_columns(
            task=[0] * 3,
            episode=[0, 1, 2],
            step=[0] * 3,
            state=["s"] * 3,
            action=["up", "down", "down"],
            next_state=["end"] * 3,
            reward=[1.0, 0.0, 0.0],
            terminated=[True] * 3,
            truncated=[False] * 3,
        )
    )
    assert GRAFT().potential(graph)[1] == pytest.approx(0.99 / 3)
    assert GRAFT(action_weighting="uniform").potential(graph)[1] == pytest.approx(0.99 / 2)


@pytest.mark.parametrize("method", [GraphGPO(), GRAFT(), GRAFT(step_rewards=True), RewardFlow()], ids=repr)
@given(batch=transitions(tasks=3, slip=0.2, rewards=True, costs=True))
def test_is_zero_at_goal_where_it_is_unreachable_and_in_unsolved_tasks(method, batch):
    graph = TransitionGraph.from_transitions(batch)
    potential = method.potential(graph)
    assert potential.shape == (graph.num_nodes,)
    assert np.isfinite(potential).all()
    solved = {
        task for task, outcome in zip(batch.episode_task.tolist(), batch.outcome.tolist()) if outcome == 0
    }
    for node in range(graph.num_nodes):
        if (
            graph.node_state[node] == GOAL_STATE
            or not graph.reachable[node]
            or graph.node_task[node] not in solved
        ):
            assert potential[node] == 0.0
        elif not isinstance(method, GRAFT):  # whose failures end in a sink, not in the state they stop in
            assert potential[node] > 0.0


@given(batch=transitions(costs=True), omega=st.floats(0.1, 0.9))
def test_graphgpo_potential_falls_with_the_distance(batch, omega):
    graph = TransitionGraph.from_transitions(batch)
    potential = GraphGPO(omega=omega).potential(graph)
    here = graph.reachable & (graph.node_state != GOAL_STATE)
    np.testing.assert_allclose(potential[here], 10.0 * omega ** graph.distances[here], rtol=1e-12)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_methods_without_a_graph_name_those_with_one(name):
    method = graphwrap.make_credit(name)
    assert method.has_potential == (name in WITH_POTENTIAL)
    if not method.has_potential:
        with pytest.raises(ValueError, match=type(method).__name__) as caught:
            method.potential(two_tasks())
        for word in ("GraphGPO", "GRAFT", "RewardFlow"):
            assert word in str(caught.value)
