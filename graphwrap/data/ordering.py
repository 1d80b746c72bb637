"""Order, check and judge the steps of episodes. All functions work on arrays of ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphwrap._jit import jit

_FINE, _CHAIN, _AFTER_END, _GIVEN, _COST, _REWARD, _TASK = range(7)


@jit
def _place_steps(episode, step, offsets, order):  # type: ignore[no-untyped-def]
    """Fill `offsets`, int64 (E + 1,), and `order`, int32 (N,); return the first row that has no place, or -1."""
    offsets[:] = 0
    for row in range(episode.size):
        offsets[np.uint64(episode[row]) + np.uint64(1)] += 1
    for e in range(1, offsets.size):
        offsets[e] += offsets[e - 1]
    order[:] = -1
    for row in range(step.size):
        of_row = np.uint64(episode[row])
        first, after = offsets[of_row], offsets[of_row + np.uint64(1)]
        place = np.uint64(first + step[row])
        if step[row] < 0 or first + step[row] >= after or order[place] >= 0:
            return row
        order[place] = row
    return -1


@jit
def _judge_episodes(  # type: ignore[no-untyped-def]
    order, offsets, task, state, next_state, reward, cost, terminated, truncated, given, outcome
):
    """Check all rows in the order of their episodes and write each episode's outcome.

    `given` is int8 (N,), the outcome per row or -1, or empty; `outcome` int8 (E,), the outcome per episode or -1 where
    `given` is empty. Returns (what is wrong, its row, whether an inferred and terminated episode had a reward before
    its last step).
    """
    dense = False
    has_outcomes = given.size > 0
    for e in range(outcome.size):
        start, stop = offsets[e], offsets[e + 1]
        if stop == start:
            continue
        row = np.uint64(order[start])  # a signed index costs a test for being negative
        of_task, after, ended = task[row], state[row], False
        if has_outcomes:
            outcome[e] = given[row]
        total = 0.0
        earlier = 0  # rewards before the last step
        for i in range(start, stop):
            before, row = row, np.uint64(order[np.uint64(i)])
            broken = ended | (state[row] != after)
            wrong = broken | (task[row] != of_task) | (cost[row] <= 0.0) | ~(cost[row] < np.inf)
            if has_outcomes:
                wrong |= given[row] != outcome[e]
            if wrong:
                if task[row] != of_task:
                    return _TASK, np.int64(row), dense
                if has_outcomes and given[row] != outcome[e]:
                    return _GIVEN, np.int64(row), dense
                if broken:
                    return _AFTER_END if ended else _CHAIN, np.int64(before), dense
                return _COST, np.int64(row), dense
            after, ended = next_state[row], terminated[row] | truncated[row]
            total += reward[row]
            earlier += (reward[row] != 0.0) & (i < stop - 1)
        if not abs(total) < np.inf:
            for i in range(start, stop):
                if abs(reward[order[i]]) == np.inf:
                    return _REWARD, np.int64(order[i]), dense
        if np.isnan(total):
            outcome[e] = 3
        elif outcome[e] >= 0:
            continue
        elif terminated[row]:
            outcome[e] = 0 if total > 0.0 else 1
            dense = dense or earlier > 0
        else:
            outcome[e] = 1 if truncated[row] else 2
    return _FINE, np.int64(0), dense


@jit
def episode_returns(order, offsets, reward):  # type: ignore[no-untyped-def]
    """Return the sum of each episode's rewards, float64 (E,)."""
    totals = np.zeros(offsets.size - 1)
    for e in range(totals.size):
        for i in range(offsets[e], offsets[e + 1]):
            totals[e] += reward[order[i]]
    return totals


@jit
def returns_to_go(order, offsets, reward, gamma):  # type: ignore[no-untyped-def]
    """Return r_t + gamma * r_{t+1} + gamma**2 * r_{t+2} + ... to the episode's end, float64 (N,)."""
    result = np.empty(reward.size)
    for e in range(offsets.size - 1):
        ahead = 0.0
        for i in range(offsets[e + 1] - 1, offsets[e] - 1, -1):
            ahead = reward[order[i]] + gamma * ahead
            result[order[i]] = ahead
    return result


