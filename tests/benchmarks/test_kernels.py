"""The time of single kernels. Runs each once as a test; `make bench-kernels` measures."""

from __future__ import annotations

import numpy as np
import pytest

from graphwrap import GRAFT, GraphGPO, TransitionGraph, Transitions
from graphwrap.data.hashing import digest_rows
from graphwrap.data.tables import RowTable
from graphwrap.kernels.grouping import ids_within, rows_by_key
from graphwrap.kernels.statistics import normalise
from graphwrap.scripts.benchmarks.walks import random_columns
from graphwrap.values import OutcomeEdges, bellman_values

ROWS, TASKS = 50_000, 50


@pytest.fixture(scope="module")
def columns():
    return random_columns(ROWS, TASKS)


@pytest.fixture(scope="module")
def transitions(columns):
    return Transitions.from_columns(**columns)


@pytest.fixture(scope="module")
def graph(transitions):
    return TransitionGraph.from_transitions(transitions)


def test_from_columns(benchmark, columns):
    assert len(benchmark(Transitions.from_columns, **columns)) == ROWS


def test_from_ids(benchmark, columns):
    assert len(benchmark(Transitions.from_ids, **columns)) == ROWS


def test_texts_to_ids(benchmark, columns):
    texts = [f"{'a long text ' * 20} {i}" for i in columns["state"].tolist()]
    after = [f"{'a long text ' * 20} {i}" for i in columns["next_state"].tolist()]
    changed = columns | {"state": texts, "next_state": after}
    assert benchmark(Transitions.from_columns, **changed).num_states == 220


def test_intern_rows(benchmark):
    words = np.random.default_rng(0).integers(0, 2**40, (ROWS, 2)).astype(np.uint64)
    ids = benchmark(lambda: RowTable(2).intern(words))
    assert ids.tolist() == list(range(ROWS))


def test_digest_rows(benchmark):
    words = np.random.default_rng(0).integers(0, 2**60, (200, 84 * 84 * 4 // 8)).astype(np.uint64)
    digests = np.zeros((200, 2), np.uint64)
    benchmark(digest_rows, words, np.uint64(1), np.uint64(2), digests)
    assert len(np.unique(digests, axis=0)) == 200


def test_rows_by_key(benchmark, graph):
    _, rows = benchmark(rows_by_key, graph.source, graph.num_nodes)
    assert np.array_equal(np.sort(rows), np.arange(ROWS))


def test_ids_within(benchmark, graph):
    ids, offsets = benchmark(ids_within, *graph.outgoing, graph.transitions.action, graph.target)
    assert ids.max() + 1 == offsets[-1]


def test_graph(benchmark, transitions):
    assert benchmark(TransitionGraph.from_transitions, transitions).num_nodes > TASKS


@pytest.mark.parametrize("costs", [False, True], ids=["unit costs", "different costs"])
def test_goal_distances(benchmark, columns, costs):
    cost = np.random.default_rng(0).integers(1, 9, ROWS) / 2 if costs else None
    transitions = Transitions.from_columns(**columns, cost=cost)
    distances = benchmark(lambda: TransitionGraph.from_transitions(transitions).distances)
    assert distances.min() == 0.0


def test_normalise(benchmark, graph):
    value = np.random.default_rng(0).standard_normal(ROWS)
    everyone, scale = np.ones(ROWS, np.bool_), np.ones(graph.num_nodes)
    result = benchmark(normalise, value, *graph.outgoing, everyone, scale, True, 0.0, False)
    assert np.isfinite(result).all()


def test_graph_advantages(benchmark, graph):
    assert graph.distances.min() == 0.0  # not measured
    found = benchmark(GraphGPO(omega=0.8).compute, graph)
    assert found.graph_rewards.max() == pytest.approx(8.0)


def test_bellman_values(benchmark, graph):
    edges = OutcomeEdges.from_graph(graph)
    values = benchmark(bellman_values, graph, edges=edges)
    assert values.max() == 1.0


def test_hop_sums(benchmark, graph):
    edges, method = OutcomeEdges.from_graph(graph), GRAFT()
    values = np.append(bellman_values(graph, edges=edges), 0.0)
    advantage = method.gamma * values[edges.target] - values[edges.source]
    assert np.isfinite(benchmark(method._hops_ahead, graph, edges, advantage)).all()


@pytest.mark.parametrize("method", [GraphGPO(omega=0.8), GRAFT()], ids=["graphgpo", "graft"])
def test_credit(benchmark, transitions, method):
    assert len(benchmark(method, transitions).advantages) == ROWS
