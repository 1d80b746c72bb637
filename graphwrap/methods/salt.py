"""SALT: A^E shared by all episodes that took the same step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphwrap import parameters
from graphwrap.credit import CreditMethod, StepCredit
from graphwrap.episode import episode_advantages, scored_rows
from graphwrap.graph import TransitionGraph
from graphwrap.kernels.grouping import ids_within
from graphwrap.kernels.statistics import group_mean


@dataclass(frozen=True)
class SALT(CreditMethod):
    """A_t = mean A^E over the occurrences of (s_t, a_t, observed s_(t+1)) in scored episodes. arXiv 2510.20022."""

    paper: ClassVar[str] = "arXiv 2510.20022"

    episode_statistics: str = parameters.episode_statistics()
    std: bool = parameters.std()
    eps: float = parameters.eps()

    def compute(self, graph: TransitionGraph) -> StepCredit:
        """The shared A^E as the step part, the episode's own A^E beside it."""
        outcome = episode_advantages(
            graph, episode_statistics=self.episode_statistics, std=self.std, eps=self.eps
        )
        member = scored_rows(graph)
        t = graph.transitions
        edge, offsets = ids_within(*graph.outgoing, t.action, t.next_state)
        step = group_mean(outcome, edge, offsets[-1], member)[edge] * member
        return StepCredit(step, step, outcome)
