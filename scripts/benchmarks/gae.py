"""Graph GAE against the Bellman solve that it needs first."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwrap.scripts.benchmarks import Settings
from graphwrap.scripts.benchmarks.ratio import Measured, Ratio, interleaved, seconds
from graphwrap.scripts.benchmarks.walks import grid_columns, random_columns


def measure(settings: Settings) -> list[Measured]:
    """A paper-size batch, and one task of ten thousand nodes."""
    paper = random_columns(10**6, 16, episodes=16 * 8)
    large = grid_columns(*((12, 20, 20) if settings.quick else (122, 500, 200)))
    return [
        against_solve("paper-size batch", paper, 2.0, settings),
        against_solve("one large task", large, 20.0, settings),
    ]


def against_solve(name: str, columns: dict[str, Any], limit: float, settings: Settings) -> Ratio:
    """One-step advantages and their sums over the hops ahead, against `bellman_values` on the same edges."""
    from graphwrap import GRAFT, TransitionGraph, Transitions
    from graphwrap.values import OutcomeEdges, bellman_values

    transitions = Transitions.from_columns(**columns)
    graph = TransitionGraph.from_transitions(transitions)
    method = GRAFT()
    edges = OutcomeEdges.from_graph(graph)
    values = np.append(bellman_values(graph, gamma=method.gamma, edges=edges), 0.0)

    def gae() -> np.ndarray:
        advantage = method.gamma * values[edges.target] - values[edges.source]
        return advantage[edges.edge] + method._hops_ahead(graph, edges, advantage)

    def solve() -> np.ndarray:
        return bellman_values(graph, gamma=method.gamma, edges=edges)

    gae()
    ours, other = interleaved(lambda: seconds(gae), lambda: seconds(solve), settings.pairs, settings.on_pair)
    return Ratio(
        f"graph GAE, {name}",
        f"{len(transitions):,} steps in {transitions.num_tasks} tasks, {graph.num_nodes:,} nodes, "
        f"{len(edges.target):,} different edges",
        f"Graph GAE, lambda {method.lam:g}",
        "s",
        ours,
        limit,
        True,
        "its Bellman solve",
        other,
    )
