"""Graph GAE: one-step advantages summed over the hops ahead of a step (GRAFT, arXiv 2609.28963)."""

from __future__ import annotations

import numpy as np

from graphwrap._jit import jit
from graphwrap.kernels.grouping import FloatArray, Int32Array


@jit
def hop_sums(
    start: Int32Array,
    horizon: Int32Array,
    rows_indptr: Int32Array,
    rows: Int32Array,
    edge_indptr: Int32Array,
    edge_target: Int32Array,
    advantage: FloatArray,
    count: FloatArray,
    decay: float,
) -> FloatArray:
    """Sum over k = 1 .. horizon of decay**k * Abar_k for every row.

    Abar_k is the mean advantage of the edges exactly k hops after the row's step: k = 1 are the edges that leave the
    node it leads to, k = 2 those that leave their targets, and so on. The frontier is a set of nodes; a hop without
    edges contributes 0. Since the series depends only on the node and the horizon, it is made once per node, and once
    the frontier repeats (every second hop at the latest in what a walk soon fills) its means are reused.

    Args:
        start: int32 (N,), node each row leads to; >= M is a sink, whose sum is 0.
        horizon: int32 (N,), steps left in the row's episode after it.
        rows_indptr: int32 (M + 1,), with `rows` the rows that lead to each node.
        rows: int32, as above.
        edge_indptr: int32 (M + 1,), edges by the node they leave.
        edge_target: int32 (E,).
        advantage: float64 (E,), one-step advantage of each edge.
        count: float64 (E,), weight of each edge in the means.
        decay: gamma * lambda.

    Returns:
        float64 (N,).
    """
    num_nodes = len(edge_indptr) - 1
    node_sum = np.zeros(num_nodes)
    node_count = np.zeros(num_nodes)
    for node in range(num_nodes):
        for e in range(edge_indptr[node], edge_indptr[node + 1]):
            node_sum[node] += count[e] * advantage[e]
            node_count[node] += count[e]

    result = np.zeros(len(start))
    longest = 0
    for row in range(len(start)):
        longest = max(longest, horizon[row])
    sums = np.zeros(longest + 1)
    means = np.zeros(longest + 1)
    # seen[which, node] is the last hop (of any start, counted on) at which `node` was in the frontier of that parity.
    seen = np.full((2, num_nodes), -1, np.int64)
    frontier = np.empty((2, num_nodes), np.int32)
    size = np.zeros(2, np.int64)
    clock = np.int64(0)
    for node in range(num_nodes):
        needed = 0
        for k in range(rows_indptr[node], rows_indptr[node + 1]):
            needed = max(needed, horizon[rows[k]])
        if needed == 0:
            continue
        frontier[0, 0] = node
        size[0] = 1
        size[1] = -1
        clock += 2
        seen[0, node] = clock
        power = 1.0
        repeats = False
        for hop in range(1, needed + 1):
            power *= decay
            here = (hop - 1) % 2
            if repeats:
                means[hop] = means[hop - 2]
            else:
                total, weight = 0.0, 0.0
                for i in range(size[here]):
                    total += node_sum[frontier[here, i]]
                    weight += node_count[frontier[here, i]]
                means[hop] = total / weight if weight > 0.0 else 0.0
                there = 1 - here
                clock += 1
                before = size[there]
                known = True
                grown = 0
                for i in range(size[here]):
                    u = frontier[here, i]
                    for e in range(edge_indptr[u], edge_indptr[u + 1]):
                        v = edge_target[e]
                        if v < num_nodes and seen[there, v] != clock:
                            known = known and seen[there, v] == clock - 2
                            seen[there, v] = clock
                            frontier[there, grown] = v
                            grown += 1
                size[there] = grown
                repeats = known and grown == before
            sums[hop] = sums[hop - 1] + power * means[hop]
        for k in range(rows_indptr[node], rows_indptr[node + 1]):
            result[rows[k]] = sums[horizon[rows[k]]]
    return result
