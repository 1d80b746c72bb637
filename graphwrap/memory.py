"""Episodes that are remembered from batch to batch: bounded, by task, as columns of ids."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from graphwrap.data.columns import pack_labels
from graphwrap.data.fingerprints import FINGERPRINT_ABOVE
from graphwrap.data.keys import state_key
from graphwrap.data.rows import ArrayLabels, Leaf, pack
from graphwrap.data.tables import ObjectTable, RowTable
from graphwrap.graph import TransitionGraph
from graphwrap.kernels.grouping import Int32Array
from graphwrap.transitions import Transitions

STEP = np.dtype(
    [
        ("state", np.int32),
        ("next_state", np.int32),
        ("action", np.int32),
        ("reward", np.float64),
        ("cost", np.float64),
        ("terminated", np.bool_),
        ("truncated", np.bool_),
        ("outcome", np.int8),  # of the episode, an `Outcome`
    ]
)
"""One remembered step. The steps of an episode are an array of it, from step 0 on."""

_FEW = 1024  # steps that may be forgotten before their labels are looked for


class Table(Protocol):
    """A table of ids that can forget."""

    def compact(self, ids: Any) -> np.ndarray:
        """Keep `ids` only, and return the new id of each old one."""


class EpisodeMemory:
    """Whole episodes of the tasks last used, the oldest out first.

    Args:
        max_tasks: Tasks that are kept, those last used.
        max_transitions: Steps that are kept over all tasks. An episode with more steps is not kept.
    """

    def __init__(self, max_tasks: int, max_transitions: int) -> None:
        self.max_tasks = max_tasks
        self.max_transitions = max_transitions
        self.num_transitions = 0
        self._episodes: OrderedDict[tuple[Hashable, Hashable], np.ndarray] = OrderedDict()  # oldest first
        self._tasks: OrderedDict[Hashable, dict[Hashable, None]] = OrderedDict()  # last used last
        self._forgotten = 0

    @property
    def num_tasks(self) -> int:
        """Tasks with a remembered episode."""
        return len(self._tasks)

    def __contains__(self, task: Hashable) -> bool:
        return task in self._tasks

    def put(self, task: Hashable, episode: Hashable, steps: np.ndarray) -> None:
        """Remember the `steps` of an episode instead of what is known of it; `trim` keeps the bounds afterwards."""
        if (task, episode) in self._episodes:
            self._drop(task, episode)
        self._episodes[task, episode] = steps
        self._tasks.setdefault(task, {})[episode] = None
        self._tasks.move_to_end(task)
        self.num_transitions += len(steps)

    def steps_of(self, task: Hashable, but: Iterable[Hashable] = ()) -> list[np.ndarray]:
        """The episodes of `task`, oldest first, but for some."""
        left_out = set(but)
        return [
            self._episodes[task, episode] for episode in self._tasks.get(task, ()) if episode not in left_out
        ]

    def trim(self) -> None:
        """Forget tasks, then episodes, until both bounds hold."""
        while len(self._tasks) > self.max_tasks:
            task, episodes = next(iter(self._tasks.items()))
            for episode in list(episodes):
                self._drop(task, episode)
        while self.num_transitions > self.max_transitions:
            self._drop(*next(iter(self._episodes)))

    def _drop(self, task: Hashable, episode: Hashable) -> None:
        steps = self._episodes.pop((task, episode))
        episodes = self._tasks[task]
        del episodes[episode]
        if not episodes:
            del self._tasks[task]
        self.num_transitions -= len(steps)
        self._forgotten += len(steps)

    @property
    def is_wasteful(self) -> bool:
        """Whether as many steps are forgotten as remembered since `compact`.

        Tables compacted at such times hold about twice what is remembered, at a cost per step that does not grow.
        """
        return self._forgotten >= max(_FEW, self.num_transitions)

    def compact(
        self, states: Table, actions: Table, more_states: Sequence[Any] = (), more_actions: Sequence[Any] = ()
    ) -> tuple[np.ndarray, np.ndarray]:
        """Let the tables forget the ids that no remembered step has.

        Args:
            states: The table of the states.
            actions: The table of the actions.
            more_states: Arrays of ids to keep as well.
            more_actions: Arrays of ids to keep as well.

        Returns:
            The new ids of the old states and of the old actions, -1 where forgotten.
        """
        self._forgotten = 0
        known = list(self._episodes.values())
        used_states = [steps[name] for steps in known for name in ("state", "next_state")]
        new_states = states.compact(np.concatenate([*used_states, *more_states, np.empty(0, np.int32)]))
        used_actions = [steps["action"] for steps in known]
        new_actions = actions.compact(np.concatenate([*used_actions, *more_actions, np.empty(0, np.int32)]))
        for steps in known:
            renumber(steps, new_states, new_actions)
        return new_states, new_actions


def label_key(label: Any) -> Hashable:
    """The key of the label of a task or an episode; large labels are not kept."""
    return state_key(label, fingerprint_above=FINGERPRINT_ABOVE)


def renumber(steps: np.ndarray, states: np.ndarray, actions: np.ndarray) -> None:
    """Give `steps` their new ids, in place."""
    for name in ("state", "next_state"):
        steps[name] = states[steps[name]]
    steps["action"] = actions[steps["action"]]


def to_steps(transitions: Transitions, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """The rows of `transitions` by (episode, step), with other ids: `states` and `actions` by the old ones."""
    t = transitions
    steps = np.empty(t.num_rows, STEP)
    for name in ("reward", "cost", "terminated", "truncated"):
        steps[name] = getattr(t, name)[t.order]
    steps["state"] = states[t.state[t.order]]
    steps["next_state"] = states[t.next_state[t.order]]
    steps["action"] = actions[t.action[t.order]]
    steps["outcome"] = np.repeat(t.outcome, np.diff(t.episode_offsets))
    return steps


def graph_of(steps: np.ndarray, lengths: Sequence[int], tasks: Sequence[int]) -> TransitionGraph:
    """Build the graph of whole episodes.

    Args:
        steps: The steps of E episodes, one after the other.
        lengths: (E,), steps of each episode.
        tasks: (E,), ids of their tasks.

    Returns:
        The graph. The labels of its states are the ids in `steps`.
    """
    starts = np.cumsum(lengths, dtype=np.int64) - np.asarray(lengths, np.int64)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    transitions = Transitions.from_ids(
        task=np.asarray(tasks, np.int64)[episode],
        episode=episode,
        step=np.arange(len(steps)) - starts[episode],
        state=steps["state"],
        next_state=steps["next_state"],
        action=steps["action"],
        reward=steps["reward"],
        cost=steps["cost"],
        terminated=steps["terminated"],
        truncated=steps["truncated"],
        outcome=steps["outcome"][starts],
    )
    return TransitionGraph.from_transitions(transitions)


class LabelTable:
    """Ids for the labels of batches, by key, that stay the same from batch to batch until `compact`."""

    def __init__(self) -> None:
        self._layout: Leaf | Any = None  # of the packed labels, as long as all are alike
        self._rows = RowTable(0)
        self._objects: ObjectTable | None = None

    def __len__(self) -> int:
        return len(self._rows) if self._objects is None else len(self._objects)

    def intern(self, labels: Any) -> Int32Array:
        """Return the ids of `labels`, as `Transitions` keeps them: int32 (n,)."""
        if not len(labels):
            return np.empty(0, np.int32)
        packed = None if self._objects is not None else _packed(labels)
        if packed is not None:
            if not len(self._rows):
                self._layout, self._rows = packed.layout, RowTable(packed.rows.shape[1])
            if repr(packed.layout) == repr(self._layout):
                return self._rows.intern(packed.rows)
        if self._objects is None:
            self._objects = ObjectTable(fingerprint_above=FINGERPRINT_ABOVE)
            self._objects.intern_batch(list(ArrayLabels(self._layout, self._rows.rows)), len(self._rows))
            self._rows = RowTable(0)
        return self._objects.intern_batch(list(labels), len(labels))

    def compact(self, ids: Any) -> np.ndarray:
        """Forget every label but those of `ids`; see `KeyTable.compact`."""
        if self._objects is not None:
            return self._objects.compact(ids)
        kept = np.unique(ids)
        new = np.full(len(self._rows), -1, np.int32)
        new[kept] = np.arange(len(kept), dtype=np.int32)
        rows = self._rows.rows[kept]
        self._rows = RowTable(rows.shape[1])
        self._rows.intern(rows)
        return new


def _packed(labels: Any) -> ArrayLabels | None:
    """Numbers and arrays of one kind as rows of words, None for anything else."""
    packed = labels if isinstance(labels, ArrayLabels) else pack_labels(labels)
    if isinstance(packed, np.ndarray):
        layout = Leaf(packed.dtype, (), scalar=True)
        return ArrayLabels(layout, pack(layout, packed, len(packed), None))
    return packed if isinstance(packed, ArrayLabels) else None
