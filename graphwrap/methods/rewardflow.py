"""RewardFlow: the goal's reward flows back along shortest paths; a step earns the gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from graphwrap import parameters
from graphwrap.credit import CreditMethod, StepCredit
from graphwrap.episode import episode_advantages
from graphwrap.graph import TransitionGraph
from graphwrap.kernels.grouping import FloatArray
from graphwrap.kernels.statistics import normalise, weighted_sum


@dataclass(frozen=True)
class RewardFlow(CreditMethod):
    """A_t = w_G norm(V(s') - V(s); steps that leave s) + w_E A^E, by default without std. arXiv 2603.18859.

    V(goal) = r_succ and V(u) = gamma * max V over the successors of u, so V(u) = r_succ * gamma ** hops(u); 0 where the
    goal cannot be reached. The defaults are the public trainer's.
    """

    paper: ClassVar[str] = "arXiv 2603.18859"

    gamma: float = parameters.gamma(0.9)
    r_succ: float = parameters.number(10.0, "value of the goal", low=0.0, open_low=True)
    graph_weight: float = parameters.weight("the graph part")
    episode_weight: float = parameters.weight("A^E")
    episode_statistics: str = parameters.episode_statistics()
    std: bool = parameters.std(False)
    eps: float = parameters.eps()

    def compute(self, graph: TransitionGraph) -> StepCredit:
        """Both parts and their weighted sum."""
        values = self.node_values(graph)
        gain = values[graph.target] - values[graph.source]
        everyone = np.ones(len(gain), np.bool_)
        scale = np.full(graph.num_nodes, self.r_succ)
        step = normalise(gain, *graph.outgoing, everyone, scale, self.std, self.eps, False)
        outcome = episode_advantages(
            graph, episode_statistics=self.episode_statistics, std=self.std, eps=self.eps
        )
        advantages = weighted_sum(self.graph_weight, step, self.episode_weight, outcome)
        return StepCredit(advantages, step, outcome, values=values)

    def node_values(self, graph: TransitionGraph) -> FloatArray:
        """V."""
        return np.where(np.isinf(graph.hops), 0.0, self.r_succ * self.gamma**graph.hops)
