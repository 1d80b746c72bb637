"""RTMC: Monte Carlo action values minus state values over all visits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from graphwrap import parameters
from graphwrap.credit import CreditMethod, StepCredit, zeros
from graphwrap.episode import scored_rows
from graphwrap.graph import TransitionGraph
from graphwrap.kernels.statistics import group_mean


@dataclass(frozen=True)
class RTMC(CreditMethod):
    """A_t = Q(s_t, a_t) - V(s_t), means of the discounted return-to-go over every visit. arXiv 2604.11037.

    As described in GRAFT's appendix A.4. Unfinished and unscored episodes take no part.
    """

    paper: ClassVar[str] = "arXiv 2604.11037"

    gamma: float = parameters.gamma(0.95)

    def compute(self, graph: TransitionGraph) -> StepCredit:
        """Q - V of every row."""
        member = scored_rows(graph)
        returns = np.where(member, graph.transitions.discounted_returns(self.gamma), 0.0)
        state_action, offsets = graph.state_actions
        action_value = group_mean(returns, state_action, offsets[-1], member)[state_action]
        state_value = group_mean(returns, graph.source, graph.num_nodes, member)[graph.source]
        step = (action_value - state_value) * member
        return StepCredit(step, step, zeros(graph))
