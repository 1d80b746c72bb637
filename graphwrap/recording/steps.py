"""The steps of the running window: cheap to write down, put together in bulk."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphwrap.recording.history import HistoryTable
from graphwrap.recording.ledger import UNKNOWN, Ledger
from graphwrap.recording.values import StartLog, ValueLog
from graphwrap.recording.windows import Rows
from graphwrap.states import KeyTable

MANY_ROWS = 2**20
"""Rows of one window above which its user is asked whether anybody closes it."""

_USUALLY = {"is_step": True, "success": UNKNOWN}
"""What these columns hold where nothing was written to the row."""


@dataclass(frozen=True, eq=False)
class Begun:
    """Episodes that began together, before the window's row `row`."""

    row: int
    envs: np.ndarray  # int64 (B,)
    starts: (
        slice | None
    )  # where their first states are in the log of starts; None: what the row before led to
    tasks: (
        np.ndarray | None
    )  # int32 (B,), places in the ledger; None: not entered yet, the task is the first state


class StepLog:
    """The steps of `num_envs` environments since the window began.

    `put` and `begin` only write down what happened. `settle` works out which episode every step belongs to and tells
    the ledger which episodes began and ended; whoever asks for `episode`, `step`, `state` or `flat` has called it.

    Args:
        num_envs: Number of environments.
        states, actions: The tables of ids.
        ledger: The tasks and episodes.
    """

    def __init__(self, num_envs: int, states: KeyTable, actions: KeyTable, ledger: Ledger) -> None:
        self.length = 0
        self.running = np.full(
            num_envs, -1, np.int64
        )  # number of the episode that ran after the settled rows
        self.current = np.zeros(num_envs, np.int32)  # id of the state it was in
        self.next_step = np.zeros(num_envs, np.int32)
        self.total = np.zeros(num_envs)  # its return so far
        self._ledger = ledger
        self._history = states if isinstance(states, HistoryTable) else None
        self._observed = ValueLog(
            states.observations if isinstance(states, HistoryTable) else states, num_envs
        )
        self._actions = ValueLog(actions, num_envs)
        self._starts = StartLog(states)
        self._begun: list[Begun] = []
        self._settled = 0
        shape = (64, num_envs)
        self._columns = {
            "reward": np.zeros(shape),
            "terminated": np.zeros(shape, np.bool_),
            "truncated": np.zeros(shape, np.bool_),
            "is_step": np.full(shape, _USUALLY["is_step"], np.bool_),
            "success": np.full(shape, _USUALLY["success"], np.int8),
            "episode": np.zeros(shape, np.int64),
            "step": np.zeros(shape, np.int32),
            "state": np.zeros(shape, np.int32),
            "next_state": np.zeros(shape, np.int32),
        }

    def begin(self, envs: np.ndarray, starts: Any, tasks: np.ndarray | None) -> None:
        """Note that an episode begins in each of `envs`.

        Args:
            envs: int64 (B,).
            starts: Their first states, as `KeyTable.intern_batch` takes B values; None: what the last row led to.
            tasks: Places in the ledger, int32 (B,); None: the task is the first state.
        """
        place = None if starts is None else self._starts.append(starts, len(envs))
        self._begun.append(Begun(self.length, envs, place, tasks))

    def put(
        self,
        actions: Any,
        next_states: Any,
        finals: Sequence[Any],
        rewards: Any,
        terminated: Any,
        truncated: Any,
        is_step: Any,
        ended: Sequence[int],
        successes: Sequence[bool | None],
    ) -> None:
        """Append a row; see `Recorder.record`. An error leaves the rows as they were."""
        t, columns = self.length, self._columns
        if t == len(columns["reward"]):
            self._grow()
        self._actions.put(t, actions)
        self._observed.put(t, next_states, ended if finals else (), finals)
        columns["reward"][t] = rewards
        columns["terminated"][t] = terminated
        columns["truncated"][t] = truncated
        if is_step is not None:
            columns["is_step"][t] = is_step
        if successes:
            columns["success"][t, ended] = [UNKNOWN if success is None else success for success in successes]
        self.length = t + 1

    def _grow(self) -> None:
        if self._columns["reward"].size >= MANY_ROWS:
            warnings.warn(
                f"{self._columns['reward'].size:,} steps wait for assign_credit(), and memory grows with every further "
                "one. Call it, or train with callback=graphwrap.sb3.CreditCallback(); leave environments that are only "
                "evaluated in unwrapped",
                UserWarning,
                stacklevel=6,
            )
        for name, column in self._columns.items():
            more = np.full_like(column, _USUALLY.get(name, 0))
            self._columns[name] = np.concatenate([column, more])

    def __getitem__(self, name: str) -> np.ndarray:
        """A column of the window, (T, num_envs), a view."""
        return self._columns[name][: self.length]

    @property
    def action(self) -> np.ndarray:
        """Ids of the actions, int32 (T, num_envs), a view."""
        return self._actions.ids(self.length)

    def settle(self) -> None:
        """Work out the episodes of the rows that came since the last call."""
        begin, end = self._settled, self.length
        if begin == end and not self._begun:
            return
        count, n = end - begin, len(self.running)
        rows = slice(begin, end)
        self._columns["next_state"][rows] = self._observed.ids(end)[rows]
        if self._history is not None:
            self._follow(rows)
        # A slot stands for an episode: slots 0 to n - 1 for those that ran before, then the begun ones in their order,
        # so that of two episodes of one environment the later one has the larger slot.
        starts, numbers = self._enter()
        numbers = np.concatenate([self.running, numbers])
        first_row = np.concatenate([-self.next_step.astype(np.int64), np.zeros(len(numbers) - n, np.int64)])
        # Block row t: what is so before step t. It has one row more than there are steps.
        slot = np.zeros((count + 1, n), np.int64)
        state = np.zeros((count + 1, n), np.int32)
        slot[0], state[0], state[1:] = np.arange(n), self.current, self["next_state"][rows]
        at = n
        for group, those in zip(self._begun, starts):
            row, slots = group.row - begin, np.arange(at, at + len(group.envs))
            slot[row, group.envs] = slots
            first_row[slots] = row
            state[row, group.envs] = those
            at += len(group.envs)
        slot = np.maximum.accumulate(slot, axis=0)

        columns = self._columns
        is_step = columns["is_step"][rows]
        columns["episode"][rows] = np.where(is_step, numbers[slot[:-1]], -1)
        columns["step"][rows] = np.where(is_step, np.arange(count)[:, None] - first_row[slot[:-1]], 0)
        columns["state"][rows] = state[:-1]

        totals = np.concatenate([self.total, np.zeros(len(numbers) - n)])
        # Reward by reward in the order of the steps, as the transitions add them up too.
        np.add.at(totals, slot[:-1][is_step], columns["reward"][rows][is_step])
        ended = is_step & np.logical_or(columns["terminated"][rows], columns["truncated"][rows])
        over = slot[:-1][ended]
        if len(over):
            self._ledger.finish(
                numbers[over],
                columns["success"][rows][ended],
                columns["terminated"][rows][ended],
                totals[over],
            )
        numbers[over] = -1
        self.running, self.total = numbers[slot[-1]], totals[slot[-1]]
        self.next_step = np.where(self.running >= 0, count - first_row[slot[-1]], 0).astype(np.int32)
        self.current = state[-1].copy()
        self._begun.clear()
        self._settled = end

    def _follow(self, rows: slice) -> None:
        """Turn the observations of `next_state` into states with their history."""
        table, columns, current = self._history, self._columns, self.current.copy()
        assert table is not None
        starts = self._starts.ids()
        begun = iter(self._begun)
        group = next(begun, None)
        for t in range(rows.start, rows.stop):
            while group is not None and group.row <= t:
                ids = (
                    columns["next_state"][t - 1, group.envs] if group.starts is None else starts[group.starts]
                )
                current[group.envs] = ids
                group = next(begun, None)
            observed, real = columns["next_state"][t], columns["is_step"][t]
            states = table.begin(observed)
            states[real] = table.follow(current[real], observed[real])
            columns["next_state"][t] = current = states

    def _enter(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Enter the episodes that began into the ledger.

        Returns:
            The ids of the first states of each of `self._begun`, and the numbers of all episodes in a row.
        """
        if not self._begun:
            return [], np.zeros(0, np.int64)
        ids, next_state = self._starts.ids(), self["next_state"]
        starts = [
            next_state[group.row - 1, group.envs] if group.starts is None else ids[group.starts]
            for group in self._begun
        ]
        tasks = [group.tasks for group in self._begun]
        late = [place for place, group in enumerate(self._begun) if group.tasks is None]
        if late:
            envs = np.concatenate([self._begun[place].envs for place in late])
            entered = self._ledger.enter_by_start(envs, np.concatenate([starts[place] for place in late]))
            cuts = np.cumsum([len(starts[place]) for place in late])[:-1]
            for place, part in zip(late, np.split(entered, cuts)):
                tasks[place] = part
        self._starts.clear()
        return starts, self._ledger.begin(np.concatenate(tasks))  # type: ignore[arg-type]

    def release(self, envs: np.ndarray) -> np.ndarray:
        """Forget which episodes run in `envs`; returns their numbers. After `settle`."""
        numbers = self.running[envs]
        self.running[envs] = -1
        return numbers[numbers >= 0]

    def flat(self, window: int) -> Rows:
        """Return copies of the real steps, (t, env) by t first. After `settle`."""
        real = self["is_step"]
        return Rows(
            episode=self["episode"][real],
            step=self["step"][real],
            state=self["state"][real],
            next_state=self["next_state"][real],
            action=self.action[real],
            reward=self["reward"][real],
            terminated=self["terminated"][real],
            truncated=self["truncated"][real],
            window=np.full(np.count_nonzero(real), window, np.int64),
        )

    def clear(self) -> None:
        """Begin the next window. After `settle`."""
        for name, usual in _USUALLY.items():
            self[name][:] = usual
        self.length = self._settled = 0
        self._observed.clear()
        self._actions.clear()
