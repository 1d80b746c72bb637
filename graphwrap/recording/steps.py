"""The steps of the running window: cheap to write down, put together in bulk."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphwrap.kernels.episodes import follow_episodes
from graphwrap.recording.history import HistoryTable
from graphwrap.recording.ledger import UNKNOWN, Envs, Ledger
from graphwrap.recording.values import StartLog, ValueLog
from graphwrap.recording.windows import Rows
from graphwrap.states import KeyTable

MANY_ROWS = 2**20
"""Rows of one window above which its user is asked whether anybody closes it."""

_USUALLY = {"is_step": True, "success": UNKNOWN}
"""What these columns hold where nothing was written to the row."""


def check_rewards(rewards: np.ndarray, is_step: np.ndarray | None) -> None:
    """Check the rewards of one step, float64 (num_envs,): no credit method could take an infinite one later.

    Args:
        rewards: The rewards.
        is_step: bool (num_envs,), whose reward counts; None: everybody's.

    Raises:
        ValueError: One is infinite.
    """
    # Zeros times finite numbers add up to 0, which is found in a fraction of what np.isinf takes.
    if rewards.dot(np.zeros(len(rewards))) == 0.0:
        return
    infinite = np.isinf(rewards)
    if is_step is not None:
        infinite &= is_step
    if infinite.any():
        env = int(np.argmax(infinite))
        raise ValueError(
            f"a reward must be finite, or NaN where an episode has no score, and environment {env} gave "
            f"{rewards[env]}; make the environment return a number"
        )


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
        self.starts = StartLog(states)
        self._begun: list[Begun] = []
        self._final_values = StartLog(self._observed.table)
        self._finals: list[tuple[int, Envs, slice]] = []  # row, environments, place in that log
        self._settled = 0
        shape = (64, num_envs)
        self._columns: dict[str, Any] = {
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

    def begin(self, envs: np.ndarray, starts: slice | None, tasks: np.ndarray | None) -> None:
        """Note that an episode begins in each of `envs`.

        Args:
            envs: int64 (B,).
            starts: Where their first states are in the log `starts`; None: in the last row, among its `next_states`.
            tasks: Places in the ledger, int32 (B,); None: the task is the first state.
        """
        self._begun.append(Begun(self.length, envs, starts, tasks))

    def put(
        self,
        actions: Any,
        next_states: Any,
        finals: Sequence[Any],
        rewards: Any,
        terminated: Any,
        truncated: Any,
        is_step: Any,
        ended: Envs,
        successes: Sequence[bool | None],
    ) -> None:
        """Append a row; see `Recorder.record`. An error leaves the rows as they were."""
        t, columns = self.length, self._columns
        if t == len(columns["reward"]):
            self._grow()
        self._actions.put(t, actions)
        self._observed.put(t, next_states)
        if finals:
            values = self._observed.table.stacked(list(finals))
            finals_at = self._final_values.append(values, len(finals))
        try:
            columns["reward"][t] = rewards
            columns["terminated"][t] = terminated
            columns["truncated"][t] = truncated
        except (TypeError, ValueError) as error:
            shapes = ", ".join(str(np.shape(values)) for values in (rewards, terminated, truncated))
            raise ValueError(
                f"rewards, terminated and truncated must be numbers and flags of shape ({len(self.running)},), one per "
                f"environment, got shapes {shapes}; make the environment return them so"
            ) from error
        check_rewards(columns["reward"][t], is_step)
        if is_step is not None:
            columns["is_step"][t] = is_step
        if successes:
            columns["success"][t, ended] = [UNKNOWN if success is None else success for success in successes]
        if finals:
            self._finals.append((t, ended, finals_at))
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
        rows = slice(begin, end)
        self._columns["next_state"][rows] = self._observed.ids(end)[rows]
        if self._finals:
            sizes = [len(envs) for _, envs, _ in self._finals]
            at = np.repeat([row for row, _, _ in self._finals], sizes)
            envs = np.concatenate([envs for _, envs, _ in self._finals])
            self._columns["next_state"][at, envs] = self._final_values.ids()
            self._finals.clear()
            self._final_values.clear()
        if self._history is not None:
            self._follow(rows)
        columns = {name: column[rows] for name, column in self._columns.items()}
        places, numbers, totals = follow_episodes(
            self._enter(begin),
            self.running,
            self.next_step,
            self.current,
            self.total,
            columns["next_state"],
            columns["reward"],
            columns["is_step"],
            np.logical_or(columns["terminated"], columns["truncated"]),
            columns["episode"],
            columns["step"],
            columns["state"],
        )
        if len(numbers):
            successes, terminated = (columns[name].reshape(-1)[places] for name in ("success", "terminated"))
            self._ledger.finish(numbers, successes, terminated, totals)
        self._begun.clear()
        self._settled = end

    def _follow(self, rows: slice) -> None:
        """Turn the observations of `next_state` into states with their history."""
        table, columns, current = self._history, self._columns, self.current.copy()
        assert table is not None
        starts = self.starts.ids()
        begun = iter(self._begun)
        group = next(begun, None)
        for t in range(rows.start, rows.stop):
            while group is not None and group.row <= t:
                current[group.envs] = self._first_states(group, starts)
                group = next(begun, None)
            observed, real = columns["next_state"][t], columns["is_step"][t]
            states = table.begin(observed)
            states[real] = table.follow(current[real], observed[real])
            columns["next_state"][t] = current = states

    def _enter(self, first_row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Enter the episodes that began into the ledger.

        Returns:
            As `follow_episodes` takes them: the row before which each of them began, counted from `first_row`, its
            environment, the id of its first state, and its number.
        """
        begun = self._begun
        if not begun:
            none = np.zeros(0, np.int64)
            return none, none, np.zeros(0, np.int32), none
        ids = self.starts.ids()
        sizes = [len(group.envs) for group in begun]
        envs = np.concatenate([group.envs for group in begun])
        starts = np.concatenate([self._first_states(group, ids) for group in begun])
        known = np.repeat([group.tasks is not None for group in begun], sizes)
        tasks = np.empty(len(envs), np.int32)
        if known.any():
            tasks[known] = np.concatenate([group.tasks for group in begun if group.tasks is not None])
        if not known.all():
            tasks[~known] = self._ledger.enter_by_start(envs[~known], starts[~known])
        self.starts.clear()
        row = np.repeat([group.row - first_row for group in begun], sizes)
        return row, envs, starts, self._ledger.begin(tasks)

    def _first_states(self, group: Begun, starts: np.ndarray) -> np.ndarray:
        """The ids of the first states of `group`, given those of the log of starts."""
        if group.starts is not None:
            return starts[group.starts]
        observed = self._observed.ids(self.length)[group.row - 1, group.envs]
        return observed if self._history is None else self._history.begin(observed)

    def release(self, envs: np.ndarray) -> np.ndarray:
        """Forget which episodes run in `envs`; returns their numbers. After `settle`."""
        numbers = self.running[envs]
        self.running[envs] = -1
        return numbers[numbers >= 0]

    def flat(self, window: int) -> Rows:
        """Return copies of the real steps, (t, env) by t first. After `settle`."""
        real = self["is_step"]
        names = ("episode", "step", "state", "next_state", "reward", "terminated", "truncated")
        if real.all():
            columns = {name: self[name].flatten() for name in names}
            action = self.action.flatten()
        else:
            columns = {name: self[name][real] for name in names}
            action = self.action[real]
        return Rows(**columns, action=action, window=np.full(len(action), window, np.int64))

    def clear(self) -> None:
        """Begin the next window. After `settle`."""
        for name, usual in _USUALLY.items():
            self[name][:] = usual
        self.length = self._settled = 0
        self._observed.clear()
        self._actions.clear()
