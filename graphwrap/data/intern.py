"""Kernels that give equal rows equal ids, counted up by first appearance.

A hash only finds the place to look: a row gets an id after the stored row was compared word by word. The hash has
fixed constants, so grouping is the same in every process and on every run.
"""

from __future__ import annotations

import numpy as np

from graphwrap._jit import jit

_SEED = np.uint64(0x9E3779B97F4A7C15)
_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_FINAL = np.uint64(0x94D049BB133111EB)
_S29 = np.uint64(29)
_S32 = np.uint64(32)


@jit
def intern_rows(words, start, slots, hashes, rows, count, ids):  # type: ignore[no-untyped-def]
    """Intern `words[start:]` and return (the first row not done, the number of stored rows).

    Args:
        words: uint64 (n, width), the rows to look up.
        start: First row to look up.
        slots: int32 (power of two, more than the capacity), 0 = empty, else id + 1.
        hashes: uint64 (capacity,), hash of each stored row.
        rows: uint64 (capacity, width), stored rows.
        count: Number of stored rows.
        ids: int32 (n,), written.

    It stops early, before the first new row that the capacity has no room for.
    """
    mask = np.uint64(slots.size - 1)
    width = words.shape[1]
    for i in range(start, words.shape[0]):
        h = _SEED
        for j in range(width):
            h = (h ^ words[i, j]) * _FACTOR
            h ^= h >> _S29
        h *= _FINAL
        h ^= h >> _S32
        slot = h & mask
        found = -1
        while slots[slot] != 0:
            candidate = slots[slot] - 1
            if hashes[candidate] == h:
                equal = True
                for j in range(width):
                    if rows[candidate, j] != words[i, j]:
                        equal = False
                        break
                if equal:
                    found = candidate
                    break
            slot = (slot + np.uint64(1)) & mask
        if found < 0:
            if count == hashes.size:
                return i, count
            for j in range(width):
                rows[count, j] = words[i, j]
            hashes[count] = h
            found = count
            count += 1
            slots[slot] = count
        ids[i] = found
    return words.shape[0], count


@jit
def refill_slots(hashes, count, slots):  # type: ignore[no-untyped-def]
    """Enter the first `count` stored rows into empty `slots`."""
    mask = np.uint64(slots.size - 1)
    for i in range(count):
        slot = hashes[i] & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = i + 1


@jit
def intern_dense(first, second, low, lookup, count, first_ids, second_ids, values):  # type: ignore[no-untyped-def]
    """Intern integers of a narrow range by direct lookup, row by row, and return how many differ so far.

    Args:
        first: int64 (n,).
        second: int64 (n,), each looked up after its row of `first`; or empty.
        low: The smallest value that may occur.
        lookup: int32 (range,), 0 or id + 1 of `low`, `low + 1`, ...; filled.
        count: How many have ids.
        first_ids: int32 (n,), written.
        second_ids: int32 (n,) or empty, written.
        values: int64 (at least the number of different values,), written: the value of each id.

    Returns:
        -1 if a value is outside the range of `lookup`.
    """
    for i in range(first.size):
        place = first[i] - low
        if place < 0 or place >= lookup.size:
            return -1
        if lookup[place] == 0:
            values[count] = first[i]
            count += 1
            lookup[place] = count
        first_ids[i] = lookup[place] - 1
        if second.size > 0:
            place = second[i] - low
            if place < 0 or place >= lookup.size:
                return -1
            if lookup[place] == 0:
                values[count] = second[i]
                count += 1
                lookup[place] = count
            second_ids[i] = lookup[place] - 1
    return count


@jit
def group_of_each(item, group, groups):  # type: ignore[no-untyped-def]
    """Fill `groups`, int32 (number of items,), -1 at first, with the group of each item; False if one is in two."""
    for i in range(item.size):
        if groups[item[i]] < 0:
            groups[item[i]] = group[i]
        elif groups[item[i]] != group[i]:
            return False
    return True
