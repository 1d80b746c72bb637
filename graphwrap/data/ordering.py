"""Order, check and judge the steps of episodes. All functions work on arrays of ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphwrap._jit import jit

_FINE, _CHAIN, _AFTER_END, _GIVEN, _COST, _REWARD, _TASK = range(7)


@jit
def _place_steps(episode, step, offsets, order):  # type: ignore[no-untyped-def]
    """Fill `order` (int32 (N,), all -1) and return the first row whose step cannot be placed, or -1."""
    for row in range(step.size):
        first = offsets[episode[row]]
        if step[row] < 0 or step[row] >= offsets[episode[row] + 1] - first or order[first + step[row]] >= 0:
            return row
        order[first + step[row]] = row
    return -1


@jit
def _judge_episodes(  # type: ignore[no-untyped-def]
    order, offsets, task, state, next_state, reward, cost, terminated, truncated, given, outcome
):
    """Check all rows in the order of their episodes and write each episode's outcome.

    `given` is int8 (N,), the outcome per row or -1; `outcome` int8 (E,). Returns (what is wrong, its row, whether an
    inferred and terminated episode had a reward before its last step).
    """
    dense = False
    for e in range(outcome.size):
        start, stop = offsets[e], offsets[e + 1]
        total = 0.0
        early = False
        for i in range(start, stop):
            row = order[i]
            if task[row] != task[order[start]]:
                return _TASK, row, dense
            if given[row] != given[order[start]]:
                return _GIVEN, row, dense
            if not (cost[row] > 0.0 and cost[row] < np.inf):
                return _COST, row, dense
            if reward[row] == np.inf or reward[row] == -np.inf:
                return _REWARD, row, dense
            total += reward[row]
            if i < stop - 1:
                if terminated[row] or truncated[row]:
                    return _AFTER_END, row, dense
                if next_state[row] != state[order[i + 1]]:
                    return _CHAIN, row, dense
                early = early or reward[row] != 0.0
        if stop == start:
            continue
        last = order[stop - 1]
        if np.isnan(total):
            outcome[e] = 3
        elif given[last] >= 0:
            outcome[e] = given[last]
        elif terminated[last]:
            outcome[e] = 0 if total > 0.0 else 1
            dense = dense or early
        else:
            outcome[e] = 1 if truncated[last] else 2
    return _FINE, 0, dense


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
        step: int64 (N,).
        num_episodes: Number of episodes E.
        name: Gives the words for the episode of a row.

    Returns:
        order int32 (N,), offsets int64 (E + 1,).

    Raises:
        ValueError: The steps of an episode are not 0, 1, 2, ... without gaps and repeats.
    """
    offsets = np.zeros(num_episodes + 1, np.int64)
    np.cumsum(np.bincount(episode, minlength=num_episodes), out=offsets[1:])
    order = np.full(episode.size, -1, np.int32)
    bad = _place_steps(episode, step, offsets, order)
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
    order: np.ndarray,
    offsets: np.ndarray,
    name: Callable[[int], str],
    label: Callable[[str, int], str],
) -> tuple[np.ndarray, bool]:
    """Return (outcome int8 (E,), whether inference may mislead), or say which step breaks which rule.

    Args:
        columns: The columns of `Transitions` by name.
        given: int8 (N,), the outcome per row, or -1 where it is to be inferred.
        order, offsets: From `order_steps`.
        name: Gives the words for the episode of a row.
        label: Gives the words for the state of a row in a column.

    Raises:
        ValueError: A broken chain, a step after the end, an outcome that changes within an episode, a cost that is not
            above 0 and finite, an infinite reward.
    """
    outcome = np.empty(offsets.size - 1, np.int8)
    names = ("task", "state", "next_state", "reward", "cost", "terminated", "truncated")
    arrays = (order, offsets, *(columns[key] for key in names), given, outcome)
    code, row, dense = _judge_episodes(*arrays)  # type: ignore[call-arg]
    if code == _FINE:
        return outcome, bool(dense)
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