def order_steps(
    episode: np.ndarray, step: np.ndarray, num_episodes: int, name: Callable[[int], str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return (order, offsets): episode e is the rows `order[offsets[e]:offsets[e + 1]]`, by step.

    Args:
        episode: int32 (N,).
        step: int32 (N,); of another dtype if a step does not fit int32.
        num_episodes: Number of episodes E.
        name: Gives the words for the episode of a row.

    Returns:
        order int32 (N,), offsets int64 (E + 1,).

    Raises:
        ValueError: The steps of an episode are not 0, 1, 2, ... without gaps and repeats.
    """
    offsets, order = np.empty(num_episodes + 1, np.int64), np.empty(episode.size, np.int32)
    if step.dtype == np.int32:
        bad = _place_steps(episode, step, offsets, order)
    else:
        bad = int(np.flatnonzero((step < 0) | (step >= step.size))[0])
    if bad < 0:
        return order, offsets
    steps = np.sort(step[episode == episode[bad]])
    wrong = np.flatnonzero(steps != np.arange(steps.size))[0]
    if steps[0] < 0:
        fault = f"got step {steps[0]}"
    elif steps[wrong] < wrong:
        fault = f"step {steps[wrong]} is there more than once"
    else:
        fault = f"step {wrong} is missing (the next one is step {steps[wrong]})"
    raise ValueError(
        f"step must count 0, 1, 2, ... within an episode, but in {name(bad)} {fault}; give every step once, and every "
        "episode a label of its own"
    )


def judge(
    columns: dict[str, np.ndarray],
    given: np.ndarray,
    outcome: np.ndarray,
    order: np.ndarray,
    offsets: np.ndarray,
    name: Callable[[int], str],
    label: Callable[[str, int], str],
) -> bool:
    """Complete `outcome` and return whether inference may mislead, or say which step breaks which rule.

    Args:
        columns: The columns of `Transitions` by name.
        given: int8 (N,), the outcome per row, or -1 where it is to be inferred; or empty.
        outcome: int8 (E,), where `given` is empty the same per episode; written.
        order, offsets: From `order_steps`.
        name: Gives the words for the episode of a row.
        label: Gives the words for the state of a row in a column.

    Raises:
        ValueError: A broken chain, a step after the end, an outcome that changes within an episode, a cost that is not
            above 0 and finite, an infinite reward.
    """
    names = ("task", "state", "next_state", "reward", "cost", "terminated", "truncated")
    arrays = (order, offsets, *(columns[key] for key in names), given, outcome)
    code, row, dense = _judge_episodes(*arrays)  # type: ignore[call-arg]
    if code == _FINE:
        return bool(dense)
    step = int(columns["step"][row])
    where = f"{name(row)}, step {step}"
    value: Any
    if code == _CHAIN:
        after = int(order[np.flatnonzero(order == row)[0] + 1])
        raise ValueError(
            f"next_state must equal the state of the step after it, but in {where}, next_state is "
            f"{label('next_state', row)} and the state of step {step + 1} is {label('state', after)}; give the "
            "observation the step led to as next_state (the final one, not the one after a reset)"
        )
    if code == _AFTER_END:
        flag = "terminated" if columns["terminated"][row] else "truncated"
        raise ValueError(
            f"{flag} must be True on an episode's last step only, but {where}, has it and step {step + 1} follows; "
            "start a new episode label after it"
        )
    if code == _GIVEN:
        raise ValueError(
            f"success must be the same on all steps of an episode, but {name(row)} changes it at step {step}; repeat "
            "the episode's outcome on each of its rows"
        )
    if code == _TASK:
        raise ValueError(
            f"task must be the same on all steps of an episode, but {name(row)} changes it at step {step}; give "
            "every episode an id of its own"
        )
    column, rule = {
        _COST: ("cost", "above 0 and finite"),
        _REWARD: ("reward", "finite, or NaN for unscored"),
    }[code]
    value = columns[column][row]
    raise ValueError(
        f"{column} must be {rule}, but in {where}, it is {value}; correct it or leave the episode out"
    )
