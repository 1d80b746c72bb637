"""Random numbers that depend on the run's seed, their purpose and their place in the run, and on nothing else."""

from __future__ import annotations

import numpy as np

STREAMS = ("tasks", "sampling", "minibatches", "validation", "warm start", "model", "evaluation")
"""The purposes."""


def sequence(seed: int, stream: str, *place: int) -> np.random.SeedSequence:
    """Return the entropy of one purpose at one place of a run.

    Args:
        seed: The run's seed, 0 or more.
        stream: One of `STREAMS`.
        place: Whatever tells its uses apart, such as the update's number; 0 or more each.

    Raises:
        ValueError: The stream does not exist, or a number is negative.
    """
    if stream not in STREAMS:
        raise ValueError(f"stream must be one of {', '.join(STREAMS)}, got {stream!r}")
    # The length is part of it: SeedSequence takes [1] and [1, 0] for the same.
    return np.random.SeedSequence([seed, STREAMS.index(stream), len(place), *place])


def seed_of(seed: int, stream: str, *place: int) -> int:
    """Return a seed below 2**32, which every environment and torch take; arguments as in `sequence`."""
    return int(sequence(seed, stream, *place).generate_state(1)[0])


def distinct_seeds(seed: int, stream: str, *place: int, count: int) -> list[int]:
    """Return `count` different seeds below 2**32; arguments as in `sequence`."""
    seeds: dict[int, None] = {}
    attempt = 0
    while len(seeds) < count:
        drawn = sequence(seed, stream, *place, attempt).generate_state(count - len(seeds))
        seeds.update(dict.fromkeys(map(int, drawn)))
        attempt += 1
    return list(seeds)
