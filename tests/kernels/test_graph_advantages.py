import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwrap import GraphGPO, Outcome, TransitionGraph

from ..builders import transitions


def slow(graph, omega, exponent):
    """R^G and its norm, state by state."""
    t = graph.transitions
    power = graph.distances[graph.target] + (0.0 if exponent == "next" else t.cost)
    if exponent == "progress":
        power = power - graph.distances[graph.source]
    step = np.zeros(len(t))
    for node in range(graph.num_nodes):
        rows = np.flatnonzero(graph.source == node)
        if len(rows) < 2 or not (t.outcome[t.episode_task == graph.node_task[node]] == Outcome.SUCCESS).any():
            continue
        p = omega ** (power[rows] - power[rows].min())
        if p.max() - p.min() > 1e-9:
            step[rows] = (p - p.mean()) / p.std(ddof=1)
    return 10.0 * omega**power, step


@given(
    st.one_of(transitions(slip=0.3), transitions(costs=True, slip=0.3, tasks=3, episodes=6)),
    st.sampled_from([0.1, 0.8]),
    st.sampled_from(["cost", "next", "progress"]),
)
def test_rewards_and_their_norm_equal_the_definition(batch, omega, exponent):
    graph = TransitionGraph.from_transitions(batch)
    credit = GraphGPO(omega=omega, exponent=exponent).compute(graph)
    rewards, step = slow(graph, omega, exponent)
    np.testing.assert_allclose(credit.graph_rewards, rewards, rtol=1e-12)
    np.testing.assert_allclose(credit.step_advantages, step, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [1e-3, 300.5, 1e6])
@given(transitions(costs=True, slip=0.3, episodes=6))
def test_powers_that_vanish_are_compared_all_the_same(size, batch):
    # omega ** (d + c) is 0 in float64 where costs are large; what differs within a state is not.
    graph = TransitionGraph.from_transitions(dataclasses.replace(batch, cost=batch.cost * size))
    step = GraphGPO(omega=0.5).compute(graph).step_advantages
    np.testing.assert_allclose(step, slow(graph, 0.5, "cost")[1], rtol=0, atol=1e-6)
