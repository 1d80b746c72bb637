"""NumPy's PCG64 generators as rows of an array, so that thousands are seeded and drawn from in compiled code.

A row of ``streams``, uint64 (n, 6), is STATE_HIGH, STATE_LOW, INC_HIGH, INC_LOW, HALF_KEPT, HALF: what
``PCG64().state`` has. Seeding is that of ``numpy.random.SeedSequence`` (NumPy's ``bit_generator.pyx``), the generator
PCG XSL RR 128/64 (O'Neill 2014, pcg-random.org), bounded integers are Lemire's (arXiv:1805.10941), as in NumPy.
"""

from __future__ import annotations

import numpy as np

from graphwrap._jit import jit

STATE_HIGH, STATE_LOW, INC_HIGH, INC_LOW, HALF_KEPT, HALF = range(6)
NUM_FIELDS = 6
NUM_WORDS = 4  # of 32 bits per seed, SeedSequence's pool

_LOW = np.uint64(0xFFFFFFFF)
_ONE, _SHIFT, _HALF_WORD, _WORD = np.uint64(1), np.uint64(16), np.uint64(32), np.uint64(63)
_TOP = np.uint64(58)
_INIT_A, _MULT_A = np.uint64(0x43B0D7E5), np.uint64(0x931E8875)
_INIT_B, _MULT_B = np.uint64(0x8B51F9DD), np.uint64(0x58F38DED)
_MIX_LEFT, _MIX_RIGHT = np.uint64(0xCA01F9DD), np.uint64(0x4973F715)
_PCG_HIGH, _PCG_LOW = np.uint64(2549297995355413924), np.uint64(4865540595714422341)


@jit
def _scrambled(value: int, before: int, after: int) -> int:
    """SeedSequence's hash of one word, with its constant before and after it was multiplied."""
    value = ((value ^ before) * after) & _LOW
    return value ^ (value >> _SHIFT)


@jit
def _high_product(a: int, b: int) -> int:
    """The high 64 bits of a product of two 64-bit words."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF_WORD, b & _LOW, b >> _HALF_WORD
    low_high, high_low = a_low * b_high, a_high * b_low
    middle = ((a_low * b_low) >> _HALF_WORD) + (low_high & _LOW) + (high_low & _LOW)
    return a_high * b_high + (low_high >> _HALF_WORD) + (high_low >> _HALF_WORD) + (middle >> _HALF_WORD)


@jit
def _advance(stream: np.ndarray) -> None:
    """state = state * multiplier + increment, modulo 2**128."""
    high, low = stream[STATE_HIGH], stream[STATE_LOW]
    new_low = low * _PCG_LOW
    new_high = _high_product(low, _PCG_LOW) + high * _PCG_LOW + low * _PCG_HIGH
    total = new_low + stream[INC_LOW]
    stream[STATE_HIGH] = new_high + stream[INC_HIGH] + (_ONE if total < new_low else _ONE - _ONE)
    stream[STATE_LOW] = total


@jit
def seed_streams(streams: np.ndarray, rows: np.ndarray, words: np.ndarray) -> None:
    """Starts streams as ``numpy.random.PCG64(seed)`` does.

    Args:
        streams: uint64 (n, 6), changed in `rows`.
        rows: int64 (k,).
        words: uint64 (k, 4), the seeds in words of 32 bits, lowest first.
    """
    pool = np.empty(NUM_WORDS, np.uint64)
    halves = np.empty(2 * NUM_WORDS, np.uint64)
    for number in range(len(rows)):
        constant = _INIT_A
        for word in range(NUM_WORDS):
            following = (constant * _MULT_A) & _LOW
            pool[word] = _scrambled(words[number, word], constant, following)
            constant = following
        for source in range(NUM_WORDS):
            for target in range(NUM_WORDS):
                if source == target:
                    continue
                following = (constant * _MULT_A) & _LOW
                value = _scrambled(pool[source], constant, following)
                constant = following
                mixed = (_MIX_LEFT * pool[target] - _MIX_RIGHT * value) & _LOW
                pool[target] = mixed ^ (mixed >> _SHIFT)
        constant = _INIT_B
        for half in range(2 * NUM_WORDS):
            following = (constant * _MULT_B) & _LOW
            halves[half] = _scrambled(pool[half % NUM_WORDS], constant, following)
            constant = following

        stream = streams[rows[number]]
        start_high, start_low = halves[0] | halves[1] << _HALF_WORD, halves[2] | halves[3] << _HALF_WORD
        inc_high, inc_low = halves[4] | halves[5] << _HALF_WORD, halves[6] | halves[7] << _HALF_WORD
        stream[INC_HIGH] = inc_high << _ONE | inc_low >> _WORD
        stream[INC_LOW] = inc_low << _ONE | _ONE
        stream[HALF_KEPT] = stream[HALF] = 0
        # From state 0, one step leaves the increment; then the start is added, and one more step made.
        low = stream[INC_LOW] + start_low
        stream[STATE_HIGH] = stream[INC_HIGH] + start_high + (_ONE if low < start_low else _ONE - _ONE)
        stream[STATE_LOW] = low
        _advance(stream)


@jit
def _next_half(stream: np.ndarray) -> int:
    """The next 32 bits."""
    if stream[HALF_KEPT]:
        stream[HALF_KEPT] = 0
        return stream[HALF]
    _advance(stream)
    mixed, turn = stream[STATE_HIGH] ^ stream[STATE_LOW], stream[STATE_HIGH] >> _TOP
    word = mixed >> turn | mixed << ((_WORD + _ONE - turn) & _WORD)
    stream[HALF_KEPT], stream[HALF] = 1, word >> _HALF_WORD
    return word & _LOW


@jit
def draw(stream: np.ndarray, bound: int) -> int:
    """What ``Generator.integers(bound)`` gives, for a bound of 1 to 2**32 - 1.

    Args:
        stream: uint64 (6,), changed.
        bound: exclusive.
    """
    if bound == 1:
        return 0
    width = np.uint64(bound)
    product = _next_half(stream) * width
    if product & _LOW < width:
        threshold = (_LOW - (width - _ONE)) % width
        while product & _LOW < threshold:
            product = _next_half(stream) * width
    return np.int64(product >> _HALF_WORD)


@jit
def draw_each(streams: np.ndarray, rows: np.ndarray, bound: int) -> np.ndarray:
    """The next draw of each of `rows`, int64 (k,): a new int64 (k,)."""
    numbers = np.empty(len(rows), np.int64)
    for number in range(len(rows)):
        numbers[number] = draw(streams[rows[number]], bound)
    return numbers
