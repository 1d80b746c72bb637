"""Credit on graphs that remember the earlier transitions of a task (TIGPO's idea)."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from graphwrap import parameters
from graphwrap.credit import Credit, CreditMethod, StepCredit
from graphwrap.graph import TransitionGraph
from graphwrap.kernels.grouping import FloatArray
from graphwrap.memory import EpisodeMemory, LabelTable, graph_of, label_key, to_steps
from graphwrap.methods import make_credit
from graphwrap.transitions import Transitions
from graphwrap.union import GraphInUnion


@dataclass(frozen=True, eq=False)
class PersistentGraph(CreditMethod):
    """A credit method whose distances and values come from earlier batches too.

    Calling it on a batch credits the rows of that batch. Distances, Bellman values and potentials are those of the
    union with what is remembered of the same tasks: "no success in the task" means none in the union. Statistics (norms
    within a state, A^E) are over the batch's rows alone. Then the batch is remembered. Methods that use no graph
    (GRPO, GiGPO and so on) give what they give without it.

    Tasks, states and actions of two batches are the same where their labels have equal keys, and episodes where task
    and label do: an episode that comes again replaces what is remembered of it, as a recorder's window brings a running
    episode again, longer. So the episodes of one task need labels that do not repeat (one instance per recorder, whose
    episodes are numbered), and tasks labels that do: the numbered groups of `wrap(env, group_size=)` never come again,
    so name the task with `task=` there. The diagnostic `remembered_steps` says how much was known.

    Args:
        credit: The method: a name from `graphwrap.credit_names()`, or a method such as `GraphGPO(omega=0.8)`.
        max_tasks: Tasks that are remembered, those last used.
        max_transitions: Steps that are remembered over all tasks, the oldest episodes out first. An episode with more
            steps than that is credited and not remembered.

    Raises:
        TypeError, ValueError: An argument is of the wrong type, unknown or out of range.

    Example:
        >>> method = PersistentGraph("graphgpo", max_transitions=100_000)
        >>> method.num_transitions
        0
    """

    credit: str | CreditMethod = "graphgpo"
    max_tasks: int = parameters.count(1000, "tasks that are remembered, those last used")
    max_transitions: int = parameters.count(1_000_000, "steps that are remembered, oldest episodes out first")

    __eq__ = object.__eq__  # what it remembers is part of it
    __hash__ = object.__hash__

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.credit, PersistentGraph):
            raise ValueError(
                "PersistentGraph(credit=) must be a name or a method without a memory of its own"
            )
        object.__setattr__(self, "credit", make_credit(self.credit))

    @property
    def method(self) -> CreditMethod:
        """The method that gives the credit."""
        assert isinstance(self.credit, CreditMethod)
        return self.credit

    @property
    def num_tasks(self) -> int:
        """Tasks that are remembered."""
        return self._memory.num_tasks

    @property
    def num_transitions(self) -> int:
        """Steps that are remembered."""
        return self._memory.num_transitions

    @cached_property
    def _memory(self) -> EpisodeMemory:
        return EpisodeMemory(self.max_tasks, self.max_transitions)

    @cached_property
    def _states(self) -> LabelTable:
        return LabelTable()

    @cached_property
    def _actions(self) -> LabelTable:
        return LabelTable()

    def __call__(self, data: Transitions | TransitionGraph) -> Credit:
        """Credit every step of `data`, and remember it. An error of the method leaves the memory as it is.

        Returns:
            The credit, aligned with the rows of `data`. `graph` has their nodes and edges; its `distances`,
            `reachable`, `hops` and `values` are those of the union, the graph `graph.union`.

        Raises:
            TypeError: `data` is neither `Transitions` nor a `TransitionGraph`.
        """
        started = time.perf_counter()
        batch = data if isinstance(data, Transitions) else self._to_graph(data).transitions
        tasks = [label_key(label) for label in batch.task_labels]
        labels = [label_key(label) for label in batch.episode_labels]
        episodes = [(tasks[k], label) for k, label in zip(batch.episode_task.tolist(), labels)]
        steps = to_steps(
            batch, self._states.intern(batch.state_labels), self._actions.intern(batch.action_labels)
        )
        credit = self._credit(self._in_union(batch, tasks, episodes, steps), started, stacklevel=3)
        offsets = batch.episode_offsets.tolist()
        for (task, episode), begin, end in zip(episodes, offsets, offsets[1:]):
            self._memory.put(task, episode, steps[begin:end].copy())
        self._memory.trim()
        if self._memory.is_wasteful:
            self._memory.compact(self._states, self._actions)
        return credit

    def _in_union(
        self,
        batch: Transitions,
        tasks: list[Hashable],
        episodes: list[tuple[Hashable, Hashable]],
        steps: np.ndarray,
    ) -> TransitionGraph:
        """The graph of `batch`, within the union with what is remembered of its tasks."""
        again: dict[Hashable, list[Hashable]] = {task: [] for task in tasks}
        for task, episode in episodes:
            again[task].append(episode)
        known = [(k, old) for k, task in enumerate(tasks) for old in self._memory.steps_of(task, again[task])]
        if not known:
            return TransitionGraph.from_transitions(batch)
        union = graph_of(
            np.concatenate([steps, *(old for _, old in known)]),
            np.diff(batch.episode_offsets).tolist() + [len(old) for _, old in known],
            batch.episode_task.tolist() + [k for k, _ in known],
        )
        rows = np.empty(batch.num_rows, np.int32)
        rows[batch.order] = np.arange(batch.num_rows, dtype=np.int32)
        return GraphInUnion.of_rows(batch, union, rows)

    def compute(self, graph: TransitionGraph) -> StepCredit:
        """What the method gives for `graph`; nothing is remembered."""
        return self.method.compute(graph)

    @property
    def has_potential(self) -> bool:
        """Whether the method has a `potential`."""
        return self.method.has_potential

    def node_values(self, graph: TransitionGraph) -> FloatArray:
        """What the method's potential is made of; the `graph` of a credit knows the union."""
        return self.method.node_values(graph)
