"""Hyperparameters of the credit methods: dataclass fields that check their values and can describe themselves."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any


def number(
    default: float,
    help: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
) -> Any:
    """A dataclass field: a finite number between `low` and `high`; `open_low` and `open_high` leave the end out."""
    if low == -math.inf and high == math.inf:
        rule = "a finite number"
    elif high == math.inf:
        rule = f"{'greater than' if open_low else 'at least'} {low:g}"
    else:
        rule = f"in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"

    def check(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"{name} must be {rule}, got {value!r}")
        value = float(value)
        too_low = value <= low if open_low else value < low
        too_high = value >= high if open_high else value > high
        if not math.isfinite(value) or too_low or too_high:
            raise ValueError(f"{name} must be {rule}, got {value!r}")
        return value

    return _field(default, help, rule, check)


def choice(default: str, help: str, *options: str) -> Any:
    """A dataclass field: one of `options`."""
    rule = "one of " + ", ".join(repr(option) for option in options)

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in options:
            raise ValueError(f"{name} must be {rule}, got {value!r}")
        return value

    return _field(default, help, rule, check)


def flag(default: bool, help: str) -> Any:
    """A dataclass field: True or False."""

    def check(name: str, value: Any) -> bool:
        if value is not True and value is not False:
            raise TypeError(f"{name} must be True or False, got {value!r}")
        return value

    return _field(default, help, "True or False", check)


def count(default: int, help: str) -> Any:
    """A dataclass field: a whole number, at least 1."""
    rule = "a whole number, at least 1"

    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"{name} must be {rule}, got {value!r}")
        if value < 1:
            raise ValueError(f"{name} must be {rule}, got {value!r}")
        return int(value)

    return _field(default, help, rule, check)


def _field(default: Any, help: str, rule: str, check: Callable[[str, Any], Any]) -> Any:
    return dataclasses.field(default=default, metadata={"help": help, "rule": rule, "check": check})


def episode_statistics() -> Any:
    """The field `episode_statistics` of the methods with an outcome part."""
    return choice(
        "trajectory",
        "how episodes count in A^E: each once (the papers' formula), or once per step (public code)",
        "trajectory",
        "step",
    )


def std(default: bool = True) -> Any:
    """The field `std` of the methods that normalise within groups."""
    return flag(default, "divide by the group's standard deviation, not only subtract its mean")


def eps() -> Any:
    """The field `eps` of the methods that normalise within groups."""
    return number(0.0, "added to the standard deviation, to reproduce public code (1e-6)", low=0.0)


def gamma(default: float, *, below_one: bool = False) -> Any:
    """The field `gamma` of the methods that discount."""
    return number(default, "discount factor", low=0.0, high=1.0, open_high=below_one)


def weight(of: str) -> Any:
    """The field that weighs one part of the advantage."""
    return number(1.0, f"weight of {of} in the advantage")
