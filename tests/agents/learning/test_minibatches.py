"""Minibatches and how they go through the model."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.agents.learning.minibatches import micro_batches, minibatches, share_minibatch

tokens = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)


@pytest.mark.parametrize(
    ("count", "size", "sizes"), [(9, 4, [4, 4, 1]), (8, 4, [4, 4]), (3, 4, [3]), (0, 4, [])]
)
def test_minibatches_hold_every_row_once(count: int, size: int, sizes: list[int]) -> None:
    parts = minibatches(count, size, np.random.default_rng(5))
    assert [len(part) for part in parts] == sizes
    assert sorted(row for part in parts for row in part.tolist()) == list(range(count))


def test_the_order_is_the_generators() -> None:
    first, same, other = (
        np.concatenate(minibatches(50, 8, np.random.default_rng(seed))).tolist() for seed in (1, 1, 2)
    )
    assert first == same
    assert first != other
    assert first != sorted(first)


@given(st.lists(st.tuples(tokens, tokens), min_size=1, max_size=20), st.integers(1, 40))
def test_parts_fit_the_budget_with_padding(
    rows: list[tuple[tuple[int, ...], tuple[int, ...]]], budget: int
) -> None:
    prompts, responses = [row[0] for row in rows], [row[1] for row in rows]
    chosen = np.arange(len(rows))[::2]
    parts = micro_batches(chosen, prompts, responses, budget)
    assert sorted(row for part in parts for row in part.tolist()) == chosen.tolist()
    for part in parts:
        different = {rows[row] for row in part.tolist()}
        block = max(len(prompts[row]) for row in part) + max(len(responses[row]) for row in part)
        assert len(different) * block <= budget or len(different) == 1
    totals = [[len(prompts[row]) + len(responses[row]) for row in part.tolist()] for part in parts]
    assert all(min(before) >= max(after) for before, after in itertools.pairwise(totals))


def test_rows_of_similar_length_go_together() -> None:
    prompts = [(0,) * length for length in (2, 20, 3, 19)]
    responses = [(n,) for n in range(4)]
    parts = micro_batches(np.arange(4), prompts, responses, 42)
    assert [sorted(part.tolist()) for part in parts] == [[1, 3], [0, 2]]


def test_equal_rows_count_once() -> None:
    prompts, responses = [(1, 2), (1, 2), (1, 2), (3, 4)], [(5,), (5,), (5,), (5,)]
    assert [sorted(part.tolist()) for part in micro_batches(np.arange(4), prompts, responses, 3)] == [
        [3],
        [0, 1, 2],
    ]


def test_a_row_longer_than_the_budget_goes_alone() -> None:
    prompts, responses = [(1,) * 9, (1, 2), (2, 1)], [(1,), (1,), (1,)]
    assert [sorted(part.tolist()) for part in micro_batches(np.arange(3), prompts, responses, 6)] == [
        [0],
        [1, 2],
    ]


@given(
    st.lists(st.tuples(tokens, tokens), min_size=1, max_size=20),
    st.integers(1, 40),
    st.integers(1, 4),
)
def test_processes_share_a_minibatch(
    rows: list[tuple[tuple[int, ...], tuple[int, ...]]], budget: int, size: int
) -> None:
    prompts, responses = [row[0] for row in rows], [row[1] for row in rows]
    chosen = np.arange(len(rows))[::-1]
    shares = [share_minibatch(chosen, prompts, responses, budget, rank, size) for rank in range(size)]
    own = [[row for part in share.own for row in part.tolist()] for share in shares]
    assert sorted(row for share in own for row in share) == sorted(chosen.tolist())
    assert len({len(share.parts) for share in shares}) == 1
    assert min(share.fillers for share in shares) == 0
    different = [{rows[row] for row in share} for share in own]
    assert sum(map(len, different)) == len(set(rows))  # equal rows are in one process
    assert max(map(len, different)) - min(map(len, different)) <= 1
    for share in shares:
        assert (share.num_rows, share.num_tokens) == (len(rows), sum(map(len, responses)))
        assert all(len(part) == 1 for part in share.parts[len(share.own) :])
