"""Bellman values of random walks on walled grids, against a sparse solve and against sweeps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphwrap._jit import jit
from graphwrap.scripts.benchmarks import Settings
from graphwrap.scripts.benchmarks.ratio import Measured, Ratio, interleaved, seconds
from graphwrap.scripts.benchmarks.walks import many_grids

GAMMA = 0.99
ERROR = 1e-12


def measure(settings: Settings) -> list[Measured]:
    """A thousand tasks of a thousand steps, by each of the two other ways.

    All three start from the distinct edges of the graph and weigh them; the sweeps get their order ready made. Each
    must be within 1e-12 of the fixed point, which is checked.
    """
    from graphwrap import TransitionGraph, Transitions
    from graphwrap.values import OutcomeEdges, bellman_values

    tasks = settings.sized(1000, 5)
    columns = many_grids(tasks, side=14, episodes=20, length=50, one_start=True)
    transitions = Transitions.from_columns(**columns)
    graph = TransitionGraph.from_transitions(transitions)
    edges = OutcomeEdges.from_graph(graph)
    weight = edges.weights("empirical")
    goal_of = np.zeros(graph.num_nodes + 1)
    goal_of[graph.goal] = 1.0
    order, order_offsets = _reverse_breadth_first(graph, edges)

    def ours() -> np.ndarray:
        return bellman_values(graph, gamma=GAMMA, edges=edges)

    def sparse() -> np.ndarray:
        return _spsolve(edges.source, edges.target, edges.weights("empirical"), goal_of)

    def sweeps() -> np.ndarray:
        value, weight = goal_of.copy(), edges.weights("empirical")
        _sweep(order, order_offsets, edges.indptr, edges.target, weight, GAMMA, ERROR, value)
        return value[:-1]

    for values in (ours(), sparse(), sweeps()):
        error = _largest_error(values, edges.source, edges.target, weight, goal_of)
        if error > ERROR:
            raise RuntimeError(f"Bellman values of the benchmark are {error:.1e} from the fixed point")

    def against(name: str, function: Callable[[], np.ndarray], limit: float, what: str) -> Ratio:
        each = interleaved(lambda: seconds(ours), lambda: seconds(function), settings.pairs, settings.on_pair)
        return Ratio(
            f"bellman, against {name}",
            f"{len(transitions):,} steps of random walks on {tasks:,} walled grids, {graph.num_nodes:,} nodes, "
            f"{len(weight):,} different edges, gamma {GAMMA}",
            "graphwrap: weights and values, from the edges",
            "s",
            each[0],
            limit,
            False,
            what,
            each[1],
            inverse=True,
        )

    return [
        against("spsolve", sparse, 10.0, "SciPy: weights, matrix and scipy.sparse.linalg.spsolve"),
        against(
            "sweeps",
            sweeps,
            3.0,
            "weights and Gauss-Seidel sweeps in Numba, in the paper's order, task by task",
        ),
    ]


def _spsolve(source: np.ndarray, target: np.ndarray, weight: np.ndarray, goal_of: np.ndarray) -> np.ndarray:
    from scipy.sparse import csc_matrix, identity
    from scipy.sparse.linalg import spsolve

    num_nodes = len(goal_of) - 1
    reward = GAMMA * np.bincount(source, weights=weight * goal_of[target], minlength=num_nodes) + goal_of[:-1]
    inner = (target < num_nodes) & (goal_of[target] == 0.0)
    step = csc_matrix((weight[inner], (source[inner], target[inner])), shape=(num_nodes, num_nodes))
    return spsolve(identity(num_nodes, format="csc") - GAMMA * step, reward)


def _reverse_breadth_first(graph, edges) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[no-untyped-def]
    """The nodes of each task by their fewest steps to a sink; those that reach none are left out."""
    from scipy.sparse import csgraph, csr_matrix

    num_nodes = graph.num_nodes
    backwards = csr_matrix(
        (np.ones(len(edges.source)), (edges.target, edges.source)), shape=(num_nodes + 1, num_nodes + 1)
    )
    sinks = np.append(graph.goal, num_nodes)
    hops = csgraph.dijkstra(backwards, unweighted=True, min_only=True, indices=sinks)[:-1]
    order = np.lexsort((hops, graph.node_task))
    order = order[(hops[order] > 0) & np.isfinite(hops[order])]
    offsets = np.searchsorted(graph.node_task[order], np.arange(len(graph.goal) + 1))
    return order.astype(np.int32), offsets.astype(np.int64)


@jit
def _sweep(  # type: ignore[no-untyped-def]
    order, order_offsets, indptr, target, weight, gamma, error, value
):
    """GRAFT's solver: sweep the nodes of each task in `order` until the values are within `error`."""
    for task in range(order_offsets.size - 1):
        largest = np.inf
        while largest * gamma / (1.0 - gamma) > error:
            largest = 0.0
            for i in range(order_offsets[task], order_offsets[task + 1]):
                node = order[i]
                total = 0.0
                for edge in range(indptr[node], indptr[node + 1]):
                    total += weight[edge] * value[target[edge]]
                total *= gamma
                largest = max(largest, abs(total - value[node]))
                value[node] = total


def _largest_error(
    values: np.ndarray, source: np.ndarray, target: np.ndarray, weight: np.ndarray, goal_of: np.ndarray
) -> float:
    """A bound of the distance to the fixed point: the largest residual over 1 - gamma."""
    exact = np.zeros(len(goal_of), np.longdouble)
    exact[:-1] = values
    ahead = np.zeros(len(values), np.longdouble)
    np.add.at(ahead, source, weight * exact[target])
    residual = np.where(goal_of[:-1] > 0, values - goal_of[:-1], values - GAMMA * ahead)
    return float(np.abs(residual).max() / (1 - GAMMA))
