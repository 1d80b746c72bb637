"""Bit operations that Numba has no name for, each one machine instruction."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


@intrinsic  # type: ignore[misc]
def lowest_bit(context: Any, word: Any) -> Any:
    """Position of the lowest set bit of a uint64 that is not 0, as int64."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        never_zero = context.get_constant(types.boolean, True)
        return builder.cttz(arguments[0], never_zero)

    return types.int64(types.uint64), build


@intrinsic  # type: ignore[misc]
def count_bits(context: Any, word: Any) -> Any:
    """Number of set bits of a uint64, as int64."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), build
