"""Take whole episodes out of transitions, and put transitions together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwrap.data.columns import join_labels
from graphwrap.data.keys import shorten
from graphwrap.transitions import Transitions

_ROW_FIELDS = ("task", "episode", "step", "state", "next_state", "action")
_VALUE_FIELDS = ("reward", "cost", "terminated", "truncated")
_LABEL_FIELDS = ("task_labels", "episode_labels", "state_labels", "action_labels")


def select(transitions: Transitions, rows: Any) -> Transitions:
    """See `Transitions.select`."""
    n = transitions.num_rows
    rows = np.asarray(rows)
    if rows.size == 0 and rows.dtype != np.bool_:
        rows = rows.astype(np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "biu":
        raise TypeError(
            f"rows must be a boolean mask or row numbers, got an array of {rows.dtype} {rows.shape}"
        )
    if rows.dtype.kind == "b":
        if len(rows) != n:
            raise IndexError(f"a mask must have one entry per row, {n}, got {len(rows)}")
        rows = np.flatnonzero(rows)
    elif rows.size and not (rows.min() >= 0 and rows.max() < n):
        raise IndexError(f"row numbers must be from 0 to {n - 1}, got {rows.min()} to {rows.max()}")
    times = np.bincount(rows, minlength=n)
    if times.max(initial=0) > 1:
        raise ValueError(f"row numbers must not repeat, got row {times.argmax()} {times.max()} times")
    taken = np.bincount(transitions.episode[rows], minlength=transitions.num_episodes)
    lengths = np.diff(transitions.episode_offsets)
    cut = np.flatnonzero((taken > 0) & (taken < lengths))
    if cut.size:
        raise ValueError(
            f"rows must hold whole episodes, but {_episode(transitions, cut[0])} has {lengths[cut[0]]} steps and "
            f"{taken[cut[0]]} of them were chosen; choose by episode, as in transitions.episode == 0"
        )
    return Transitions.from_ids(
        **{name: getattr(transitions, name)[rows] for name in _ROW_FIELDS + _VALUE_FIELDS},
        **{name: getattr(transitions, name) for name in _LABEL_FIELDS},
        outcome=transitions.outcome,
    )


def concat(parts: Sequence[Transitions]) -> Transitions:
    """See `Transitions.concat`."""
    if isinstance(parts, Transitions):
        raise TypeError("concat needs a sequence of Transitions, got one; put it in a list")
    parts = list(parts)
    for part in parts:
        if not isinstance(part, Transitions):
            raise TypeError(f"concat needs Transitions, got {shorten(part)} of type {type(part).__name__}")
    if not parts:
        raise ValueError("concat needs at least one Transitions, got none")
    maps, labels = {}, {}
    for name in _LABEL_FIELDS:
        maps[name], labels[name] = join_labels([getattr(part, name) for part in parts])
    episode_task = np.concatenate([m[p.episode_task] for m, p in zip(maps["task_labels"], parts)])
    names = np.concatenate(maps["episode_labels"])
    pairs = episode_task.astype(np.int64) * max(len(labels["episode_labels"]), 1) + names
    _, first, counts = np.unique(pairs, return_index=True, return_counts=True)
    if (counts > 1).any():
        twice = int(first[counts > 1].min())
        label = labels["episode_labels"][names[twice]]
        raise ValueError(
            f"an episode must be in one part only, but episode {shorten(label)} of task "
            f"{shorten(labels['task_labels'][episode_task[twice]])} is in two; give episodes labels of their own"
        )
    starts = np.cumsum([0] + [part.num_episodes for part in parts])
    ids: dict[str, Any] = {"episode": np.concatenate([p.episode + s for p, s in zip(parts, starts)])}
    for name in ("task", "state", "next_state", "action"):
        table = "state_labels" if name == "next_state" else f"{name}_labels"
        ids[name] = np.concatenate([m[getattr(p, name)] for m, p in zip(maps[table], parts)])
    for name in ("step", *_VALUE_FIELDS):
        ids[name] = np.concatenate([getattr(part, name) for part in parts])
    labels["episode_labels"] = [label for part in parts for label in part.episode_labels]
    return Transitions.from_ids(**ids, **labels, outcome=np.concatenate([part.outcome for part in parts]))


def _episode(transitions: Transitions, episode: int) -> str:
    task = transitions.task_labels[transitions.episode_task[episode]]
    return f"episode {shorten(transitions.episode_labels[episode])} of task {shorten(task)}"
