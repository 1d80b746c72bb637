"""GRPO: the episode's return within its group, the same for every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphwrap import parameters
from graphwrap.credit import CreditMethod, StepCredit, zeros
from graphwrap.episode import episode_advantages
from graphwrap.graph import TransitionGraph


@dataclass(frozen=True)
class GRPO(CreditMethod):
    """A_t = A^E = norm(R(episode); episodes of the task). Group relative policy optimisation, arXiv 2402.03300."""

    paper: ClassVar[str] = "arXiv 2402.03300"

    episode_statistics: str = parameters.episode_statistics()
    std: bool = parameters.std()
    eps: float = parameters.eps()

    def compute(self, graph: TransitionGraph) -> StepCredit:
        """A^E of every row."""
        outcome = episode_advantages(
            graph, episode_statistics=self.episode_statistics, std=self.std, eps=self.eps
        )
        return StepCredit(outcome, zeros(graph), outcome)
