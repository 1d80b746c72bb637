"""Minibatches of the valid rows of a Stable-Baselines3 rollout buffer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np


class MaskedGet:
    """Stands in for a buffer's `get`: the same order of rows, of which only the valid ones appear, each once.

    Works on any buffer whose `get` hands row numbers to `_get_samples`: those of Stable-Baselines3 and sb3-contrib.

    Args:
        buffer: A full rollout buffer of T steps and n environments.
        valid: bool (T, n).
    """

    def __init__(self, buffer: Any, valid: np.ndarray) -> None:
        self._buffer = buffer
        self._get = buffer.get
        self._valid = valid.swapaxes(0, 1).reshape(-1)  # the order that `get` flattens to

    def __call__(self, batch_size: int | None = None) -> Iterator[Any]:
        """Yield minibatches; a last one of a single row joins the one before."""
        order, further = self._order()
        if hasattr(self._buffer, "hidden_states_pi"):
            yield from self._sequences(order, further, batch_size)
            return
        order = order[self._valid[order]]
        for rows in _parts(order, np.ones(len(order), np.bool_), batch_size):
            yield self._buffer._get_samples(rows, *further)

    def _sequences(
        self, order: np.ndarray, further: tuple[Any, ...], batch_size: int | None
    ) -> Iterator[Any]:
        """A recurrent policy reads whole sequences; its own mask says which rows count."""
        for rows in _parts(order, self._valid[order], batch_size):
            samples = self._buffer._get_samples(rows, *further)
            valid = self._valid[rows].astype(np.float32)[:, None]
            yield samples._replace(mask=self._buffer.pad_and_flatten(valid))

    def _order(self) -> tuple[np.ndarray, tuple[Any, ...]]:
        """Return the order in which the buffer's own `get` goes through its rows, and what else it passes on."""
        asked: list[tuple[Any, ...]] = []
        buffer = self._buffer
        own = vars(buffer).get("_get_samples")
        buffer._get_samples = lambda *arguments: asked.append(arguments)
        try:
            for _ in self._get(None):
                pass
        finally:
            del buffer._get_samples
            if own is not None:
                buffer._get_samples = own
        return np.concatenate([rows for rows, *_ in asked]), tuple(asked[0][1:])


def _parts(order: np.ndarray, counts: np.ndarray, batch_size: int | None) -> list[np.ndarray]:
    """Cut `order` into minibatches; one in which fewer than two rows count joins its neighbour."""
    size = batch_size or max(len(order), 1)
    least = min(size, 2)
    cuts = [0]
    for start in range(size, len(order), size):
        if np.count_nonzero(counts[cuts[-1] : start]) >= least:
            cuts.append(start)
    if len(cuts) > 1 and np.count_nonzero(counts[cuts[-1] :]) < least:
        cuts.pop()
    return [order[start:stop] for start, stop in pairwise([*cuts, len(order)])]
