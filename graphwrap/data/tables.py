"""Tables that give values ids, counted up by first appearance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from graphwrap.data.intern import intern_rows, refill_slots
from graphwrap.data.keys import cast, check_round, shorten, snapshot, state_key, to_array
from graphwrap.data.rows import ArrayLabels, Layout, Leaf, layout_of, nested, pack, total_width


class RowTable:
    """Ids for rows of words, interned in Numba without a Python object per row."""

    def __init__(self, width: int) -> None:
        self._count = 0
        self._allocate(width, 64)

    def _allocate(self, width: int, capacity: int) -> None:
        self._rows = np.empty((capacity, width), np.uint64)
        self._hashes = np.empty(capacity, np.uint64)
        self._slots = np.zeros(2 * capacity, np.int32)

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> np.ndarray:
        """The stored rows by id, uint64 (len, width); read-only, and not changed by later calls."""
        rows = self._rows[: self._count]
        rows.flags.writeable = False
        return rows

    def intern(self, words: np.ndarray) -> np.ndarray:
        """Return the ids of `words`, uint64 (n, width), as int32 (n,)."""
        ids = np.empty(len(words), np.int32)
        done = 0
        while True:
            done, self._count = intern_rows(
                words, done, self._slots, self._hashes, self._rows, self._count, ids
            )
            if done == len(words):
                return ids
            self._grow()

    def _grow(self) -> None:
        rows, hashes, count = self._rows, self._hashes, self._count
        self._allocate(rows.shape[1], 2 * len(hashes))
        self._rows[:count], self._hashes[:count] = rows[:count], hashes[:count]
        refill_slots(self._hashes, count, self._slots)


class KeyTable(ABC):
    """Ids 0, 1, 2, ... for values, by first appearance; equal as `state_key` says.

    Made by `make_table`. It can be pickled.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def labels(self) -> Sequence:
        """The value first seen with each id: a copy, cast to the space's dtypes and rounded like its key."""

    @abstractmethod
    def intern_one(self, value: Any) -> int:
        """Return the id of one value.

        Raises:
            TypeError, ValueError: As `state_key`; the table is unchanged.
        """

    @abstractmethod
    def intern_batch(self, batch: Any, n: int) -> np.ndarray:
        """Return the ids of `n` values, int32 (n,).

        Args:
            batch: For an array space an array (n, *shape). For a Dict or Tuple of array spaces, nested or not: such
                arrays, nested alike. Otherwise a sequence of n values.
            n: Number of values.

        Raises:
            TypeError, ValueError: As `state_key`, or there are not n values; the table is unchanged.
        """

    @abstractmethod
    def compact(self, ids: Any) -> np.ndarray:
        """Forget every value but those of `ids` and release their memory.

        Args:
            ids: Ids to keep, repeats allowed; renumbered by first appearance in `ids`.

        Returns:
            int32 (old number of ids,): the new id of each old one, -1 where it was dropped.

        Raises:
            ValueError: An id is not in the table; the table is unchanged.
        """

    def _plan(self, ids: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return (the kept ids in their new order, the map from old ids to new ones)."""
        ids = np.asarray(ids, np.int64).reshape(-1)
        if ids.size and not (ids.min() >= 0 and ids.max() < len(self)):
            raise ValueError(f"ids to keep must be from 0 to {len(self) - 1}, got {ids.min()} to {ids.max()}")
        unique, first = np.unique(ids, return_index=True)
        kept = unique[np.argsort(first)]
        new = np.full(len(self), -1, np.int32)
        new[kept] = np.arange(len(kept), dtype=np.int32)
        return kept, new


class ArrayTable(KeyTable):
    """A table for values of one layout of arrays."""

    def __init__(self, layout: Layout, *, round: int | None = None) -> None:
        self.layout = layout
        self.round = round
        self._table = RowTable(total_width(layout))

    def __len__(self) -> int:
        return len(self._table)

    @property
    def labels(self) -> ArrayLabels:
        """As `KeyTable.labels`."""
        return ArrayLabels(self.layout, self._table.rows)

    def intern_one(self, value: Any) -> int:
        """As `KeyTable.intern_one`."""
        return int(self.intern_batch(_add_axis(self.layout, value), 1)[0])

    def intern_batch(self, batch: Any, n: int) -> np.ndarray:
        """As `KeyTable.intern_batch`."""
        return self._table.intern(pack(self.layout, batch, n, self.round))

    def compact(self, ids: Any) -> np.ndarray:
        """As `KeyTable.compact`."""
        kept, new = self._plan(ids)
        rows = self._table.rows[kept]
        self._table = RowTable(rows.shape[1])
        self._table.intern(rows)
        return new


def _add_axis(layout: Layout, value: Any) -> Any:
    if isinstance(layout, Leaf):
        return to_array(value)[None]
    parts = [_add_axis(inner, part) for inner, part in nested(layout, value)]
    return dict(zip(layout, parts)) if isinstance(layout, dict) else parts


class ObjectTable(KeyTable):
    """A table for values of any kind."""

    def __init__(self, space: spaces.Space | None = None, *, round: int | None = None) -> None:
        self.space = space
        self.round = round
        self._ids: dict[Hashable, int] = {}
        self._labels: list[Any] = []

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def labels(self) -> Sequence:
        """As `KeyTable.labels`."""
        return tuple(self._labels)

    def intern_one(self, value: Any) -> int:
        """As `KeyTable.intern_one`."""
        if self.space is not None:
            value = cast(value, self.space)
        return self._enter(state_key(value, round=self.round), value)

    def intern_batch(self, batch: Any, n: int) -> np.ndarray:
        """As `KeyTable.intern_batch`."""
        if len(batch) != n or isinstance(batch, (dict, str, bytes)):
            raise ValueError(f"the batch must be a sequence of {n} values, got {shorten(batch)}")
        values = list(batch) if self.space is None else [cast(value, self.space) for value in batch]
        keys = [state_key(value, round=self.round) for value in values]
        return np.fromiter(map(self._enter, keys, values), np.int32, n)

    def _enter(self, key: Hashable, value: Any) -> int:
        known = self._ids.setdefault(key, len(self._labels))
        if known == len(self._labels):
            self._labels.append(snapshot(value, self.round))
        return known

    def compact(self, ids: Any) -> np.ndarray:
        """As `KeyTable.compact`."""
        kept, new = self._plan(ids)
        labels = self._labels
        self._labels = [labels[old] for old in kept]
        self._ids = {key: int(new[old]) for key, old in self._ids.items() if new[old] >= 0}
        return new


def make_table(space: spaces.Space | None = None, *, round: int | None = None) -> KeyTable:
    """Return an empty table for values of `space` (None: values of any kind).

    Args:
        space: Box, Discrete, MultiDiscrete and MultiBinary spaces, and Dict and Tuple nests of them, get a table
            that interns whole batches in Numba; any other space and None get one with a dictionary.
        round: Decimals that every float is rounded to; None: not rounded.

    Raises:
        TypeError: `round` is neither an int nor None.
    """
    check_round(round)
    layout = layout_of(space)
    return ObjectTable(space, round=round) if layout is None else ArrayTable(layout, round=round)
