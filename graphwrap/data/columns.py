"""Whole columns of values to ids and labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

import numpy as np

from graphwrap.data.fingerprints import Fingerprint, check_fingerprint_above, fingerprint, size_of
from graphwrap.data.inputs import int_array
from graphwrap.data.intern import group_of_each, intern_dense
from graphwrap.data.keys import canonical, check_round, is_array_like, shorten, state_key, to_array
from graphwrap.data.rows import ArrayLabels, Hashed, Layout, Leaf, content_bytes, digest, hashed, pack
from graphwrap.data.tables import ObjectTable, RowTable

_NUMBERS = {"int": np.int64, "float": np.float64, "bool": np.bool_}
_CHUNK_ROWS = 1 << 16  # numbers are brought into one form chunk by chunk, not whole columns at once


@dataclass(frozen=True)
class Column:
    """A column and how it can be interned: "int", "float", "bool", "array", "str", "packed" or "object"."""

    kind: str
    data: Any


def intern_columns(
    *columns: Any, round: int | None = None, fingerprint_above: int | None = None
) -> tuple[list[np.ndarray], Any]:
    """Give the values of several columns ids from one table.

    Args:
        columns: Sequences of equal length n: arrays (n, ...), or lists of values of any kind.
        round: Decimals that every float is rounded to; None: not rounded.
        fingerprint_above: Bytes per value above which its label is a `Fingerprint`; None: never.

    Returns:
        (ids, labels): for each column int32 (n,), counted up by first appearance row by row; and the value first
        seen with each id: an array for numbers, else a sequence.

    Raises:
        TypeError: A value is of a kind that has no key (see `state_key`), or a column is no sequence.
        ValueError: The columns differ in length.
    """
    check_round(round)
    check_fingerprint_above(fingerprint_above)
    parts = [as_column(column) for column in columns]
    if len({len(part.data) for part in parts}) > 1:
        raise ValueError(f"columns must have equal lengths, got {[len(part.data) for part in parts]}")
    labels: Any
    kinds = {part.kind for part in parts}
    kind = kinds.pop() if len(kinds) == 1 else "object"
    if kind == "array" and len({(part.data.dtype, part.data.shape[1:]) for part in parts}) > 1:
        kind = "object"
    if kind == "packed" and len({repr(part.data.layout) for part in parts}) > 1:
        kind = "object"
    if kind == "packed" and _large(parts[0].data.layout, fingerprint_above):
        kind = "object"
    if kind in _NUMBERS:
        return _intern_numbers(kind, [part.data for part in parts], round)
    if kind in ("array", "packed"):
        ids, labels = _intern_rows([part.data for part in parts], round, fingerprint_above)
    else:
        data = [_items(part) for part in parts]
        ids, labels = (_intern_text if kind == "str" else _intern_objects)(data, round, fingerprint_above)
    return [np.ascontiguousarray(ids[i :: len(parts)]) for i in range(len(parts))], labels


def as_column(values: Any) -> Column:
    """Sort `values` into a kind of column; numbers of one type become an array."""
    if isinstance(values, ArrayLabels):
        return Column("packed", values)
    if is_array_like(values):
        return _array_column(to_array(values))
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"a column must be a sequence with one value per row, got {shorten(values)}")
    values = values if isinstance(values, list) else list(values)
    types = set(map(type, values))
    if types and types <= {bool, np.bool_}:
        return Column("bool", np.array(values, np.bool_))
    if types <= {str, np.str_}:
        return Column("str", values)
    if all(kind is int or (issubclass(kind, np.integer) and kind is not np.timedelta64) for kind in types):
        try:
            return Column("int", np.array(values, np.int64))
        except OverflowError:
            return Column("object", values)
    if all(kind in (float, np.float64, np.float32, np.float16) for kind in types):
        return Column("float", np.array(values, np.float64))
    if types == {np.ndarray} and len({(item.dtype, item.shape) for item in values}) == 1:
        stacked = np.stack(values)
        if stacked.dtype.kind in "biuf" and stacked.dtype.itemsize <= 8 and stacked.ndim > 1:
            return Column("array", stacked)
    return Column("object", values)


def _array_column(array: np.ndarray) -> Column:
    kind, size = array.dtype.kind, array.dtype.itemsize
    plain = not isinstance(array, np.ma.MaskedArray)
    if array.ndim == 0:
        raise TypeError(f"a column must be a sequence with one value per row, got {shorten(array[()])}")
    if array.ndim > 1:
        fits = plain and kind in "biuf" and size <= 8 and array.dtype.isnative
        return Column("array", array) if fits else Column("object", list(array))
    if plain and kind in "iu":
        if kind == "i" or size < 8 or not array.size or array.max() <= np.iinfo(np.int64).max:
            return Column("int", array)
    elif plain and kind == "f" and size <= 8:
        return Column("float", array)
    elif plain and kind == "b":
        return Column("bool", array)
    elif plain and kind in "OUT":
        return as_column(array.tolist())
    return Column("object", list(array))


def _items(part: Column) -> list[Any]:
    if isinstance(part.data, list):
        return part.data
    return part.data.tolist() if part.kind in _NUMBERS else list(part.data)


def intern_ids(
    columns: Mapping[str, Any], size: int | None, table: str
) -> tuple[list[np.ndarray], np.ndarray]:
    """Give ids of one table new ids.

    Args:
        columns: One or two columns of ids, integers from 0, by name.
        size: Entries of the table the ids come from; None: any number.
        table: Its name.

    Returns:
        (ids, old): for each column int32 (n,), counted up by first appearance row by row; and the old id of each new
        one, int64.

    Raises:
        TypeError: A column holds something else.
        ValueError: An id is below 0 or has no entry in the table.
    """
    arrays = [int_array(name, values) for name, values in columns.items()]
    dense = size
    if dense is None:
        dense = 1 + max((int(array.max()) for array in arrays if array.size), default=-1)
    if size is not None or dense <= _dense_range(arrays):
        done = _intern_dense(arrays, 0, dense)
        if done is not None:
            return done
    for name, array in zip(columns, arrays):
        if array.size and (array.min() < 0 or (size is not None and array.max() >= size)):
            row = int(np.flatnonzero((array < 0) | (array >= (array.max() + 1 if size is None else size)))[0])
            limit = "0 or more" if size is None else f"from 0 to {size - 1}, the entries of {table}"
            raise ValueError(f"{name} must hold ids {limit}, got {array[row]} in row {row}")
    return _intern_numbers("int", arrays, None)


def intern_pairs(first: np.ndarray, second: np.ndarray, num_second: int) -> tuple[np.ndarray, np.ndarray]:
    """Give pairs of ids an id.

    Args:
        first: int32 (n,).
        second: int32 (n,), counted up by first appearance.
        num_second: How many differ.

    Returns:
        (ids int32 (n,), counted up by first appearance; the `second` of each id).
    """
    if group_of_each(second, first, np.full(num_second, -1, np.int32)):
        return second, np.arange(num_second)
    (ids,), pairs = intern_columns(first.astype(np.int64) * num_second + second)
    return ids, pairs % num_second


def _intern_numbers(
    kind: str, data: list[np.ndarray], decimals: int | None
) -> tuple[list[np.ndarray], np.ndarray]:
    if kind != "float" and len(data[0]):
        low, high = min(int(part.min()) for part in data), max(int(part.max()) for part in data)
        done = _intern_dense(data, low, high - low + 1) if high - low < _dense_range(data) else None
        if done is not None:
            return done[0], done[1].astype(_NUMBERS[kind])
    form = np.float64 if kind == "float" else np.int64
    table = RowTable(1)
    ids = [np.empty(len(part), np.int32) for part in data]
    for start in range(0, len(data[0]), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        chunk = np.stack([part[rows].astype(form, copy=False) for part in data], axis=1)
        if kind == "float":
            chunk = canonical(chunk, decimals)
        found = table.intern(chunk.view(np.uint64).reshape(-1, 1))
        for i, part in enumerate(ids):
            part[rows] = found[i :: len(data)]
    return ids, table.rows[:, 0].copy().view(form).astype(_NUMBERS[kind])


def _dense_range(data: Sequence[np.ndarray]) -> int:
    """The widest range of integers that is worth a lookup by value."""
    return 4 * sum(map(len, data)) + 1024


def _intern_dense(data: list[np.ndarray], low: int, size: int) -> tuple[list[np.ndarray], np.ndarray] | None:
    """Intern one or two columns of integers from `low` to `low + size - 1`; None if one is outside that, or more."""
    if len(data) > 2:
        return None
    n = len(data[0])
    ids = [np.empty(n, np.int32) for _ in data]
    lookup, values = np.zeros(size, np.int32), np.empty(min(n * len(data), size), np.int64)
    none, no_ids = np.empty(0, np.int64), np.empty(0, np.int32)
    found = 0
    for start in range(0, n, _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        first, second, *_ = [*(_plain(part[rows]) for part in data), none]
        first_ids, second_ids, *_ = [*(part[rows] for part in ids), no_ids]
        found = intern_dense(first, second, low, lookup, found, first_ids, second_ids, values)
        if found < 0:
            return None
    return ids, values[:found].copy()


def _plain(array: np.ndarray) -> np.ndarray:
    """Return integers or booleans as int64 in the one memory layout that kernels are compiled for."""
    flags = array.flags
    if array.dtype == np.int64 and flags.c_contiguous and flags.aligned and flags.writeable:
        return array
    return array.astype(np.int64, order="C")


def _large(layout: Layout | Hashed, above: int | None) -> bool:
    return not (above is None or isinstance(layout, Hashed)) and content_bytes(layout) > above


def _intern_rows(
    data: Sequence[Any], decimals: int | None, above: int | None
) -> tuple[np.ndarray, ArrayLabels]:
    layout: Layout | Hashed
    if isinstance(data[0], ArrayLabels):
        layout = data[0].layout
        words = [part.rows for part in data]
    else:
        leaf = Leaf(data[0].dtype, data[0].shape[1:])
        large = _large(leaf, above)
        words = [(digest if large else pack)(leaf, part, len(part), decimals) for part in data]
        layout = hashed(leaf) if large else leaf
    n, width = words[0].shape
    table = RowTable(width)
    ids = table.intern(np.stack(words, axis=1).reshape(len(words) * n, width))
    return ids, ArrayLabels(layout, table.rows.copy())


def _intern_text(
    data: Sequence[list[str]], decimals: int | None, above: int | None
) -> tuple[np.ndarray, tuple[Any, ...]]:
    known: defaultdict[str, int] = defaultdict(count().__next__)
    rows = data[0] if len(data) == 1 else chain.from_iterable(zip(*data))
    ids = np.fromiter(map(known.__getitem__, rows), np.int32, sum(map(len, data)))
    if above is None or len(max(known, key=len, default="")) * 4 <= above:
        return ids, tuple(map(str, known))
    return ids, tuple(fingerprint(text, text) if size_of(text) > above else str(text) for text in known)


def _intern_objects(
    data: Sequence[list[Any]], decimals: int | None, above: int | None
) -> tuple[np.ndarray, tuple[Any, ...]]:
    table = ObjectTable(round=decimals, fingerprint_above=above)
    rows = list(chain.from_iterable(zip(*data)))
    return table.intern_batch(rows, len(rows)), tuple(table.labels)


def take_labels(labels: Any, ids: np.ndarray) -> Any:
    """Return the labels of `ids`, in that order, in the form `labels` has: an array, packed rows, or a tuple."""
    if isinstance(labels, np.ndarray):
        return labels[ids]
    if isinstance(labels, ArrayLabels):
        return labels.take(ids)
    return tuple(labels[i] for i in ids.tolist())


def join_labels(parts: Sequence[Any]) -> tuple[list[np.ndarray], Any]:
    """Return (for each part the new id of each of its labels, the labels without repeats).

    A label that another part has a fingerprint of becomes that fingerprint.
    """
    columns = [as_column(part) for part in parts if len(part)]
    kinds = {column.kind for column in columns}
    if len({repr(column.data.layout) for column in columns if column.kind == "packed"}) > 1:
        kinds.add("object")
    everything: Any
    if len(kinds) == 1 and not kinds & {"object", "array", "str"}:
        if kinds == {"packed"}:
            rows = np.concatenate([column.data.rows for column in columns])
            everything = ArrayLabels(columns[0].data.layout, rows)
        else:
            form = _NUMBERS[columns[0].kind]
            everything = np.concatenate([column.data.astype(form, copy=False) for column in columns])
    else:
        everything = [label for part in parts for label in part]
        known = {label for label in everything if isinstance(label, Fingerprint)}
        if 0 < len(known) < len(everything):
            everything = [_as_known(label, known) for label in everything]
    (ids,), labels = intern_columns(everything)
    return np.split(ids, np.cumsum([len(part) for part in parts])[:-1]), labels


def _as_known(label: Any, known: set[Fingerprint]) -> Any:
    if isinstance(label, Fingerprint):
        return label
    short = fingerprint(label, state_key(label))
    return short if short in known else label


def pack_labels(labels: list[Any]) -> Any:
    """Return labels without repeats in the form `intern_columns` gives them."""
    column = as_column(labels)
    if column.kind == "array":
        layout = Leaf(column.data.dtype, column.data.shape[1:])
        return ArrayLabels(layout, pack(layout, column.data, len(labels), None))
    return column.data.astype(_NUMBERS[column.kind], copy=False) if column.kind in _NUMBERS else tuple(labels)


def check_distinct(name: str, labels: Any) -> None:
    """Raise ValueError if two labels are equal; packed rows come from a table and are not checked again."""
    if isinstance(labels, ArrayLabels):
        return
    (ids,), different = intern_columns(labels)
    if len(different) < len(ids):
        second = int(np.flatnonzero(ids != np.arange(len(ids)))[0])
        raise ValueError(
            f"{name} must differ from each other, but ids {ids[second]} and {second} are both "
            f"{shorten(labels[second])}; give equal values one id, as a KeyTable does"
        )
