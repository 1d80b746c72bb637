"""What observations and infos say: states, tasks and outcomes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from graphwrap.data.keys import ARRAY_SPACES, shorten
from graphwrap.states import StateKey, make_table

SUCCESS_KEYS = ("is_success", "success", "won")
"""Entries of a final step's info that say whether the episode succeeded; the first one there counts."""


def check_options(task: Any, group_size: Any, success: Any, state: Any, member_noise: Any) -> None:
    """Check the options of `graphwrap.wrap`.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: Options that do not go together, or a group of fewer than two.
    """
    if not (isinstance(task, str) or callable(task)):
        raise TypeError(
            "task must be 'start', 'single', the name of an info entry, or a function of (first observation, info), "
            f"got {task!r}"
        )
    if not (success is None or isinstance(success, str) or callable(success)):
        raise TypeError(
            "success must be None, the name of an info entry, or a function of (observation, reward, terminated, "
            f"truncated, info), got {success!r}"
        )
    if not (state is None or isinstance(state, StateKey) or callable(state)):
        raise TypeError(
            f"state must be None, a StateKey(round=...), or a function of (observation, info), got {state!r}"
        )
    if not isinstance(member_noise, bool):
        raise TypeError(f"member_noise must be True or False, got {member_noise!r}")
    if group_size is None:
        if member_noise:
            raise ValueError(
                "member_noise=True is for the members of a group; give group_size too, or leave it out"
            )
        return
    if isinstance(group_size, bool) or not isinstance(group_size, (int, np.integer)):
        raise TypeError(f"group_size must be a whole number or None, got {group_size!r}")
    if group_size < 2:
        raise ValueError(
            f"group_size must be at least 2, since a group of one has nothing to compare with, got {group_size}"
        )
    if task != "start":
        raise ValueError(
            f"with group_size the task of an episode is its group, so task={task!r} would be ignored; leave one of "
            "the two out"
        )


class Reader:
    """Turns observations and actions into ids, and infos into tasks and outcomes.

    Args:
        observation_space, action_space: Those of one environment.
        task, success, state: As in `graphwrap.wrap`.
    """

    def __init__(
        self, observation_space: spaces.Space, action_space: spaces.Space, task: Any, success: Any, state: Any
    ) -> None:
        self.task = task
        self.success = success
        self._state: Callable[[Any, Any], Any] | None = None
        if state is None or isinstance(state, StateKey):
            self.states = make_table(observation_space, round=state.round if state is not None else None)
        else:
            self.states = make_table()
            self._state = state
        self.actions = make_table(action_space)
        self._warned = False
        self._array_states = isinstance(observation_space, ARRAY_SPACES)
        self._array_actions = isinstance(action_space, ARRAY_SPACES)

    def state(self, observation: Any, info: Any) -> int:
        """Return the id of one state."""
        return self.states.intern_one(observation if self._state is None else self._state(observation, info))

    def state_batch(self, observations: Any, infos: Sequence[Any]) -> np.ndarray:
        """Return the ids of n states, int32 (n,); `observations` is a batch (or dict or tuple of batches)."""
        if self._state is None:
            return self.states.intern_batch(observations, len(infos))
        values = [self._state(row(observations, i), info) for i, info in enumerate(infos)]
        return self.states.intern_batch(values, len(values))

    def state_list(self, observations: Sequence[Any], infos: Sequence[Any]) -> np.ndarray:
        """Return the ids of n states, int32 (n,); `observations` is a list of n observations."""
        if self._state is None and self._array_states:
            return self.states.intern_batch(np.stack(observations), len(observations))
        return np.array([self.state(*pair) for pair in zip(observations, infos)], np.int32)

    def action(self, action: Any) -> int:
        """Return the id of one action."""
        return self.actions.intern_one(action)

    def action_batch(self, actions: Any) -> np.ndarray:
        """Return the ids of n actions, int32 (n,)."""
        if self._array_actions:
            return self.actions.intern_batch(actions, len(actions))
        return np.array([self.actions.intern_one(action) for action in actions], np.int32)

    def keep_actions(self, actions: Any) -> Any:
        """Return a copy of a batch of actions that nobody else can change."""
        return np.array(actions) if self._array_actions else copy.deepcopy(actions)

    def task_label(self, observation: Callable[[], Any], info: Any) -> Any:
        """Return the task of an episode, given a function that gives its first observation. Not for "start"."""
        if self.task == "single":
            return "single"
        if callable(self.task):
            return copy.deepcopy(self.task(observation(), info))  # it may hold an array that the env reuses
        if self.task not in info:
            raise ValueError(
                f"task={self.task!r} is to be an entry of the info of reset, which has {sorted(map(str, info))}; "
                "name one of these, or give a function of (first observation, info)"
            )
        return copy.deepcopy(info[self.task])

    def succeeded(
        self, observation: Any, reward: float, terminated: bool, truncated: bool, info: Any
    ) -> bool | None:
        """Return what the final step says about success; None where it says nothing."""
        if callable(self.success):
            return _as_flag(
                "success() returned", self.success(observation, reward, terminated, truncated, info)
            )
        for key in SUCCESS_KEYS if self.success is None else (self.success,):
            value = info.get(key)
            if value is None and self.success is not None and key not in info:
                self._warn_of_missing(info)
            if value is not None:
                return _as_flag(f"info[{key!r}] at an episode's end is", value)
        return None

    def _warn_of_missing(self, info: Any) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"success={self.success!r} is no entry of the info of an episode's last step, which has "
                f"{sorted(map(str, info))}; such an episode succeeded if it terminated with a positive return. Name "
                "one of these, or give a function of (observation, reward, terminated, truncated, info)",
                UserWarning,
                stacklevel=2,
            )


def _as_flag(what: str, value: Any) -> bool | None:
    if value is None:
        return None
    if getattr(value, "size", 1) == 1 and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return bool(value)
    raise ValueError(
        f"success must be True, False or None, but {what} {shorten(value)}; give success= a function of "
        "(observation, reward, terminated, truncated, info)"
    )


def row(batch: Any, index: int) -> Any:
    """Return a copy of one environment's part of a batch of observations."""
    if isinstance(batch, dict):
        return {name: row(part, index) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(row(part, index) for part in batch)
    return copy.copy(batch[index])


def put_row(batch: Any, index: int, observation: Any) -> None:
    """Write one environment's observation into a batch of observations."""
    if isinstance(batch, (dict, tuple)):
        for name, part in batch.items() if isinstance(batch, dict) else enumerate(batch):
            put_row(part, index, observation[name])
    else:
        batch[index] = observation


def copy_batch(batch: Any) -> Any:
    """Return a copy of a batch of observations."""
    if isinstance(batch, dict):
        return {name: copy_batch(part) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(copy_batch(part) for part in batch)
    return np.array(batch)
