"""Cheapest paths to the goals of all tasks, in one pass."""

from __future__ import annotations

import numpy as np

from graphwrap._jit import jit
from graphwrap.kernels.grouping import BoolArray, FloatArray, Int32Array


@jit
def goal_distances(
    indptr: Int32Array,
    source: Int32Array,
    cost: FloatArray,
    unit_cost: float,
    goal: Int32Array,
    task_offsets: Int32Array,
) -> tuple[FloatArray, BoolArray]:
    """Cost of the cheapest path from every node to the GOAL of its task.

    Breadth-first search in tasks whose costs are all equal, Dijkstra's algorithm with a binary heap in the others.
    Nodes that cannot reach the goal get `d_max + c_max`: the largest finite distance and the largest cost of their
    task (GraphGPO, arXiv 2605.26684, generalised from unit costs).

    Args:
        indptr: int32 (M + 1,), the edges into each node (see `edges_into`).
        source: int32 (N,), the node each of them leaves.
        cost: float64 (N,), positive; empty where every edge costs `unit_cost`.
        unit_cost: used where `cost` is empty.
        goal: int32 (K,), the GOAL node of each task.
        task_offsets: int32 (K + 1,), the nodes of task k are `task_offsets[k]:task_offsets[k + 1]`.

    Returns:
        distance float64 (M,) and reachable bool (M,).
    """
    num_nodes = len(indptr) - 1
    distance = np.full(num_nodes, np.inf)
    reachable = np.zeros(num_nodes, np.bool_)
    queue = np.empty(num_nodes, np.int32)
    heap_capacity = 1
    for task in range(len(goal)):
        edges = indptr[task_offsets[task + 1]] - indptr[task_offsets[task]]
        heap_capacity = max(heap_capacity, edges + 1)
    heap_key = np.empty(0, np.float64)
    heap_node = np.empty(0, np.int32)

    for task in range(len(goal)):
        begin, end = task_offsets[task], task_offsets[task + 1]
        cost_min, cost_max = unit_cost, unit_cost
        if len(cost) > 0:
            cost_min, cost_max = np.inf, 0.0
            for k in range(indptr[begin], indptr[end]):
                cost_min = min(cost_min, cost[k])
                cost_max = max(cost_max, cost[k])
        distance[goal[task]] = 0.0
        farthest = 0.0

        if cost_min >= cost_max:
            queue[0] = goal[task]
            head, tail = 0, 1
            reachable[goal[task]] = True
            depth = np.int64(0)
            level_end = 1
            while head < tail:
                depth += 1
                while head < level_end:
                    node = queue[head]
                    head += 1
                    for k in range(indptr[node], indptr[node + 1]):
                        previous = source[k]
                        if not reachable[previous]:
                            reachable[previous] = True
                            distance[previous] = depth * cost_max
                            farthest = distance[previous]
                            queue[tail] = previous
                            tail += 1
                level_end = tail
        else:
            if len(heap_key) == 0:
                heap_key = np.empty(heap_capacity, np.float64)
                heap_node = np.empty(heap_capacity, np.int32)
            heap_key[0] = 0.0
            heap_node[0] = goal[task]
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
                if reachable[node]:
                    continue
                reachable[node] = True
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

        for node in range(begin, end):
            if not reachable[node]:
                distance[node] = farthest + cost_max
    return distance, reachable
