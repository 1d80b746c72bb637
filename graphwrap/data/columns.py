"""Whole columns of values to ids and labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from graphwrap.data.intern import intern_dense
from graphwrap.data.keys import canonical, check_round, is_array_like, shorten, to_array
from graphwrap.data.rows import ArrayLabels, Leaf, pack
from graphwrap.data.tables import ObjectTable, RowTable

_NUMBERS = {"int": np.int64, "float": np.float64, "bool": np.bool_}


@dataclass(frozen=True)
class Column:
    """A column and how it can be interned: "int", "float", "bool", "array", "str", "packed" or "object"."""

    kind: str
    data: Any


def intern_columns(*columns: Any, round: int | None = None) -> tuple[list[np.ndarray], Any]:
    """Give the values of several columns ids from one table.

    Args:
        columns: Sequences of equal length n: arrays (n, ...), or lists of values of any kind.
        round: Decimals that every float is rounded to; None: not rounded.

    Returns:
        (ids, labels): for each column int32 (n,), counted up by first appearance row by row; and the value first
        seen with each id: an array for numbers, else a sequence.

    Raises:
        TypeError: A value is of a kind that has no key (see `state_key`), or a column is no sequence.
        ValueError: The columns differ in length.
    """
    check_round(round)
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
    if kind in _NUMBERS:
        data = [part.data for part in parts]
        values = data[0] if len(data) == 1 else np.stack(data, axis=1).reshape(-1)
        ids, labels = _intern_numbers(np.require(values, requirements=["C", "A", "W"]), round)
    elif kind in ("array", "packed"):
        ids, labels = _intern_rows([part.data for part in parts], round)
    else:
        data = [_items(part) for part in parts]
        ids, labels = (_intern_text if kind == "str" else _intern_objects)(data, round)
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
            return Column("int", array.astype(np.int64, copy=False))
    elif plain and kind == "f" and size <= 8:
        return Column("float", array.astype(np.float64, copy=False))
    elif plain and kind == "b":
        return Column("bool", array)
    elif plain and kind in "OUT":
        return as_column(array.tolist())
    return Column("object", list(array))


def _items(part: Column) -> list[Any]:
    if isinstance(part.data, list):
        return part.data
    return part.data.tolist() if part.kind in _NUMBERS else list(part.data)


def _intern_numbers(values: np.ndarray, decimals: int | None) -> tuple[np.ndarray, np.ndarray]:
    kind = values.dtype
    if kind.kind == "f":
        values = canonical(values, decimals)
    elif values.size:
        values = values.astype(np.int64, copy=False)
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * values.size + 1024:
            ids = np.empty(values.size, np.int32)
            firsts = np.empty(min(values.size, high - low + 1), np.int64)
            count = intern_dense(values, low, np.zeros(high - low + 1, np.int32), ids, firsts)
            return ids, firsts[:count].astype(kind)
    table = RowTable(1)
    ids = table.intern(values.view(np.uint64).reshape(-1, 1))
    return ids, table.rows[:, 0].copy().view(kind if kind.kind == "f" else np.int64)


def _intern_rows(data: Sequence[Any], decimals: int | None) -> tuple[np.ndarray, ArrayLabels]:
    if isinstance(data[0], ArrayLabels):
        layout = data[0].layout
        words = [part.rows for part in data]
    else:
        layout = Leaf(data[0].dtype, data[0].shape[1:])
        words = [pack(layout, part, len(part), decimals) for part in data]
    n, width = words[0].shape
    table = RowTable(width)
    ids = table.intern(np.stack(words, axis=1).reshape(len(words) * n, width))
    return ids, ArrayLabels(layout, table.rows.copy())


def _intern_text(data: Sequence[list[str]], decimals: int | None) -> tuple[np.ndarray, tuple[str, ...]]:
    known: dict[str, int] = {}
    enter = known.setdefault
    count = sum(map(len, data))
    rows = data[0] if len(data) == 1 else chain.from_iterable(zip(*data))
    ids = np.fromiter((enter(text, len(known)) for text in rows), np.int32, count)
    return ids, tuple(map(str, known))


def _intern_objects(data: Sequence[list[Any]], decimals: int | None) -> tuple[np.ndarray, tuple[Any, ...]]:
    table = ObjectTable(round=decimals)
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
    """Return (for each part the new id of each of its labels, the labels without repeats)."""
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
            everything = np.concatenate([column.data for column in columns])
    else:
        everything = [label for part in parts for label in part]
    (ids,), labels = intern_columns(everything)
    return np.split(ids, np.cumsum([len(part) for part in parts])[:-1]), labels


def pack_labels(labels: list[Any]) -> Any:
    """Return labels without repeats in the form `intern_columns` gives them."""
    column = as_column(labels)
    if column.kind == "array":
        layout = Leaf(column.data.dtype, column.data.shape[1:])
        return ArrayLabels(layout, pack(layout, column.data, len(labels), None))
    return column.data if column.kind in _NUMBERS else tuple(labels)


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
