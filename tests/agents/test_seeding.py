"""Seeds that depend on their purpose and place alone."""

from __future__ import annotations

import pytest

from graphwrap.agents.seeding import STREAMS, distinct_seeds, seed_of


def test_every_purpose_and_place_has_a_seed_of_its_own() -> None:
    places = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]
    seeds = [seed_of(seed, stream, *place) for seed in (0, 1) for stream in STREAMS for place in places]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert seed_of(3, "tasks", 1, 2) == seed_of(3, "tasks", 1, 2)


def test_distinct_seeds() -> None:
    seeds = distinct_seeds(0, "tasks", 5, count=2000)
    assert len(set(seeds)) == 2000
    assert seeds == distinct_seeds(0, "tasks", 5, count=2000)
    assert not set(seeds) & set(distinct_seeds(0, "tasks", 6, count=2000))


def test_an_unknown_purpose_is_refused() -> None:
    with pytest.raises(ValueError, match="stream must be one of tasks, sampling"):
        seed_of(0, "task")
