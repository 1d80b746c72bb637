"""Values that nobody expects, and spaces to not fit them into."""

from __future__ import annotations

import enum
from collections import namedtuple
from fractions import Fraction
from typing import Any

import numpy as np
from gymnasium import spaces

Pair = namedtuple("Pair", "left right")
Suit = enum.Enum("Suit", "HEARTS SPADES")
DTYPES = (
    *("?", "i1", "u1", "i4", "i8", "u8", "f2", "f4", "f8", "g", "c8", "c16", ">i4", ">f8", "O"),
    *("U3", "S3", "M8[s]", "m8[D]", "V4", "i4,f8", "U0"),
)
SPECIAL_NUMBERS = (
    *(0, 1, -1, 255, 256, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, 10**400, True, False),
    *(0.0, -0.0, 0.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf"), 1j, complex("nan")),
    *(
        np.int8(-1),
        np.uint64(2**64 - 1),
        np.float16(1),
        np.float32("nan"),
        np.longdouble(1) / 3,
        np.bool_(True),
    ),
    *(np.datetime64("NaT"), np.timedelta64(3, "s"), np.str_("a"), np.bytes_(b"a"), Fraction(1, 3)),
)
TEXTS = (
    "",
    "a",
    "é",
    "\ud800",
    "\x00",
    "nan",
    "None",
    "\U0001f600",
    "a" * 5000,
    "é" * 3000,
    "{}",
    "[1]",
    b"",
    b"a" * 5000,
)


class Plain:
    """Has a hash and nothing else."""


class Unhashable:
    """Has none."""

    __hash__ = None  # type: ignore[assignment]


def pick(rng: np.random.Generator, options: Any) -> Any:
    """One of the options."""
    return options[int(rng.integers(len(options)))]


def value(rng: np.random.Generator, depth: int = 3) -> Any:
    """Anything."""
    kind = int(rng.integers(14 if depth else 6))
    if kind < 2:
        return pick(rng, SPECIAL_NUMBERS)
    if kind == 2:
        return pick(rng, TEXTS)
    if kind == 3:
        return pick(
            rng, (None, ..., Plain(), Unhashable(), Suit.SPADES, int, len, NotImplemented, range(3), slice(2))
        )
    if kind in (4, 5):
        return array(rng)
    items = [value(rng, depth - 1) for _ in range(int(rng.integers(4)))]
    if kind in (6, 7):
        return items
    if kind == 8:
        return tuple(items)
    if kind == 9:
        return Pair(items, tuple(items))
    if kind in (10, 11):
        keys = [item for item in items if _hashable(item)]
        return dict(zip(keys, items))
    if kind == 12:
        return frozenset(filter(_hashable, items)) if rng.random() < 0.5 else set(filter(_hashable, items))
    return _endless(rng, items)


def _hashable(item: Any) -> bool:
    try:
        hash(item)
    except (TypeError, RecursionError):
        return False
    return True


def _endless(rng: np.random.Generator, items: list[Any]) -> Any:
    if rng.random() < 0.9:
        return items
    if rng.random() < 0.5:
        items.append(items)
        return items
    nest: Any = items
    for _ in range(5000):
        nest = [nest]
    return nest


def array(rng: np.random.Generator) -> np.ndarray:
    """An array of any dtype, shape and layout."""
    shape = tuple(rng.integers(0, 5, int(rng.integers(4))).tolist())
    dtype = np.dtype(pick(rng, DTYPES))
    if dtype.kind in "O":
        made = np.empty(shape, object)
        for index in np.ndindex(shape):
            made[index] = pick(rng, (*SPECIAL_NUMBERS, *TEXTS, None))
    elif dtype.kind in "SUMmV":
        made = np.zeros(shape, dtype)
    else:
        made = rng.integers(-2, 3, shape).astype(dtype)
        if dtype.kind in "fc" and rng.random() < 0.5:
            made = made / dtype.type(0 if rng.random() < 0.5 else 3)
    layout = int(rng.integers(6))
    made = np.asarray(made)
    if layout == 0 and made.ndim:
        made = made[::-1]
    elif layout == 1:
        made = np.asfortranarray(made)
    elif layout == 2:
        made.flags.writeable = False
    elif layout == 3 and dtype.kind != "V":
        made = np.ma.array(made, mask=rng.random(shape) < 0.3)
    elif layout == 4:
        made = np.broadcast_to(made, (2, *shape))
    return made


def space(rng: np.random.Generator, depth: int = 2) -> spaces.Space:
    """A space of any kind."""
    kind = int(rng.integers(12 if depth else 7))
    shape = tuple(rng.integers(0, 4, int(rng.integers(3))).tolist())
    if kind < 2:
        dtype = np.dtype(pick(rng, (np.float32, np.float64, np.uint8, np.int64, np.float16, np.int8)))
        return spaces.Box(0, 2, shape, dtype.type)
    if kind == 2:
        return spaces.Discrete(int(rng.integers(1, 5)), start=int(rng.integers(-2, 3)))
    if kind == 3:
        return spaces.MultiDiscrete(rng.integers(1, 4, int(rng.integers(1, 4))))
    if kind == 4:
        return spaces.MultiBinary(int(rng.integers(1, 5)))
    if kind == 5:
        return spaces.Text(int(rng.integers(1, 5000)))
    if kind == 6:
        return spaces.Graph(spaces.Box(0, 1, (2,)), pick(rng, (None, spaces.Discrete(2))))
    parts = [space(rng, depth - 1) for _ in range(int(rng.integers(1, 4)))]
    if kind in (7, 8):
        return spaces.Dict({f"part {i}": part for i, part in enumerate(parts)})
    if kind == 9:
        return spaces.Tuple(parts)
    if kind == 10:
        return spaces.OneOf(parts)
    return spaces.Sequence(parts[0], stack=bool(rng.random() < 0.5))
