"""GiGPO: the return from here on, against other visits of the same state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from graphwrap import parameters
from graphwrap.credit import CreditMethod, StepCredit
from graphwrap.episode import episode_advantages, scored_rows
from graphwrap.graph import TransitionGraph
from graphwrap.kernels.statistics import largest_by_group, normalise, weighted_sum


@dataclass(frozen=True)
class GiGPO(CreditMethod):
    """A_t = w_E A^E + w_S norm(G_t; visits of s_t), G_t the discounted return-to-go. arXiv 2505.10978.

    G_t = r_t + gamma G_(t+1) uses the environment's rewards. Unfinished and unscored episodes take no part.
    """

    paper: ClassVar[str] = "arXiv 2505.10978"

    gamma: float = parameters.gamma(0.95)
    step_weight: float = parameters.weight("the step-level part")
    episode_weight: float = parameters.weight("A^E")
    episode_statistics: str = parameters.episode_statistics()
    std: bool = parameters.std()
    eps: float = parameters.eps()

    def compute(self, graph: TransitionGraph) -> StepCredit:
        """Both parts and their weighted sum."""
        t = graph.transitions
        member = scored_rows(graph)
        returns = np.where(member, t.discounted_returns(self.gamma), 0.0)
        scale = largest_by_group(returns, t.task, t.num_tasks, member)[graph.node_task]
        step = normalise(returns, *graph.outgoing, member, scale, self.std, self.eps, False)
        outcome = episode_advantages(
            graph, episode_statistics=self.episode_statistics, std=self.std, eps=self.eps
        )
        advantages = weighted_sum(self.step_weight, step, self.episode_weight, outcome)
        return StepCredit(advantages, step, outcome)
