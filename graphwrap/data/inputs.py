"""Check the columns a caller gives and turn them into arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphwrap.data.keys import is_array_like, shorten, to_array

_INT32 = np.iinfo(np.int32)
_SUCCESS = {True: 0, False: 1, None: -1}


def check_lengths(columns: dict[str, Any]) -> int:
    """Return the common length of `columns`, or say which length each of them has."""
    lengths = {}
    for name, column in columns.items():
        plain = type(column) is np.ndarray
        single = (plain or is_array_like(column)) and to_array(column).ndim == 0
        if single or not (plain or _is_sequence(column)):
            raise TypeError(f"{name} must be a sequence with one value per row, got {shorten(column)}")
        lengths[name] = len(column)
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"columns must have equal lengths, got {listed}")
    return next(iter(lengths.values()))


def _is_sequence(column: Any) -> bool:
    return hasattr(column, "__len__") and not isinstance(column, (str, bytes, Mapping))


def _array(name: str, values: Any, what: str) -> np.ndarray:
    array = to_array(values) if is_array_like(values) else None
    if array is None or array.dtype == object:
        values = list(values)
        try:
            array = np.array(values) if values else np.zeros(0, np.int64)
        except Exception:  # whatever the objects in it raise: the caller says which one is wrong
            array = np.array([None])
    if array.ndim != 1:
        raise TypeError(f"{name} must hold one {what} per row, got an array of shape {array.shape}")
    return array


def _refuse(name: str, values: Any, what: str, allowed: tuple[type, ...]) -> TypeError:
    wrong = (item for item in enumerate(values) if not isinstance(item[1], allowed))
    row, value = next(wrong, None) or max(enumerate(values), key=lambda item: abs(item[1]))  # else too large
    return TypeError(
        f"{name} must hold {what}, got {shorten(value)} of type {type(value).__name__} in row {row}"
    )


def int_array(name: str, values: Any) -> np.ndarray:
    """Return integers as an array (N,) of whatever integer dtype they have; none is above that of int64."""
    array = _array(name, values, "integer")
    large = array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max
    if array.dtype.kind not in "iu" or large:
        raise _refuse(name, values, "integers", (int, np.integer))
    return array


def step_column(name: str, values: Any) -> np.ndarray:
    """Return step numbers (N,), a copy: int32, or int64 where one does not fit and so is wrong anyway."""
    array = int_array(name, values)
    wide = array.dtype.itemsize == 8 or array.dtype == np.uint32
    if wide and array.size and not (array.min() >= _INT32.min and array.max() <= _INT32.max):
        return array.astype(np.int64)
    return array.astype(np.int32)


def float_column(name: str, values: Any) -> np.ndarray:
    """Return numbers as float64 (N,), a copy."""
    array = _array(name, values, "number")
    if array.dtype.kind not in "biuf":
        raise _refuse(name, values, "numbers", (int, float, np.integer, np.floating))
    return array.astype(np.float64)


def flag_column(name: str, values: Any) -> np.ndarray:
    """Return booleans as bool (N,), a copy."""
    array = _array(name, values, "boolean")
    if array.dtype.kind != "b" and array.size:
        raise _refuse(name, values, "True or False", (bool, np.bool_))
    return array.astype(np.bool_)


def value_columns(
    step: Any, reward: Any, cost: Any, terminated: Any, truncated: Any, others: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Return the columns of numbers and flags by name, checked for equal length with each other and `others`."""
    given = {"step": step, "reward": reward, "terminated": terminated, "truncated": truncated}
    n = check_lengths(others | given | ({} if cost is None else {"cost": cost}))
    return {
        "step": step_column("step", step),
        "reward": float_column("reward", reward),
        "cost": np.ones(n) if cost is None else float_column("cost", cost),
        "terminated": flag_column("terminated", terminated),
        "truncated": flag_column("truncated", truncated),
    }


def success_column(values: Any) -> np.ndarray:
    """Return True, False and None as int8 (N,): the outcomes 0 and 1, and -1 for None."""
    if is_array_like(values):
        array = to_array(values)
        if array.dtype == np.bool_ and array.ndim == 1:
            return np.where(array, 0, 1).astype(np.int8)
        values = array.tolist()
    values = list(values)
    if not set(map(type, values)) <= {bool, np.bool_, type(None)}:
        raise _refuse("success", values, "True, False or None", (bool, np.bool_, type(None)))
    return np.fromiter((_SUCCESS[value] for value in values), np.int8, len(values))
