"""A measured figure and the bar it is held against."""

from __future__ import annotations

import gc
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Measured(ABC):
    """A figure, and the bar it is held against."""

    name: str
    what: str  # the work, with its size
    ours: str  # what was measured
    unit: str
    ours_each: list[float]
    limit: float
    at_most: bool  # whether the figure should be at most `limit`, else at least
    details: dict[str, float] = field(default_factory=dict, kw_only=True)

    @property
    @abstractmethod
    def figure(self) -> float:
        """What is held against `limit`."""

    @property
    def holds(self) -> bool:
        """Whether the figure keeps the limit."""
        return self.figure <= self.limit if self.at_most else self.figure >= self.limit

    @property
    def bar(self) -> str:
        """The limit in words."""
        return f"{'at most' if self.at_most else 'at least'} {self.limit:,g}"


@dataclass(frozen=True)
class Amount(Measured):
    """The median of some measurements, held against the limit itself."""

    @property
    def figure(self) -> float:
        """The median, in `unit`."""
        return float(np.median(self.ours_each))


@dataclass(frozen=True)
class Ratio(Measured):
    """Two ways of doing the same, measured in turn."""

    other: str
    other_each: list[float]
    inverse: bool = field(
        default=False, kw_only=True
    )  # the figure is other / ours, how many times faster ours is

    @property
    def ratios(self) -> list[float]:
        """ours / other of each pair, or other / ours."""
        pairs = [ours / other for ours, other in zip(self.ours_each, self.other_each)]
        return [1 / ratio for ratio in pairs] if self.inverse else pairs

    @property
    def figure(self) -> float:
        """Median ratio of the pairs."""
        return float(np.median(self.ratios))


def interleaved(
    ours: Callable[[], float],
    other: Callable[[], float],
    pairs: int,
    on_pair: Callable[[], None] | None = None,
) -> tuple[list[float], list[float]]:
    """Measure both in turn, the one that goes first alternating.

    Args:
        ours: measures once and returns the number.
        other: the same.
        pairs: how often each is measured.
        on_pair: called after each pair.
    """
    first: list[float] = []
    second: list[float] = []
    for pair in range(pairs):
        if pair % 2 == 0:
            first.append(ours())
            second.append(other())
        else:
            second.append(other())
            first.append(ours())
        if on_pair is not None:
            on_pair()
    return first, second


def seconds(function: Callable[[], Any]) -> float:
    """Wall-clock time of one call, with the garbage collector held back as `timeit` does."""
    gc.collect()
    gc.disable()
    try:
        began = time.perf_counter()
        function()
        return time.perf_counter() - began
    finally:
        gc.enable()
