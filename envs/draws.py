"""Level draws of many sub-environments, each the ones that a single environment with its seed would make."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from gymnasium.utils import seeding

from graphwrap.envs import streams

_LARGEST = 2 ** (32 * streams.NUM_WORDS)  # above any seed that a stream takes


class Draws:
    """One generator per sub-environment: a row of compiled streams, or a Generator shared with the caller.

    A Generator is made, from where the stream is, when it is asked for; whoever holds it then sees and shifts what a
    single environment with it would.

    Args:
        count: sub-environments.
        bound: draws are integers of 0 to ``bound - 1``, at most 2**31.
    """

    def __init__(self, count: int, bound: int) -> None:
        self.bound = bound
        self.streams = np.zeros((count, streams.NUM_FIELDS), np.uint64)
        self.shared = np.zeros(count, np.bool_)
        """Rows that draw from a Generator, (n,)."""
        self._generators: list[np.random.Generator | None] = [None] * count
        self._seeds: list[int | None] = [None] * count
        self._complete = False  # has every row a seed or a generator?

    def seed(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Starts the streams of `rows` anew, as ``reset(seed=seed)`` does."""
        if not rows:
            return
        if not streams_are_numpys() or max(seeds) >= _LARGEST:
            for row, seed in zip(rows, seeds):
                self._share(row, *seeding.np_random(seed))
            return
        words = np.frombuffer(
            b"".join([seed.to_bytes(4 * streams.NUM_WORDS, "little") for seed in seeds]), "<u4"
        )
        streams.seed_streams(
            self.streams, np.array(rows, np.int64), words.reshape(-1, streams.NUM_WORDS).astype(np.uint64)
        )
        self.shared[rows] = False
        for row, seed in zip(rows, seeds):
            self._seeds[row], self._generators[row] = seed, None

    def seed_new(self) -> None:
        """Gives a random seed to each row that has never had one."""
        if self._complete:
            return
        rows = [row for row, seed in enumerate(self._seeds) if seed is None]
        self.seed(rows, [seeding.np_random()[1] for _ in rows])
        self._complete = True

    def take(self, rows: np.ndarray) -> np.ndarray:
        """The next number of each of `rows`, int64 (k,), no row twice."""
        self.seed_new()  # a stream without a seed yields zeros, which are rejected without end
        shared = self.shared[rows]
        numbers = np.empty(len(rows), np.int64)
        numbers[~shared] = streams.draw_each(self.streams, rows[~shared], self.bound)
        for place in np.flatnonzero(shared).tolist():
            numbers[place] = self.generator(int(rows[place])).integers(self.bound)
        return numbers

    def generator(self, row: int) -> np.random.Generator:
        """Row's generator, to share with the caller."""
        generator = self._generators[row]
        if generator is None:
            self.seed_new()
            generator = np.random.Generator(np.random.PCG64(0))
            values = [int(value) for value in self.streams[row]]
            generator.bit_generator.state = {
                "bit_generator": "PCG64",
                "state": {"state": values[0] << 64 | values[1], "inc": values[2] << 64 | values[3]},
                "has_uint32": values[streams.HALF_KEPT],
                "uinteger": values[streams.HALF],
            }
            self._share(row, generator, self.seed_of(row))
        return generator

    def replace(self, row: int, generator: np.random.Generator) -> None:
        """Draws row's numbers from the caller's generator from now on."""
        self._share(row, generator, -1)

    def seed_of(self, row: int) -> int:
        """The seed of row's generator, -1 where that came from outside."""
        self.seed_new()
        seed = self._seeds[row]
        assert seed is not None
        return seed

    def _share(self, row: int, generator: np.random.Generator, seed: int) -> None:
        self._generators[row], self._seeds[row] = generator, seed
        self.shared[row] = True


@cache
def streams_are_numpys() -> bool:
    """Do the streams draw what this NumPy does? Its releases may change what ``integers`` makes of the bits."""
    bounds = (3, 2000, 2**31 - 1)
    theirs = np.random.default_rng(2**40 + 1)
    ours = np.zeros((1, streams.NUM_FIELDS), np.uint64)
    streams.seed_streams(ours, np.zeros(1, np.int64), np.array([[1, 2**8, 0, 0]], np.uint64))
    return all(streams.draw(ours[0], bound) == theirs.integers(bound) for bound in bounds * 5)
