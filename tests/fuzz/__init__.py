"""Random and broken input for everything that reads what users give.

    python -m tests.fuzz --minutes 10

A target makes one input from a generator and hands it over; it may succeed, or raise an error that the function
documents. Anything else is a fault, printed with the command that repeats it.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

Target = Callable[[np.random.Generator], str]
"""Makes and tries one input; returns "accepted" or "refused"."""


@dataclass(frozen=True)
class Fault:
    """An error that nothing documents."""

    target: str
    seed: int
    case: int
    trace: str

    def __str__(self) -> str:
        return f"{self.trace}\nagain: python -m tests.fuzz --only {self.target} --seed {self.seed} --case {self.case}"


def generator(target: str, seed: int, case: int) -> np.random.Generator:
    """The randomness of one case: the same in every process."""
    return np.random.default_rng([seed, case, *target.encode()])


def try_case(name: str, target: Target, seed: int, case: int) -> str | Fault:
    """What became of one case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return target(generator(name, seed, case))
        except Exception:
            return Fault(name, seed, case, traceback.format_exc())


def cases(
    targets: dict[str, Target], seed: int, *, seconds: float | None = None, each: int | None = None
) -> Iterator[tuple[str, str | Fault]]:
    """Try the targets in turn, for some seconds or so many cases each.

    Yields:
        The target's name, and what became of the case.
    """
    until = time.monotonic() + (seconds if seconds is not None else float("inf"))
    case = 0
    while time.monotonic() < until and (each is None or case < each):
        for name, target in targets.items():
            yield name, try_case(name, target, seed, case)
        case += 1
