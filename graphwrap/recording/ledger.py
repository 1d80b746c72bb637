"""Which episode runs in which environment, what task it belongs to and how it ended."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphwrap.data.keys import shorten, state_key
from graphwrap.transitions import Outcome


@dataclass(eq=False)
class Task:
    """A task and what its episodes have come to."""

    number: int
    label: Any  # None where the task is its start state
    by_start: bool
    start: int  # id of the first state of its first episode
    first_env: int
    started: int = 0
    running: int = 0
    finished: int = 0
    abandoned: bool = False
    scored: int = 0
    successes: int = 0
    total_return: float = 0.0  # of the scored episodes


@dataclass(eq=False)
class Episode:
    """An episode; UNFINISHED while it runs and when it was broken off."""

    number: int
    task: Task
    outcome: Outcome = Outcome.UNFINISHED
    inferred: bool = False  # from the end and the return, nobody said so
    cut: bool = False  # its first steps are no longer kept


class Ledger:
    """The episodes of `num_envs` environments, numbered in the order they began.

    Args:
        num_envs: Number of environments.
        group_size: Episodes that make up a task. None: as many as there are; the task is complete when none runs.
    """

    def __init__(self, num_envs: int, group_size: int | None) -> None:
        self.group_size = group_size
        self.running: list[Episode | None] = [None] * num_envs
        self.episodes: dict[int, Episode] = {}
        self.tasks: dict[Hashable, Task] = {}
        self._next_episode = 0
        self._next_task = 0

    def begin(
        self, envs: Sequence[int], states: Sequence[int], labels: Sequence[Any] | None, names: Any
    ) -> None:
        """Begin an episode in each of `envs`.

        Args:
            envs: Environments, none with a running episode.
            states: The id of each one's first state.
            labels: The task of each one. None: the task is the first state.
            names: A function that gives the state of an id, for the error.

        Raises:
            ValueError: Members of a group start in different states; nothing has begun.
            TypeError: A label has no key.
        """
        by_start = labels is None
        keys = list(states) if labels is None else [state_key(label) for label in labels]
        labels = [None] * len(envs) if labels is None else labels
        if self.group_size is not None:
            self._check_members(envs, states, keys, labels, names)
        for env, state, key, label in zip(envs, states, keys, labels):
            task = self.tasks.get(key)
            if task is None:
                task = self.tasks[key] = Task(self._next_task, label, by_start, state, env)
                self._next_task += 1
            task.started += 1
            task.running += 1
            self.running[env] = self.episodes[self._next_episode] = Episode(self._next_episode, task)
            self._next_episode += 1

    def _check_members(
        self,
        envs: Sequence[int],
        states: Sequence[int],
        keys: Sequence[Hashable],
        labels: Sequence[Any],
        names: Any,
    ) -> None:
        members: dict[Hashable, tuple[int, int, int]] = {}
        for env, state, key, label in zip(envs, states, keys, labels):
            task = self.tasks.get(key)
            known = (state, env, 0) if task is None else (task.start, task.first_env, task.started)
            start, first_env, started = members.get(key, known)
            if state != start:
                raise ValueError(
                    f"members of a group must start in the same state, but of group {label!r} member 0 (env "
                    f"{first_env}) starts in {shorten(names(start))} and member {started} (env {env}) in "
                    f"{shorten(names(state))}, both reset with one seed. The env must choose its start by the seed "
                    "alone; if it cannot, leave group_size out and name the task by task="
                )
            members[key] = (start, first_env, started + 1)

    def finish(self, env: int, success: bool | None, terminated: bool, total: float) -> None:
        """End the episode of `env`.

        Args:
            env: The environment.
            success: Whether the episode succeeded. None: if it terminated with a positive return.
            terminated: Whether it terminated; if not, it was truncated.
            total: Its undiscounted return; NaN: it is unscored.
        """
        episode = self._release(env)
        episode.inferred = success is None
        if success is None:
            success = terminated and total > 0
        episode.task.finished += 1
        if np.isnan(total):
            episode.outcome = Outcome.UNSCORED
            return
        episode.outcome = Outcome.SUCCESS if success else Outcome.FAILURE
        episode.task.scored += 1
        episode.task.successes += bool(success)
        episode.task.total_return += total

    def abort(self, env: int) -> None:
        """Break off the episode of `env`, if one runs: it stays unfinished."""
        if self.running[env] is not None:
            self._release(env)

    def _release(self, env: int) -> Episode:
        episode = self.running[env]
        if episode is None:
            raise RuntimeError(f"env {env} has no running episode to end")
        self.running[env] = None
        episode.task.running -= 1
        return episode

    def abandon(self) -> None:
        """No further member will join the groups that are open."""
        for task in self.tasks.values():
            task.abandoned = True

    def is_open(self, task: Task) -> bool:
        """Whether steps to come can belong to the task."""
        if task.running:
            return True
        return self.group_size is not None and not task.abandoned and task.started < self.group_size

    def is_complete(self, task: Task) -> bool:
        """Whether every member of the group has finished."""
        if self.group_size is None:
            return task.finished == task.started
        return task.finished == self.group_size

    def summary(self) -> dict[str, float]:
        """Numbers over the complete groups (NaN where there is none)."""
        complete = [task for task in self.tasks.values() if self.is_complete(task)]
        scored = sum(task.scored for task in complete)
        return {
            "complete_groups": float(len(complete)),
            "outcome_return": sum(task.total_return for task in complete) / scored
            if scored
            else float("nan"),
            "success_rate": sum(task.successes for task in complete) / scored if scored else float("nan"),
        }

    def forget(self, episodes: np.ndarray, states: np.ndarray) -> None:
        """Drop the tasks that are not open and every episode but the running ones and `episodes` (numbers).

        `states` maps old state ids to new ones.
        """
        kept = set(episodes.tolist())
        kept.update(episode.number for episode in self.running if episode is not None)
        self.episodes = {number: self.episodes[number] for number in sorted(kept)}
        tasks = {key: task for key, task in self.tasks.items() if self.is_open(task)}
        for task in tasks.values():
            task.start = int(states[task.start])
        self.tasks = {task.start if task.by_start else key: task for key, task in tasks.items()}
