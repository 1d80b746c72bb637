"""Cheapest paths to the goals of all tasks, in one pass."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from graphwrap._jit import jit
from graphwrap.kernels.grouping import BoolArray, FloatArray, Int32Array

UInt32Array = npt.NDArray[np.uint32]


@jit
def goal_distances(
    source: Int32Array,
    target: Int32Array,
    cost: FloatArray,
    unit_cost: float,
    order: Int32Array,
    episode_offsets: npt.NDArray[np.int64],
    task_episodes: tuple[Int32Array, Int32Array],
    task_offsets: Int32Array,
) -> tuple[FloatArray, BoolArray]:
    """Cost of the cheapest path from every node to the GOAL of its task, the task's first node.

    Task by task, so that what is read and written at random stays in the fastest memory: the edges by the node they
    lead to (CSR), then breadth-first search where all costs of the task are equal, Dijkstra's algorithm with a heap
    where they are not. Nodes that cannot reach the goal get `d_max + c_max`: the largest finite distance and the
    largest cost of their task (GraphGPO, arXiv 2605.26684, generalised from unit costs).

    Args:
        source: int32 (N,), node each row leaves.
        target: int32 (N,), node each row leads to.
        cost: float64 (N,), positive; empty where every edge costs `unit_cost`.
        unit_cost: used where `cost` is empty.
        order: int32 (N,), rows by episode and step.
        episode_offsets: int64 (E + 1,).
        task_episodes: int32 (K + 1,) and (E,), the episodes of each task (CSR).
        task_offsets: int32 (K + 1,), the nodes of task k are `task_offsets[k]:task_offsets[k + 1]`.

    Returns:
        distance float64 (M,) and reachable bool (M,).
    """
    task_start, episodes = task_episodes
    num_tasks = len(task_offsets) - 1
    most_nodes, most_rows = 0, 0
    for task in range(num_tasks):
        num_rows = 0
        for e in range(task_start[task], task_start[task + 1]):
            num_rows += episode_offsets[episodes[e] + 1] - episode_offsets[episodes[e]]
        most_rows = max(most_rows, num_rows)
        most_nodes = max(most_nodes, task_offsets[task + 1] - task_offsets[task])
    distance = np.empty(task_offsets[num_tasks])
    reachable = np.empty(task_offsets[num_tasks], np.bool_)
    # Unsigned, since Numba adds a test for counting from the end to every use of a signed index.
    indptr = np.empty(most_nodes + 1, np.uint32)
    sources = np.empty(most_rows, np.uint32)
    row_source, row_target = np.empty(most_rows, np.uint32), np.empty(most_rows, np.uint32)
    found = np.empty(most_nodes + 1, np.uint32)
    with_cost = len(cost) > 0
    costs = np.empty(most_rows if with_cost else 0)
    row_cost = np.empty(most_rows if with_cost else 0)
    heap_key = np.empty(most_rows + 1 if with_cost else 0)
    heap_node = np.empty(most_rows + 1 if with_cost else 0, np.uint32)

    for task in range(num_tasks):
        begin, end = task_offsets[task], task_offsets[task + 1]
        # indptr[v + 1] counts, then is where the next edge into v goes, and so ends up as the end of v's edges.
        indptr[: end - begin + 1] = 0
        cost_min, cost_max = unit_cost, unit_cost
        if with_cost:
            cost_min, cost_max = np.inf, 0.0
        number = 0
        for e in range(task_start[task], task_start[task + 1]):
            episode = episodes[e]
            for k in range(episode_offsets[episode], episode_offsets[episode + 1]):
                row = np.uint32(order[k])
                v = np.uint32(target[row] - begin + 1)
                row_target[number] = v
                row_source[number] = source[row] - begin
                indptr[v] += np.uint32(1)
                if with_cost:
                    row_cost[number] = cost[row]
                    cost_min = min(cost_min, cost[row])
                    cost_max = max(cost_max, cost[row])
                number += 1
        total = 0
        for v in range(1, end - begin + 1):
            into = indptr[v]
            indptr[v] = total
            total += into
        for i in range(number):
            v = row_target[i]
            place = indptr[v]
            indptr[v] = place + 1
            sources[place] = row_source[i]
            if with_cost:
                costs[place] = row_cost[i]

        nearest, seen = distance[begin:end], reachable[begin:end]
        seen[:] = False
        if cost_min >= cost_max:
            farthest = _by_breadth(indptr, sources, cost_max, nearest, seen, found)
        else:
            farthest = _by_cost(indptr, sources, costs, nearest, seen, heap_key, heap_node)
        for v in range(end - begin):
            if not seen[v]:
                nearest[v] = farthest + cost_max
    return distance, reachable


@jit
def _by_breadth(
    indptr: UInt32Array,
    source: UInt32Array,
    cost: float,
    distance: FloatArray,
    seen: BoolArray,
    found: UInt32Array,
) -> float:
    """Breadth-first search backwards from node 0; returns the largest distance."""
    found[0] = 0
    seen[0] = True
    head, tail, depth = 0, 1, 0
    while True:
        level_end = tail
        while head < level_end:
            node = found[head]
            head += 1
            distance[node] = depth * cost
            for k in range(indptr[node], indptr[node + 1]):
                # Without branches, since no processor could guess them: what is found again is overwritten.
                previous = source[k]
                found[tail] = previous
                tail += not seen[previous]
                seen[previous] = True
        if head == tail:
            return depth * cost
        depth += 1


@jit
def _by_cost(
    indptr: UInt32Array,
    source: UInt32Array,
    cost: FloatArray,
    distance: FloatArray,
    seen: BoolArray,
    heap_key: FloatArray,
    heap_node: UInt32Array,
) -> float:
    """Dijkstra's algorithm backwards from node 0; returns the largest distance."""
    distance[:] = np.inf
    distance[0] = farthest = 0.0
    heap_key[0] = 0.0
    heap_node[0] = 0
    size = 1
    while size > 0:
        key, node = heap_key[0], heap_node[0]
        size -= 1
        last_key, last_node = heap_key[size], heap_node[size]
        at = 0
        while True:
            child = 2 * at + 1
            if child >= size:
                break
            if child + 1 < size and heap_key[child + 1] < heap_key[child]:
                child += 1
            if heap_key[child] >= last_key:
                break
            heap_key[at], heap_node[at] = heap_key[child], heap_node[child]
            at = child
        heap_key[at], heap_node[at] = last_key, last_node
        if seen[node]:
            continue
        seen[node] = True
        farthest = key
        for k in range(indptr[node], indptr[node + 1]):
            previous = source[k]
            candidate = key + cost[k]
            if candidate < distance[previous]:
                distance[previous] = candidate
                at = size
                size += 1
                while at > 0 and heap_key[(at - 1) // 2] > candidate:
                    parent = (at - 1) // 2
                    heap_key[at], heap_node[at] = heap_key[parent], heap_node[parent]
                    at = parent
                heap_key[at], heap_node[at] = candidate, previous
    return farthest
