"""Bellman values of the nodes under the recorded policy (GRAFT, arXiv 2609.28963, equations of section "Values")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphwrap.graph import TransitionGraph
from graphwrap.kernels.components import solve_by_components
from graphwrap.kernels.grouping import FloatArray, Int32Array, ids_within, shares
from graphwrap.transitions import Outcome


def outcome_targets(graph: TransitionGraph) -> Int32Array:
    """int32 (N,): the node that each row leads to where outcomes are sinks.

    The last step of a success leads to GOAL (the success sink), the last step of a failure to the failure sink, which
    is node number M. The last step of an unfinished or unscored episode leads to its observed next state.
    """
    t = graph.transitions
    target = graph.target.copy()
    target[t.last_rows[t.outcome == Outcome.FAILURE]] = graph.num_nodes
    return target


@dataclass(frozen=True, eq=False)
class OutcomeEdges:
    """The distinct (u, a, v) edges of a graph whose episodes end in sinks (E edges, N rows, M nodes).

    What a row leads to is as in `outcome_targets`.
    """

    edge: Int32Array  # int32 (N,), edge of each row
    source: Int32Array  # int32 (E,)
    target: Int32Array  # int32 (E,), M for the failure sink
    state_action: Int32Array  # int32 (E,)
    count: FloatArray  # float64 (E,), occurrences
    reward: FloatArray  # float64 (E,), mean environment reward, scored rows only
    indptr: Int32Array  # int32 (M + 1,), the edges that leave node u are indptr[u]:indptr[u + 1]

    @classmethod
    def from_graph(cls, graph: TransitionGraph) -> OutcomeEdges:
        """Merge the rows of `graph` into distinct edges."""
        t = graph.transitions
        row_target = outcome_targets(graph)
        edge, indptr = ids_within(*graph.outgoing, t.action, row_target)
        state_action, _ = graph.state_actions
        num_edges = indptr[-1]

        source = np.empty(num_edges, np.int32)
        target = np.empty(num_edges, np.int32)
        edge_state_action = np.empty(num_edges, np.int32)
        source[edge], target[edge], edge_state_action[edge] = graph.source, row_target, state_action
        scored = ~np.isnan(t.reward)
        total = np.bincount(edge, weights=np.where(scored, t.reward, 0.0), minlength=num_edges)
        num_scored = np.bincount(edge, weights=scored, minlength=num_edges)
        return cls(
            edge=edge,
            source=source,
            target=target,
            state_action=edge_state_action,
            count=np.bincount(edge, minlength=num_edges).astype(np.float64),
            reward=total / np.maximum(num_scored, 1.0),
            indptr=indptr,
        )

    def weights(self, action_weighting: str) -> FloatArray:
        """float64 (E,): pi(a|u) * P(v|u,a), which sum to 1 over the edges that leave a node."""
        if action_weighting == "empirical":
            return shares(self.indptr, self.count)
        tries = np.bincount(self.state_action, weights=self.count)
        source_of = np.empty(len(tries), np.int32)
        source_of[self.state_action] = self.source
        num_actions = np.bincount(source_of)
        return self.count / (tries[self.state_action] * num_actions[self.source])


def bellman_values(
    graph: TransitionGraph,
    *,
    gamma: float = 0.99,
    action_weighting: str = "empirical",
    step_rewards: bool = False,
    edges: OutcomeEdges | None = None,
) -> FloatArray:
    """Solve V(u) = sum_a pi(a|u) sum_v P(v|u,a) (r(u,a,v) + gamma V(v)) for all nodes of all tasks.

    pi and P are the recorded frequencies. The values are within 1e-12 of the fixed point, relative to the largest value
    of the component: small tasks are eliminated as they are, large ones component by component in the order in which
    values depend on each other.

    Args:
        graph: the graph.
        gamma: discount, 0 <= gamma < 1.
        action_weighting: "empirical" (pi from counts) or "uniform" (mean over the distinct actions).
        step_rewards: False: only outcomes count, r = 0 and the success sink is worth 1. True: r is the mean reward of
            the edge and both sinks are worth 0, since the success reward is in r already.
        edges: the graph's edges, where the caller has them.

    Returns:
        float64 (M,). GOAL nodes hold the value of the success sink.

    Raises:
        ValueError: `gamma` is outside [0, 1) or `action_weighting` is neither of the two.
    """
    if not 0.0 <= gamma < 1.0:
        raise ValueError(f"gamma must be in [0, 1), got {gamma!r}")
    if action_weighting not in ("empirical", "uniform"):
        raise ValueError(f"action_weighting must be 'empirical' or 'uniform', got {action_weighting!r}")
    edges = OutcomeEdges.from_graph(graph) if edges is None else edges
    weight = edges.weights(action_weighting)
    value = np.zeros(graph.num_nodes + 1)
    if not step_rewards:
        value[graph.goal] = 1.0
    gain = weight * edges.reward if step_rewards else np.empty(0)
    solve_by_components(edges.indptr, edges.target, weight, gain, gamma, graph.task_offsets, value)
    return value[:-1]
