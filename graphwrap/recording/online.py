"""Potentials of states while environments run, from a memory of past episodes."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NoReturn
from weakref import WeakSet

import numpy as np

from graphwrap.credit import CreditMethod, no_potential
from graphwrap.data.tables import KeyTable
from graphwrap.kernels.grouping import FloatArray
from graphwrap.memory import STEP, EpisodeMemory, graph_of, label_key, renumber, to_steps
from graphwrap.persistent import PersistentGraph
from graphwrap.recording.history import HistoryTable
from graphwrap.recording.ledger import Envs
from graphwrap.recording.steps import check_rewards
from graphwrap.transitions import Outcome, Transitions

OUTCOME_REWARD = "outcome_reward"
"""Entry of the info that holds the environment's own reward where the reward is shaped."""

_LARGE = 3.0
"""How many times the return of a success a potential may be before its user is told."""

_CHUNK = (
    256  # steps of a running episode that are kept before they enter the memory as steps of an unfinished one
)


@dataclass(frozen=True, eq=False)
class TaskPotential:
    """Phi of the states of one task, as it was when this was made. Other states have Phi 0."""

    _values: dict[int, float]  # by the id that the state has now

    def lookup(self, states: Any) -> FloatArray:
        """float64 (n,): Phi of each of `states`, ids from the `OnlinePotential.states` table as it is now."""
        get = self._values.get
        return np.array([get(state, 0.0) for state in np.asarray(states).tolist()], np.float64)


@dataclass
class _Latest:
    """The potential of a task that its next episode gets."""

    potential: TaskPotential
    size: int = 0  # steps it was made from
    pending: int = 0  # steps remembered since
    solved: bool = False  # whether a success was ever among them


