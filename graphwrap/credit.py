"""What every credit method shares: its result, its parameters and how it is called."""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from graphwrap.diagnostics import diagnose, warn_if_useless
from graphwrap.graph import GOAL_STATE, TransitionGraph
from graphwrap.kernels.grouping import FloatArray
from graphwrap.transitions import Transitions


@dataclass(frozen=True, eq=False)
class Credit:
    """Credit of N steps, aligned with the rows of the transitions (M nodes)."""

    advantages: FloatArray  # float64 (N,), what a policy gradient multiplies
    step_advantages: FloatArray  # float64 (N,), the step-level part, unweighted
    episode_advantages: FloatArray  # float64 (N,), A^E, the outcome part, unweighted
    graph_rewards: FloatArray | None  # float64 (N,), R^G of GraphGPO
    values: FloatArray | None  # float64 (M,), V of GRAFT and RewardFlow
    graph: TransitionGraph
    seconds: float  # wall-clock time of graph and credit

    @property
    def distances(self) -> FloatArray:
        """float64 (M,): cost of the cheapest path to GOAL, see `TransitionGraph.distances`."""
        return self.graph.distances

    @cached_property
    def diagnostics(self) -> dict[str, float]:
        """Plain numbers about the batch; see `graphwrap.diagnostics.diagnose`."""
        return diagnose(self.graph, self.advantages)


@dataclass(frozen=True, eq=False)
class StepCredit:
    """What a method computes; the fields are those of `Credit`."""

    advantages: FloatArray
    step_advantages: FloatArray
    episode_advantages: FloatArray
    graph_rewards: FloatArray | None = None
    values: FloatArray | None = None


@dataclass(frozen=True)
class CreditMethod(ABC):
    """A credit method: its hyperparameters, callable on transitions or on their graph.

    Subclasses are frozen dataclasses. Fields made by `graphwrap.parameters` check their values, plain ones do not.
    """

    paper: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check: Callable[[str, Any], Any] | None = field.metadata.get("check")
            if check is not None:
                value = check(f"{type(self).__name__}({field.name}=)", getattr(self, field.name))
                object.__setattr__(self, field.name, value)

    def __call__(self, data: Transitions | TransitionGraph) -> Credit:
        """Credit every step of `data`.

        Raises:
            TypeError: `data` is neither `Transitions` nor a `TransitionGraph`.
        """
        started = time.perf_counter()
        return self._credit(self._to_graph(data), started, stacklevel=3)

    def _to_graph(self, data: Transitions | TransitionGraph) -> TransitionGraph:
        if isinstance(data, Transitions):
            return TransitionGraph.from_transitions(data)
        if isinstance(data, TransitionGraph):
            return data
        raise TypeError(
            f"{type(self).__name__} credits Transitions or a TransitionGraph, not {type(data).__name__}; "
            "Transitions.from_columns(...) makes them from columns"
        )

    def _credit(self, graph: TransitionGraph, started: float, stacklevel: int) -> Credit:
        part = self.compute(graph)
        seconds = time.perf_counter() - started
        warn_if_useless(graph, part.advantages, stacklevel)
        others = (part.step_advantages, part.episode_advantages, part.graph_rewards)
        shared = any(other is not None and np.may_share_memory(part.advantages, other) for other in others)
        return Credit(
            # A caller who scales it in place leaves its parts alone.
            advantages=part.advantages.copy() if shared else part.advantages,
            step_advantages=part.step_advantages,
            episode_advantages=part.episode_advantages,
            graph_rewards=part.graph_rewards,
            values=part.values,
            graph=graph,
            seconds=seconds,
        )

    @abstractmethod
    def compute(self, graph: TransitionGraph) -> StepCredit:
        """The method itself: credit of every row of `graph`, all float64 (N,)."""

    @property
    def has_potential(self) -> bool:
        """Whether the method has a `potential`."""
        return type(self).node_values is not CreditMethod.node_values

    def potential(self, graph: TransitionGraph) -> FloatArray:
        """Phi of every node, to shape rewards with: r' = r + gamma Phi(s') - Phi(s) (Ng, Harada and Russell 1999).

        0 at GOAL, where GOAL cannot be reached, and so in tasks without a success. Where an episode terminated,
        Phi(s') is 0 whatever the state it stopped in.

        Returns:
            float64 (M,).

        Raises:
            ValueError: the method has no potential.
        """
        values = self.node_values(graph)
        return np.where(graph.reachable & (graph.node_state != GOAL_STATE), values, 0.0)

    def node_values(self, graph: TransitionGraph) -> FloatArray:
        """What `potential` is made of: float64 (M,), any numbers at the nodes where the potential is 0."""
        raise no_potential(self)


def no_potential(method: CreditMethod) -> ValueError:
    """The error of a method without a potential."""
    from graphwrap.methods import METHODS

    names = [other.__name__ for other in METHODS.values() if other().has_potential]
    return ValueError(
        f"{type(method).__name__} has no potential, since it gives states no value: take one of {', '.join(names)}, "
        "or define node_values(graph)"
    )


def zeros(graph: TransitionGraph) -> FloatArray:
    """float64 (N,) of zeros, a row per step."""
    return np.zeros(len(graph.source))
