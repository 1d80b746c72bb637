"""Random walks with integer states, the material of several benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np


def random_columns(
    rows: int,
    tasks: int,
    *,
    episodes: int | None = None,
    states: int = 220,
    actions: int = 4,
    length: int = 50,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Columns of `Transitions.from_columns`: random walks in a random deterministic MDP per task, with one goal.

    By default about five steps leave a state, as in the papers' runs, and about a fifth of the episodes succeed.

    Args:
        rows: how many at most; the last episode is cut there.
        tasks: number of tasks; each has as many episodes as any other.
        episodes: how many; None: about as many as `rows` needs.
        states: of each task; the last one is the goal.
        actions: in each state.
        length: limit of an episode.
        seed: of the walks.

    Returns:
        Ids are int32, steps int32, rewards float64, flags bool, all (N,).
    """
    rng = np.random.default_rng(seed)
    if episodes is None:
        episodes = -(-rows * 3 // (2 * length) // tasks) * tasks  # some end before their limit
    successor = rng.integers(states, size=(tasks, states, actions), dtype=np.int32)
    task = np.arange(episodes, dtype=np.int32) % tasks
    chosen = rng.integers(actions, size=(episodes, length), dtype=np.int32)
    place = np.zeros((episodes, length + 1), np.int32)
    for t in range(length):
        place[:, t + 1] = successor[task, place[:, t], chosen[:, t]]
    return _cut_at_goal(place, chosen, task, states - 1, rows)


def _cut_at_goal(
    place: np.ndarray, chosen: np.ndarray, task: np.ndarray, goal: int, rows: int | None
) -> dict[str, np.ndarray]:
    """Columns of walks (episodes, length + 1) that end where they first reach the goal."""
    length = chosen.shape[1]
    at_goal = place[:, 1:] == goal
    won = at_goal.any(axis=1)
    lengths = np.where(won, at_goal.argmax(axis=1) + 1, length)
    real = np.arange(length) < lengths[:, None]
    episode, step = (index[:rows].astype(np.int32) for index in np.nonzero(real))
    last = step == lengths[episode] - 1
    return {
        "task": task[episode],
        "episode": episode,
        "step": step,
        "state": place[episode, step],
        "action": chosen[episode, step],
        "next_state": place[episode, step + 1],
        "reward": (last & won[episode]).astype(np.float64),
        "terminated": last & won[episode],
        "truncated": last & ~won[episode],
    }


def random_transitions(rows: int, tasks: int, *, costs: bool = False, seed: int = 0) -> Any:
    """`random_columns` as `Transitions`, with a cost from 0.5 to 4 per step if `costs` is True."""
    from graphwrap import Transitions

    columns: dict[str, Any] = random_columns(rows, tasks, seed=seed)
    rng = np.random.default_rng(1)
    cost = rng.integers(1, 9, len(columns["step"])) / 2 if costs else None
    return Transitions.from_columns(**columns, cost=cost)


def grid_columns(
    side: int, episodes: int, length: int, *, walls: float = 0.2, one_start: bool = False, seed: int = 0
) -> dict[str, np.ndarray]:
    """Columns of random walks of one task in a walled grid, to one goal.

    Args:
        side: cells along each side.
        episodes: how many.
        length: limit of an episode.
        walls: share of the cells that are walls.
        one_start: whether all walks begin in one place, else each in its own.
        seed: of grid and walks.

    Returns:
        As `random_columns`. A step into a wall stays where it is.
    """
    rng = np.random.default_rng(seed)
    free = rng.random((side + 2, side + 2)) >= walls
    free[[0, -1]] = free[:, [0, -1]] = False
    cells = np.flatnonzero(free.ravel())
    goal = cells[len(cells) // 2]
    place = np.empty((episodes, length + 1), np.int64)
    place[:, 0] = rng.choice(cells) if one_start else rng.choice(cells, episodes)
    chosen = rng.integers(4, size=(episodes, length), dtype=np.int32)
    moves = np.array([1, -1, side + 2, -side - 2])
    for t in range(length):
        ahead = place[:, t] + moves[chosen[:, t]]
        place[:, t + 1] = np.where(free.ravel()[ahead], ahead, place[:, t])
    return _cut_at_goal(place.astype(np.int32), chosen, np.zeros(episodes, np.int32), int(goal), None)


def many_grids(tasks: int, **options: Any) -> dict[str, np.ndarray]:
    """`grid_columns` of many tasks, each with a grid of its own; `options` are theirs."""
    parts = [grid_columns(**options, seed=task) for task in range(tasks)]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    columns["task"] = np.repeat(np.arange(tasks, dtype=np.int32), [len(part["step"]) for part in parts])
    columns["episode"] += columns["task"] * options["episodes"]
    return columns
