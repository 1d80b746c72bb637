"""Generalised advantage estimation over the steps of episodes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphwrap.agents.learning.critic import estimate, explained_variance, normalised
from graphwrap.agents.playing.rows import StepRows

pytestmark = pytest.mark.llm


def rows_of(
    rewards: list[float], terminated: list[bool], truncated: list[bool], episode: list[int]
) -> StepRows:
    count = len(rewards)
    return StepRows(
        prompts=[(1,)] * count,
        responses=[(1,)] * count,
        log_probs=[np.zeros(1, np.float32)] * count,
        advantages=np.zeros(count),
        mask=np.ones(count, np.bool_),
        rewards=np.array(rewards),
        terminated=np.array(terminated),
        truncated=np.array(truncated),
        valid=np.ones(count, np.bool_),
        episode=np.array(episode),
        step=np.zeros(count, np.int64),
    )


def test_an_end_is_worth_nothing_and_a_time_limit_what_the_state_is_worth() -> None:
    rows = rows_of(
        rewards=[0.0, 1.0, 9.0, 0.0, -1.0],
        terminated=[False, True, False, False, False],
        truncated=[False, False, False, False, True],
        episode=[0, 0, 1, 2, 2],
    )
    chosen = np.array([0, 1, 3, 4])  # episode 1 was broken off
    values = np.array([0.5, 0.25, 2.0, 4.0])
    advantages, returns = estimate(rows, chosen, values, {2: 8.0}, 0.5, 0.5)
    one = 1.0 - 0.25
    zero = (0.0 + 0.5 * 0.25 - 0.5) + 0.25 * one
    four = -1.0 + 0.5 * 8.0 - 4.0
    three = (0.0 + 0.5 * 4.0 - 2.0) + 0.25 * four
    assert advantages.tolist() == [zero, one, three, four]
    assert returns.tolist() == [zero + 0.5, one + 0.25, three + 2.0, four + 4.0]


def test_terminated_and_truncated_at_once_is_an_end() -> None:
    rows = rows_of([1.0], [True], [True], [0])
    assert estimate(rows, np.array([0]), np.array([0.0]), {0: 8.0}, 0.5, 0.5)[0].tolist() == [1.0]


def test_lambda_one_gives_the_discounted_return() -> None:
    rows = rows_of([1.0, 2.0, 4.0], [False, False, True], [False] * 3, [0] * 3)
    values = np.array([3.0, -7.0, 0.5])
    _, returns = estimate(rows, np.arange(3), values, {}, 0.5, 1.0)
    assert returns.tolist() == [1 + 0.5 * (2 + 0.5 * 4), 2 + 0.5 * 4, 4]


@pytest.mark.parametrize("truncated", [False, True])
def test_an_episode_has_an_end_with_a_value(truncated: bool) -> None:
    rows = rows_of([1.0], [False], [truncated], [7])
    with pytest.raises(ValueError, match="episode 7 is neither"):
        estimate(rows, np.array([0]), np.array([0.0]), {}, 0.5, 0.5)


def test_normalised() -> None:
    assert normalised(np.array([1.0, 3.0])).tolist() == [-1.0, 1.0]
    assert normalised(np.array([2.0])).tolist() == [0.0]
    assert normalised(np.array([0.1] * 3)).tolist() == [0.0] * 3


def test_explained_variance() -> None:
    assert explained_variance(np.array([1.0, 3.0]), np.array([2.0, 4.0])) == 1.0
    assert explained_variance(np.zeros(2), np.array([2.0, 4.0])) == 0.0
    assert math.isnan(explained_variance(np.zeros(2), np.ones(2)))
