"""GraphGPO: how much closer to the goal a step leads than the other steps from the same state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from graphwrap import parameters
from graphwrap.credit import CreditMethod, StepCredit
from graphwrap.episode import episode_advantages
from graphwrap.graph import TransitionGraph
from graphwrap.kernels.grouping import FloatArray
from graphwrap.kernels.statistics import graph_advantages, largest_by_group, normalise, weighted_sum


@dataclass(frozen=True)
class GraphGPO(CreditMethod):
    """A_t = w_G norm(R^G; steps that leave s_t) + w_E A^E. arXiv 2605.26684.

    R^G(s, a, s') = r_succ * omega ** (d(s') + c(s, a)), with d(s') the cost of the cheapest path from s' to the goal
    and 0 < omega < 1. In a task without a success A^G is 0.

    `exponent="next"` leaves the cost out (the public recipe); `"progress"` uses d(s') - d(s) + c.
    """

    paper: ClassVar[str] = "arXiv 2605.26684"

    omega: float = parameters.number(
        0.1,
        "decay of R^G per unit of distance (0.1 ALFWorld, 0.2 WebShop, 0.8 Sokoban)",
        low=0.0,
        high=1.0,
        open_low=True,
        open_high=True,
    )
    r_succ: float = parameters.number(10.0, "R^G at the goal", low=0.0, open_low=True)
    graph_weight: float = parameters.weight("the graph part")
    episode_weight: float = parameters.weight("A^E")
    episode_statistics: str = parameters.episode_statistics()
    exponent: str = parameters.choice(
        "cost", "exponent of omega: d(s') + c, d(s') alone, or d(s') - d(s) + c", "cost", "next", "progress"
    )
    std: bool = parameters.std()
    eps: float = parameters.eps()

    def compute(self, graph: TransitionGraph) -> StepCredit:
        """A^G, A^E and their weighted sum."""
        t = graph.transitions
        # NumPy asks for huge pages, Numba does not: large arrays are made here.
        rewards, step = np.empty(len(t)), np.empty(len(t))
        graph_advantages(
            graph.distances,
            graph.source,
            graph.target,
            t.cost,
            self.exponent != "next",
            self.exponent == "progress",
            self.omega,
            self.r_succ,
            t.order,
            t.episode_offsets,
            graph.task_episodes,
            graph.task_offsets,
            graph.solved,
            rewards,
            step,
        )
        if not self.std or self.eps > 0.0:
            largest = largest_by_group(rewards, graph.source, graph.num_nodes, np.ones(len(t), np.bool_))
            step = normalise(
                rewards, *graph.outgoing, graph.solved[t.task], largest, self.std, self.eps, False
            )
        outcome = episode_advantages(
            graph, episode_statistics=self.episode_statistics, std=self.std, eps=self.eps
        )
        advantages = weighted_sum(self.graph_weight, step, self.episode_weight, outcome)
        return StepCredit(advantages, step, outcome, graph_rewards=rewards)

    def node_values(self, graph: TransitionGraph) -> FloatArray:
        """r_succ * omega ** d(s)."""
        values: FloatArray = self.r_succ * self.omega**graph.distances
        return values
