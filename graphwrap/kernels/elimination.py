"""Sparse Gaussian elimination of small systems x = b + A x, the node with the fewest connections first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from graphwrap._jit import jit
from graphwrap.kernels.bits import count_bits, lowest_bit
from graphwrap.kernels.grouping import FloatArray, Int32Array

SMALL = 512
"""Most nodes of a system: the coefficients are a square matrix (2 MiB), the pattern is rows of bits."""

ONE = np.uint64(1)
SIX = np.uint64(6)
LOW = np.uint64(63)

BUCKETS = 64


@jit
def eliminate(
    size: int,
    words: int,
    matrix: FloatArray,
    after: npt.NDArray[np.uint64],
    before: npt.NDArray[np.uint64],
    right: FloatArray,
    work: Int32Array,
    values: FloatArray,
) -> None:
    """Solve x = right + matrix x in place of `right`, for a matrix >= 0 whose rows sum to less than 1.

    Eliminating node u adds matrix[p, u] * matrix[u, q] / (1 - matrix[u, u]) to every matrix[p, q] with p before and q
    after u. A node goes the earlier the smaller the product of the numbers of such p and q (Markowitz), which keeps
    the pattern sparse. All terms are positive, so nothing cancels and every order is stable.

    Args:
        size: number of nodes n.
        words: words of 64 bits that hold n bits.
        matrix: float64 (n or more, n or more); all 0 afterwards.
        after: uint64 (n or more, words or more), bit q of row p: matrix[p, q] != 0; all 0 afterwards.
        before: uint64, its transpose; all 0 afterwards.
        right: float64 (n or more,), replaced by x.
        work: int32 (4, n or more and 64 or more), any content.
        values: float64 (n or more,), any content.
    """
    # Indices are unsigned, since Numba tests every signed one for counting from the end.
    order, targets, following, first = work[0], work[1], work[2], work[3]
    # Stacks of nodes by that product as it was when they were put there; it is looked up again when their turn comes.
    first[:BUCKETS] = -1
    left = np.zeros(words, np.uint64)  # the nodes not yet eliminated
    for u in range(size):
        left[u >> 6] |= ONE << (np.uint64(u) & LOW)
        following[u] = u + 1
    if size > 0:
        following[size - 1] = -1
        first[0] = 0

    lowest, turn = 0, 0
    while turn < size:
        u = first[lowest]
        if u < 0:
            lowest += 1
            continue
        first[lowest] = following[u]
        product = min(_connections(after, before, left, u, words), BUCKETS - 1)
        if product > lowest:
            following[u] = first[product]
            first[product] = u
            continue
        order[turn] = u
        turn += 1
        left[u >> 6] ^= ONE << (np.uint64(u) & LOW)
        factor = 1.0 / (1.0 - matrix[u, u])
        matrix[u, u] = 0.0
        right[u] *= factor
        number = 0
        for w in range(words):
            bits = after[u, w] & left[w]
            after[u, w] = bits
            while bits != 0:
                q = np.uint64((w << 6) + lowest_bit(bits))
                bits &= bits - ONE
                targets[number] = q
                values[number] = matrix[u, q] * factor
                matrix[u, q] = values[number]
                for v in range(words):
                    before[q, v] |= before[u, v]
                number += 1
        for w in range(words):
            bits = before[u, w] & left[w]
            before[u, w] = 0
            while bits != 0:
                p = np.uint64((w << 6) + lowest_bit(bits))
                bits &= bits - ONE
                share = matrix[p, u]
                matrix[p, u] = 0.0
                right[p] += share * right[u]
                for k in range(number):
                    matrix[p, targets[k]] += share * values[k]
                for v in range(words):
                    after[p, v] |= after[u, v]

    for turn in range(size - 1, -1, -1):
        u = order[turn]
        total = right[u]
        for w in range(words):
            bits = after[u, w]
            after[u, w] = 0
            while bits != 0:
                q = np.uint64((w << 6) + lowest_bit(bits))
                bits &= bits - ONE
                total += matrix[u, q] * right[q]
                matrix[u, q] = 0.0
        right[u] = total


@jit
def _connections(after, before, left, u, words):  # type: ignore[no-untyped-def]
    """Product of the numbers of nodes left before and after u."""
    into, out = 0, 0
    for w in range(words):
        into += count_bits(before[u, w] & left[w])
        out += count_bits(after[u, w] & left[w])
    return into * out
