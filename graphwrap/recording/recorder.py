"""What happens in N environments, kept as columns of ids, and its credit window by window."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphwrap.credit import Credit
from graphwrap.recording.ledger import Episode, Ledger
from graphwrap.recording.windows import Columns, Rows, WindowCredit, to_transitions
from graphwrap.states import KeyTable
from graphwrap.transitions import Outcome, Transitions

__all__ = ["Recorder", "WindowCredit"]


class Recorder:
    """Records the steps of `num_envs` environments and credits them window by window.

    A window is what was recorded since the last `assign_credit`. Episodes of every task that is still open (some of
    its members run or are yet to come) stay as context: they enter the next window's graph and statistics, and are
    never returned again. Memory does not grow with the number of windows.

    Args:
        num_envs: Number of environments.
        states: The table of the states' ids.
        actions: The table of the actions' ids.
        method: The credit method, a callable on `Transitions`.
        group_size: Episodes that make up a task. None: the episodes of a task are as many as there are.
        max_context_windows: Steps made more than this many windows ago are dropped from the context, and with them
            the finished episodes they belong to. An episode that still runs keeps its later steps, counted from 0.
    """

    def __init__(
        self,
        num_envs: int,
        states: KeyTable,
        actions: KeyTable,
        method: Callable[[Transitions], Credit],
        *,
        group_size: int | None = None,
        max_context_windows: int = 4,
    ) -> None:
        if max_context_windows < 1:
            raise ValueError(f"max_context_windows must be at least 1, got {max_context_windows!r}")
        self.num_envs = num_envs
        self.states = states
        self.actions = actions
        self.method = method
        self.max_context_windows = max_context_windows
        self.ledger = Ledger(num_envs, group_size)
        self._columns = Columns(num_envs)
        self._context = Rows.empty()
        self._window = 0
        self._idle = num_envs  # environments without a running episode
        self._episode = np.full(num_envs, -1, np.int64)
        self._step = np.zeros(num_envs, np.int32)
        self._current = np.zeros(num_envs, np.int32)
        self._return = np.zeros(num_envs)

    @property
    def group_size(self) -> int | None:
        """Episodes that make up a task, or None."""
        return self.ledger.group_size

    @property
    def num_steps(self) -> int:
        """Steps T of each environment in the running window."""
        return self._columns.length

    @property
    def num_context_steps(self) -> int:
        """Rows kept from earlier windows."""
        return len(self._context)

    @property
    def is_recording(self) -> bool:
        """Whether an episode runs in every environment."""
        return not self._idle

    @property
    def episode_starts(self) -> np.ndarray:
        """Which rows of the running window are an episode's first step, bool (T, num_envs)."""
        return self._columns.step[: self._columns.length] == 0

    @property
    def action_ids(self) -> np.ndarray:
        """The ids of the running window's actions, int32 (T, num_envs)."""
        return self._columns.action[: self._columns.length].copy()

    def begin(self, envs: Sequence[int], states: Sequence[int], labels: Sequence[Any] | None = None) -> None:
        """Begin an episode in each of `envs`, which have none running.

        Args:
            envs: Environments.
            states: The id of each one's first state.
            labels: The task of each one. None: the task is the first state.

        Raises:
            ValueError: With `group_size`, members of a group start in different states; nothing has begun.
        """
        self.ledger.begin(envs, states, labels, lambda state: self.states.labels[state])
        for env, state in zip(envs, states):
            episode = self.ledger.running[env]
            assert episode is not None
            self._episode[env] = episode.number
            self._current[env] = state
            self._step[env] = 0
            self._return[env] = 0.0
        self._idle -= len(envs)

    def record(
        self,
        actions: np.ndarray,
        next_states: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        ended: Sequence[int] = (),
        successes: Sequence[bool | None] = (),
    ) -> None:
        """Append one step of every environment; nothing that is passed is kept.

        Args:
            actions: Ids, int (num_envs,).
            next_states: Ids of the states the steps led to, int (num_envs,); at an episode's end its final state.
            rewards: float (num_envs,).
            terminated: bool (num_envs,).
            truncated: bool (num_envs,).
            ended: The environments whose episode ended with this step.
            successes: For each of them whether it succeeded. None: it did if it terminated with a positive return.

        Raises:
            RuntimeError: An environment has no running episode; nothing is recorded.
        """
        if self._idle:
            env = self.ledger.running.index(None)
            raise RuntimeError(
                f"a step needs a running episode in every environment, env {env} has none: reset first"
            )
        columns = self._columns
        t = columns.next_row()
        columns.episode[t] = self._episode
        columns.step[t] = self._step
        columns.state[t] = self._current
        columns.next_state[t] = next_states
        columns.action[t] = actions
        columns.reward[t] = rewards
        columns.terminated[t] = terminated
        columns.truncated[t] = truncated
        columns.length = t + 1
        self._current[:] = next_states
        self._step += 1
        self._return += columns.reward[t]
        for env, success in zip(ended, successes):
            self.ledger.finish(env, success, bool(terminated[env]), float(self._return[env]))
            self._idle += 1

    def abort(self, envs: Sequence[int] | None = None) -> None:
        """Break off the running episodes of `envs` (None: of all): they stay unfinished."""
        before = self._idle
        for env in range(self.num_envs) if envs is None else envs:
            if self.ledger.running[env] is not None:
                self.ledger.abort(env)
                self._idle += 1
        if self._idle > before and not self.num_steps:
            self._close(Rows.empty())  # tasks that this closes are no context for episodes to come

    def abandon_groups(self) -> None:
        """Say that no further member joins the groups that are open."""
        self.ledger.abandon()

    def assign_credit(self, unfinished: str = "mask") -> WindowCredit:
        """Credit the window's steps and begin the next window.

        Args:
            unfinished: "mask" leaves the steps of unfinished episodes out of `mask`; "graph" keeps them, with the
                credit that the graph gives them.

        Returns:
            The window's credit. Its diagnostics are the method's and

            - `complete_groups`: groups whose last member finished in this window.
            - `success_rate`, `outcome_return`: over the episodes of these groups, NaN where there is none. Over
              whatever finished in a window, short successes would weigh too much.
            - `context_steps`: rows of earlier windows that entered the credit.
            - `trainable_share`: share of the window's steps with `mask` True.
            - `seconds`: wall-clock time of this call.

        Raises:
            ValueError: `unfinished` is something else.

        An error, also one of the credit method, loses nothing: the window stays open with all its steps.
        """
        if unfinished not in ("mask", "graph"):
            raise ValueError(f"unfinished must be 'mask' or 'graph', got {unfinished!r}")
        began = time.perf_counter()
        window = self._columns.flat(self._window)
        context = self._context_of(window)
        rows = context.followed_by(window)
        numbers, local = np.unique(rows.episode, return_inverse=True)
        episodes = [self.ledger.episodes[number] for number in numbers.tolist()]
        transitions = to_transitions(rows, episodes, local, self.states.labels, self.actions.labels)
        credit = self.method(transitions)

        shape = (self._columns.length, self.num_envs)
        finished = np.array([episode.outcome != Outcome.UNFINISHED for episode in episodes], np.bool_)
        complete = np.array([self.ledger.is_complete(episode.task) for episode in episodes], np.bool_)
        place = local[len(context) :].reshape(shape)
        is_step = np.ones(shape, np.bool_)
        mask = finished[place] if unfinished == "mask" else is_step.copy()
        arrays = {
            "advantages": np.asarray(credit.advantages, np.float64)[len(context) :].reshape(shape).copy(),
            "rewards": window.reward.reshape(shape),
            "mask": mask,
            "is_step": is_step,
            "episode_finished": finished[place],
            "group_complete": complete[place],
            "rows": np.arange(len(context), len(rows)).reshape(shape),
        }
        for array in arrays.values():
            array.flags.writeable = False
        diagnostics = dict(credit.diagnostics)
        diagnostics.update(self.ledger.summary())
        diagnostics["context_steps"] = float(len(context))
        diagnostics["trainable_share"] = float(mask.mean()) if mask.size else float("nan")
        self._close(window)
        diagnostics["seconds"] = time.perf_counter() - began
        return WindowCredit(**arrays, transitions=transitions, credit=credit, diagnostics=diagnostics)

    def drop_window(self) -> None:
        """Begin the next window without credit for this one; open tasks keep their steps as context."""
        if self.num_steps:
            self._close(self._columns.flat(self._window))

    def _context_of(self, window: Rows) -> Rows:
        """The context rows of tasks that have a step in the window."""
        if not len(self._context):
            return self._context
        tasks = {self.ledger.episodes[number].task for number in np.unique(window.episode).tolist()}
        return self._context.take(self._rows_of(self._context, lambda episode: episode.task in tasks))

    def _rows_of(self, rows: Rows, condition: Callable[[Episode], bool]) -> np.ndarray:
        """bool (N,): the rows whose episode meets the condition."""
        numbers, local = np.unique(rows.episode, return_inverse=True)
        met = [condition(self.ledger.episodes[number]) for number in numbers.tolist()]
        return np.array(met, np.bool_)[local]

    def _close(self, window: Rows) -> None:
        """Keep what the open tasks need, forget the rest, and begin the next window if this one has rows."""
        rows = self._context.followed_by(window)
        rows = rows.take(self._rows_of(rows, lambda episode: self.ledger.is_open(episode.task)))
        kept, step = self._within_bound(rows, self._window if len(window) else self._window - 1)
        rows, step = rows.take(kept), step[kept]
        running = np.array([episode is not None for episode in self.ledger.running], np.bool_)
        starts = [task.start for task in self.ledger.tasks.values() if self.ledger.is_open(task)]
        needed = [rows.state, rows.next_state, self._current[running], np.array(starts, np.int32)]

        states = self.states.compact(np.concatenate(needed))
        actions = self.actions.compact(rows.action)
        self._context = rows.renumbered(states, actions, step)
        self._current[running] = states[self._current[running]]
        self._current[~running] = 0
        self.ledger.forget(np.unique(rows.episode), states)
        self._columns.length = 0
        self._window += bool(len(window))

    def _within_bound(self, rows: Rows, newest: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (the rows that stay, their steps), and recount the running episodes that lose steps."""
        numbers, local = np.unique(rows.episode, return_inverse=True)
        old = rows.window <= newest - self.max_context_windows
        lost = np.bincount(local[old], minlength=len(numbers)).astype(np.int32)
        runs = np.isin(numbers, [episode.number for episode in self.ledger.running if episode is not None])
        kept = ~old & (runs | (lost == 0))[local]
        for env, episode in enumerate(self.ledger.running):
            if episode is not None and episode.number in numbers:
                lost_steps = lost[np.searchsorted(numbers, episode.number)]
                self._step[env] -= lost_steps
                episode.cut = episode.cut or lost_steps > 0
        return kept, rows.step - lost[local]
