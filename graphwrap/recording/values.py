"""Values of environments, kept as they come and interned in bulk."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwrap.data.keys import cast_array
from graphwrap.data.rows import Layout, Leaf, nested, total_width
from graphwrap.data.tables import ArrayTable, KeyTable

PENDING_BYTES = 2**20
"""Bytes of values that wait to be interned, at most; at least one row waits."""

MOST_PENDING_ROWS = 256


class ValueLog:
    """One value per environment and row, as ids of a table.

    Interning a whole block of arrays costs a fraction of interning it row by row, so arrays are only copied when they
    come in. Values of other kinds are interned at once.

    Args:
        table: The table the ids come from.
        num_envs: Values per row.
    """

    def __init__(self, table: KeyTable, num_envs: int) -> None:
        self.table = table
        self._num_envs = num_envs
        self._ids = np.zeros((64, num_envs), np.int32)
        self._done = 0  # rows that have ids
        self._layout: Layout | None = table.layout if isinstance(table, ArrayTable) else None
        self._pending: Any = None
        self._capacity = 0
        if self._layout is not None:
            row_bytes = 8 * num_envs * max(total_width(self._layout), 1)
            self._capacity = int(np.clip(PENDING_BYTES // row_bytes, 1, MOST_PENDING_ROWS))
            self._pending = _buffers(self._layout, (self._capacity, num_envs))

    def put(self, row: int, batch: Any) -> None:
        """Set the values of a row, which is the one after the last or the last one again.

        Args:
            row: Its number.
            batch: Values as `KeyTable.intern_batch` takes them.

        Raises:
            TypeError, ValueError: As `KeyTable.intern_batch`; rows before this one are unchanged.
        """
        if self._layout is None:
            ids = self.table.intern_batch(batch, self._num_envs)
            self._make_room(row + 1)
            self._ids[row] = ids
            self._done = row + 1
            return
        place = row - self._done
        if place >= self._capacity:
            self._intern(row)
            place = 0
        _write(self._layout, self._pending, place, batch, self._num_envs)

    def _intern(self, stop: int) -> None:
        count = stop - self._done
        if count <= 0:
            return
        assert self._layout is not None
        values = _first_rows(self._layout, self._pending, count)
        ids = self.table.intern_batch(values, count * self._num_envs)
        self._make_room(stop)
        self._ids[self._done : stop] = ids.reshape(count, self._num_envs)
        self._done = stop

    def _make_room(self, rows: int) -> None:
        while len(self._ids) < rows:
            self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])

    def ids(self, stop: int) -> np.ndarray:
        """Return the ids of rows 0 to stop - 1, int32 (stop, num_envs), a view."""
        self._intern(stop)
        return self._ids[:stop]

    def clear(self) -> None:
        """Forget all rows."""
        self._done = 0


class StartLog:
    """First states of episodes, in the order they came, as ids of a table; interned in bulk like a `ValueLog`."""

    def __init__(self, table: KeyTable) -> None:
        self.table = table
        self._ids: list[np.ndarray] = []
        self._pending: list[Any] = []
        self._waiting = 0  # values in `_pending`
        self._count = 0

    def append(self, batch: Any, count: int) -> slice:
        """Append `count` values, which the log keeps, and return where they are.

        Raises:
            TypeError, ValueError: As `KeyTable.intern_batch`, for values that are interned at once.
        """
        place = slice(self._count, self._count + count)
        if isinstance(self.table, ArrayTable) and _fits(self.table.layout, batch, count):
            self._pending.append(batch)
            self._waiting += count
            if 8 * self._waiting * total_width(self.table.layout) > PENDING_BYTES:
                self._intern()
        else:
            return self.append_ids(self.table.intern_batch(batch, count))
        self._count += count
        return place

    def append_ids(self, ids: np.ndarray) -> slice:
        """Append values that have ids of the table, int32, and return where they are."""
        self._intern()
        self._ids.append(ids)
        self._count += len(ids)
        return slice(self._count - len(ids), self._count)

    def _intern(self) -> None:
        if self._waiting:
            assert isinstance(self.table, ArrayTable)
            values = _joined(self.table.layout, self._pending)
            self._ids.append(self.table.intern_batch(values, self._waiting))
            self._pending, self._waiting = [], 0

    def ids(self) -> np.ndarray:
        """Return the ids of all values, int32."""
        self._intern()
        return np.concatenate([np.zeros(0, np.int32), *self._ids])

    def clear(self) -> None:
        """Forget all values."""
        self._ids, self._pending, self._waiting, self._count = [], [], 0, 0


def _fits(layout: Layout, batch: Any, n: int) -> bool:
    """Whether a batch is as the layout says, so that interning it later raises no error."""
    if isinstance(layout, Leaf):
        return type(batch) is np.ndarray and batch.dtype == layout.dtype and batch.shape == (n, *layout.shape)
    if isinstance(layout, dict):
        return isinstance(batch, dict) and all(
            name in batch and _fits(inner, batch[name], n) for name, inner in layout.items()
        )
    return (
        isinstance(batch, tuple)
        and len(batch) == len(layout)
        and all(_fits(inner, part, n) for inner, part in zip(layout, batch))
    )


def _joined(layout: Layout, batches: list[Any]) -> Any:
    if isinstance(layout, Leaf):
        return np.concatenate(batches)
    if isinstance(layout, dict):
        return {name: _joined(inner, [batch[name] for batch in batches]) for name, inner in layout.items()}
    return tuple(_joined(inner, [batch[i] for batch in batches]) for i, inner in enumerate(layout))


def _buffers(layout: Layout, lead: tuple[int, ...]) -> Any:
    if isinstance(layout, Leaf):
        return np.zeros((*lead, *layout.shape), layout.dtype)
    if isinstance(layout, dict):
        return {name: _buffers(inner, lead) for name, inner in layout.items()}
    return tuple(_buffers(inner, lead) for inner in layout)


def _write(layout: Layout, buffer: Any, place: int, batch: Any, n: int) -> None:
    if isinstance(layout, Leaf):
        # The usual case first: an array that is as the space says.
        if type(batch) is not np.ndarray or batch.dtype != layout.dtype or batch.shape != buffer.shape[1:]:
            batch = cast_array(batch, layout.dtype, (n, *layout.shape))
        buffer[place] = batch
        return
    for name, (inner, part) in zip(_names(layout), nested(layout, batch)):
        _write(inner, buffer[name], place, part, n)


def _first_rows(layout: Layout, buffer: Any, count: int) -> Any:
    """The first `count` rows of a buffer as one batch of count * num_envs values."""
    if isinstance(layout, Leaf):
        return buffer[:count].reshape(
            count * buffer.shape[1], *layout.shape
        )  # no -1, which cannot hold no numbers
    if isinstance(layout, dict):
        return {name: _first_rows(inner, buffer[name], count) for name, inner in layout.items()}
    return tuple(_first_rows(inner, part, count) for inner, part in zip(layout, buffer))


def _names(layout: dict[str, Layout] | tuple[Layout, ...]) -> Any:
    return layout if isinstance(layout, dict) else range(len(layout))
