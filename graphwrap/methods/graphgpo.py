"""GraphGPO: how much closer to the goal a step leads than the other steps from the same state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from graphwrap import parameters
from graphwrap._jit import jit
from graphwrap.credit import CreditMethod, StepCredit
from graphwrap.episode import episode_advantages
from graphwrap.graph import TransitionGraph
from graphwrap.kernels.grouping import FloatArray, Int32Array
from graphwrap.kernels.statistics import normalise, weighted_sum


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
        exponent, graph_rewards, largest = _graph_rewards(
            graph.distances,
            graph.source,
            graph.target,
            graph.transitions.cost,
            self.exponent != "next",
            self.exponent == "progress",
            self.omega,
            self.r_succ,
        )
        value = graph_rewards
        if self.std and self.eps == 0.0:
            value = _relative_powers(exponent, graph.source, self.omega, largest)
        # A task has a success if and only if GOAL has an incoming edge; without one no difference counts.
        indptr, _ = graph.incoming
        no_success = indptr[graph.goal + 1] == indptr[graph.goal]
        scale = np.where(no_success[graph.node_task], np.inf, largest)
        everyone = np.ones(len(value), np.bool_)
        step = normalise(value, *graph.outgoing, everyone, scale, self.std, self.eps, False)
        outcome = episode_advantages(
            graph, episode_statistics=self.episode_statistics, std=self.std, eps=self.eps
        )
        advantages = weighted_sum(self.graph_weight, step, self.episode_weight, outcome)
        return StepCredit(advantages, step, outcome, graph_rewards=graph_rewards)


@jit
def _graph_rewards(
    distance: FloatArray,
    source: Int32Array,
    target: Int32Array,
    cost: FloatArray,
    add_cost: bool,
    from_here: bool,
    omega: float,
    r_succ: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Exponents and R^G of the rows, and the largest R^G of every node."""
    exponent = np.empty(len(source))
    reward = np.empty(len(source))
    largest = np.zeros(len(distance))
    powers = np.full(256, np.nan)
    for row in range(len(source)):
        x = distance[target[row]]
        if add_cost:
            x += cost[row]
        if from_here:
            x -= distance[source[row]]
        exponent[row] = x
        reward[row] = r_succ * _power(omega, x, powers)
        largest[source[row]] = max(largest[source[row]], reward[row])
    return exponent, reward, largest


@jit
def _relative_powers(exponent: FloatArray, node: Int32Array, omega: float, largest: FloatArray) -> FloatArray:
    """omega ** (exponent - smallest exponent of the node), written over `exponent`; sets `largest` to 1.

    A norm does not depend on a common factor, and relative to the best step of its state no power underflows.
    """
    smallest = np.full(len(largest), np.inf)
    for row in range(len(exponent)):
        smallest[node[row]] = min(smallest[node[row]], exponent[row])
    powers = np.full(256, np.nan)
    for row in range(len(exponent)):
        exponent[row] = _power(omega, exponent[row] - smallest[node[row]], powers)
    largest[:] = 1.0
    return exponent


@jit
def _power(omega: float, exponent: float, known: FloatArray) -> float:
    """omega ** exponent; small whole exponents, those of unit costs, are computed once and kept in `known`."""
    if 0.0 <= exponent < len(known):
        whole = int(exponent)
        if whole == exponent:
            if np.isnan(known[whole]):
                known[whole] = omega**whole
            return known[whole]
    return omega**exponent
