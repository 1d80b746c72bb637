"""What the papers prove, on random batches and on small MDPs with known values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwrap import GRAFT, GRPO, GiGPO, GraphGPO, TransitionGraph, Transitions
from graphwrap.values import OutcomeEdges

from ..builders import transitions, walks

SMALL = {"tasks": 2, "episodes": 6, "states": 6}


@pytest.mark.parametrize("omega", [0.1, 0.4, 0.8])
@given(batch=st.one_of(transitions(**SMALL), transitions(costs=True, slip=0.3, **SMALL)))
def test_closer_successors_have_larger_graph_advantage(batch, omega):
    """GraphGPO's ordering: among the steps that leave a state, smaller d(s') + c means larger A^G."""
    graph = TransitionGraph.from_transitions(batch)
    step = GraphGPO(omega=omega)(graph).step_advantages
    reach = graph.distances[graph.target] + batch.cost
    solved = {t for t, e in zip(batch.episode_task.tolist(), batch.outcome.tolist()) if e == 0}
    for node in range(graph.num_nodes):
        rows = np.flatnonzero(graph.source == node)
        for a, b in itertools.combinations(rows, 2):
            if batch.task[a] not in solved:
                assert step[a] == step[b] == 0
            elif reach[a] < reach[b] - 1e-9:
                # Far behind the best both powers vanish against it; then the order is kept as a tie.
                assert step[a] > step[b] or omega ** (reach[a] - reach[rows].min()) < 1e-9
            elif abs(reach[a] - reach[b]) < 1e-12:
                assert step[a] == pytest.approx(step[b], abs=1e-9)


def test_a_good_step_of_a_failed_episode_has_positive_graph_credit():
    batch = Transitions.from_columns(
        task=[0] * 5,
        episode=["win", "win", "win", "lose", "lose"],
        step=[0, 1, 2, 0, 1],
        state=["s", "detour", "near", "s", "near"],
        action=["away", "back", "finish", "straight", "fall"],
        next_state=["detour", "near", "goal", "near", "pit"],
        reward=[0.0, 0.0, 1.0, 0.0, 0.0],
        terminated=[False, False, True, False, True],
        truncated=[False] * 5,
        success=[True, True, True, False, False],
    )
    credit = GraphGPO()(batch)
    assert credit.step_advantages[3] > 0 > credit.step_advantages[0]
    assert credit.episode_advantages[3] < 0


@given(st.integers(0, 2**32 - 1))
def test_graph_credit_of_a_step_varies_no_more_than_its_return(seed):
    """GraphGPO, Proposition 4.2: given (s, a, s'), R^G is one number, while returns-to-go differ by episode."""
    batch = Transitions.from_columns(
        **walks(np.random.default_rng(seed), tasks=1, episodes=10, unfinished=0.0)
    )
    graph = TransitionGraph.from_transitions(batch)
    rewards = GraphGPO(omega=0.5)(graph).graph_rewards
    returns = batch.discounted_returns(0.95)
    for key in {(s, a, v) for s, a, v in zip(graph.source, batch.action, graph.target)}:
        same = (graph.source == key[0]) & (batch.action == key[1]) & (graph.target == key[2])
        assert rewards[same].var() <= 1e-24
        assert rewards[same].var() <= returns[same].var() + 1e-24


def test_one_step_graph_credit_is_closest_to_the_true_advantage():
    """GRAFT, Proposition 1: in a deterministic MDP with sparse reward its squared error is the lowest.

    The MDP: a corridor 0..4, goal at 5, steps left or right, 12 steps at most. The true advantage is that of the
    sampling policy (uniform) and comes from a linear solve; errors are means over 200 groups of 8 episodes.
    """
    length, gamma, horizon = 5, 0.95, 40
    move = np.array([[max(s - 1, 0), s + 1] for s in range(length)])
    matrix, right = np.eye(length), np.zeros(length)
    for s, a in itertools.product(range(length), range(2)):
        if move[s, a] == length:
            right[s] += 0.5 * gamma
        else:
            matrix[s, move[s, a]] -= 0.5 * gamma
    value = np.append(np.linalg.solve(matrix, right), 1.0)

    rng = np.random.default_rng(0)
    errors = {"graft": [], "gigpo": [], "grpo": []}
    methods = {
        "graft": GRAFT(gamma=gamma, lam=0.0, normalise=False),
        "gigpo": GiGPO(gamma=gamma, std=False, episode_weight=0.0),
        "grpo": GRPO(std=False),
    }
    for _ in range(200):
        columns: dict[str, list] = {
            k: [] for k in ["episode", "step", "state", "action", "next_state", "reward", "terminated"]
        }
        for episode in range(8):
            s = 0
            for step in range(horizon):
                a = int(rng.integers(2))
                after = int(move[s, a])
                done = after == length
                for name, item in zip(columns, (episode, step, s, a, after, gamma * done, done)):
                    columns[name].append(item)
                s = after
                if done:
                    break
        last = np.diff(columns["episode"], append=-1) != 0
        batch = Transitions.from_columns(
            task=[0] * len(last), truncated=last & ~np.array(columns["terminated"]), **columns
        )
        s, after = np.array(columns["state"]), np.array(columns["next_state"])
        true = gamma * value[after] - value[s]
        for name, method in methods.items():
            errors[name].append(np.mean((method(batch).advantages - true) ** 2))
    means = {name: np.mean(values) for name, values in errors.items()}
    assert means["graft"] < means["gigpo"] < means["grpo"]


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
@given(batch=st.one_of(transitions(slip=0.3, **SMALL), transitions(rewards=True, **SMALL)))
def test_occurrence_weighted_hops_vanish(batch, gamma):
    """With occurrence counts and empirical action weights Abar_k is the Bellman equation: lambda has no effect."""
    for step_rewards in (False, True):
        plain = GRAFT(gamma=gamma, lam=0.0, normalise=False, step_rewards=step_rewards)
        hops = GRAFT(
            gamma=gamma, lam=0.9, normalise=False, step_rewards=step_rewards, hop_edges="occurrences"
        )
        np.testing.assert_allclose(hops(batch).advantages, plain(batch).advantages, rtol=0, atol=1e-8)


@given(st.one_of(transitions(slip=0.3), transitions(rewards=True)))
def test_values_are_the_fixed_point(batch):
    graph = TransitionGraph.from_transitions(batch)
    edges = OutcomeEdges.from_graph(graph)
    for weighting, step_rewards in itertools.product(("empirical", "uniform"), (False, True)):
        values = graph.values(gamma=0.99, action_weighting=weighting, step_rewards=step_rewards)
        weight = edges.weights(weighting)
        gain = edges.reward if step_rewards else 0.0
        ahead = gain + 0.99 * np.append(values, 0.0)[edges.target]
        after = np.bincount(edges.source, weights=weight * ahead, minlength=graph.num_nodes)
        left = np.unique(edges.source)
        np.testing.assert_allclose(after[left], values[left], rtol=0, atol=1e-11)
        np.testing.assert_allclose(np.bincount(edges.source, weights=weight)[left], 1.0)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.5, 0.8]))
def test_progress_equals_the_default_with_std(seed, omega):
    batch = Transitions.from_columns(**walks(np.random.default_rng(seed), costs=True, slip=0.2))
    default = GraphGPO(omega=omega)(batch).advantages
    progress = GraphGPO(omega=omega, exponent="progress")(batch).advantages
    np.testing.assert_allclose(progress, default, rtol=0, atol=1e-7)
