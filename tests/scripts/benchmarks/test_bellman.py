from __future__ import annotations

import numpy as np

from graphwrap import TransitionGraph, Transitions
from graphwrap.scripts.benchmarks import bellman
from graphwrap.scripts.benchmarks.walks import many_grids
from graphwrap.values import OutcomeEdges, bellman_values


def test_the_other_solvers_find_the_same_values():
    columns = many_grids(4, side=6, episodes=10, length=30, one_start=True)
    graph = TransitionGraph.from_transitions(Transitions.from_columns(**columns))
    edges = OutcomeEdges.from_graph(graph)
    weight = edges.weights("empirical")
    goal_of = np.zeros(graph.num_nodes + 1)
    goal_of[graph.goal] = 1.0
    expected = bellman_values(graph, gamma=bellman.GAMMA, edges=edges)
    assert 0 < np.median(expected[expected > 0]) < 1
    arrays = (edges.source, edges.target, weight, goal_of)
    np.testing.assert_allclose(bellman._spsolve(*arrays), expected, rtol=0, atol=1e-12)
    assert bellman._largest_error(expected, *arrays) < 1e-12
    moved = expected + np.where(np.arange(len(expected)) == 3, 1e-9, 0.0)
    assert bellman._largest_error(moved, *arrays) > 1e-10
    value = goal_of.copy()
    order = bellman._reverse_breadth_first(graph, edges)
    bellman._sweep(*order, edges.indptr, edges.target, weight, bellman.GAMMA, bellman.ERROR, value)
    np.testing.assert_allclose(value[:-1], expected, rtol=0, atol=1e-12)
    assert order[1][-1] == len(order[0]) <= graph.num_nodes - 4
