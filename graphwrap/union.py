"""The graph of some rows of a larger graph, from which its distances and values come."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from graphwrap.graph import TransitionGraph
from graphwrap.kernels.grouping import BoolArray, FloatArray, Int32Array
from graphwrap.transitions import Transitions


@dataclass(frozen=True, eq=False)
class GraphInUnion(TransitionGraph):
    """The graph of a batch whose tasks have earlier transitions too (N rows, M nodes, K tasks).

    Nodes, edges and groups are those of the batch. Distances, hops, values and solved tasks are those of the union.
    """

    whole: TransitionGraph  # the graph of the batch's rows and the earlier ones
    row_in_union: Int32Array  # int32 (N,)
    node_in_union: Int32Array  # int32 (M,)
    task_in_union: Int32Array  # int32 (K,)

    @classmethod
    def of_rows(cls, transitions: Transitions, union: TransitionGraph, rows: Int32Array) -> GraphInUnion:
        """Build the graph of `transitions`.

        Args:
            transitions: N rows, all rows of their episodes.
            union: A graph that has these rows, with the same outcomes.
            rows: int32 (N,), the place of each row in it.
        """
        plain = TransitionGraph.from_transitions(transitions)
        task = np.empty(transitions.num_tasks, np.int32)
        task[transitions.task] = union.transitions.task[rows]
        node = np.empty(plain.num_nodes, np.int32)
        node[plain.goal] = union.goal[task]
        node[plain.source] = union.source[rows]
        node[plain.target] = union.target[rows]
        return cls(
            transitions,
            plain.source,
            plain.target,
            plain.node_task,
            plain.node_state,
            plain.task_offsets,
            whole=union,
            row_in_union=rows,
            node_in_union=node,
            task_in_union=task,
        )

    @property
    def union(self) -> TransitionGraph:
        """The graph of the batch's rows and the earlier ones."""
        return self.whole

    def at_nodes(self, of_union: np.ndarray) -> np.ndarray:
        """As in `TransitionGraph`."""
        return of_union[self.node_in_union]

    def at_rows(self, of_union: np.ndarray) -> np.ndarray:
        """As in `TransitionGraph`."""
        return of_union[self.row_in_union]

    @cached_property
    def solved(self) -> BoolArray:
        """bool (K,): the tasks with a successful episode in the union."""
        return self.whole.solved[self.task_in_union]

    @cached_property
    def _paths(self) -> tuple[FloatArray, BoolArray]:
        distances, reachable = self.at_nodes(self.whole.distances), self.at_nodes(self.whole.reachable)
        distances.flags.writeable = reachable.flags.writeable = False
        return distances, reachable

    @cached_property
    def hops(self) -> FloatArray:
        """float64 (M,): fewest steps to GOAL in the union, inf where there is no path."""
        return self.at_nodes(self.whole.hops)
