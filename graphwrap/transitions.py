"""Recorded steps as a struct of arrays."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from graphwrap.data.columns import check_distinct, intern_columns, intern_ids, intern_pairs, take_labels
from graphwrap.data.fingerprints import FINGERPRINT_ABOVE
from graphwrap.data.inputs import int_array, success_column, value_columns
from graphwrap.data.keys import shorten
from graphwrap.data.ordering import episode_returns, judge, order_steps, returns_to_go


class Outcome(enum.IntEnum):
    """How an episode ended. Being cut off by a time limit is the flag `truncated`, not an outcome."""

    SUCCESS = 0
    FAILURE = 1
    UNFINISHED = 2  # the recording ended first, or the episode was aborted
    UNSCORED = 3  # a reward is NaN


@dataclass(frozen=True, eq=False)
class Transitions:
    """N real steps of E episodes. Made by `from_columns`, `from_ids` or `load`; its arrays are read-only.

    Rows keep the order they were given in. Ids count up by first appearance in that order (states: a row's state,
    then its next state). An episode is known by its task and its label together.
    """

    task: np.ndarray  # int32 (N,)
    episode: np.ndarray  # int32 (N,)
    step: np.ndarray  # int32 (N,), from 0 within the episode
    state: np.ndarray  # int32 (N,)
    next_state: np.ndarray  # int32 (N,), same table as `state`
    action: np.ndarray  # int32 (N,)
    reward: np.ndarray  # float64 (N,), NaN: unscored
    cost: np.ndarray  # float64 (N,), above 0
    terminated: np.ndarray  # bool (N,)
    truncated: np.ndarray  # bool (N,)
    outcome: np.ndarray  # int8 (E,), an `Outcome`
    episode_task: np.ndarray  # int32 (E,), the task of each episode
    order: np.ndarray  # int32 (N,), rows by (episode, step): episode e is order[offsets[e]:offsets[e + 1]]
    episode_offsets: np.ndarray  # int64 (E + 1,)
    task_labels: Any  # what each id stands for: an array for numbers, else a sequence
    episode_labels: Any  # per episode id; equal labels in different tasks are different episodes
    state_labels: Any
    action_labels: Any

    def __post_init__(self) -> None:
        for value in self.__dict__.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()  # unpickled arrays are writeable

    def __len__(self) -> int:
        return len(self.task)

    def __repr__(self) -> str:
        return (
            f"Transitions({self.num_rows} steps, {self.num_episodes} episodes, {self.num_tasks} tasks, "
            f"{self.num_states} states, {self.num_actions} actions)"
        )

    @property
    def num_rows(self) -> int:
        """N, the number of steps."""
        return len(self.task)

    @property
    def num_tasks(self) -> int:
        """The number of different tasks."""
        return len(self.task_labels)

    @property
    def last_rows(self) -> np.ndarray:
        """int32 (E,): the last row of each episode."""
        return self.order[self.episode_offsets[1:] - 1]

    @property
    def num_episodes(self) -> int:
        """E, the number of episodes."""
        return len(self.outcome)

    @property
    def num_states(self) -> int:
        """The number of different states, over all tasks."""
        return len(self.state_labels)

    @property
    def num_actions(self) -> int:
        """The number of different actions."""
        return len(self.action_labels)

    @classmethod
    def from_columns(
        cls,
        *,
        task: Any,
        episode: Any,
        step: Any,
        state: Any,
        action: Any,
        next_state: Any,
        reward: Any,
        terminated: Any,
        truncated: Any,
        success: Any = None,
        cost: Any = None,
        round: int | None = None,
        fingerprint_above: int | None = FINGERPRINT_ABOVE,
    ) -> Transitions:
        """Make transitions from columns of N rows, in any order.

        Args:
            task, episode, state, action, next_state: Values of any kind that has a key (`graphwrap.states`), as a
                sequence of N values or an array (N, ...).
            step: Integers, 0, 1, 2, ... within each episode.
            reward: Numbers; NaN makes its episode UNSCORED.
            terminated, truncated: Booleans, True on an episode's last step at most.
            success: True, False or None, the same on all rows of an episode. None, or no column: inferred
                (terminated with a positive return is success; terminated otherwise, or truncated, is failure;
                neither is unfinished).
            cost: Numbers above 0; 1 without this column.
            round: Decimals that floats in `state` and `next_state` are rounded to; None: not rounded.
            fingerprint_above: Bytes of a state above which its label is a `graphwrap.states.Fingerprint` instead of
                the state, so that images and long texts are not kept; None: never.

        Raises:
            TypeError: A column holds values of the wrong kind.
            ValueError: Columns differ in length; or a step is missing, negative or repeated, the chain
                `next_state[t] == state[t + 1]` is broken, a step follows an episode's end, `success` changes within
                an episode, a cost is not above 0 and finite, a reward is infinite. Column, episode and step are named.

        Warns:
            UserWarning: An outcome was inferred for a terminated episode that had a reward before its last step,
                which says that reward may not be success.
        """
        keys = {"task": task, "episode": episode, "state": state, "action": action, "next_state": next_state}
        optional = {} if success is None else {"success": success}
        columns = value_columns(step, reward, cost, terminated, truncated, keys | optional)
        given = np.empty(0, np.int8) if success is None else success_column(success)
        (columns["task"],), tasks = intern_columns(task)
        (names,), labels = intern_columns(episode)
        columns["episode"], of_pairs = intern_pairs(columns["task"], names, len(labels))
        (columns["state"], columns["next_state"]), states = intern_columns(
            state, next_state, round=round, fingerprint_above=fingerprint_above
        )
        (columns["action"],), actions = intern_columns(action)
        outcome = np.full(len(of_pairs), -1, np.int8)
        return cls._build(columns, given, outcome, tasks, take_labels(labels, of_pairs), states, actions)

    @classmethod
    def from_ids(
        cls,
        *,
        task: Any,
        episode: Any,
        step: Any,
        state: Any,
        action: Any,
        next_state: Any,
        reward: Any,
        terminated: Any,
        truncated: Any,
        outcome: Any = None,
        cost: Any = None,
        task_labels: Any = None,
        episode_labels: Any = None,
        state_labels: Any = None,
        action_labels: Any = None,
    ) -> Transitions:
        """Make transitions from columns of ids, as a `KeyTable` gives them.

        Ids are counted anew by first appearance, and labels that no row uses are dropped.

        Args:
            task, episode, state, action, next_state: Ids, integers from 0, (N,). An episode id belongs to one task.
            step, reward, terminated, truncated, cost: As in `from_columns`.
            outcome: An `Outcome` (or -1: inferred) per episode id. None: all inferred.
            task_labels, episode_labels, state_labels, action_labels: What each id stands for. None: the id itself.

        Raises:
            TypeError, ValueError: As `from_columns`; or an id has no label or no outcome, two tasks, states or
                actions have equal labels, or an episode has two tasks.

        Warns:
            UserWarning: As `from_columns`.
        """
        ids = {"task": task, "episode": episode, "state": state, "action": action, "next_state": next_state}
        columns = value_columns(step, reward, cost, terminated, truncated, ids)
        if outcome is not None:
            outcome = int_array("outcome", outcome)
            if outcome.size and not (outcome.min() >= -1 and outcome.max() <= max(Outcome)):
                raise ValueError(
                    f"outcome must hold Outcome values or -1, got {outcome.min()} to {outcome.max()}"
                )
        tables = {
            "task": task_labels,
            "episode": episode_labels,
            "state": state_labels,
            "action": action_labels,
        }
        for name, table in tables.items():
            together = [name, "next_state"] if name == "state" else [name]
            if table is not None and name != "episode":
                check_distinct(f"{name}_labels", table)
            size, limited_by = (None if table is None else len(table)), f"{name}_labels"
            if name == "episode" and outcome is not None and (size is None or len(outcome) < size):
                size, limited_by = len(outcome), "outcome"
            new, old = intern_ids({key: ids[key] for key in together}, size, limited_by)
            columns.update(zip(together, new))
            tables[name] = old if table is None else take_labels(table, old)
            if name == "episode":
                outcomes = np.full(len(old), -1, np.int8) if outcome is None else outcome[old].astype(np.int8)
        return cls._build(columns, np.empty(0, np.int8), outcomes, *tables.values())

    @classmethod
    def _build(
        cls,
        columns: dict[str, np.ndarray],
        given: np.ndarray,
        outcome: np.ndarray,
        tasks: Any,
        episodes: Any,
        states: Any,
        actions: Any,
    ) -> Transitions:
        """Check everything and put the arrays together; ids in `columns` count up by first appearance."""

        def name(row: int) -> str:
            label = shorten(episodes[columns["episode"][row]])
            return f"episode {label} of task {shorten(tasks[columns['task'][row]])}"

        def label(column: str, row: int) -> str:
            return shorten(states[columns[column][row]])

        order, offsets = order_steps(columns["episode"], columns["step"], len(episodes), name)
        if judge(columns, given, outcome, order, offsets, name, label):
            warnings.warn(
                "outcomes were inferred (terminated with a positive return is success), but there are rewards before "
                "an episode's last step, so reward may not mean success; pass success= to say which episodes succeeded",
                UserWarning,
                stacklevel=3,
            )
        first = order[offsets[:-1]]
        return cls(
            **columns,
            outcome=outcome,
            episode_task=columns["task"][first],
            order=order,
            episode_offsets=offsets,
            task_labels=tasks,
            episode_labels=episodes,
            state_labels=states,
            action_labels=actions,
        )

    def returns(self) -> np.ndarray:
        """Return each episode's undiscounted return, float64 (E,): NaN where it is unscored."""
        totals = episode_returns(self.order, self.episode_offsets, self.reward)
        totals[self.outcome == Outcome.UNSCORED] = np.nan
        return totals

    def discounted_returns(self, gamma: float) -> np.ndarray:
        """Return each step's discounted return-to-go, float64 (N,): NaN on all steps of an unscored episode.

        Args:
            gamma: The discount, from 0 to 1.

        Raises:
            ValueError: `gamma` is outside [0, 1].
        """
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must be from 0 to 1, got {gamma!r}")
        result = returns_to_go(self.order, self.episode_offsets, self.reward, float(gamma))
        result[self.outcome[self.episode] == Outcome.UNSCORED] = np.nan
        return result

    def select(self, rows: Any) -> Transitions:
        """Return the transitions of some whole episodes.

        Args:
            rows: A boolean mask (N,), or row numbers without repeats in the order wanted.

        Raises:
            ValueError: An episode is cut: some of its rows are chosen and others are not. It is named.
            TypeError, IndexError: `rows` is no mask and no row numbers of these transitions.
        """
        from graphwrap.data.joining import select

        return select(self, rows)

    @staticmethod
    def concat(parts: Sequence[Transitions]) -> Transitions:
        """Return all rows of `parts`, one after the other. Equal labels become one task, state or action.

        Raises:
            TypeError: A part is something else.
            ValueError: There are no parts, or two of them hold the same (task, episode). It is named.
        """
        from graphwrap.data.joining import concat

        return concat(parts)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a Parquet file (see `graphwrap.data.storage`); `load` gives back the same rows, ids and labels.

        Raises:
            ImportError: pyarrow is missing.
            TypeError: A label is of a kind that has no exact text form. No file is written.
        """
        from graphwrap.data.storage import save

        save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Transitions:
        """Read a file that `save` wrote.

        Raises:
            ImportError: pyarrow is missing.
            ValueError: The file holds something else.
        """
        from graphwrap.data.storage import load

        return load(path)
