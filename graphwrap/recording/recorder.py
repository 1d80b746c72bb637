"""What happens in N environments, kept as columns of ids, and its credit window by window."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphwrap.credit import Credit
from graphwrap.recording.ledger import Envs, Ledger
from graphwrap.recording.steps import StepLog
from graphwrap.recording.windows import Rows, WindowCredit, to_transitions
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
        self.ledger = Ledger(group_size)
        self._steps = StepLog(num_envs, states, actions, self.ledger)
        self._context = Rows.empty()
        self._window = 0
        self._active = np.zeros(num_envs, np.bool_)  # environments with a running episode
        self._idle = num_envs  # how many have none

    @property
    def group_size(self) -> int | None:
        """Episodes that make up a task, or None."""
        return self.ledger.group_size

    @property
    def num_steps(self) -> int:
        """Steps T of each environment in the running window."""
        return self._steps.length

    @property
    def num_context_steps(self) -> int:
        """Rows kept from earlier windows."""
        return len(self._context)

    @property
    def is_recording(self) -> bool:
        """Whether an episode runs in every environment."""
        return not self._idle

    @property
    def num_idle(self) -> int:
        """In how many environments no episode runs."""
        return self._idle

    @property
    def active(self) -> np.ndarray:
        """Which environments have a running episode, bool (num_envs,), a copy."""
        return self._active.copy()

    @property
    def episode_starts(self) -> np.ndarray:
        """Which rows of the running window are an episode's first step, bool (T, num_envs)."""
        self._steps.settle()
        return (self._steps["step"] == 0) & self._steps["is_step"]

    @property
    def action_ids(self) -> np.ndarray:
        """The ids of the running window's actions, int32 (T, num_envs)."""
        return self._steps.action.copy()

    def begin(self, envs: Envs, starts: Any, labels: Sequence[Any] | None = None) -> None:
        """Begin an episode in each of `envs`, which have none running.

        Args:
            envs: Environments, B of them.
            starts: The first state of each one, as `KeyTable.intern_batch` takes B values; nobody else changes them.
                None, without `group_size`: they were among the `next_states` of the last row.
            labels: The task of each one. None: the task is the first state.

        Raises:
            ValueError: With `group_size`, members of a group start in different states; nothing has begun.
            TypeError, ValueError: A start or a task has no key; nothing has begun.
        """
        # First what may be refused for its start: an episode that was entered and did not begin would never end.
        states = place = tasks = None
        if self.group_size is not None:  # the members of a group are compared at once
            states = self.states.intern_batch(starts, len(envs))
            place = self._steps.starts.append_ids(states)
        elif starts is not None:
            place = self._steps.starts.append(starts, len(envs))
        if labels is not None:
            tasks = self.ledger.enter(envs, labels, states, lambda state: self.states.labels[state])
        self._steps.begin(np.asarray(envs, np.int64), place, tasks)
        self._active[envs] = True
        self._idle -= len(envs)

    def record(
        self,
        actions: Any,
        next_states: Any,
        rewards: Any,
        terminated: Any,
        truncated: Any,
        ended: Envs = (),
        successes: Sequence[bool | None] = (),
        *,
        finals: Sequence[Any] = (),
        partly: bool = False,
    ) -> np.ndarray | None:
        """Append one step of every environment; nothing that is passed is kept.

        Args:
            actions: As `KeyTable.intern_batch` takes `num_envs` values.
            next_states: The states that the steps led to, alike.
            rewards: float (num_envs,).
            terminated: bool (num_envs,).
            truncated: bool (num_envs,).
            ended: The environments whose episode ended with this step.
            successes: For each of them whether it succeeded. None: it did if it terminated with a positive return.
            finals: For each of them its final state, where `next_states` holds the first state of its next episode.
            partly: Environments without a running episode made no step. Their row counts for nothing.

        Returns:
            None: nothing is to be added to the rewards.

        Raises:
            RuntimeError: An environment has no running episode; nothing is recorded.
            TypeError, ValueError: An action or a state has no key; nothing is recorded.
        """
        if self._idle and not partly:
            env = int(np.flatnonzero(~self._active)[0])
            raise RuntimeError(
                f"a step needs a running episode in every environment, env {env} has none: reset first"
            )
        is_step = self._active if self._idle else None
        self._steps.put(
            actions, next_states, finals, rewards, terminated, truncated, is_step, ended, successes
        )
        if len(ended):
            self._active[ended] = False
            self._idle += len(ended)
        return None

    def abort(self, envs: Envs | None = None) -> None:
        """Break off the running episodes of `envs` (None: of all): they stay unfinished."""
        chosen = np.arange(self.num_envs) if envs is None else np.asarray(envs, np.int64)
        chosen = chosen[self._active[chosen]]
        if not len(chosen):
            return
        self._steps.settle()
        self.ledger.abort(self._steps.release(chosen))
        self._active[chosen] = False
        self._idle += len(chosen)
        if not self.num_steps:
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
        self._steps.settle()
        window = self._steps.flat(self._window)
        context = self._context_of(window)
        rows = context.followed_by(window)
        numbers, local = self.ledger.distinct(rows.episode)
        transitions = to_transitions(
            rows, self.ledger, numbers, local, self.states.labels, self.actions.labels
        )
        credit = self.method(transitions)

        is_step = self._steps["is_step"].copy()
        episodes = self.ledger.episodes[self.ledger.place_of(numbers)]
        place = local[len(context) :]
        finished = (episodes["outcome"] != Outcome.UNFINISHED)[place]
        complete = self.ledger.is_complete[episodes["task"]][place]

        def full(values: np.ndarray, otherwise: Any) -> np.ndarray:
            array = np.full(is_step.shape, otherwise, values.dtype)
            array[is_step] = values
            return array

        arrays = {
            "advantages": full(np.asarray(credit.advantages, np.float64)[len(context) :], 0.0),
            "rewards": self._steps["reward"].copy(),
            "mask": full(finished, False) if unfinished == "mask" else is_step.copy(),
            "is_step": is_step,
            "episode_finished": full(finished, False),
            "group_complete": full(complete, False),
            "rows": full(np.arange(len(context), len(rows)), -1),
        }
        for array in arrays.values():
            array.flags.writeable = False
        diagnostics = dict(credit.diagnostics)
        diagnostics.update(self.ledger.summary())
        diagnostics["context_steps"] = float(len(context))
        trained = np.count_nonzero(arrays["mask"])
        diagnostics["trainable_share"] = trained / len(window) if len(window) else float("nan")
        self._close(window)
        diagnostics["seconds"] = time.perf_counter() - began
        return WindowCredit(**arrays, transitions=transitions, credit=credit, diagnostics=diagnostics)

    def drop_window(self) -> None:
        """Begin the next window without credit for this one; open tasks keep their steps as context."""
        if self.num_steps:
            self._steps.settle()
            self._close(self._steps.flat(self._window))

    def _tasks_of(self, rows: Rows) -> np.ndarray:
        """int32 (N,): the place of each row's task in the ledger."""
        return self.ledger.episodes["task"][self.ledger.place_of(rows.episode)]

    def _context_of(self, window: Rows) -> Rows:
        """The context rows of tasks that have a step in the window."""
        if not len(self._context):
            return self._context
        present = np.zeros(len(self.ledger.tasks), np.bool_)
        present[self._tasks_of(window)] = True
        return self._context.take(present[self._tasks_of(self._context)])

    def _close(self, window: Rows) -> None:
        """Keep what the open tasks need, forget the rest, and begin the next window if this one has rows."""
        steps = self._steps
        is_open = self.ledger.is_open
        context, window = (rows.take(is_open[self._tasks_of(rows)]) for rows in (self._context, window))
        rows = context.followed_by(window)
        kept, step = self._within_bound(rows, self._window if steps.length else self._window - 1)
        rows, step = rows.take(kept), step[kept]
        active = self._active
        starts = self.ledger.tasks["start"][self.ledger.is_open]
        starts = starts[starts >= 0]
        states = self.states.compact(
            np.concatenate([rows.state, rows.next_state, steps.current[active], starts])
        )
        actions = self.actions.compact(rows.action)
        self._context = rows.renumbered(states, actions, step)
        steps.current[active] = states[steps.current[active]]
        steps.current[~active] = 0
        self.ledger.forget(np.unique(np.concatenate([rows.episode, steps.running[active]])), states)
        self._window += bool(steps.length)
        steps.clear()

    def _within_bound(self, rows: Rows, newest: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (the rows that stay, their steps), and recount the running episodes that lose steps."""
        numbers, local = self.ledger.distinct(rows.episode)
        old = rows.window <= newest - self.max_context_windows
        lost = np.bincount(local[old], minlength=len(numbers)).astype(np.int32)
        running = self._steps.running
        kept = ~old & (np.isin(numbers, running) | (lost == 0))[local]
        for env in np.flatnonzero(np.isin(running, numbers[lost > 0])):
            self._steps.next_step[env] -= lost[np.searchsorted(numbers, running[env])]
        cut = numbers[lost > 0]
        self.ledger.episodes["cut"][self.ledger.place_of(cut)] = True
        return kept, rows.step - lost[local]
