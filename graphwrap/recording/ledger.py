"""Which task every episode belongs to and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np

from graphwrap.data.keys import shorten, state_key
from graphwrap.transitions import Outcome

TASK = np.dtype(
    [
        ("start", np.int32),  # id of the first state of its first episode, -1 where nobody needs it
        ("first_env", np.int32),
        ("started", np.int32),
        ("running", np.int32),
        ("finished", np.int32),
        ("scored", np.int32),
        ("successes", np.int32),
        ("total_return", np.float64),  # of the scored episodes
        ("abandoned", np.bool_),  # no further member will join
        ("by_start", np.bool_),  # the task is its first state, and has no label
    ]
)
EPISODE = np.dtype(
    [
        ("number", np.int64),
        ("task", np.int32),  # place in `Ledger.tasks`
        ("outcome", np.int8),  # UNFINISHED while it runs and when it was broken off
        ("inferred", np.bool_),  # from the end and the return, nobody said so
        ("cut", np.bool_),  # its first steps are no longer kept
    ]
)
Envs: TypeAlias = "Sequence[int] | np.ndarray"
"""Numbers of environments."""

UNKNOWN = -1
"""Success of an episode about which nobody said anything."""


class Ledger:
    """The tasks and episodes of some environments; episodes are numbered in the order they began.

    Args:
        group_size: Episodes that make up a task. None: as many as there are; the task is complete when none runs.

    Attributes:
        tasks: Array of `TASK`.
        labels: The label of each task; None where the task is its first state.
        episodes: Array of `EPISODE`, by number.
    """

    def __init__(self, group_size: int | None) -> None:
        self.group_size = group_size
        self.tasks = np.zeros(0, TASK)
        self.labels: list[Any] = []
        self.episodes = np.zeros(0, EPISODE)
        self._places: dict[Hashable, int] = {}  # of the tasks with a label, by its key
        self._next_episode = 0

    def enter(
        self,
        envs: Envs,
        labels: Sequence[Any],
        states: np.ndarray | None = None,
        names: Callable[[int], Any] = str,
    ) -> np.ndarray:
        """Let an episode of a labelled task begin in each of `envs`.

        Args:
            envs: Environments.
            labels: The task of each one.
            states: The id of each one's first state. They are needed, and compared, where there are groups.
            names: A function that gives the state of an id, for the error.

        Returns:
            The place of each one's task, int32.

        Raises:
            ValueError: Members of a group start in different states; nothing has begun.
            TypeError: A label has no key.
        """
        keys = [state_key(label) for label in labels]
        if self.group_size is not None:
            assert states is not None
            self._check_members(envs, states.tolist(), keys, labels, names)
        new: list[int] = []
        for i, key in enumerate(keys):
            place = len(self.labels) + len(new)
            if self._places.setdefault(key, place) == place:
                new.append(i)
        if new:
            starts = np.full(len(new), -1) if states is None else states[new]
            self._add_tasks(starts, [envs[i] for i in new], [labels[i] for i in new], by_start=False)
        places = np.array([self._places[key] for key in keys], np.int32)
        self._join(places)
        return places

    def enter_by_start(self, envs: np.ndarray, states: np.ndarray) -> np.ndarray:
        """Let an episode begin in each of `envs` whose task is its first state.

        Args:
            envs: Environments, int (B,).
            states: The id of each one's first state, int (B,).

        Returns:
            The place of each one's task, int32 (B,).
        """
        starts, first, which = np.unique(states, return_index=True, return_inverse=True)
        place_of_state = np.full(max(starts.max(initial=0), self.tasks["start"].max(initial=0)) + 1, -1)
        known = np.flatnonzero(self.tasks["by_start"])
        place_of_state[self.tasks["start"][known]] = known
        places = place_of_state[starts].astype(np.int32)
        new = np.flatnonzero(places < 0)
        new = new[np.argsort(first[new])]
        places[new] = np.arange(len(self.tasks), len(self.tasks) + len(new))
        self._add_tasks(starts[new], envs[first[new]], [None] * len(new), by_start=True)
        self._join(places[which])
        return places[which]

    def _add_tasks(self, starts: Any, envs: Any, labels: Sequence[Any], *, by_start: bool) -> None:
        """Append tasks without episodes."""
        added = np.zeros(len(labels), TASK)
        added["start"], added["first_env"], added["by_start"] = starts, envs, by_start
        self.tasks = np.concatenate([self.tasks, added])
        self.labels.extend(labels)

    def _join(self, places: np.ndarray) -> None:
        self._count("started", places)
        self._count("running", places)

    def _count(self, field: str, places: np.ndarray, by: int = 1) -> None:
        self.tasks[field] += by * np.bincount(places, minlength=len(self.tasks))

    def _check_members(
        self,
        envs: Envs,
        starts: Sequence[int],
        keys: Sequence[Hashable],
        labels: Sequence[Any],
        names: Callable[[int], Any],
    ) -> None:
        members: dict[Hashable, tuple[int, int, int]] = {}
        for env, state, key, label in zip(envs, starts, keys, labels):
            if key not in members:
                place = self._places.get(key)
                first = (state, env, 0)
                if place is not None:
                    task = self.tasks[place]
                    first = int(task["start"]), int(task["first_env"]), int(task["started"])
                members[key] = first
            start, first_env, started = members[key]
            if state != start:
                raise ValueError(
                    f"members of a group must start in the same state, but of group {label!r} member 0 (env "
                    f"{first_env}) starts in {shorten(names(start))} and member {started} (env {env}) in "
                    f"{shorten(names(state))}, both reset with one seed. The env must choose its start by the seed "
                    "alone; if it cannot, leave group_size out and name the task by task="
                )
            members[key] = (start, first_env, started + 1)

    def begin(self, places: np.ndarray) -> np.ndarray:
        """Number an episode of each of the tasks at `places`. Returns the numbers, int64."""
        added = np.zeros(len(places), EPISODE)
        added["number"] = np.arange(self._next_episode, self._next_episode + len(places))
        added["task"] = places
        added["outcome"] = Outcome.UNFINISHED
        self._next_episode += len(places)
        self.episodes = np.concatenate([self.episodes, added])
        return added["number"]

    def place_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return where the episodes of these numbers are in `episodes`."""
        known = self.episodes["number"]
        span = int(known[-1] - known[0]) + 1 if len(known) else 0
        if span > 4 * (len(numbers) + len(known)):
            return np.searchsorted(known, numbers)
        place = np.zeros(span, np.int64)
        place[known - known[:1]] = np.arange(len(known))
        return place[numbers - known[:1]]

    def distinct(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the different ones of some episodes' numbers, ascending, and the place of each number among them."""
        place = self.place_of(numbers)
        there = np.zeros(len(self.episodes), np.bool_)
        there[place] = True
        return self.episodes["number"][there], (np.cumsum(there) - 1)[place]

    def finish(
        self, numbers: np.ndarray, successes: np.ndarray, terminated: np.ndarray, totals: np.ndarray
    ) -> None:
        """End episodes.

        Args:
            numbers: int64 (B,).
            successes: Whether each succeeded, 1, 0 or `UNKNOWN`: it did if it terminated with a positive return.
            terminated: bool (B,); an episode that did not terminate was truncated.
            totals: Undiscounted returns (B,); NaN: the episode is unscored.
        """
        places = self.place_of(numbers)
        won = np.where(successes == UNKNOWN, terminated & (totals > 0), successes == 1)
        scored = ~np.isnan(totals)
        outcome = np.where(won, Outcome.SUCCESS, Outcome.FAILURE)
        self.episodes["outcome"][places] = np.where(scored, outcome, Outcome.UNSCORED)
        self.episodes["inferred"][places] = successes == UNKNOWN
        tasks = self.episodes["task"][places]
        self._count("finished", tasks)
        self._count("running", tasks, -1)
        self._count("scored", tasks[scored])
        self._count("successes", tasks[scored & won])
        returns = np.bincount(tasks[scored], weights=totals[scored], minlength=len(self.tasks))
        self.tasks["total_return"] += returns

    def abort(self, numbers: np.ndarray) -> None:
        """Break off running episodes: they stay unfinished."""
        self._count("running", self.episodes["task"][self.place_of(numbers)], -1)

    def abandon(self) -> None:
        """No further member will join the groups that are open."""
        self.tasks["abandoned"] = True

    @property
    def is_open(self) -> np.ndarray:
        """Whether steps to come can belong to each task, bool."""
        tasks = self.tasks
        if self.group_size is None:
            return tasks["running"] > 0
        return (tasks["running"] > 0) | (~tasks["abandoned"] & (tasks["started"] < self.group_size))

    @property
    def is_complete(self) -> np.ndarray:
        """Whether every member of each group has finished, bool."""
        wanted = self.tasks["started"] if self.group_size is None else self.group_size
        return self.tasks["finished"] == wanted

    def summary(self) -> dict[str, float]:
        """Numbers over the complete groups (NaN where there is none)."""
        complete = self.tasks[self.is_complete]
        scored = int(complete["scored"].sum())
        # Added one after the other, so that the sum does not depend on how NumPy pairs them.
        total = float(sum(complete["total_return"].tolist()))
        return {
            "complete_groups": float(len(complete)),
            "outcome_return": total / scored if scored else float("nan"),
            "success_rate": float(complete["successes"].sum() / scored) if scored else float("nan"),
        }

    def forget(self, episodes: np.ndarray, states: np.ndarray) -> None:
        """Drop the tasks that are not open and every episode but `episodes` (numbers, all of open tasks).

        `states` maps old state ids to new ones.
        """
        kept = np.flatnonzero(self.is_open)
        new = np.full(len(self.tasks), -1, np.int32)
        new[kept] = np.arange(len(kept))
        self.tasks = self.tasks[kept]
        self.tasks["start"] = np.where(self.tasks["start"] < 0, -1, states[self.tasks["start"]])
        self.labels = [self.labels[place] for place in kept.tolist()]
        self._places = {key: int(new[place]) for key, place in self._places.items() if new[place] >= 0}
        self.episodes = self.episodes[self.place_of(episodes)]
        self.episodes["task"] = new[self.episodes["task"]]
