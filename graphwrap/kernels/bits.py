"""Bit operations that Numba has no name for, each one machine instruction."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


def _lowest_bit(context: Any, word: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        never_zero = context.get_constant(types.boolean, True)
        return builder.cttz(arguments[0], never_zero)

    return types.int64(types.uint64), build


def _count_bits(context: Any, word: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), build


lowest_bit: Any = intrinsic(_lowest_bit)
"""uint64 to int64: position of the lowest set bit of a word that is not 0. For compiled code only."""

count_bits: Any = intrinsic(_count_bits)
"""uint64 to int64: number of set bits. For compiled code only."""
