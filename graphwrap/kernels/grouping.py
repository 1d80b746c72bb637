"""Grouping rows by integer ids: dense ids of pairs, and compressed rows (CSR)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from graphwrap._jit import jit

Int32Array = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@jit
def rows_by_key(key: Int32Array, num_keys: int) -> tuple[Int32Array, Int32Array]:
    """Group row numbers by key, in CSR form (a stable counting sort).

    Args:
        key: int32 (N,) in [0, num_keys).
        num_keys: number of keys.

    Returns:
        indptr int32 (num_keys + 1,) and rows int32 (N,): the rows of key k are
        `rows[indptr[k]:indptr[k + 1]]`, ascending.
    """
    n = len(key)
    indptr = np.zeros(num_keys + 1, np.int32)
    for i in range(n):
        indptr[key[i] + 1] += 1
    for k in range(num_keys):
        indptr[k + 1] += indptr[k]
    cursor = indptr[:-1].copy()
    rows = np.empty(n, np.int32)
    for i in range(n):
        k = key[i]
        rows[cursor[k]] = i
        cursor[k] += 1
    return indptr, rows


@jit
def ids_within(
    indptr: Int32Array, rows: Int32Array, first: Int32Array, second: Int32Array
) -> tuple[Int32Array, Int32Array]:
    """Number the distinct triples (group, first, second), group by group, by first appearance.

    A small hash table per group, so that the cost is linear whatever the sizes of the groups, and the memory it
    touches stays within one group.

    Args:
        indptr: int32 (G + 1,), with `rows` the rows of each group (CSR).
        rows: int32 (N,).
        first: int32 (N,), any values.
        second: int32 (N,), any values.

    Returns:
        ids int32 (N,), equal where the triples are equal, and offsets int32 (G + 1,): the ids of group g are
        `offsets[g]:offsets[g + 1]`.
    """
    num_groups = len(indptr) - 1
    largest = 0
    for group in range(num_groups):
        largest = max(largest, indptr[group + 1] - indptr[group])
    capacity = 2
    while capacity < 2 * largest:
        capacity *= 2
    slots = np.empty(capacity, np.int32)  # a row that holds the triple of this slot
    ids = np.empty(len(rows), np.int32)
    offsets = np.zeros(num_groups + 1, np.int32)
    count = 0
    for group in range(num_groups):
        begin, end = indptr[group], indptr[group + 1]
        size = 2
        while size < 2 * (end - begin):
            size *= 2
        mask = np.uint64(size - 1)
        slots[:size] = -1
        for k in range(begin, end):
            row = rows[k]
            pair = (np.uint64(np.uint32(first[row])) << np.uint64(32)) | np.uint64(np.uint32(second[row]))
            mixed = pair * np.uint64(0x9E3779B97F4A7C15)
            slot = (mixed ^ (mixed >> np.uint64(32))) & mask
            while slots[slot] >= 0 and (
                first[slots[slot]] != first[row] or second[slots[slot]] != second[row]
            ):
                slot = (slot + np.uint64(1)) & mask
            if slots[slot] < 0:
                slots[slot] = row
                ids[row] = count
                count += 1
            else:
                ids[row] = ids[slots[slot]]
        offsets[group + 1] = count
    return ids, offsets


@jit
def shares(indptr: Int32Array, count: FloatArray) -> FloatArray:
    """float64, as `count`: each entry over the sum of its group, entries `indptr[g]:indptr[g + 1]` being group g."""
    result = np.empty(len(count))
    for group in range(len(indptr) - 1):
        total = 0.0
        for k in range(indptr[group], indptr[group + 1]):
            total += count[k]
        for k in range(indptr[group], indptr[group + 1]):
            result[k] = count[k] / total
    return result
