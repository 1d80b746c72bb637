"""Sparse solver of V = b + gamma P V: small blocks whole, large ones by their strongly connected components."""

from __future__ import annotations

import numpy as np

from graphwrap._jit import jit
from graphwrap.kernels.elimination import BUCKETS, LOW, ONE, SMALL, eliminate
from graphwrap.kernels.grouping import FloatArray, Int32Array

TOLERANCE = 1e-12
"""Distance from the fixed point, relative to the largest value of the component."""

MOST_STORED = 8_000_000
"""Most coefficients an elimination in an envelope may store (64 MB); beyond it the component is swept."""


def solve_by_components(
    indptr: Int32Array,
    target: Int32Array,
    weight: FloatArray,
    gain: FloatArray,
    gamma: float,
    blocks: Int32Array,
    value: FloatArray,
) -> None:
    """Fill `value` with the fixed point of V(u) = sum over u's edges of (gain + gamma * weight * V(target)).

    A block of few nodes is one sparse system. A large one is taken apart into its strongly connected components, each
    solved after all those it leads to: sparse elimination where it is small, elimination in an envelope where that is
    narrow (walks in a space of low dimension), Gauss-Seidel sweeps where it is not.

    Args:
        indptr: int32 (M + 1,), edges by the node they leave.
        target: int32 (E,); targets >= M are sinks.
        weight: float64 (E,), not negative, sums to at most 1 per node.
        gain: float64 (E,), or empty: all 0.
        gamma: 0 <= gamma < 1.
        blocks: int32 (K + 1,): block k is the nodes `blocks[k]:blocks[k + 1]`; no edge leads to another block.
        value: float64 (at least M,): read where a node has no edges or is a sink, written elsewhere.
    """
    sizes = np.diff(blocks)
    most = int(np.minimum(sizes, SMALL).max(initial=0))
    words = (most + 63) // 64
    place = np.full(len(indptr) - 1, -1, np.int32)  # position of a node within the system being solved
    system = (
        np.zeros((most, most)),
        np.zeros((most, words), np.uint64),
        np.zeros((most, words), np.uint64),
        np.empty(most),
        np.empty((4, max(most, BUCKETS)), np.int32),
        np.empty(most),
    )
    nodes = np.arange(len(indptr) - 1, dtype=np.int32)
    _solve_small_blocks(blocks, nodes, indptr, target, weight, gain, gamma, place, value, system)
    # A function of its own, since most batches have no large task and need not wait for its compilation.
    for block in np.flatnonzero(sizes > SMALL):
        members = nodes[blocks[block] : blocks[block + 1]]
        _solve_large_block(members, indptr, target, weight, gain, gamma, place, value, system)


@jit
def _solve_small_blocks(  # type: ignore[no-untyped-def]
    blocks, nodes, indptr, target, weight, gain, gamma, place, value, system
):
    for block in range(len(blocks) - 1):
        if blocks[block + 1] - blocks[block] <= SMALL:
            members = nodes[blocks[block] : blocks[block + 1]]
            _solve_small(members, indptr, target, weight, gain, gamma, place, value, system)


@jit
def _solve_large_block(  # type: ignore[no-untyped-def]
    nodes, indptr, target, weight, gain, gamma, place, value, system
):
    offsets = strongly_connected(nodes, indptr, target)
    for c in range(len(offsets) - 1):
        members = nodes[offsets[c] : offsets[c + 1]]
        if len(members) <= SMALL:
            _solve_small(members, indptr, target, weight, gain, gamma, place, value, system)
            continue
        members = _by_breadth(members, indptr, target, place)
        if not _eliminate_envelope(members, indptr, target, weight, gain, gamma, place, value):
            _sweep(members, indptr, target, weight, gain, gamma, value)
        for i in range(len(members)):
            place[members[i]] = -1


