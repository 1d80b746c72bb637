"""Graph GAE: one-step advantages summed over the hops ahead of a step (GRAFT, arXiv 2609.28963)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from graphwrap._jit import jit
from graphwrap.kernels.bits import lowest_bit
from graphwrap.kernels.grouping import FloatArray, Int32Array

NEGLIGIBLE = 1e-16
"""Weight of all hops left together, relative to the first hop's, from which on they are left out."""

FOURS = 2
"""Times 256 starts: how many frontiers advance together. A bit per start in words of 64, four of them at a time."""

FEW = 512
"""Nodes of a block up to which all are looked at on every hop: finding those behind a change takes longer."""

ONE = np.uint64(1)
LOW = np.uint64(63)


@jit
def hop_sums(
    start: Int32Array,
    horizon: Int32Array,
    order: Int32Array,
    blocks: Int32Array,
    edge_indptr: Int32Array,
    edge_target: Int32Array,
    advantage: FloatArray,
    count: FloatArray,
    decay: float,
) -> FloatArray:
    """Sum over k = 1 .. horizon of decay**k * Abar_k for every row.

    Abar_k is the mean advantage of the edges exactly k hops after the row's step: k = 1 are the edges that leave the
    node it leads to, k = 2 those that leave their targets, and so on. The frontier is a set of nodes; a hop without
    edges contributes 0.

    A node that a single node follows passes the series on: its sum is that of the next row of the same episode, and
    one term more. The frontiers of all other nodes advance together, see `_block_sums`.

    Args:
        start: int32 (N,), node each row leads to; >= M is a sink, whose sum is 0.
        horizon: int32 (N,), steps left in the row's episode after it.
        order: int32 (N,), rows by episode and step: where horizon > 0, the next row is of the same episode and leaves
            the node this row leads to.
        blocks: int32 (K + 1,): block k is the nodes `blocks[k]:blocks[k + 1]`; no edge leads to another block.
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
    branches = np.zeros(num_nodes + 1, np.bool_)  # whether several nodes with edges follow
    for node in range(num_nodes):
        follower = -1
        for e in range(edge_indptr[node], edge_indptr[node + 1]):
            node_sum[node] += count[e] * advantage[e]
            node_count[node] += count[e]
            v = edge_target[e]
            if v < num_nodes and edge_indptr[v] < edge_indptr[v + 1]:
                branches[node] |= follower >= 0 and follower != v
                follower = v

    farthest = 2**31 - 1
    if decay < 1.0:
        farthest = int(np.ceil(np.log(NEGLIGIBLE * (1.0 - decay)) / np.log(decay)))
    result = np.zeros(len(start))
    # The rows that lead to each node whose frontiers must be followed.
    indptr = np.zeros(num_nodes + 1, np.int32)
    for row in range(len(start)):
        if horizon[row] > 0 and branches[min(start[row], num_nodes)]:
            indptr[start[row] + 1] += 1
    for node in range(num_nodes):
        indptr[node + 1] += indptr[node]
    rows = np.empty(indptr[num_nodes], np.int32)
    for row in range(len(start)):
        if horizon[row] > 0 and branches[min(start[row], num_nodes)]:
            rows[indptr[start[row]]] = row
            indptr[start[row]] += 1
    for node in range(num_nodes, 0, -1):
        indptr[node] = indptr[node - 1]
    indptr[0] = 0
    for block in range(len(blocks) - 1):
        begin, end = blocks[block], blocks[block + 1]
        if indptr[begin] < indptr[end]:
            _block_sums(
                begin,
                end,
                indptr,
                rows,
                horizon,
                farthest,
                edge_indptr,
                edge_target,
                node_sum,
                node_count,
                decay,
                result,
            )
    for k in range(len(order) - 1, -1, -1):
        row = order[k]
        if horizon[row] > 0 and start[row] < num_nodes and not branches[start[row]]:
            node = start[row]
            ahead = node_sum[node] / node_count[node] if node_count[node] > 0.0 else 0.0
            if horizon[row] > 1:
                ahead += result[order[k + 1]]
            result[row] = decay * ahead
    return result


@jit
def _block_sums(
    begin: int,
    end: int,
    indptr: Int32Array,
    rows: Int32Array,
    horizon: Int32Array,
    farthest: int,
    edge_indptr: Int32Array,
    edge_target: Int32Array,
    node_sum: FloatArray,
    node_count: FloatArray,
    decay: float,
    result: FloatArray,
) -> None:
    """Fill `result` of the rows of one block.

    Every node keeps a set of bits: the starts that have it in their frontier. A hop is then one union over the edges
    for all starts, and the sum over a frontier changes by the nodes that enter or leave it since two hops ago. Two,
    because walks that can turn back fill their surroundings on every second hop; only nodes behind a change are looked
    at, and when two hops in a row change nothing the means repeat.
    """
    size = end - begin
    # Nodes before each node, each once.
    before_indptr = np.zeros(size + 1, np.int32)
    for e in range(edge_indptr[begin], edge_indptr[end]):
        if begin <= edge_target[e] < end:
            before_indptr[edge_target[e] - begin + 1] += 1
    for v in range(size):
        before_indptr[v + 1] += before_indptr[v]
    before = np.empty(before_indptr[size], np.uint32)
    before_end = before_indptr[:-1].copy()
    for u in range(size):
        for e in range(edge_indptr[begin + u], edge_indptr[begin + u + 1]):
            v = edge_target[e] - begin
            if 0 <= v < size and (before_end[v] == before_indptr[v] or before[before_end[v] - 1] != u):
                before[before_end[v]] = np.uint32(u)
                before_end[v] += 1

    starts = np.empty(size, np.int32)
    number = 0
    for u in range(size):
        if indptr[begin + u] < indptr[begin + u + 1]:
            starts[number] = u
            number += 1
    if number > FOURS * 256:
        _sort_into_patches(starts[:number], begin, end, edge_indptr, edge_target)
    fours = min(FOURS, (number + 255) // 256)
    width = fours * 256
    reach = np.empty((2, size, fours, 4), np.uint64)
    sums = np.empty((2, width, 2))  # of the advantages and the counts in each frontier
    mean = np.empty((2, width))
    running = np.empty(width)
    changed, candidates = np.empty(size, np.int32), np.empty(size, np.int32)
    marked = np.zeros(size, np.bool_)
    for v in range(size):
        candidates[v] = v
    new = np.empty(4, np.uint64)
    for first in range(0, number, width):
        batch = starts[first : min(first + width, number)]
        by_horizon, by_horizon_start, by_horizon_rows = _rows_by_horizon(
            batch, begin, indptr, rows, horizon, farthest
        )
        for parity in range(2):
            for u in range(size):
                for f in range(fours):
                    for w in range(4):
                        reach[parity, u, f, w] = 0
            for i in range(width):
                sums[parity, i, 0] = sums[parity, i, 1] = 0.0
        for i in range(width):
            running[i] = 0.0
        num_changed = len(batch)
        for i in range(len(batch)):
            u = batch[i]
            changed[i] = u
            reach[0, u, i >> 8, (i >> 6) & 3] |= ONE << (np.uint64(i) & LOW)
            sums[0, i, 0] = node_sum[begin + u]
            sums[0, i, 1] = node_count[begin + u]
        quiet = 0  # hops in a row that changed nothing
        power = 1.0
        longest = len(by_horizon) - 2
        for hop in range(1, longest + 1):
            power *= decay
            here, there = (hop - 1) & 1, hop & 1
            if quiet < 2:
                for i in range(len(batch)):
                    count_i = sums[here, i, 1]
                    mean[here, i] = sums[here, i, 0] / count_i if count_i > 0.0 else 0.0
            for i in range(len(batch)):
                running[i] += power * mean[here, i]
            for k in range(by_horizon[hop], by_horizon[hop + 1]):
                result[by_horizon_rows[k]] = running[by_horizon_start[k]]
            if hop == longest or quiet >= 2:
                continue
            num_candidates = size
            if size > FEW:
                num_candidates = 0
                if hop == 2:  # the starts have entered without a step
                    for u in batch:
                        marked[u] = True
                        candidates[num_candidates] = u
                        num_candidates += 1
                for c in range(num_changed):
                    u = begin + changed[c]
                    for e in range(edge_indptr[u], edge_indptr[u + 1]):
                        v = edge_target[e] - begin
                        if 0 <= v < size and not marked[v]:
                            marked[v] = True
                            candidates[num_candidates] = v
                            num_candidates += 1
            num_changed = 0
            for which in range(num_candidates):
                v = candidates[which]
                marked[v] = False
                sum_v, count_v = node_sum[begin + v], node_count[begin + v]
                differs = False
                for f in range(fours):
                    a = b = c = d = np.uint64(0)
                    for k in range(before_indptr[v], before_end[v]):
                        u = before[k]
                        a |= reach[here, u, f, 0]
                        b |= reach[here, u, f, 1]
                        c |= reach[here, u, f, 2]
                        d |= reach[here, u, f, 3]
                    new[0], new[1], new[2], new[3] = a, b, c, d
                    for w in range(4):
                        change = new[w] ^ reach[there, v, f, w]
                        if change == 0:
                            continue
                        differs = True
                        entered, gone = change & new[w], change & ~new[w]
                        reach[there, v, f, w] = new[w]
                        first_bit = (f << 8) + (w << 6)
                        while entered != 0:
                            i = first_bit + lowest_bit(entered)
                            entered &= entered - ONE
                            sums[there, i, 0] += sum_v
                            sums[there, i, 1] += count_v
                        while gone != 0:
                            i = first_bit + lowest_bit(gone)
                            gone &= gone - ONE
                            sums[there, i, 0] -= sum_v
                            sums[there, i, 1] -= count_v
                if differs:
                    changed[num_changed] = v
                    num_changed += 1
            quiet = quiet + 1 if num_changed == 0 else 0


@jit
def _sort_into_patches(
    starts: Int32Array, begin: int, end: int, edge_indptr: Int32Array, edge_target: Int32Array
) -> None:
    """Bring starts near each other into the same words, so that their frontiers pass a node at about the same hop.

    Breadth-first search, begun anew at its own rim whenever a word is full.
    """
    size = end - begin
    is_start, taken = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    for u in starts:
        is_start[u] = True
    queued = np.full(size, -1, np.int32)  # the last patch a node was queued for
    queue = np.empty(size, np.int32)
    number, patch, root, scanned = 0, 0, 0, 0
    while number < len(starts):
        if taken[root]:
            root = scanned
            scanned += 1
            continue
        queue[0] = root
        queued[root] = patch
        head, tail, full = 0, 1, number + 64
        while head < tail and number < full:
            u = queue[head]
            head += 1
            taken[u] = True
            if is_start[u]:
                starts[number] = u
                number += 1
            for e in range(edge_indptr[begin + u], edge_indptr[begin + u + 1]):
                v = edge_target[e] - begin
                if 0 <= v < size and not taken[v] and queued[v] != patch:
                    queued[v] = patch
                    queue[tail] = v
                    tail += 1
        patch += 1
        if head < tail:
            root = queue[head]


@jit
def _rows_by_horizon(
    batch: Int32Array, begin: int, indptr: Int32Array, rows: Int32Array, horizon: Int32Array, farthest: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Sort the rows that lead to the nodes of a batch by horizon (at most `farthest`).

    Returns indptr int32 (longest + 2,), and of each row the position of its node in the batch and its number.
    """
    longest = 0
    number = 0
    for u in batch:
        for k in range(indptr[begin + u], indptr[begin + u + 1]):
            longest = max(longest, min(horizon[rows[k]], farthest))
            number += 1
    offsets = np.zeros(longest + 2, np.int32)
    for u in batch:
        for k in range(indptr[begin + u], indptr[begin + u + 1]):
            offsets[min(horizon[rows[k]], farthest) + 1] += 1
    for h in range(longest + 1):
        offsets[h + 1] += offsets[h]
    position, sorted_rows = np.empty(number, np.int32), np.empty(number, np.int32)
    cursor = offsets.copy()
    for i in range(len(batch)):
        for k in range(indptr[begin + batch[i]], indptr[begin + batch[i] + 1]):
            h = min(horizon[rows[k]], farthest)
            position[cursor[h]] = i
            sorted_rows[cursor[h]] = rows[k]
            cursor[h] += 1
    return offsets, position, sorted_rows
