"""How many episodes inform a node: those that visit it, and those whose ends can be reached from it."""

from __future__ import annotations

import numpy as np

from graphwrap._jit import jit
from graphwrap.kernels.bits import count_bits
from graphwrap.kernels.components import strongly_connected
from graphwrap.kernels.grouping import BoolArray, Int32Array

WORD = 64  # episodes that are followed together, a bit each


@jit
def count_ends_ahead(
    indptr: Int32Array,
    target: Int32Array,
    blocks: Int32Array,
    episodes: tuple[Int32Array, Int32Array],
    end: Int32Array,
    counts: BoolArray,
) -> Int32Array:
    """Count, for every node, the episodes whose last step leaves it or a node that can be reached from it.

    Args:
        indptr: int32 (M + 1,), edges by the node they leave.
        target: int32 (E,); targets >= M are sinks.
        blocks: int32 (K + 1,): block k is the nodes `blocks[k]:blocks[k + 1]`; no edge leads to another block.
        episodes: the episodes of each block, in CSR form: int32 (K + 1,) and int32 (number of episodes,).
        end: int32 (number of episodes,), the node that the last step of each leaves.
        counts: bool (number of episodes,), False for those to leave out.

    Returns:
        int32 (M,).
    """
    num_nodes = len(indptr) - 1
    result = np.zeros(num_nodes, np.int32)
    component = np.empty(num_nodes, np.int32)
    reached = np.empty(num_nodes, np.uint64)  # by component
    nodes = np.arange(num_nodes).astype(np.int32)
    of_block, of_episodes = episodes
    for block in range(len(blocks) - 1):
        members = nodes[blocks[block] : blocks[block + 1]]
        offsets = strongly_connected(members, indptr, target)
        for c in range(len(offsets) - 1):
            for i in range(offsets[c], offsets[c + 1]):
                component[members[i]] = c
        first = of_block[block]
        while first < of_block[block + 1]:
            reached[: len(offsets) - 1] = np.uint64(0)
            bits = 0
            while bits < WORD and first < of_block[block + 1]:
                episode = of_episodes[first]
                if counts[episode]:
                    reached[component[end[episode]]] |= np.uint64(1) << np.uint64(bits)
                    bits += 1
                first += 1
            for c in range(len(offsets) - 1):  # each comes after all those it leads to
                word = reached[c]
                for i in range(offsets[c], offsets[c + 1]):
                    for e in range(indptr[members[i]], indptr[members[i] + 1]):
                        if target[e] < num_nodes:
                            word |= reached[component[target[e]]]
                reached[c] = word
                for i in range(offsets[c], offsets[c + 1]):
                    result[members[i]] += count_bits(word)
    return result


@jit
def count_visitors(
    indptr: Int32Array, rows: Int32Array, episode: Int32Array, counts: BoolArray
) -> Int32Array:
    """Count, for every node, the episodes with a step that leaves it.

    Args:
        indptr: int32 (M + 1,), with `rows` the rows that leave each node (CSR).
        rows: int32 (N,).
        episode: int32 (N,), episode of each row.
        counts: bool (number of episodes,), False for those to leave out.

    Returns:
        int32 (M,).
    """
    result = np.zeros(len(indptr) - 1, np.int32)
    seen_at = np.full(len(counts), -1, np.int32)
    for node in range(len(indptr) - 1):
        for k in range(indptr[node], indptr[node + 1]):
            visitor = episode[rows[k]]
            if counts[visitor] and seen_at[visitor] != node:
                seen_at[visitor] = node
                result[node] += 1
    return result