@jit
def _solve_small(  # type: ignore[no-untyped-def]
    members, indptr, target, weight, gain, gamma, place, value, system
):
    """Solve for `members`, at most SMALL nodes; whatever else they lead to is known."""
    matrix, after, before, right, work, values = system
    size = len(members)
    with_gain = len(gain) > 0
    for i in range(size):
        place[members[i]] = i
    for i in range(size):
        node = np.uint32(members[i])
        known = 0.0
        i_word, i_bit = i >> 6, ONE << (np.uint64(i) & LOW)
        for e in range(indptr[node], indptr[node + 1]):
            if with_gain:
                known += gain[e]
            v = np.uint32(target[e])
            if v < len(place) and place[v] >= 0 and indptr[v] < indptr[v + 1]:
                # Unsigned, since Numba tests every signed index for counting from the end.
                j = np.uint32(place[v])
                matrix[i, j] += gamma * weight[e]
                after[i, j >> np.uint32(6)] |= ONE << (np.uint64(j) & LOW)
                before[j, i_word] |= i_bit
            else:
                known += gamma * weight[e] * value[v]
        right[i] = known
    eliminate(size, (size + 63) // 64, matrix, after, before, right, work, values)
    for i in range(size):
        place[members[i]] = -1
        if indptr[members[i]] < indptr[members[i] + 1]:
            value[members[i]] = right[i]


@jit
def strongly_connected(nodes: Int32Array, indptr: Int32Array, target: Int32Array) -> Int32Array:
    """Reorder `nodes`, a contiguous range, by strongly connected component, each after all those it leads to.

    Tarjan's algorithm, without recursion. Returns int32 (C + 1,): component c is
    `nodes[offsets[c]:offsets[c + 1]]`, the last node of the search first.
    """
    num_nodes = len(nodes)
    base = nodes[0]
    found = np.full(num_nodes, -1, np.int32)  # order of discovery
    low = np.zeros(num_nodes, np.int32)
    on_stack = np.zeros(num_nodes, np.bool_)
    stack = np.empty(num_nodes, np.int32)
    path = np.empty(num_nodes, np.int32)
    next_edge = indptr[base : base + num_nodes].copy()
    offsets = np.zeros(num_nodes + 1, np.int32)
    clock, height, done, count = 0, 0, 0, 0
    for root in range(num_nodes):
        if found[root] >= 0:
            continue
        depth = 0
        path[0] = root
        found[root] = low[root] = clock
        clock += 1
        stack[height] = root
        height += 1
        on_stack[root] = True
        while depth >= 0:
            node = path[depth]
            if next_edge[node] < indptr[base + node + 1]:
                successor = target[next_edge[node]] - base
                next_edge[node] += 1
                if successor >= num_nodes:  # a sink
                    continue
                if found[successor] < 0:
                    found[successor] = low[successor] = clock
                    clock += 1
                    stack[height] = successor
                    height += 1
                    on_stack[successor] = True
                    depth += 1
                    path[depth] = successor
                elif on_stack[successor]:
                    low[node] = min(low[node], found[successor])
                continue
            depth -= 1
            if depth >= 0:
                low[path[depth]] = min(low[path[depth]], low[node])
            if low[node] == found[node]:
                last = -1
                while last != node:
                    height -= 1
                    last = stack[height]
                    on_stack[last] = False
                    nodes[done] = base + last
                    done += 1
                count += 1
                offsets[count] = done
    return offsets[: count + 1].copy()


@jit
def _by_breadth(
    component: Int32Array, indptr: Int32Array, target: Int32Array, place: Int32Array
) -> Int32Array:
    """Order a component breadth-first along its edges, from a node at its rim, and backwards; fills `place`.

    Neighbours come close to each other (Cuthill and McKee), which keeps the envelope of the system narrow.
    """
    size = len(component)
    order = np.empty(size, np.int32)
    start = component[0]
    for _ in range(2):
        for i in range(size):
            place[component[i]] = -2  # in the component, not yet placed
        order[0] = start
        place[start] = 0
        head, tail = 0, 1
        while head < tail:
            node = order[head]
            head += 1
            for e in range(indptr[node], indptr[node + 1]):
                if target[e] < len(place) and place[target[e]] == -2:
                    place[target[e]] = tail
                    order[tail] = target[e]
                    tail += 1
        start = order[size - 1]
    order = order[::-1].copy()
    for i in range(size):
        place[order[i]] = i
    return order


@jit
def _eliminate_envelope(
    members: Int32Array,
    indptr: Int32Array,
    target: Int32Array,
    weight: FloatArray,
    gain: FloatArray,
    gamma: float,
    place: Int32Array,
    value: FloatArray,
) -> bool:
    """Gaussian elimination row by row, between the first and the last column a row can come to have.

    I - gamma P is diagonally dominant, so no pivoting is needed. Returns False, and does nothing, where it would be
    slower than the sweeps or would store too much.
    """
    size = len(members)
    left = np.empty(size, np.int32)
    end = np.empty(size, np.int64)  # end of each row in `upper`
    stored, steps, inner = 0, 0.0, 0
    reach = 0
    for i in range(size):
        left[i] = i
        for e in range(indptr[members[i]], indptr[members[i] + 1]):
            if target[e] < len(place) and place[target[e]] >= 0:
                left[i] = min(left[i], place[target[e]])
                reach = max(reach, place[target[e]])
                inner += 1
        stored += max(reach - i, 0)
        steps += float(i - left[i]) * max(reach - i, 0)
        end[i] = stored
    # Sweeps that shrink an error of 1 to the tolerance, each by gamma.
    sweeps = 1.0 if gamma <= 0.0 else np.ceil(np.log(TOLERANCE * (1.0 - gamma)) / np.log(gamma)) + 1.0
    if stored > MOST_STORED or steps > sweeps * inner:
        return False
    upper = np.empty(stored)
    pivot = np.empty(size)
    right = np.empty(size)
    row = np.zeros(size)
    begin = 0
    for i in range(size):
        node = members[i]
        known = 0.0
        row[i] = 1.0
        for e in range(indptr[node], indptr[node + 1]):
            if len(gain) > 0:
                known += gain[e]
            if target[e] < len(place) and place[target[e]] >= 0:
                row[place[target[e]]] -= gamma * weight[e]
            else:
                known += gamma * weight[e] * value[target[e]]
        for k in range(left[i], i):
            factor = row[k]
            if factor != 0.0:
                row[k] = 0.0
                factor /= pivot[k]
                known -= factor * right[k]
                first = end[k - 1] if k > 0 else 0
                for j in range(end[k] - first):
                    row[k + 1 + j] -= factor * upper[first + j]
        pivot[i] = row[i]
        right[i] = known
        row[i] = 0.0
        for j in range(end[i] - begin):
            upper[begin + j] = row[i + 1 + j]
            row[i + 1 + j] = 0.0
        begin = end[i]
    for i in range(size - 1, -1, -1):
        total = right[i]
        first = end[i - 1] if i > 0 else 0
        for j in range(end[i] - first):
            total -= upper[first + j] * value[members[i + 1 + j]]
        value[members[i]] = total / pivot[i]
    return True


@jit
def _sweep(
    members: Int32Array,
    indptr: Int32Array,
    target: Int32Array,
    weight: FloatArray,
    gain: FloatArray,
    gamma: float,
    value: FloatArray,
) -> None:
    """Gauss-Seidel sweeps until the fixed point is within the tolerance."""
    for i in range(len(members)):
        value[members[i]] = 0.0
    while True:
        change, largest = 0.0, 0.0
        for i in range(len(members)):
            node = members[i]
            known, self_weight = 0.0, 0.0
            for e in range(indptr[node], indptr[node + 1]):
                if len(gain) > 0:
                    known += gain[e]
                if target[e] == node:
                    self_weight += weight[e]
                else:
                    known += gamma * weight[e] * value[target[e]]
            new = known / (1.0 - gamma * self_weight)
            change = max(change, abs(new - value[node]))
            largest = max(largest, abs(new))
            value[node] = new
        # Rounding moves the last digit of a value for ever; the error can't be told below that.
        if change * gamma / (1.0 - gamma) <= TOLERANCE * largest or change <= 4e-16 * largest:
            return
