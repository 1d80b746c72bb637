"""Compiled streams and draws against NumPy's own generators."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.envs import streams
from graphwrap.envs.draws import Draws, streams_are_numpys

SEEDS = st.one_of(
    st.integers(0, 2**128 - 1), st.integers(0, 100), st.sampled_from([2**32 - 1, 2**32, 2**64 - 1, 2**64])
)
BOUNDS = st.one_of(st.integers(1, 2**32 - 1), st.sampled_from([1, 2, 2000, 2**31, 3 * 2**30, 2**32 - 1]))


def seeded(seed: int) -> np.ndarray:
    rows = np.zeros((2, streams.NUM_FIELDS), np.uint64)
    words = np.array([[seed >> 32 * word & 0xFFFFFFFF for word in range(4)]], np.uint64)
    streams.seed_streams(rows, np.array([1]), words)
    assert not rows[0].any()
    return rows[1]


@given(SEEDS, st.lists(BOUNDS, max_size=12))
def test_streams_are_pcg64(seed: int, bounds: list[int]) -> None:
    """Every state and every draw, also where the bound is such that draws are rejected often."""
    stream, generator = seeded(seed), np.random.Generator(np.random.PCG64(seed))
    for bound in [*bounds, 2**31]:
        state = generator.bit_generator.state
        high, low, inc_high, inc_low, kept, half = (int(value) for value in stream)
        assert high << 64 | low == state["state"]["state"]
        assert inc_high << 64 | inc_low == state["state"]["inc"]
        assert (kept, half) == (state["has_uint32"], state["uinteger"])
        assert streams.draw(stream, bound) == generator.integers(bound)


def test_this_numpy_draws_so() -> None:
    assert streams_are_numpys()


def test_rows_draw_apart() -> None:
    draws = Draws(3, 1999)
    draws.seed([0, 1, 2], [5, 2**70, 5])
    alone = [np.random.default_rng(seed) for seed in (5, 2**70, 5)]
    for _ in range(50):
        assert draws.take(np.array([2, 1])).tolist() == [alone[2].integers(1999), alone[1].integers(1999)]
    assert draws.generator(1).bit_generator.state == alone[1].bit_generator.state
    assert draws.generator(1) is draws.generator(1)
    assert draws.take(np.array([0, 1])).tolist() == [alone[0].integers(1999), alone[1].integers(1999)]
    assert draws.shared.tolist() == [False, True, False]
    draws.seed([1], [9])
    assert draws.shared.tolist() == [False, False, False]
    assert draws.take(np.array([1]))[0] == np.random.default_rng(9).integers(1999)
    assert [draws.seed_of(row) for row in range(3)] == [5, 9, 5]


def test_given_generators_and_very_large_seeds() -> None:
    draws = Draws(3, 7)
    draws.replace(0, np.random.Generator(np.random.MT19937(3)))
    draws.seed([1, 2], [2**128, 4])
    alone = [
        np.random.Generator(np.random.MT19937(3)),
        np.random.default_rng(2**128),
        np.random.default_rng(4),
    ]
    for _ in range(20):
        assert draws.take(np.arange(3)).tolist() == [one.integers(7) for one in alone]
    assert [draws.seed_of(row) for row in range(3)] == [-1, 2**128, 4]


@pytest.mark.parametrize("first", ["take", "seed_of", "generator"])
def test_rows_without_a_seed_get_one(first: str) -> None:
    draws = Draws(2, 2**31)
    draws.seed_new()
    if first == "take":
        draws.take(np.array([0]))
    else:
        getattr(draws, first)(0)
    seeds = [draws.seed_of(row) for row in range(2)]
    assert seeds[0] != seeds[1]
    assert draws.take(np.array([1]))[0] == np.random.default_rng(seeds[1]).integers(2**31)
