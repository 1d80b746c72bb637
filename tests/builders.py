"""Hypothesis strategies and small worlds that several tests use."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from graphwrap import Transitions

COLUMNS = ("task", "episode", "step", "state", "action", "next_state", "reward", "terminated", "truncated")
"""The columns that `Transitions.from_columns` cannot do without."""


def walks(
    rng: np.random.Generator,
    *,
    tasks: int = 2,
    episodes: int = 4,
    states: int = 6,
    actions: int = 3,
    length: int = 8,
    slip: float = 0.0,
    unfinished: float = 0.1,
    costs: bool = False,
    rewards: bool = False,
) -> dict[str, list]:
    """Columns of random walks in one random MDP per task; state 0 is the start, the last state is the goal."""
    columns: dict[str, list] = {name: [] for name in (*COLUMNS, "success", "cost")}
    for task in range(tasks):
        successor = rng.integers(states, size=(states, actions))
        for episode in range(episodes):
            state, rows = 0, []
            cut = rng.random() < unfinished
            for step in range(rng.integers(1, length + 1)):
                action = int(rng.integers(actions))
                after = int(rng.integers(states)) if rng.random() < slip else int(successor[state, action])
                rows.append((step, state, action, after))
                state = after
                if state == states - 1:
                    break
            won = state == states - 1 and not cut
            for step, before, action, after in rows:
                last = step == len(rows) - 1
                columns["task"].append(f"task {task}")
                columns["episode"].append(episode)
                columns["step"].append(step)
                columns["state"].append(before)
                columns["action"].append(action)
                columns["next_state"].append(after)
                columns["reward"].append(
                    (10.0 if won and last else 0.0) + (float(rng.normal()) if rewards else 0.0)
                )
                columns["terminated"].append(won and last)
                columns["truncated"].append(last and not won and not cut)
                columns["success"].append(None if cut else won)
                columns["cost"].append(float(rng.integers(1, 6)) / 2 if costs else 1.0)
    return columns


@st.composite
def transitions(draw: st.DrawFn, **options: object) -> Transitions:
    """Random `walks` as Transitions."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return Transitions.from_columns(**walks(rng, **options))
