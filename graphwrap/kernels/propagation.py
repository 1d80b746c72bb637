"""How many episodes inform a node: those that visit it, and those whose ends can be reached from it."""

from __future__ import annotations

import numpy as np

from graphwrap._jit import jit
from graphwrap.kernels.bits import lowest_bit
from graphwrap.kernels.components import strongly_connected
from graphwrap.kernels.grouping import BoolArray, Int32Array

WORD = 64
ONE = np.uint64(1)


@jit
def count_ends_ahead(
    indptr: Int32Array, target: Int32Array, blocks: Int32Array, ends: Int32Array
) -> Int32Array:
    """Count, for every node, the episodes whose last step leaves it or a node that can be reached from it.

    All nodes of a strongly connected component reach the same ends. Components without an end of their own that lead
    to one other reach what that reaches. What is left are ends and forks: each end is a bit, 64 of them are followed
    together.

    Args:
        indptr: int32 (M + 1,), edges by the node they leave.
        target: int32 (E,); targets >= M are sinks.
        blocks: int32 (K + 1,): block k is the nodes `blocks[k]:blocks[k + 1]`; no edge leads to another block.
        ends: int32 (M,), number of episodes whose last step leaves the node.

    Returns:
        int32 (M,).
    """
    num_nodes = len(indptr) - 1
    result = np.zeros(num_nodes, np.int32)
    component = np.empty(num_nodes, np.int32)
    nodes = np.arange(num_nodes).astype(np.int32)
    for block in range(len(blocks) - 1):
        members = nodes[blocks[block] : blocks[block + 1]]
        offsets = strongly_connected(members, indptr, target)
        count = len(offsets) - 1
        weight = np.zeros(count, np.int32)
        same_as = np.full(count, -1, np.int32)  # component that reaches the same ends; -1: there are none
        followers = np.empty(indptr[blocks[block + 1]] - indptr[blocks[block]], np.int32)
        begin = np.zeros(count + 1, np.int32)
        noted = np.full(count, -1, np.int32)
        for c in range(count):  # each comes after all those it leads to
            size = begin[c]
            for i in range(offsets[c], offsets[c + 1]):
                component[members[i]] = c
                weight[c] += ends[members[i]]
            for i in range(offsets[c], offsets[c + 1]):
                for e in range(indptr[members[i]], indptr[members[i] + 1]):
                    if target[e] < num_nodes and component[target[e]] != c:
                        follower = same_as[component[target[e]]]
                        if follower >= 0 and noted[follower] != c:
                            noted[follower] = c
                            followers[size] = follower
                            size += 1
            if weight[c] > 0 or size - begin[c] > 1:
                same_as[c] = c
            elif size - begin[c] == 1:
                size = begin[c]
                same_as[c] = followers[size]
            begin[c + 1] = size

        degree = np.zeros(count, np.int32)
        reached = np.empty(count, np.uint64)
        bit_of = np.empty(WORD, np.int32)
        next_end = 0
        while True:
            reached[:] = np.uint64(0)
            bits = 0
            while bits < WORD and next_end < count:
                if weight[next_end] > 0:
                    reached[next_end] = ONE << np.uint64(bits)
                    bit_of[bits] = next_end
                    bits += 1
                next_end += 1
            if bits == 0:
                break
            for c in range(bit_of[0], count):
                word = reached[c]
                for k in range(begin[c], begin[c + 1]):
                    word |= reached[followers[k]]
                reached[c] = word
                while word != np.uint64(0):
                    degree[c] += weight[bit_of[lowest_bit(word)]]
                    word &= word - ONE
        for i in range(len(members)):
            c = same_as[component[members[i]]]
            if c >= 0:
                result[members[i]] = degree[c]
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
