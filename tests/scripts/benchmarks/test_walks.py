from __future__ import annotations

import numpy as np

from graphwrap import Outcome, TransitionGraph, Transitions
from graphwrap.scripts.benchmarks.walks import grid_columns, many_grids, random_transitions


def test_random_transitions_are_as_described():
    transitions = random_transitions(20_000, 20)
    assert (len(transitions), transitions.num_tasks) == (20_000, 20)
    assert random_transitions(20_000, 20, seed=0).state.tolist() == transitions.state.tolist()
    graph = TransitionGraph.from_transitions(transitions)
    steps_per_node = len(transitions) / (graph.num_nodes - transitions.num_tasks)
    assert 3.5 < steps_per_node < 6.0
    assert 0.1 < np.mean(transitions.outcome == Outcome.SUCCESS) < 0.35
    costs = random_transitions(20_000, 20, costs=True).cost
    assert (costs.min(), costs.max()) == (0.5, 4.0)


def test_walks_in_a_grid_keep_to_it():
    side, columns = 9, grid_columns(9, episodes=50, length=40)
    transitions = Transitions.from_columns(**columns)
    assert (transitions.num_tasks, transitions.num_episodes) == (1, 50)
    moved = np.abs(columns["next_state"] - columns["state"])
    assert set(np.unique(moved)) <= {0, 1, side + 2}
    won = columns["terminated"]
    assert won.any()
    assert len(np.unique(columns["next_state"][won])) == 1
    assert not np.isin(columns["next_state"][~won], columns["next_state"][won]).any()
    assert np.isin(columns["step"][columns["truncated"]], 39).all()


def test_many_grids_are_tasks_of_their_own():
    columns = many_grids(3, side=6, episodes=4, length=20, one_start=True)
    transitions = Transitions.from_columns(**columns)
    assert (transitions.num_tasks, transitions.num_episodes) == (3, 12)
    for task in range(3):
        first = columns["state"][(columns["task"] == task) & (columns["step"] == 0)]
        assert len(set(first.tolist())) == 1
