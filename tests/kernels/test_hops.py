from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.kernels.grouping import rows_by_key
from graphwrap.kernels.hops import hop_sums


def slow(start, horizon, source, target, advantage, count, decay, nodes):
    """The definition, frontier by frontier."""
    result = []
    for node, steps in zip(start, horizon):
        frontier, total = {int(node)} - {nodes}, 0.0
        for hop in range(1, steps + 1):
            leaving = [e for e in range(len(source)) if source[e] in frontier]
            if leaving:
                weights = count[leaving]
                total += decay**hop * (weights @ advantage[leaving]) / weights.sum()
            frontier = {int(target[e]) for e in leaving if target[e] < nodes}
        result.append(total)
    return result


def worlds(rng, sizes, degree, episodes, length):
    """Random edges within blocks (node M is a sink of all), and walks along them: (blocks, source, target, rows)."""
    blocks = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    nodes = int(blocks[-1])
    pairs = []
    for begin, end in pairwise(blocks):
        for u in range(begin, end):
            for _ in range(rng.integers(0, degree + 1)):
                pairs.append((u, nodes if rng.random() < 0.1 else int(rng.integers(begin, end))))
    starts, horizons = [], []
    after = {u: [v for w, v in pairs if w == u] for u in range(nodes)}
    for _ in range(episodes):
        walk, here = [], int(rng.integers(0, nodes))
        while len(walk) < length and here < nodes and after[here]:
            here = after[here][rng.integers(0, len(after[here]))]
            walk.append(here)
        starts += walk
        horizons += range(len(walk) - 1, -1, -1)
    source, target = (np.array([pair[k] for pair in pairs], np.int32) for k in range(2))
    return blocks, source, target, np.array(starts, np.int32), np.array(horizons, np.int32)


def fast(blocks, source, target, start, horizon, advantage, count, decay, order=None):
    order = np.arange(len(start)) if order is None else order
    indptr, by_source = rows_by_key(source, int(blocks[-1]))
    edges = (target[by_source], advantage[by_source], count[by_source])
    return hop_sums(start, horizon, order.astype(np.int32), blocks, indptr, *edges, decay)


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(1, 25),
    st.sampled_from([0.3, 0.94, 1.0]),
)
def test_equals_the_definition(seed, sizes, degree, length, decay):
    rng = np.random.default_rng(seed)
    blocks, source, target, start, horizon = worlds(rng, sizes, degree, 4, length)
    advantage, count = rng.normal(size=len(source)), rng.integers(1, 4, len(source)).astype(np.float64)
    expected = slow(start, horizon, source, target, advantage, count, decay, blocks[-1])
    rows = rng.permutation(len(start))  # row rows[k] is the k-th step
    shuffled, left = np.empty_like(start), np.empty_like(horizon)
    shuffled[rows], left[rows] = start, horizon
    found = fast(blocks, source, target, shuffled, left, advantage, count, decay, rows)
    np.testing.assert_allclose(found[rows], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("nodes", [70, 600])
def test_more_nodes_than_bits_in_a_word_and_in_a_batch(nodes):
    # A ring with chords: all nodes have two followers, and frontiers grow slowly.
    rng = np.random.default_rng(nodes)
    source = np.repeat(np.arange(nodes, dtype=np.int32), 2)
    target = ((source + np.tile([1, 2], nodes)) % nodes).astype(np.int32)
    start, place = np.empty(nodes, np.int32), 0
    for k in range(nodes):
        place = (place + 1 + int(rng.integers(2))) % nodes
        start[k] = place
    horizon = np.arange(nodes - 1, -1, -1, dtype=np.int32)
    advantage = rng.normal(size=2 * nodes)
    blocks = np.array([0, nodes], np.int32)
    found = fast(blocks, source, target, start, horizon, advantage, np.ones(2 * nodes), 0.9)
    some = rng.choice(nodes, 5)
    expected = slow(
        start[some], np.minimum(horizon[some], 250), source, target, advantage, np.ones(2 * nodes), 0.9, nodes
    )
    np.testing.assert_allclose(found[some], expected, rtol=0, atol=1e-9)
