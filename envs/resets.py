"""What the batched reset takes: seeds, a mask, levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.error import Error

from graphwrap.envs.rules import checked_level

if TYPE_CHECKING:
    from graphwrap.envs.levels import LevelSource


def checked_seeds(seed: int | Sequence[int | None] | None, count: int) -> list[int | None]:
    """A seed, or None, per sub-environment: an int s means s, s + 1, ...

    Raises:
        ValueError: a list of another length.
        gymnasium.error.Error: a seed that is no int of at least 0.
    """
    if seed is None:
        return [None] * count
    if isinstance(seed, int):
        seeds: list[int | None] = [seed + row for row in range(count)]
    else:
        try:
            seeds = list(seed)
        except TypeError:
            raise Error(f"A seed is a Python int, a list of them, or None, got {seed!r}.") from None
        if len(seeds) != count:
            raise ValueError(
                f"A list of seeds has one per sub-environment, {count}, got {len(seeds)}; None leaves one unseeded."
            )
    for value in seeds:
        if value is not None and not (isinstance(value, int) and value >= 0):
            raise Error(
                f"A seed is a Python int of at least 0, got {value!r} of type {type(value).__name__}."
            )
    return seeds


def checked_mask(mask: Any, count: int) -> np.ndarray:
    """A mask of `count` sub-environments with at least one of them.

    Raises:
        TypeError: no bool array.
        ValueError: another shape, or all False.
    """
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        kind = f"dtype {mask.dtype}" if isinstance(mask, np.ndarray) else type(mask).__name__
        raise TypeError(f"options['reset_mask'] is a NumPy array of bool, got {kind}.")
    if mask.shape != (count,) or not mask.any():
        raise ValueError(
            f"options['reset_mask'] has shape ({count},) and at least one True, got {mask.tolist()} "
            f"of shape {mask.shape}."
        )
    return mask


def checked_levels(levels: LevelSource, given: Any, rows: np.ndarray, count: int) -> np.ndarray:
    """The levels of ``options["level"]``, one for all or one per sub-environment, in `rows`: int64 (k,).

    Raises:
        ValueError: a list of another length than `count`, or a level that there is not.
    """
    if isinstance(given, (list, tuple)) or (isinstance(given, np.ndarray) and given.ndim):
        if len(given) != count:
            raise ValueError(
                f"options['level'] is one integer, or one per sub-environment, {count}, got {len(given)}."
            )
        return np.array([checked_level(levels, given[row]) for row in rows.tolist()], np.int64)
    return np.full(len(rows), checked_level(levels, given), np.int64)
