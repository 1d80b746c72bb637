"""Tables that give values ids, counted up by first appearance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from graphwrap.data.fingerprints import FINGERPRINT_ABOVE, Fingerprint, check_fingerprint_above
from graphwrap.data.intern import intern_rows, refill_slots
from graphwrap.data.keys import cast, check_round, key_above, shorten, snapshot, to_array
from graphwrap.data.rows import (
    ArrayLabels,
    Hashed,
    Layout,
    Leaf,
    content_bytes,
    digest,
    hashed,
    layout_of,
    nested,
    pack,
    total_width,
)


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
        """The value first seen with each id: a copy, cast to the space's dtypes and rounded like its key.

        A `Fingerprint` where the value has more bytes than `fingerprint_above`.
        """

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

    def stacked(self, values: list[Any]) -> Any:
        """Return a list of values as a batch that `intern_batch` takes."""
        return values

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

    def __init__(
        self, layout: Layout, *, round: int | None = None, fingerprint_above: int | None = None
    ) -> None:
        self.layout = layout
        self.round = round
        large = fingerprint_above is not None and content_bytes(layout) > fingerprint_above
        self._kept = hashed(layout) if large else layout
        self._table = RowTable(total_width(self._kept))

    def __len__(self) -> int:
        return len(self._table)

    @property
    def labels(self) -> ArrayLabels:
        """As `KeyTable.labels`."""
        return ArrayLabels(self._kept, self._table.rows)

    def intern_one(self, value: Any) -> int:
        """As `KeyTable.intern_one`."""
        return int(self.intern_batch(self.stacked([value]), 1)[0])

    def intern_batch(self, batch: Any, n: int) -> np.ndarray:
        """As `KeyTable.intern_batch`."""
        words = digest if isinstance(self._kept, Hashed) else pack
        return self._table.intern(words(self.layout, batch, n, self.round))

    def stacked(self, values: list[Any]) -> Any:
        """As `KeyTable.stacked`."""
        return _stack(self.layout, values)

    def compact(self, ids: Any) -> np.ndarray:
        """As `KeyTable.compact`."""
        kept, new = self._plan(ids)
        rows = self._table.rows[kept]
        self._table = RowTable(rows.shape[1])
        self._table.intern(rows)
        return new


def _stack(layout: Layout, values: list[Any]) -> Any:
    if isinstance(layout, Leaf):
        arrays = [to_array(value) for value in values]
        return arrays[0][None] if len(arrays) == 1 else np.array(arrays)
    columns = zip(*(list(nested(layout, value)) for value in values))
    stacked = [_stack(pairs[0][0], [part for _, part in pairs]) for pairs in columns]
    return dict(zip(layout, stacked)) if isinstance(layout, dict) else stacked


class ObjectTable(KeyTable):
    """A table for values of any kind."""

    def __init__(
        self,
        space: spaces.Space | None = None,
        *,
        round: int | None = None,
        fingerprint_above: int | None = None,
    ) -> None:
        self.space = space
        self.round = round
        self.fingerprint_above = fingerprint_above
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
        key = key_above(value, self.round, self.fingerprint_above)
        if key not in self._ids:
            self._enter({key: self._label(key, value)})
        return self._ids[key]

    def intern_batch(self, batch: Any, n: int) -> np.ndarray:
        """As `KeyTable.intern_batch`."""
        if len(batch) != n or isinstance(batch, (dict, str, bytes)):
            raise ValueError(f"the batch must be a sequence of {n} values, got {shorten(batch)}")
        values = list(batch) if self.space is None else [cast(value, self.space) for value in batch]
        keys = [key_above(value, self.round, self.fingerprint_above) for value in values]
        new: dict[Hashable, Any] = {}
        for key, value in zip(keys, values):
            if key not in self._ids and key not in new:
                new[key] = self._label(key, value)
        self._enter(new)
        return np.fromiter(map(self._ids.__getitem__, keys), np.int32, n)

    def _label(self, key: Hashable, value: Any) -> Any:
        return key if isinstance(key, Fingerprint) else snapshot(value, self.round)

    def _enter(self, labels: dict[Hashable, Any]) -> None:
        for key, label in labels.items():
            self._ids[key] = len(self._labels)
            self._labels.append(label)

    def compact(self, ids: Any) -> np.ndarray:
        """As `KeyTable.compact`."""
        kept, new = self._plan(ids)
        labels = self._labels
        self._labels = [labels[old] for old in kept]
        self._ids = {key: int(new[old]) for key, old in self._ids.items() if new[old] >= 0}
        return new


def make_table(
    space: spaces.Space | None = None,
    *,
    round: int | None = None,
    fingerprint_above: int | None = FINGERPRINT_ABOVE,
) -> KeyTable:
    """Return an empty table for values of `space` (None: values of any kind).

    Args:
        space: Box, Discrete, MultiDiscrete and MultiBinary spaces, and Dict and Tuple nests of them, get a table
            that interns whole batches in Numba; any other space and None get one with a dictionary.
        round: Decimals that every float is rounded to; None: not rounded.
        fingerprint_above: Bytes per value above which the table keeps a `Fingerprint` instead of the value, as
            `state_key` counts them; None: never.

    Raises:
        TypeError, ValueError: `round` is neither an int nor None, or `fingerprint_above` no number of bytes.
    """
    check_round(round)
    check_fingerprint_above(fingerprint_above)
    layout = layout_of(space)
    if layout is None:
        return ObjectTable(space, round=round, fingerprint_above=fingerprint_above)
    return ArrayTable(layout, round=round, fingerprint_above=fingerprint_above)
