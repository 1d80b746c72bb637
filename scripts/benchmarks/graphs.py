"""A million integer-state transitions to credit, against SciPy's shortest paths alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwrap.scripts.benchmarks import Settings
from graphwrap.scripts.benchmarks.ratio import Measured, Ratio, interleaved, seconds
from graphwrap.scripts.benchmarks.walks import random_transitions


def measure(settings: Settings) -> list[Measured]:
    """The same with unit costs and with different ones."""
    rows, tasks = settings.sized(1_000_000, 3000), settings.sized(1_000, 3)
    return [against_scipy(rows, tasks, costs, settings) for costs in (False, True)]


def against_scipy(rows: int, tasks: int, costs: bool, settings: Settings) -> Ratio:
    """CSR, distances and GraphGPO credit, against SciPy's CSR and Dijkstra on the same arrays.

    SciPy gets node ids ready made; graphwrap starts from (task, state) and ends with normalised credit. With costs
    SciPy's matrix keeps parallel edges, since adding their costs up, which is its default, would be wrong.
    """
    from scipy.sparse import coo_matrix, csgraph, csr_matrix

    from graphwrap import GraphGPO, TransitionGraph

    transitions = random_transitions(rows, tasks, costs=costs)
    method = GraphGPO(omega=0.8)
    graph = TransitionGraph.from_transitions(transitions)
    source, target, goal, num_nodes = graph.source, graph.target, graph.goal, graph.num_nodes
    ones = np.ones(len(source))

    def scipy_distances() -> np.ndarray:
        if not costs:
            backwards = csr_matrix((ones, (target, source)), shape=(num_nodes, num_nodes))
            return csgraph.dijkstra(backwards, unweighted=True, min_only=True, indices=goal)
        edges = coo_matrix((transitions.cost, (target, source)), shape=(num_nodes, num_nodes))
        edges.has_canonical_format = True
        return csgraph.dijkstra(edges.tocsr(), min_only=True, indices=goal)

    def credit() -> Any:
        return method.compute(TransitionGraph.from_transitions(transitions))

    # Both warmed up, and the same distances.
    expected = scipy_distances()
    credit()
    reachable = np.isfinite(expected)
    if not (
        np.allclose(graph.distances[reachable], expected[reachable], rtol=0, atol=1e-9)
        and np.array_equal(reachable, graph.reachable)
    ):
        raise RuntimeError("graphwrap and SciPy disagree about the distances of the benchmark's graph")
    ours, other = interleaved(
        lambda: seconds(credit), lambda: seconds(scipy_distances), settings.pairs, settings.on_pair
    )
    alone = [
        seconds(lambda: TransitionGraph.from_transitions(transitions).distances)
        for _ in range(settings.pairs)
    ]
    return Ratio(
        "graphs, different costs" if costs else "graphs, unit costs",
        f"{len(transitions):,} integer-state transitions in {transitions.num_tasks:,} tasks, {num_nodes:,} nodes, "
        f"{'costs from 0.5 to 4' if costs else 'unit costs'}",
        "graphwrap: Transitions to CSR, distances, GraphGPO credit",
        "s",
        ours,
        1.0 if costs else 0.8,
        True,
        f"SciPy: CSR and csgraph.dijkstra({'' if costs else 'unweighted=True, '}min_only=True)",
        other,
        details={"seconds for CSR and distances alone": float(np.median(alone))},
    )
