"""The rows between two calls of `assign_credit`, and what such a window returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from graphwrap.credit import Credit
from graphwrap.recording.ledger import Ledger
from graphwrap.transitions import Transitions


@dataclass(frozen=True, eq=False)
class WindowCredit:
    """Credit of one window: T steps of `num_envs` environments.

    All arrays are read-only and have the shape (T, num_envs); of a single environment (T,). Row (t, e) is the t-th
    step of environment e since the last `assign_credit`.
    """

    advantages: np.ndarray  # float64, the credit; 0 where there was no step
    rewards: np.ndarray  # float64, the environment's own rewards
    mask: np.ndarray  # bool, rows to train on
    is_step: np.ndarray  # bool, False where an environment was only reset
    episode_finished: np.ndarray  # bool, the row's episode had ended when the window was closed
    group_complete: np.ndarray  # bool, so had every episode of its group
    rows: np.ndarray  # int64, the row's place in `transitions`; -1 where there was no step
    transitions: (
        Transitions  # the rows that were credited: context of earlier windows first, then the window's
    )
    credit: Credit  # of `transitions`
    diagnostics: dict[str, float]  # those of the credit, and of the window (see `Recorder.assign_credit`)

    def of_single(self) -> WindowCredit:
        """Return the same without the axis of environments, arrays (T,)."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays = {name: value[:, 0] for name, value in values.items() if isinstance(value, np.ndarray)}
        return WindowCredit(**{**values, **arrays})


@dataclass(frozen=True, eq=False)
class Rows:
    """Recorded steps as flat columns."""

    episode: np.ndarray  # int64 (N,), the ledger's number of the episode
    step: np.ndarray  # int32 (N,)
    state: np.ndarray  # int32 (N,), ids of the recorder's tables
    next_state: np.ndarray  # int32 (N,)
    action: np.ndarray  # int32 (N,)
    reward: np.ndarray  # float64 (N,)
    terminated: np.ndarray  # bool (N,)
    truncated: np.ndarray  # bool (N,)
    window: np.ndarray  # int64 (N,), the window the step was made in

    def __len__(self) -> int:
        return len(self.episode)

    @classmethod
    def empty(cls) -> Rows:
        """No rows."""
        return cls(
            episode=np.zeros(0, np.int64),
            step=np.zeros(0, np.int32),
            state=np.zeros(0, np.int32),
            next_state=np.zeros(0, np.int32),
            action=np.zeros(0, np.int32),
            reward=np.zeros(0),
            terminated=np.zeros(0, np.bool_),
            truncated=np.zeros(0, np.bool_),
            window=np.zeros(0, np.int64),
        )

    def take(self, rows: np.ndarray) -> Rows:
        """Return the rows of a mask or of indices, as copies."""
        return Rows(*(getattr(self, field.name)[rows] for field in fields(self)))

    def followed_by(self, other: Rows) -> Rows:
        """Return these rows and then those of `other`, as copies."""
        return Rows(
            *(
                np.concatenate([getattr(self, field.name), getattr(other, field.name)])
                for field in fields(self)
            )
        )

    def renumbered(self, states: np.ndarray, actions: np.ndarray, step: np.ndarray) -> Rows:
        """Return the rows with other steps, and with ids put through the maps of `KeyTable.compact`."""
        return Rows(
            episode=self.episode,
            step=step,
            state=states[self.state],
            next_state=states[self.next_state],
            action=actions[self.action],
            reward=self.reward,
            terminated=self.terminated,
            truncated=self.truncated,
            window=self.window,
        )


def to_transitions(
    rows: Rows, ledger: Ledger, numbers: np.ndarray, local: np.ndarray, states: Any, actions: Sequence[Any]
) -> Transitions:
    """Return `rows` as transitions.

    Args:
        rows: N rows.
        ledger: Where their episodes stand.
        numbers: The numbers of their episodes, ascending.
        local: int (N,), the place of each row's episode in `numbers`.
        states: The labels of the state ids.
        actions: The labels of the action ids.
    """
    episodes = ledger.episodes[ledger.place_of(numbers)]
    places, task = np.unique(episodes["task"], return_inverse=True)
    # An outcome that nobody gave is inferred again, with the warning that belongs to it, if all its rows are there.
    outcomes = np.where(episodes["inferred"] & ~episodes["cut"], np.int8(-1), episodes["outcome"])
    return Transitions.from_ids(
        task=task.astype(np.int32)[local],
        episode=local,
        step=rows.step,
        state=rows.state,
        next_state=rows.next_state,
        action=rows.action,
        reward=rows.reward,
        terminated=rows.terminated,
        truncated=rows.truncated,
        outcome=outcomes,
        task_labels=[
            states[ledger.tasks["start"][place]] if ledger.tasks["by_start"][place] else ledger.labels[place]
            for place in places.tolist()
        ],
        episode_labels=episodes["number"].copy(),
        state_labels=states,
        action_labels=actions,
    )
