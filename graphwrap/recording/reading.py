"""What observations and infos say: states, tasks and outcomes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from graphwrap.data.keys import ARRAY_SPACES, shorten
from graphwrap.data.tables import ArrayTable
from graphwrap.recording.history import HistoryTable
from graphwrap.recording.ledger import Envs
from graphwrap.recording.success import SUCCESS_KEYS
from graphwrap.states import KeyTable, StateKey, make_table


class Reader:
    """Turns what environments return into what a `Recorder` takes, and infos into tasks and outcomes.

    A *batch* holds the observations of all environments, as their vector environment returns them; the *values* made
    of it are what the tables of ids take.

    Args:
        observation_space, action_space: Those of one environment.
        task, success, state: As in `graphwrap.wrap`.

    Attributes:
        whole_states: Whether a batch of observations is a batch of values as it is.
    """

    def __init__(
        self, observation_space: spaces.Space, action_space: spaces.Space, task: Any, success: Any, state: Any
    ) -> None:
        self.task = task
        self.success = success
        self.observation_space = observation_space
        self.action_space = action_space
        self._state: Callable[[Any, Any], Any] | None = None
        self.states: KeyTable
        if state is None or isinstance(state, StateKey):
            key = state or StateKey()
            self.states = observations = make_table(
                observation_space, round=key.round, fingerprint_above=key.fingerprint_above
            )
            if key.history:
                self.states = HistoryTable(observations, key.history)
        else:
            self.states = observations = make_table()
            self._state = state
        self.actions = make_table(action_space)
        self._warned = False
        self.whole_states = isinstance(observations, ArrayTable)
        self._whole_actions = isinstance(self.actions, ArrayTable)
        self._array_actions = isinstance(action_space, ARRAY_SPACES)

    @property
    def needs_infos(self) -> bool:
        """Whether states depend on infos."""
        return self._state is not None

    def one_state(self, observation: Any, info: Any) -> Any:
        """Return the values of a batch of one environment."""
        if self._state is not None:
            return [self._state(observation, info)]
        return self.states.stacked([observation])

    def one_action(self, action: Any) -> Any:
        """Return the values of the action of one environment."""
        return self.actions.stacked([action])

    def states_of(
        self, batch: Any, infos: Sequence[Any], ended: Envs = (), finals: Sequence[Any] = ()
    ) -> tuple[Any, Sequence[Any]]:
        """Return the values of a batch, and the values of the final observations that are not in them.

        Args:
            batch: Observations of n environments.
            infos: The info of each of them.
            ended: Environments whose episode has ended.
            finals: Their final observations. () where the batch holds them.
        """
        if self.whole_states:
            return batch, finals
        observations = rows(self.observation_space, batch, len(infos))
        for env, final in zip(ended, finals):
            observations[env] = final
        return self._values(observations, infos), ()

    def starts_of(self, batch: Any, envs: Envs, infos: Sequence[Any]) -> Any:
        """Return the values of some environments' part of a batch, given the info of each of them."""
        if self.whole_states:
            return parts(self.observation_space, batch, envs)
        return self._values([row(self.observation_space, batch, env) for env in envs], infos)

    def _values(self, observations: list[Any], infos: Sequence[Any]) -> list[Any]:
        if self._state is None:
            return observations
        return [self._state(observation, infos[i]) for i, observation in enumerate(observations)]

    def actions_of(self, actions: Any, n: int) -> Any:
        """Return the values of a batch of n actions; a copy, or a list whose items stay the caller's."""
        if self._array_actions:
            return np.array(actions)
        actions = copy.deepcopy(actions)
        if self._whole_actions and isinstance(actions, (dict, tuple)):
            return actions
        if isinstance(actions, (dict, tuple)):
            return rows(self.action_space, actions, n)
        actions = list(actions)  # one by one, as for the sub-environments
        return self.actions.stacked(actions) if self._whole_actions else actions

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

    def successes(self, infos: Mapping[str, Any], ended: Envs) -> Sequence[bool | None]:
        """Return what the final step of each of `ended` says about success, () where nothing says anything.

        Args:
            infos: Those of a Gymnasium vector environment, of the final steps. For a success that is no function.
            ended: Environments.
        """
        if not infos and self.success is None:
            return ()
        known: dict[int, bool | None] = {}
        for key in SUCCESS_KEYS if self.success is None else (self.success,):
            values, mask = infos.get(key), infos.get(f"_{key}")
            if values is None:
                continue
            shared = isinstance(values, (bool, int, float)) or getattr(values, "ndim", 1) == 0
            for env in ended:
                if known.get(env) is None and (mask is None or mask[env]):
                    value = values if shared else values[env]
                    known[env] = _as_flag(f"info[{key!r}] at an episode's end is", value)
        if self.success is not None and len(known) < len(ended):
            self._warn_of_missing(infos)
        return [known.get(env) for env in ended] if known else ()

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


def row(space: spaces.Space, batch: Any, index: int) -> Any:
    """Return a copy of one environment's part of a batch."""
    if isinstance(space, spaces.Dict):
        return {name: row(part, batch[name], index) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(row(part, batch[place], index) for place, part in enumerate(space.spaces))
    return copy.copy(batch[index])


def rows(space: spaces.Space, batch: Any, n: int) -> list[Any]:
    """Return a copy of the part of each of n environments."""
    return [row(space, batch, index) for index in range(n)]


def parts(space: spaces.Space, batch: Any, envs: Envs) -> Any:
    """Return a copy of some environments' part of a batch of arrays, itself such a batch."""
    if isinstance(space, spaces.Dict):
        return {name: parts(part, batch[name], envs) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(parts(part, batch[place], envs) for place, part in enumerate(space.spaces))
    return np.asarray(batch)[envs]


def put_row(space: spaces.Space, batch: Any, index: int, observation: Any) -> Any:
    """Return the batch with one environment's part replaced: arrays in place, sequences as a new one."""
    if isinstance(space, spaces.Dict):
        for name, part in space.spaces.items():
            batch[name] = put_row(part, batch[name], index, observation[name])
        return batch
    if isinstance(space, spaces.Tuple):
        inner = zip(space.spaces, batch, observation)
        return tuple(put_row(part, there, index, value) for part, there, value in inner)
    if isinstance(batch, tuple):
        return (*batch[:index], observation, *batch[index + 1 :])
    batch[index] = observation
    return batch


def copy_batch(batch: Any) -> Any:
    """Return a copy of a batch whose parts can be replaced."""
    if isinstance(batch, dict):
        return {name: copy_batch(part) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(
            copy_batch(part) if isinstance(part, (np.ndarray, dict, tuple)) else part for part in batch
        )
    return np.array(batch)
