"""A paper-size batch with text observations, against the same credit in networkx and NumPy."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from graphwrap.scripts.benchmarks import Settings
from graphwrap.scripts.benchmarks.ratio import Measured, Ratio, interleaved, seconds
from graphwrap.scripts.benchmarks.walks import random_columns

TASKS, GROUP, LENGTH, CHARACTERS = 16, 8, 50, 300
OMEGA, R_SUCC = 0.1, 10.0
TEXTS = ("task", "state", "action", "next_state")


def measure(settings: Settings) -> list[Measured]:
    """From raw text, and from integer ids."""
    return [against_networkx(settings, text) for text in (True, False)]


def against_networkx(settings: Settings, text: bool) -> Ratio:
    """Columns to GraphGPO credit; both sides get the same columns, with text that was never hashed before."""
    import networkx  # its import is not measured

    from graphwrap import GraphGPO, Transitions

    assert networkx
    tasks = settings.sized(TASKS, 2)
    ids = random_columns(10**6, tasks, episodes=tasks * GROUP, length=LENGTH)
    columns: dict[str, Any] = ids if not text else ids | {name: _texts(name, ids[name]) for name in TEXTS}
    lists = {
        name: list(column) if isinstance(column, list) else column.tolist()
        for name, column in columns.items()
    }
    method = GraphGPO(omega=OMEGA, r_succ=R_SUCC)
    make = Transitions.from_columns if text else Transitions.from_ids

    def fresh(given: dict[str, Any]) -> dict[str, Any]:
        """A text that came from an environment has no hash yet: Python computes and keeps it at the first use."""
        return {
            name: ["".join((value[:1], value[1:])) for value in column] if text and name in TEXTS else column
            for name, column in given.items()
        }

    def ours(given: dict[str, Any]) -> Any:
        return method(make(**given)).advantages

    expected = networkx_credit(**lists)
    if not np.allclose(ours(columns), expected, rtol=0, atol=1e-9):
        raise RuntimeError("graphwrap and the networkx computation disagree about the benchmark's credit")

    def timed(function: Any, given: dict[str, Any], calls: int) -> float:
        copies = [fresh(given) if text else given for _ in range(calls)]
        return seconds(lambda: [function(one) for one in copies]) / calls

    def others(given: dict[str, Any]) -> Any:
        return networkx_credit(**given)

    # Calls in a row that last some tenths of a second, as `timeit` makes them; fresh texts are for one call only.
    calls, others_calls = (1, 1) if text else (settings.sized(300, 2), settings.sized(3, 1))
    each = interleaved(
        lambda: timed(ours, columns, calls),
        lambda: timed(others, lists, others_calls),
        settings.pairs,
        settings.on_pair,
    )
    steps = len(ids["step"])
    made = make(**columns)
    makes = [seconds(lambda: [make(**columns) for _ in range(calls)]) / calls for _ in range(settings.pairs)]
    credits = [seconds(lambda: [method(made) for _ in range(calls)]) / calls for _ in range(settings.pairs)]
    return Ratio(
        f"text, from {'raw text' if text else 'integer ids'}",
        f"{tasks} tasks x {GROUP} episodes of up to {LENGTH} steps, {steps:,} steps, "
        + (f"{CHARACTERS}-character texts" if text else "integer ids"),
        f"graphwrap: Transitions.{make.__name__} and GraphGPO",
        "s",
        each[0],
        8.0 if text else 100.0,
        False,
        "networkx and NumPy: the same credit",
        each[1],
        inverse=True,
        details={
            f"seconds for {make.__name__}{', texts hashed before' if text else ''}": float(np.median(makes)),
            "seconds for graph and credit": float(np.median(credits)),
        },
    )


def _texts(name: str, ids: np.ndarray) -> list[str]:
    if name == "task":
        return [f"task {i}: put a clean mug on the shelf" for i in ids.tolist()]
    if name == "action":
        return [f"go to cabinet {i}" for i in ids.tolist()]
    rest = (
        "you see a drawer 1, a drawer 2, a shelf 1 with a mug 1 on it, and a cabinet 4 that is closed. " * 4
    )
    return [f"You are at place {i}; looking around you, {rest}"[:CHARACTERS] for i in ids.tolist()]


def networkx_credit(
    task: list[Any],
    episode: list[Any],
    step: list[int],
    state: list[Any],
    action: list[Any],
    next_state: list[Any],
    reward: list[float],
    terminated: list[bool],
    truncated: list[bool],
    cost: list[float] | None = None,
) -> np.ndarray:
    """GraphGPO credit of rows in order of their episodes, as one writes it down with networkx and NumPy.

    A graph per task with the cheapest of parallel edges, Dijkstra's algorithm from its goal along reversed edges, and
    one NumPy normalisation per group.
    """
    import networkx

    costs = [1.0] * len(task) if cost is None else cost
    goal = object()
    rows_of_task: defaultdict[Any, list[int]] = defaultdict(list)
    for row, name in enumerate(task):
        rows_of_task[name].append(row)
    advantages = np.zeros(len(task))
    for rows in rows_of_task.values():
        reverse = networkx.DiGraph()
        returns: defaultdict[Any, float] = defaultdict(float)
        leads_to = []
        for row in rows:
            target = goal if terminated[row] and reward[row] > 0 else next_state[row]
            leads_to.append(target)
            known = reverse.get_edge_data(target, state[row])
            if known is None or known["weight"] > costs[row]:
                reverse.add_edge(target, state[row], weight=costs[row])
            returns[episode[row]] += reward[row]
        if goal in reverse:
            distance = networkx.single_source_dijkstra_path_length(reverse, goal)
            farthest = max(distance.values()) + max(costs[row] for row in rows)
            groups: defaultdict[Any, list[int]] = defaultdict(list)
            values = np.array([distance.get(to, farthest) + costs[row] for to, row in zip(leads_to, rows)])
            for place, row in enumerate(rows):
                groups[state[row]].append(place)
            for places in groups.values():
                exponents = values[places]
                rewards = R_SUCC * OMEGA ** (exponents - exponents.min())
                if len(places) > 1 and rewards.max() - rewards.min() > 1e-9 * R_SUCC:
                    credit = (rewards - rewards.mean()) / rewards.std(ddof=1)
                    for place, value in zip(places, credit):
                        advantages[rows[place]] += value
        outcomes = np.array(list(returns.values()))
        if len(outcomes) > 1 and outcomes.max() - outcomes.min() > 1e-9 * np.abs(outcomes).max():
            normalised = dict(zip(returns, (outcomes - outcomes.mean()) / outcomes.std(ddof=1)))
            for row in rows:
                advantages[row] += normalised[episode[row]]
    return advantages
