"""States that are several observations in a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graphwrap.data.tables import KeyTable, RowTable


class HistoryTable(KeyTable):
    """Ids of states that are an observation and the `history` observations before it in its episode.

    Values of the table are observations: interning one gives the id of the state that an episode begins with, and
    `follow` that of the state an observation leads to. The label of a state is the tuple of its observations, oldest
    first, which is shorter at an episode's start.

    Args:
        observations: The table of the observations' ids, empty.
        history: How many observations before the last one count, at least 1.
    """

    def __init__(self, observations: KeyTable, history: int) -> None:
        self.observations = observations
        self._history = history
        self._table = RowTable(
            history + 1
        )  # ids of observations + 1, newest first, 0 before the episode's start

    def __len__(self) -> int:
        return len(self._table)

    @property
    def labels(self) -> Sequence:
        """As `KeyTable.labels`."""
        return HistoryLabels(self._table.rows, self.observations.labels)

    def intern_one(self, value: Any) -> int:
        """As `KeyTable.intern_one`, for an episode's first observation."""
        return int(self.intern_batch(self.stacked([value]), 1)[0])

    def intern_batch(self, batch: Any, n: int) -> np.ndarray:
        """As `KeyTable.intern_batch`, for the first observations of n episodes."""
        return self.begin(self.observations.intern_batch(batch, n))

    def begin(self, observations: np.ndarray) -> np.ndarray:
        """Return the states that episodes begin with, int32 (n,), given the ids of their first observations."""
        rows = np.zeros((len(observations), self._history + 1), np.uint64)
        rows[:, 0] = observations + 1
        return self._table.intern(rows)

    def follow(self, states: np.ndarray, observations: np.ndarray) -> np.ndarray:
        """Return the states that steps lead to.

        Args:
            states: The ids of the states they start from, int (n,).
            observations: The ids of the observations they lead to, int (n,).
        """
        rows = np.empty((len(states), self._history + 1), np.uint64)
        rows[:, 0] = observations + 1
        rows[:, 1:] = self._table.rows[states, :-1]
        return self._table.intern(rows)

    def stacked(self, values: list[Any]) -> Any:
        """As `KeyTable.stacked`."""
        return self.observations.stacked(values)

    def compact(self, ids: Any) -> np.ndarray:
        """As `KeyTable.compact`; observations that no state holds any more are forgotten too."""
        kept, new = self._plan(ids)
        rows = self._table.rows[kept]
        known = rows > 0
        observations = self.observations.compact((rows[known] - np.uint64(1)).astype(np.int64))
        rows = rows.copy()
        rows[known] = observations[(rows[known] - np.uint64(1)).astype(np.int64)] + 1
        self._table = RowTable(rows.shape[1])
        self._table.intern(rows)
        return new


class HistoryLabels(Sequence):
    """The labels of a `HistoryTable`, made when they are looked at."""

    def __init__(self, rows: np.ndarray, observations: Sequence[Any]) -> None:
        self._rows = rows
        self._observations = observations

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return HistoryLabels(self._rows[index], self._observations)
        return tuple(self._observations[int(number) - 1] for number in self._rows[index][::-1] if number)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))