class OnlinePotential:
    """Shaping terms gamma * Phi(s') - Phi(s) of `num_envs` environments, with Phi from their past episodes.

    In the wrappers that `graphwrap.wrap(env, online=True)` makes it takes the place of a `Recorder`; it has no windows.

    Adding them to the rewards leaves the best policy as it is, for any learner with the discount `gamma` (Ng, Harada
    and Russell 1999): Phi(s') is 0 where the episode terminated, and stays where it was truncated, since the learner
    bootstraps there. Phi is fixed while an episode runs, and 0 for states not seen before it and in tasks without a
    success. Per task, steps are remembered as in `PersistentGraph`, whole episodes once they end and parts of long ones
    before.

    Args:
        credit: What Phi is made with: the name of a method with a potential, such a method, or a `PersistentGraph` of
            one, whose bounds then hold. Its own memory is not used.
        states: An empty table for the states' ids, which belongs to this object from now on.
        actions: One for the actions' ids.
        num_envs: Number of environments.
        gamma: The learner's discount.
        update_every: Phi of a task is made anew, at the start of an episode, when that share of its steps is new, and
            at its first success. So the cost per step does not grow with the run.

    Raises:
        ValueError: `credit` has no potential, or a number is out of range.
        TypeError: A number is none, or `credit` is something else.
    """

    def __init__(
        self,
        credit: str | CreditMethod,
        states: KeyTable,
        actions: KeyTable,
        num_envs: int,
        *,
        gamma: float = 0.99,
        update_every: float = 0.1,
    ) -> None:
        persistent = credit if isinstance(credit, PersistentGraph) else PersistentGraph(credit)
        if not persistent.has_potential:
            raise no_potential(persistent.method)
        for name, value in (("gamma", gamma), ("update_every", update_every)):
            if isinstance(value, bool) or not isinstance(value, Real):
                raise TypeError(f"{name} must be a number, got {value!r}")
        if not 0.0 <= gamma <= 1.0:
            raise ValueError(f"gamma must be in [0, 1], the learner's discount, got {gamma!r}")
        if not 0.0 < update_every < float("inf"):
            raise ValueError(
                f"update_every must be greater than 0, a share of the steps, got {update_every!r}"
            )
        self.method = persistent.method
        self.states = states
        self.actions = actions
        self.num_envs = num_envs
        self.gamma = float(gamma)
        self.update_every = float(update_every)
        self._memory = EpisodeMemory(persistent.max_tasks, persistent.max_transitions)
        self._latest: dict[Hashable, _Latest] = {}
        self._alive: WeakSet[TaskPotential] = WeakSet()
        self._next_episode = 0
        self._warned = False
        # The running episodes. Their last steps are `_steps[env, :_length[env]]`.
        self._active = np.zeros(num_envs, np.bool_)
        self._task: list[Hashable] = [None] * num_envs
        self._potential = [self._snapshot({})] * num_envs
        self._steps = np.zeros((num_envs, _CHUNK), STEP)
        self._steps["cost"] = 1.0
        self._length = np.zeros(num_envs, np.int64)
        self._current = np.zeros(num_envs, np.int32)
        self._phi = np.zeros(num_envs)
        self._return = np.zeros(num_envs)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_alive": list(self._alive)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _alive=WeakSet(state["_alive"]))

    @property
    def num_transitions(self) -> int:
        """Steps that are remembered, without those of running episodes."""
        return self._memory.num_transitions

    def potential_of(self, task: Any) -> TaskPotential:
        """Return the potential that an episode of `task` (a label) would get if it began now; it never changes."""
        return self._potential_of(label_key(task))

    def observe(self, transitions: Transitions) -> None:
        """Remember episodes from elsewhere, demonstrations for instance; one given again replaces itself."""
        t = transitions
        if not t.num_rows:
            return
        tasks = [label_key(label) for label in t.task_labels]
        ids = [
            table.intern_batch(table.stacked(list(labels)), len(labels))
            for table, labels in ((self.states, t.state_labels), (self.actions, t.action_labels))
        ]
        steps = to_steps(t, *ids)
        offsets = t.episode_offsets.tolist()
        for episode, label in enumerate(t.episode_labels):
            part = steps[offsets[episode] : offsets[episode + 1]].copy()
            self._remember(tasks[t.episode_task[episode]], ("observed", label_key(label)), part)
        self._tidy()

    @property
    def num_idle(self) -> int:
        """In how many environments no episode runs."""
        return self.num_envs - int(np.count_nonzero(self._active))

    @property
    def is_recording(self) -> bool:
        """Whether an episode runs in every environment."""
        return not self.num_idle

    @property
    def active(self) -> np.ndarray:
        """Which environments have a running episode, bool (num_envs,), a copy."""
        return self._active.copy()

    @property
    def num_steps(self) -> int:
        """0: no step waits for credit."""
        return 0

    def abandon_groups(self) -> None:
        """There are no groups."""

    def assign_credit(self, unfinished: str = "mask") -> NoReturn:
        """There is nothing to credit.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            "with online=True the credit is in the rewards already, and there is no window to credit; leave online out "
            "to use assign_credit() or CreditCallback"
        )

    def begin(self, envs: Envs, starts: Any, labels: Sequence[Any] | None = None) -> None:
        """Begin an episode in each of `envs`; one that runs there is broken off.

        Args:
            envs: Environments, B of them.
            starts: The first state of each one, as `KeyTable.intern_batch` takes B values. None: they were
                among the `next_states` of the last step.
            labels: The task of each one. None: the task is the first state.
        """
        tasks = None if labels is None else [label_key(label) for label in labels]
        self.abort(envs)
        ids = self._current[list(envs)] if starts is None else self.states.intern_batch(starts, len(envs))
        if tasks is None:
            known = self.states.labels
            tasks = [label_key(known[state]) for state in ids.tolist()]
        for env, state, task in zip(envs, ids.tolist(), tasks):
            self._task[env] = task
            self._potential[env] = self._potential_of(task)
            self._phi[env] = self._potential[env].lookup([state])[0]
            self._current[env] = state
            self._return[env] = 0.0
        self._active[list(envs)] = True

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
    ) -> FloatArray:
        """Remember one step of every environment and return what to add to its reward.

        Args:
            actions, next_states, rewards, terminated, truncated, ended, successes, finals, partly: As in
                `graphwrap.recording.recorder.Recorder.record`.

        Returns:
            float64 (num_envs,): gamma * Phi(s') - Phi(s); 0 without a running episode.

        Raises:
            RuntimeError: An environment has no running episode; nothing is remembered.
            TypeError, ValueError: An action or a state has no key; nothing is remembered.
        """
        n, active = self.num_envs, self._active
        if not partly and not active.all():
            env = int(np.flatnonzero(~active)[0])
            raise RuntimeError(
                f"a step needs a running episode in every environment, env {env} has none: reset first"
            )
        rewards = np.asarray(rewards, np.float64)
        check_rewards(rewards, active)
        ids, firsts = self._ids(next_states, ended, finals)
        columns = {
            "state": self._current,
            "next_state": ids,
            "action": self.actions.intern_batch(actions, n),
            "reward": rewards,
            "terminated": np.asarray(terminated, np.bool_),
            "truncated": np.asarray(truncated, np.bool_),
        }
        phi = np.array([p._values.get(state, 0.0) for p, state in zip(self._potential, ids.tolist())])
        phi[columns["terminated"]] = 0.0
        shaping: FloatArray = np.where(active, self.gamma * phi - self._phi, 0.0)

        envs = np.flatnonzero(active)
        place = self._length[envs]
        for name, values in columns.items():
            self._steps[name][envs, place] = values[envs]
        self._length[envs] += 1
        self._return[envs] += columns["reward"][envs]
        self._phi, self._current = phi, ids.copy()
        self._current[list(ended)] = firsts[list(ended)]
        for env, success in zip(ended, successes or [None] * len(ended)):
            if success is None:
                success = bool(columns["terminated"][env]) and self._return[env] > 0
            outcome = Outcome.SUCCESS if success else Outcome.FAILURE
            self._flush(env, Outcome.UNSCORED if np.isnan(self._return[env]) else outcome)
        active[list(ended)] = False
        full = np.flatnonzero(self._length == _CHUNK).tolist()
        for env in full:
            self._flush(env, Outcome.UNFINISHED)
        if len(ended) or full:
            self._tidy()
        return shaping

    def _ids(self, next_states: Any, ended: Envs, finals: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the states that a step led to, and those of episodes that would begin in `next_states`."""
        table = self.states.observations if isinstance(self.states, HistoryTable) else self.states
        firsts = table.intern_batch(next_states, self.num_envs)
        ids = firsts.copy()
        if len(finals):
            ids[list(ended)] = table.intern_batch(table.stacked(list(finals)), len(finals))
        if not isinstance(self.states, HistoryTable):
            return ids, firsts
        states, active = self.states.begin(ids), self._active
        states[active] = self.states.follow(self._current[active], ids[active])
        return states, self.states.begin(firsts)

    def abort(self, envs: Envs | None = None) -> None:
        """Break off the running episodes of `envs` (None: of all): they are remembered as unfinished."""
        chosen = range(self.num_envs) if envs is None else envs
        running = [env for env in chosen if self._active[env]]
        for env in running:
            self._flush(env, Outcome.UNFINISHED)
        self._active[running] = False
        if running:
            self._tidy()

    def _flush(self, env: int, outcome: Outcome) -> None:
        """Remember the steps that are kept of the running episode."""
        steps = self._steps[env, : self._length[env]].copy()
        steps["outcome"] = outcome
        self._length[env] = 0
        if len(steps):
            self._remember(self._task[env], self._next_episode, steps)
            self._next_episode += 1

    def _remember(self, task: Hashable, episode: Hashable, steps: np.ndarray) -> None:
        self._memory.put(task, episode, steps)
        latest = self._latest.get(task)
        if latest is None:
            latest = self._latest[task] = _Latest(self._snapshot({}))
        latest.pending += len(steps)
        latest.solved = latest.solved or steps["outcome"][0] == Outcome.SUCCESS

    def _potential_of(self, task: Hashable) -> TaskPotential:
        latest = self._latest.get(task)
        if latest is None:
            return self._snapshot({})
        is_new = latest.pending > 0 and latest.pending >= self.update_every * latest.size
        if latest.solved and is_new:
            self._latest[task] = latest = self._made(task)
        return latest.potential

    def _made(self, task: Hashable) -> _Latest:
        episodes = self._memory.steps_of(task)
        if not episodes:
            return _Latest(self._snapshot({}))
        graph = graph_of(np.concatenate(episodes), [len(steps) for steps in episodes], [0] * len(episodes))
        phi = self.method.potential(graph)
        self._check_scale(phi, episodes)
        nodes = np.flatnonzero(phi)
        states = graph.transitions.state_labels[graph.node_state[nodes]]
        values = dict(zip(states.tolist(), phi[nodes].tolist()))
        return _Latest(self._snapshot(values), size=graph.transitions.num_rows, solved=True)

    def _check_scale(self, phi: FloatArray, episodes: Sequence[np.ndarray]) -> None:
        """Warn once where the potential dwarfs what a success is worth to the environment."""
        won = [steps["reward"].sum() for steps in episodes if steps["outcome"][0] == Outcome.SUCCESS]
        largest, best = float(phi.max(initial=0.0)), float(max(won, default=0.0))
        if self._warned or largest <= _LARGE * abs(best) or not best:
            return
        self._warned = True
        warnings.warn(
            f"the potential of states is up to {largest:.3g}, and a success returns {best:.3g}: shaping of that size "
            f"drowns the environment's own rewards. Give the credit its scale, such as GraphGPO(r_succ={best:.3g})",
            UserWarning,
            stacklevel=2,
        )

    def _snapshot(self, values: dict[int, float]) -> TaskPotential:
        potential = TaskPotential(values)
        self._alive.add(potential)
        return potential

    def _tidy(self) -> None:
        """Keep the bounds."""
        memory = self._memory
        memory.trim()
        if len(self._latest) > 2 * memory.max_tasks:
            self._latest = {task: latest for task, latest in self._latest.items() if task in memory}
        if not memory.is_wasteful:
            return
        self._latest = {task: latest for task, latest in self._latest.items() if task in memory}
        for task, latest in self._latest.items():
            # A potential made from much more than is remembered keeps states that nothing else does.
            if latest.size > 2 * sum(map(len, memory.steps_of(task))):
                self._latest[task] = _Latest(self._snapshot({}), pending=1, solved=True)
        running = [self._steps[env, :length] for env, length in enumerate(self._length.tolist())]
        snapshots = list(self._alive)
        more_states = [steps[name] for steps in running for name in ("state", "next_state")]
        more_states += [np.fromiter(potential._values, np.int64) for potential in snapshots]
        states, actions = memory.compact(
            self.states,
            self.actions,
            [*more_states, self._current],
            [steps["action"] for steps in running],
        )
        for steps in running:
            renumber(steps, states, actions)
        self._current = states[self._current]
        for potential in snapshots:
            values = list(potential._values.items())
            potential._values.clear()
            potential._values.update((int(states[state]), phi) for state, phi in values)
