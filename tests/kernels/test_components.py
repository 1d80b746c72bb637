import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.kernels.components import solve_by_components


def system(rng, nodes, degree, sinks=1):
    """A random chain: indptr, target, weight, gain; targets >= nodes are sinks."""
    counts = rng.integers(0, degree + 1, nodes)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    target = rng.integers(0, nodes + sinks, indptr[-1]).astype(np.int32)
    weight = np.concatenate([w / w.sum() for w in (rng.random(c) + 0.01 for c in counts) if len(w)] or [[]])
    gain = rng.normal(size=len(weight))
    return indptr, target, weight, gain


def block(*ends):
    return np.array([0, *ends], np.int32)


def dense(indptr, target, weight, gain, gamma, value):
    nodes = len(indptr) - 1
    matrix, right = np.eye(nodes), np.zeros(nodes)
    for u in range(nodes):
        if indptr[u] == indptr[u + 1]:
            right[u] = value[u]
        for e in range(indptr[u], indptr[u + 1]):
            right[u] += gain[e]
            if target[e] < nodes:
                matrix[u, target[e]] -= gamma * weight[e]
            else:
                right[u] += gamma * weight[e] * value[target[e]]
    return np.linalg.solve(matrix, right)


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 4), st.sampled_from([0.0, 0.5, 0.9, 0.99])
)
def test_equals_a_dense_solver(seed, nodes, degree, gamma):
    rng = np.random.default_rng(seed)
    edges = system(rng, nodes, degree)
    value = np.zeros(nodes + 1)
    value[nodes] = 1.0
    expected = dense(*edges, gamma, value.copy())
    solve_by_components(*edges, gamma, block(nodes), value)
    np.testing.assert_allclose(value[:nodes], expected, rtol=0, atol=1e-10)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 12), min_size=2, max_size=5))
def test_blocks_are_solved_one_by_one(seed, sizes):
    rng = np.random.default_rng(seed)
    ends = np.cumsum(sizes)
    parts = [system(rng, size, 3) for size in sizes]
    targets = [
        np.where(part[1] < size, part[1] + end - size, ends[-1])
        for part, size, end in zip(parts, sizes, ends)
    ]
    counts = np.concatenate([np.diff(part[0]) for part in parts])
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    weight, gain = (np.concatenate([part[k] for part in parts]) for k in (2, 3))
    edges = (indptr, np.concatenate(targets).astype(np.int32), weight, gain)
    value = np.zeros(ends[-1] + 1)
    value[-1] = 1.0
    expected = dense(*edges, 0.9, value.copy())
    solve_by_components(*edges, 0.9, block(*ends), value)
    np.testing.assert_allclose(value[:-1], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("seed", "degree", "near"), [(0, 1, 1500), (1, 2, 3), (2, 2, 40), (3, 3, 1500)])
def test_a_large_block_is_taken_apart(seed, degree, near):
    # From many components of one node to a single one; targets are at most `near` away.
    rng = np.random.default_rng(seed)
    nodes = 1500
    indptr, target, weight, gain = system(rng, nodes, degree)
    source = np.repeat(np.arange(nodes), np.diff(indptr))
    inner = target < nodes
    target[inner] = ((source + rng.integers(-near, near + 1, len(target))) % nodes)[inner]
    value = np.zeros(nodes + 1)
    value[nodes] = 1.0
    expected = dense(indptr, target, weight, gain, 0.99, value.copy())
    solve_by_components(indptr, target, weight, gain, 0.99, block(nodes), value)
    np.testing.assert_allclose(value[:nodes], expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize(("nodes", "degree"), [(400, 1), (600, 2), (3000, 3)])
def test_large_components_are_solved_to_the_tolerance(nodes, degree):
    # Random targets make the envelope as wide as the component, so that the last one is swept.
    rng = np.random.default_rng(nodes)
    counts = np.full(nodes, degree + 1)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    target = rng.integers(0, nodes, indptr[-1]).astype(np.int32)
    target[indptr[:-1]] = (np.arange(nodes) + 1) % nodes  # a ring makes it one component
    target[-1] = nodes
    weight = np.full(len(target), 1 / (degree + 1))
    value = np.zeros(nodes + 1)
    value[nodes] = 1.0
    solve_by_components(indptr, target, weight, np.zeros(len(target)), 0.99, block(nodes), value)
    after = 0.99 * np.add.reduceat(weight * value[target], indptr[:-1])
    assert np.abs(after - value[:nodes]).max() * 0.99 / 0.01 <= 2e-12


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_the_tolerance_grows_and_shrinks_with_the_values(size):
    rng = np.random.default_rng(0)
    nodes, degree = 1000, 4
    indptr = np.arange(0, nodes * degree + 1, degree, dtype=np.int32)
    target = rng.integers(0, nodes, nodes * degree).astype(np.int32)
    weight = np.full(nodes * degree, 1 / degree)
    gain = rng.random(nodes * degree)
    value, scaled = np.zeros(nodes), np.zeros(nodes)
    solve_by_components(indptr, target, weight, gain, 0.99, block(nodes), value)
    solve_by_components(indptr, target, weight, gain * size, 0.99, block(nodes), scaled)
    np.testing.assert_allclose(scaled / size, value, rtol=1e-11)


@pytest.mark.parametrize("n", [300, 3000])
def test_a_corridor_walk_is_solved_exactly(n):
    # Symmetric random walk on 0..n with the goal beyond n: V solves a second-order recursion.
    gamma = 0.99
    target = np.empty(2 * n, np.int32)
    target[0::2] = np.maximum(np.arange(n) - 1, 0)
    target[1::2] = np.arange(n) + 1
    value = np.zeros(n + 1)
    value[n] = 1.0
    indptr = np.arange(0, 2 * n + 1, 2, dtype=np.int32)
    solve_by_components(indptr, target, np.full(2 * n, 0.5), np.zeros(2 * n), gamma, block(n), value)
    z = (1 + np.sqrt(1 - gamma**2)) / gamma
    x = np.arange(n + 1) + 0.5
    expected = (z**x + z**-x) / (z ** x[-1] + z ** -x[-1])
    np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)
