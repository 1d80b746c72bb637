"""Sparse solver of V = b + gamma P V over the strongly connected components of P."""

from __future__ import annotations

import numpy as np

from graphwrap._jit import jit
from graphwrap.kernels.grouping import FloatArray, Int32Array

TOLERANCE = 1e-12
"""Distance from the fixed point, relative to the largest value of the component."""


@jit
def solve_by_components(
    indptr: Int32Array,
    target: Int32Array,
    weight: FloatArray,
    gain: FloatArray,
    gamma: float,
    value: FloatArray,
) -> None:
    """Fill `value` with the fixed point of V(u) = sum over u's edges of (gain + gamma * weight * V(target)).

    Tarjan's algorithm finishes a strongly connected component only after all components it leads to, so that each
    is solved once, with what it leads to already known. A component of several nodes is a diagonally dominant linear
    system: banded elimination where its band is narrow (walks in a space of low dimension), Gauss-Seidel sweeps,
    last node of the search first, where it is not.

    Args:
        indptr: int32 (M + 1,), edges by the node they leave.
        target: int32 (E,); targets >= M are sinks.
        weight: float64 (E,), sums to at most 1 per node.
        gain: float64 (E,).
        gamma: 0 <= gamma < 1.
        value: float64 (at least M,): read where a node has no edges or is a sink, written elsewhere.
    """
    num_nodes = len(indptr) - 1
    found = np.full(num_nodes, -1, np.int64)  # order of discovery
    low = np.zeros(num_nodes, np.int64)
    on_stack = np.zeros(num_nodes, np.bool_)
    stack = np.empty(num_nodes, np.int32)
    path = np.empty(num_nodes, np.int32)
    next_edge = indptr[:-1].copy()
    place = np.full(num_nodes, -1, np.int32)  # position within the component being solved
    clock, height = 0, 0
    # Sweeps that shrink an error of 1 to the tolerance, each by gamma.
    sweeps = 1.0 if gamma <= 0.0 else np.ceil(np.log(TOLERANCE * (1.0 - gamma)) / np.log(gamma)) + 1.0

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
            if next_edge[node] < indptr[node + 1]:
                successor = target[next_edge[node]]
                next_edge[node] += 1
                if successor >= num_nodes:
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
            if low[node] != found[node]:
                continue

            begin = height - 1
            while stack[begin] != node:
                begin -= 1
            size = height - begin
            for k in range(begin, height):
                on_stack[stack[k]] = False
            if size == 1:
                if indptr[node] < indptr[node + 1]:
                    known, self_weight = 0.0, 0.0
                    for e in range(indptr[node], indptr[node + 1]):
                        known += gain[e]
                        if target[e] == node:
                            self_weight += weight[e]
                        else:
                            known += gamma * weight[e] * value[target[e]]
                    value[node] = known / (1.0 - gamma * self_weight)
            else:
                members = _by_breadth(stack[begin:height], indptr, target, place)
                band, inner_edges = 0, 0
                for i in range(size):
                    for e in range(indptr[members[i]], indptr[members[i] + 1]):
                        if target[e] < num_nodes and place[target[e]] >= 0:
                            band = max(band, abs(place[target[e]] - i))
                            inner_edges += 1
                if float(size) * band * band <= sweeps * inner_edges:
                    _eliminate(members, band, indptr, target, weight, gain, gamma, place, value)
                else:
                    _sweep(members, indptr, target, weight, gain, gamma, value)
                for i in range(size):
                    place[members[i]] = -1
            height = begin


@jit
def _by_breadth(
    component: Int32Array, indptr: Int32Array, target: Int32Array, place: Int32Array
) -> Int32Array:
    """Order a component breadth-first along its edges, from a node at its rim; fills `place`.

    Neighbours come close to each other (Cuthill and McKee), which keeps the band of the system narrow.
    """
    size = len(component)
    order = np.empty(size, np.int32)
    start = component[size - 1]
    for attempt in range(2):
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
        if attempt == 0:
            start = order[size - 1]
    return order


@jit
def _eliminate(
    members: Int32Array,
    band: int,
    indptr: Int32Array,
    target: Int32Array,
    weight: FloatArray,
    gain: FloatArray,
    gamma: float,
    place: Int32Array,
    value: FloatArray,
) -> None:
    """Gaussian elimination in a band; I - gamma P is diagonally dominant, so no pivoting is needed."""
    size = len(members)
    matrix = np.zeros((size, 2 * band + 1))
    right = np.zeros(size)
    for i in range(size):
        matrix[i, band] = 1.0
        for e in range(indptr[members[i]], indptr[members[i] + 1]):
            right[i] += gain[e]
            if target[e] < len(place) and place[target[e]] >= 0:
                matrix[i, band + place[target[e]] - i] -= gamma * weight[e]
            else:
                right[i] += gamma * weight[e] * value[target[e]]
    for i in range(size):
        reach = min(band, size - 1 - i)
        for below in range(i + 1, i + reach + 1):
            factor = matrix[below, band + i - below]
            if factor != 0.0:
                factor /= matrix[i, band]
                shift = band - below
                for j in range(i + 1, i + reach + 1):
                    matrix[below, shift + j] -= factor * matrix[i, band + j - i]
                right[below] -= factor * right[i]
    for i in range(size - 1, -1, -1):
        total = right[i]
        for j in range(i + 1, min(i + band, size - 1) + 1):
            total -= matrix[i, band + j - i] * value[members[j]]
        value[members[i]] = total / matrix[i, band]


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
        for i in range(len(members) - 1, -1, -1):
            node = members[i]
            known, self_weight = 0.0, 0.0
            for e in range(indptr[node], indptr[node + 1]):
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
