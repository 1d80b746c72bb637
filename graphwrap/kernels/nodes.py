"""Numbering the nodes of all tasks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from graphwrap._jit import jit
from graphwrap.kernels.grouping import BoolArray, Int32Array

GOAL_STATE = -1
"""State id of a GOAL node: it is never an observation, so no observation can collide with it."""


@jit
def number_nodes(
    state: Int32Array,
    next_state: Int32Array,
    order: Int32Array,
    episode_offsets: npt.NDArray[np.int64],
    task_episodes: tuple[Int32Array, Int32Array],
    succeeded: BoolArray,
    node_of_state: Int32Array,
    source: Int32Array,
    target: Int32Array,
    node_state: Int32Array,
) -> Int32Array:
    """Number the (task, state) pairs task by task, GOAL first and then by first appearance.

    Args:
        state: int32 (N,).
        next_state: int32 (N,).
        order: int32 (N,), rows by episode and step.
        episode_offsets: int64 (E + 1,).
        task_episodes: int32 (K + 1,) and (E,), the episodes of each task (CSR).
        succeeded: bool (E,), the episodes whose last step leads to GOAL.
        node_of_state: int32, an entry per state, all -1; any content afterwards.
        source: int32 (N,), written: the node each row leaves.
        target: int32 (N,), written: the node each row leads to.
        node_state: int32 (N + E + K + 1,), written: the state of each node (a chain of n steps visits n + 1).

    Returns:
        int32 (K + 1,): task k owns the nodes `offsets[k]:offsets[k + 1]`.
    """
    task_start, episodes = task_episodes
    num_tasks = len(task_start) - 1
    task_offsets = np.zeros(num_tasks + 1, np.int32)
    count = 0
    for task in range(num_tasks):
        begin = count
        task_offsets[task] = begin
        node_state[count] = GOAL_STATE
        count += 1
        for e in range(task_start[task], task_start[task + 1]):
            episode = episodes[e]
            first, last = episode_offsets[episode], episode_offsets[episode + 1] - 1
            # Unsigned, since Numba adds a test for counting from the end to every use of a signed index.
            visited = np.uint32(state[order[first]])
            # Without branches, since no processor could guess them. An entry below `begin` was left by another task.
            is_new = node_of_state[visited] < begin
            node = count if is_new else node_of_state[visited]
            node_state[np.uint32(count)] = visited
            count += is_new
            node_of_state[visited] = node
            for k in range(first, last + 1):
                row = np.uint32(order[k])
                source[row] = node
                if k == last and succeeded[episode]:
                    target[row] = begin
                    break
                visited = np.uint32(next_state[row])
                is_new = node_of_state[visited] < begin
                node = count if is_new else node_of_state[visited]
                node_state[np.uint32(count)] = visited
                count += is_new
                node_of_state[visited] = node
                target[row] = node
    task_offsets[num_tasks] = count
    return task_offsets
