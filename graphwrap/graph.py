"""The state-transition graph of a batch: one node table for all tasks, rows as edges, in CSR form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from graphwrap.kernels.grouping import BoolArray, FloatArray, Int32Array, ids_within, rows_by_key
from graphwrap.kernels.nodes import GOAL_STATE, number_nodes
from graphwrap.kernels.paths import goal_distances
from graphwrap.transitions import Outcome, Transitions

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True, eq=False)
class TransitionGraph:
    """One directed graph per task, all tasks of a batch in one node table (N rows, M nodes, K tasks).

    A node is a (task, state) pair: equal states of different tasks are different nodes, since the goal differs. The
    nodes of a task are contiguous; its first node is GOAL. An edge occurrence is a row of the transitions. The last
    step of a successful episode leads to GOAL instead of its observed next state.
    """

    transitions: Transitions
    source: Int32Array  # int32 (N,), node the row leaves
    target: Int32Array  # int32 (N,), node the row leads to
    node_task: Int32Array  # int32 (M,)
    node_state: Int32Array  # int32 (M,), GOAL_STATE for GOAL
    task_offsets: Int32Array  # int32 (K + 1,), task k owns nodes task_offsets[k]:task_offsets[k + 1]

    @classmethod
    def from_transitions(cls, transitions: Transitions) -> TransitionGraph:
        """Build the graph of `transitions` in time linear in the rows."""
        t = transitions
        # NumPy asks for huge pages, Numba does not: large arrays are made here.
        source, target = np.empty(len(t), np.int32), np.empty(len(t), np.int32)
        node_state = np.empty(len(t) + t.num_episodes + t.num_tasks + 1, np.int32)
        task_episodes = rows_by_key(t.episode_task, t.num_tasks)
        task_offsets = number_nodes(
            t.state,
            t.next_state,
            t.order,
            t.episode_offsets,
            task_episodes,
            t.outcome == Outcome.SUCCESS,
            np.full(t.num_states, -1, np.int32),
            source,
            target,
            node_state,
        )
        node_state = node_state[: task_offsets[-1]].copy()
        node_task = np.repeat(np.arange(t.num_tasks, dtype=np.int32), np.diff(task_offsets))
        for array in (source, target, node_task, node_state, task_offsets):
            array.flags.writeable = False
        return cls(t, source, target, node_task, node_state, task_offsets)

    @property
    def num_nodes(self) -> int:
        """Number of nodes M, one GOAL per task included."""
        return len(self.node_state)

    @property
    def goal(self) -> Int32Array:
        """int32 (K,): the GOAL node of each task."""
        return self.task_offsets[:-1]

    @property
    def union(self) -> TransitionGraph:
        """The graph that distances and values are made from: this one, unless earlier transitions are known."""
        return self

    def at_nodes(self, of_union: np.ndarray) -> np.ndarray:
        """Take the entries of this graph's nodes out of an array with one entry per node of `union`."""
        return of_union

    def at_rows(self, of_union: np.ndarray) -> np.ndarray:
        """Take the entries of this graph's rows out of an array with one entry per row of `union`."""
        return of_union

    @cached_property
    def solved(self) -> BoolArray:
        """bool (K,): the tasks with a successful episode in `union`."""
        t = self.transitions
        solved = np.zeros(t.num_tasks, np.bool_)
        solved[t.episode_task[t.outcome == Outcome.SUCCESS]] = True
        return solved

    @cached_property
    def task_episodes(self) -> tuple[Int32Array, Int32Array]:
        """Episodes by task: `indptr` int32 (K + 1,) and `episodes` int32 (E,)."""
        return rows_by_key(self.transitions.episode_task, self.transitions.num_tasks)

    @cached_property
    def outgoing(self) -> tuple[Int32Array, Int32Array]:
        """Rows by the node they leave: `indptr` int32 (M + 1,) and `rows` int32 (N,)."""
        return rows_by_key(self.source, self.num_nodes)

    @cached_property
    def incoming(self) -> tuple[Int32Array, Int32Array]:
        """Rows by the node they lead to: `indptr` int32 (M + 1,) and `rows` int32 (N,)."""
        return rows_by_key(self.target, self.num_nodes)

    @cached_property
    def state_actions(self) -> tuple[Int32Array, Int32Array]:
        """The (node, action) pairs taken: `ids` int32 (N,) of the rows, `offsets` int32 (M + 1,) of the nodes."""
        return ids_within(*self.outgoing, self.transitions.action, np.zeros_like(self.transitions.action))

    @cached_property
    def _paths(self) -> tuple[FloatArray, BoolArray]:
        distances, reachable = self._distances(self.transitions.cost)
        distances.flags.writeable = reachable.flags.writeable = False
        return distances, reachable

    @property
    def distances(self) -> FloatArray:
        """float64 (M,): cost of the cheapest path to GOAL; `d_max + c_max` of the task where there is none."""
        return self._paths[0]

    @property
    def reachable(self) -> BoolArray:
        """bool (M,): True where GOAL can be reached."""
        return self._paths[1]

    @cached_property
    def hops(self) -> FloatArray:
        """float64 (M,): fewest steps to GOAL whatever they cost, inf where there is no path."""
        steps, reachable = self._distances(np.ones(len(self.source)))
        return np.where(reachable, steps, np.inf)

    def _distances(self, cost: FloatArray) -> tuple[FloatArray, BoolArray]:
        t = self.transitions
        unit_cost = float(cost[0]) if len(cost) else 1.0
        if np.all(cost == unit_cost):
            cost = np.empty(0)
        return goal_distances(
            self.source,
            self.target,
            cost,
            unit_cost,
            t.order,
            t.episode_offsets,
            self.task_episodes,
            self.task_offsets,
        )

    def values(self, **parameters: Any) -> FloatArray:
        """float64 (M,): Bellman values of `union`; see `graphwrap.values.bellman_values` for the parameters."""
        from graphwrap.values import bellman_values

        return self.at_nodes(bellman_values(self.union, **parameters))

    def to_networkx(self) -> networkx.MultiDiGraph:
        """The graph as a `networkx.MultiDiGraph`, an edge per row.

        Nodes are integers with the attributes `task` (label), `state` (label, or the string `"GOAL"` with
        `goal=True`), `distance` and `reachable`; edges have `action`, `reward`, `cost`, `episode` (labels) and `step`.

        Raises:
            ImportError: networkx is missing; `pip install 'graphwrap[io]'` brings it.
        """
        try:
            import networkx
        except ImportError as error:
            raise ImportError("to_networkx() needs networkx: pip install 'graphwrap[io]'") from error
        t = self.transitions
        graph = networkx.MultiDiGraph()
        for node in range(self.num_nodes):
            is_goal = self.node_state[node] == GOAL_STATE
            graph.add_node(
                node,
                task=t.task_labels[self.node_task[node]],
                state="GOAL" if is_goal else t.state_labels[self.node_state[node]],
                goal=bool(is_goal),
                distance=float(self.distances[node]),
                reachable=bool(self.reachable[node]),
            )
        for row in range(len(self.source)):
            graph.add_edge(
                int(self.source[row]),
                int(self.target[row]),
                action=t.action_labels[t.action[row]],
                reward=float(t.reward[row]),
                cost=float(t.cost[row]),
                episode=t.episode_labels[t.episode[row]],
                step=int(t.step[row]),
            )
        return graph
