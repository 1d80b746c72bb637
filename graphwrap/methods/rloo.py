"""RLOO: the episode's return against the mean of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from graphwrap.credit import CreditMethod, StepCredit, zeros
from graphwrap.episode import episode_advantages, scored_episodes
from graphwrap.graph import TransitionGraph


@dataclass(frozen=True)
class RLOO(CreditMethod):
    """A_t = R(episode) - mean R of the other episodes of the task. REINFORCE leave-one-out, arXiv 2402.14740."""

    paper: ClassVar[str] = "arXiv 2402.14740"

    def compute(self, graph: TransitionGraph) -> StepCredit:
        """n / (n - 1) (R - mean R), which is R minus the mean of the other n - 1 returns."""
        t = graph.transitions
        n = np.bincount(t.episode_task, weights=scored_episodes(graph), minlength=t.num_tasks)
        leave_one_out = n / np.maximum(n - 1, 1)
        centred = episode_advantages(graph, episode_statistics="trajectory", std=False, eps=0.0)
        outcome = centred * leave_one_out[t.task]
        return StepCredit(outcome, zeros(graph), outcome)
