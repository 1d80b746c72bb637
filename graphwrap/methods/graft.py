"""GRAFT: how much Bellman value a step gained, now and over the hops ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphwrap import parameters
from graphwrap.credit import CreditMethod, StepCredit, zeros
from graphwrap.graph import TransitionGraph
from graphwrap.kernels.grouping import FloatArray
from graphwrap.kernels.hops import hop_sums
from graphwrap.kernels.statistics import largest_by_group, normalise
from graphwrap.values import OutcomeEdges, bellman_values


@dataclass(frozen=True)
class GRAFT(CreditMethod):
    """A_t = norm(graph GAE; steps that leave s_t) of the Bellman values of the graph. arXiv 2609.28963.

    One-step advantage: r + gamma V(s') - V(s). Graph GAE adds sum_k (gamma lambda)^k Abar_k over the steps left in the
    episode, Abar_k the mean one-step advantage of the edges k hops ahead. There is no A^E.

    With `hop_edges="occurrences"` and empirical action weights every Abar_k is 0, since that mean is the Bellman
    equation itself; the default counts each distinct edge once.
    """

    paper: ClassVar[str] = "arXiv 2609.28963"

    gamma: float = parameters.gamma(0.99, below_one=True)
    lam: float = parameters.number(
        0.95, "decay of graph GAE per hop (0.95 ALFWorld, 0.8 WebShop, 0.6 SearchQA)", low=0.0, high=1.0
    )
    action_weighting: str = parameters.choice(
        "empirical",
        "pi(a|s): recorded frequencies, or the same for each action tried",
        "empirical",
        "uniform",
    )
    hop_edges: str = parameters.choice(
        "unique", "edges in Abar_k: each distinct one once, or each occurrence", "unique", "occurrences"
    )
    normalise: bool = parameters.flag(True, "normalise within the steps that leave a state (step 5)")
    step_rewards: bool = parameters.flag(False, "use the environment's rewards, not the outcome alone")

    def compute(self, graph: TransitionGraph) -> StepCredit:
        """Graph GAE of every row, normalised unless told otherwise."""
        t = graph.transitions
        edges = OutcomeEdges.from_graph(graph.union)
        values = bellman_values(graph.union, edges=edges, **self._value_parameters())
        with_failure_sink = np.append(values, 0.0)
        edge_gain = self.gamma * with_failure_sink[edges.target] - values[edges.source]
        edge_advantage = edge_gain + edges.reward if self.step_rewards else edge_gain
        row_edge = graph.at_rows(edges.edge)
        if self.step_rewards:
            reward = np.where(np.isnan(t.reward), edges.reward[row_edge], t.reward)
            step = edge_gain[row_edge] + reward
        else:
            reward = zeros(graph)
            step = edge_gain[row_edge]
        if self.gamma * self.lam > 0.0:
            step = step + self._hops_ahead(graph, edges, edge_advantage)

        values = graph.at_nodes(values)
        if self.normalise:
            everyone = np.ones(len(step), np.bool_)
            size = np.maximum(np.abs(values[graph.source]), np.abs(reward))
            scale = largest_by_group(size, t.task, t.num_tasks, everyone)[graph.node_task]
            step = normalise(step, *graph.outgoing, everyone, scale, True, 0.0, True)
        return StepCredit(step, step, zeros(graph), values=values)

    def node_values(self, graph: TransitionGraph) -> FloatArray:
        """V."""
        return graph.values(**self._value_parameters())

    def _value_parameters(self) -> dict[str, Any]:
        return {
            "gamma": self.gamma,
            "action_weighting": self.action_weighting,
            "step_rewards": self.step_rewards,
        }

    def _hops_ahead(self, graph: TransitionGraph, edges: OutcomeEdges, advantage: np.ndarray) -> np.ndarray:
        t = graph.transitions
        start = edges.target[graph.at_rows(edges.edge)]
        length = np.diff(t.episode_offsets)
        horizon = (length[t.episode] - 1 - t.step).astype(np.int32)
        count = edges.count if self.hop_edges == "occurrences" else np.ones(len(edges.count))
        return hop_sums(
            start,
            horizon,
            t.order,
            graph.union.task_offsets,
            edges.indptr,
            edges.target,
            advantage,
            count,
            self.gamma * self.lam,
        )
