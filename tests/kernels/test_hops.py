import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.kernels.grouping import rows_by_key
from graphwrap.kernels.hops import hop_sums


def slow(start, horizon, source, target, advantage, count, decay, nodes):
    """The definition, frontier by frontier."""
    result = []
    for node, steps in zip(start, horizon):
        frontier, total = {int(node)} - set(range(nodes, nodes + 1)), 0.0
        for hop in range(1, steps + 1):
            leaving = [e for e in range(len(source)) if source[e] in frontier]
            if leaving:
                weights = count[leaving]
                total += decay**hop * (weights @ advantage[leaving]) / weights.sum()
            frontier = {int(target[e]) for e in leaving if target[e] < nodes}
        result.append(total)
    return result


@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.integers(0, 14), st.sampled_from([0.3, 0.94, 1.0]))
def test_equals_the_definition(seed, nodes, edges, decay):
    rng = np.random.default_rng(seed)
    source = rng.integers(0, nodes, edges).astype(np.int32)
    target = rng.integers(0, nodes + 1, edges).astype(np.int32)
    advantage, count = rng.normal(size=edges), rng.integers(1, 4, edges).astype(np.float64)
    start = rng.integers(0, nodes + 1, 6).astype(np.int32)
    horizon = rng.integers(0, 12, 6).astype(np.int32)
    indptr, rows = rows_by_key(start, nodes + 1)
    edge_indptr, by_source = rows_by_key(source, nodes)
    found = hop_sums(
        start,
        horizon,
        indptr,
        rows,
        edge_indptr,
        target[by_source],
        advantage[by_source],
        count[by_source],
        decay,
    )
    expected = slow(start, horizon, source, target, advantage, count, decay, nodes)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
