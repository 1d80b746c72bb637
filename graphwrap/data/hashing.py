"""The 128-bit hash of rows of words. Its constants are fixed, so that digests are the same everywhere and for ever."""

from __future__ import annotations

import numpy as np

from graphwrap._jit import jit

_A = np.uint64(0x9E3779B185EBCA87)
_B = np.uint64(0xC2B2AE3D27D4EB4F)
_C = np.uint64(0xFF51AFD7ED558CCD)
_D = np.uint64(0xC4CEB9FE1A85EC53)
_E = np.uint64(0x87C37B91114253D5)
_R27, _R31, _R33, _R37 = np.uint64(27), np.uint64(31), np.uint64(33), np.uint64(37)


@jit
def _finish(h):  # type: ignore[no-untyped-def]
    """Let every bit of a word reach every other."""
    h = (h ^ (h >> _R33)) * _C
    h = (h ^ (h >> _R33)) * _D
    return h ^ (h >> _R33)


@jit
def digest_rows(words, first, second, digests):  # type: ignore[no-untyped-def]
    """Write the digest of each row of `words`, uint64 (n, width), into `digests`, uint64 (n, 2).

    Two streams read every word, each with its own constants and in two lanes (even and odd words) that the processor
    works on at the same time. A step of a stream is a bijection of its word and of its lane, so rows that differ in one
    word never meet in either; the four lanes are mixed at the end.

    Args:
        words: the rows.
        first: uint64, seed of one stream.
        second: uint64, seed of the other.
        digests: written.
    """
    width = words.shape[1]
    pairs = width // 2
    for i in range(words.shape[0]):
        a0, a1 = first ^ _A, first + _C
        b0, b1 = second ^ _B, second + _D
        for j in range(pairs):
            even, odd = words[i, 2 * j], words[i, 2 * j + 1]
            a0 += even * _B
            a0 = ((a0 << _R31) | (a0 >> _R33)) * _A
            a1 += odd * _B
            a1 = ((a1 << _R31) | (a1 >> _R33)) * _A
            b0 ^= even * _E
            b0 = ((b0 << _R27) | (b0 >> _R37)) * _D + _C
            b1 ^= odd * _E
            b1 = ((b1 << _R27) | (b1 >> _R37)) * _D + _C
        if width % 2:
            a0 += words[i, width - 1] * _B
            a0 = ((a0 << _R31) | (a0 >> _R33)) * _A
            b0 ^= words[i, width - 1] * _E
            b0 = ((b0 << _R27) | (b0 >> _R37)) * _D + _C
        size = np.uint64(width)
        high = _finish(a0 ^ size) * _A + _finish(a1 + size) * _B
        low = _finish(b0 + size) * _E + _finish(b1 ^ size) * _D
        high, low = _finish(high), _finish(low)
        high += low
        low += _finish(high)
        digests[i, 0] = high
        digests[i, 1] = low
