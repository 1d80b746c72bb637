"""The wrapper of a Stable-Baselines3 `VecEnv`. Imported only where Stable-Baselines3 is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecCheckNan,
    VecEnv,
    VecEnvWrapper,
    VecMonitor,
    VecNormalize,
    VecVideoRecorder,
)

from graphwrap.credit import CreditMethod
from graphwrap.recording.env_wrapper import CreditEnv
from graphwrap.recording.online import OUTCOME_REWARD
from graphwrap.recording.options import check_options, check_whole_groups, make_recorder
from graphwrap.recording.reading import Reader, copy_batch, put_row, row
from graphwrap.recording.tickets import Ticket, Tickets
from graphwrap.recording.vector_env import find_credit_vector_env
from graphwrap.recording.windows import WindowCredit
from graphwrap.recording.workers import await_answers, check_alive, raise_if_worker_died
from graphwrap.states import StateKey

_SAME_OBSERVATIONS = (VecMonitor, VecCheckNan, VecVideoRecorder)  # wrappers that change no observation


class CreditVecEnv(VecEnvWrapper):
    """Records the steps of a `VecEnv` and credits them; what the learner sees stays as it was.

    Made by `graphwrap.wrap`, which documents the arguments. With `group_size=G` a sub-environment whose episode ends is
    reset a second time, with the seed of the next ticket: group n // G, member n % G. `seed` sets the base seed that
    the groups' seeds are made from, and `reset` goes on with new groups.

    Attributes:
        recorder: The `graphwrap.recording.recorder.Recorder` of all sub-environments.
        reset_infos: The infos of each sub-environment's last reset.
        resets_after: With `group_size`, the length of the window after which the caller calls `reset()`: episodes that
            end with its last step then need no next one, and `step()` is refused until that reset. None: not known.
            Every `reset()` sets it to None.
    """

    def __init__(
        self,
        venv: VecEnv,
        credit: str | CreditMethod = "graphgpo",
        *,
        task: str | Callable[[Any, dict], Any] = "start",
        group_size: int | None = None,
        success: str | Callable[..., bool | None] | None = None,
        state: StateKey | Callable[[Any, dict], Any] | None = None,
        member_noise: bool = False,
        online: bool = False,
        gamma: float | None = None,
    ) -> None:
        check_options(task, group_size, success, state, member_noise, online, gamma)
        _check_inner(venv, group_size)
        super().__init__(venv)
        self._base = venv.unwrapped
        self._reader = Reader(venv.observation_space, venv.action_space, task, success, state)
        self._tickets = None if group_size is None else Tickets(int(group_size))
        self._member_noise = member_noise
        self._actions: Any = None
        self.resets_after: int | None = None
        self._fresh = type(self._base) in (
            DummyVecEnv,
            SubprocVecEnv,
        )  # hands on arrays that it does not keep
        self.recorder = make_recorder(venv.num_envs, self._reader, credit, group_size, online, gamma)

    # Stable-Baselines3 keeps the members of the class in every wrapper, and some of them cannot be pickled.
    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "class_attributes"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, class_attributes=dict(inspect.getmembers(type(self))))

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Set the seed of the next `reset`.

        Args:
            seed: As in any `VecEnv`; with `group_size` the base seed of the groups. None: one is drawn.

        Returns:
            What the inner `VecEnv` returns; with `group_size` the base seed for each sub-environment.

        Raises:
            TypeError: `seed` is a list, or no whole number.
        """
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer))):
            raise TypeError(
                f"seed must be one whole number (the seeds of the {self.num_envs} sub-environments are made from it), "
                f"got {seed!r}"
            )
        if self._tickets is None:
            return self.venv.seed(seed)
        return [self._tickets.seed(seed)] * self.num_envs

    def reset(self) -> Any:
        """Reset every sub-environment and begin an episode in each; those that run stay unfinished.

        With `group_size`, open groups are abandoned: their members would come from different policies.

        Raises:
            ValueError: Members of a group start in different states.
            RuntimeError: A worker process of the inner `VecEnv` has died.
        """
        self.resets_after = None
        self.recorder.abandon_groups()
        self.recorder.abort()
        try:
            if isinstance(self._base, SubprocVecEnv):
                check_alive(self._base)
            return self._reset()
        except BaseException as error:
            raise_if_worker_died(error, self._base)
            raise

    def _reset(self) -> Any:
        if self._tickets is None:
            observations = self.venv.reset()
            self.reset_infos = list(self._base.reset_infos)
            tickets = []
        else:
            self._tickets.next_group()
            tickets = [self._tickets.take() for _ in range(self.num_envs)]
            observations = self._seeded_reset(tickets)
        self._begin(list(range(self.num_envs)), observations, tickets)
        return observations

    def _seeded_reset(self, tickets: Sequence[Ticket]) -> Any:
        """Reset all sub-environments, each with its ticket's seed; returns the observations."""
        if isinstance(self._base, (DummyVecEnv, SubprocVecEnv)):
            self._base._seeds = [
                ticket.seed for ticket in tickets
            ]  # what VecEnv.seed sets, without its "+ index"
            observations = self.venv.reset()
            self.reset_infos = list(self._base.reset_infos)
            for env, ticket in enumerate(tickets):
                self._give_noise(env, ticket)
        else:
            observations = copy_batch(self.venv.reset())
            self._play(range(self.num_envs), tickets, observations)
        return observations

    def _play(self, envs: Sequence[int], tickets: Sequence[Ticket], observations: Any) -> None:
        """Reset sub-environments with their tickets' seeds and put their observations into the batch."""
        seeds = [ticket.seed for ticket in tickets]
        if hasattr(self._base, "reset_envs"):  # in one call, see `graphwrap.sb3.as_vec_env`
            results = list(zip(*self._base.reset_envs(envs, seeds)))
        else:
            results = [
                self.venv.env_method("reset", seed=seed, indices=[env])[0] for env, seed in zip(envs, seeds)
            ]
        for env, ticket, (observation, info) in zip(envs, tickets, results):
            self._give_noise(env, ticket)
            put_row(self.observation_space, observations, env, observation)
            self.reset_infos[env] = info

    def _give_noise(self, env: int, ticket: Ticket) -> None:
        if self._member_noise:
            self.venv.set_attr("np_random", ticket.generator(), indices=[env])

    def step_async(self, actions: Any) -> None:
        """Send the actions to the sub-environments.

        Raises:
            RuntimeError: `reset` was not called, or not since an error in a step.
        """
        if not self.recorder.is_recording:
            raise RuntimeError("step() needs a running episode in every sub-environment: call reset() first")
        self._actions = self._reader.actions_of(actions, self.num_envs)
        self.venv.step_async(actions)

    def step_wait(self) -> Any:
        """Wait for the step, record it, and hand on what the inner `VecEnv` returned.

        With `group_size` the observation of a sub-environment whose episode ended is the one of its seeded reset.

        Raises:
            ValueError: Members of a group start in different states.
            RuntimeError: A worker process of the inner `VecEnv` has died.

        After an error nobody knows which sub-environments have stepped: what was recorded stays, the running episodes
        are unfinished.
        """
        try:
            if isinstance(self._base, SubprocVecEnv):
                await_answers(self._base)
            return self._step_wait()
        except BaseException as error:
            self.recorder.abort()
            raise_if_worker_died(error, self._base)
            raise

    def _step_wait(self) -> Any:
        observations, rewards, dones, infos = self.venv.step_wait()
        ended = np.flatnonzero(dones).tolist()
        if not ended:
            rewards = self._record(observations, rewards, dones, dones, infos)
            return observations, rewards, dones, infos

        finals = [infos[env]["terminal_observation"] for env in ended]
        truncated = np.zeros(self.num_envs, np.bool_)
        truncated[ended] = [bool(infos[env].get("TimeLimit.truncated", False)) for env in ended]
        terminated = np.asarray(dones, np.bool_) & ~truncated
        successes = [
            self._reader.succeeded(
                final, float(rewards[env]), bool(terminated[env]), bool(truncated[env]), infos[env]
            )
            for env, final in zip(ended, finals)
        ]
        rewards = self._record(observations, rewards, terminated, truncated, infos, ended, successes, finals)

        tickets = []
        if self._tickets is None:
            for env in ended:
                self.reset_infos[env] = self._base.reset_infos[env]
        elif self.recorder.num_steps == self.resets_after:
            return observations, rewards, dones, infos
        else:
            observations = observations if self._fresh else copy_batch(observations)
            tickets = [self._tickets.take() for _ in ended]
            self._play(ended, tickets, observations)
        self._begin(ended, observations, tickets)
        return observations, rewards, dones, infos

    def _record(
        self,
        observations: Any,
        rewards: Any,
        terminated: np.ndarray,
        truncated: np.ndarray,
        infos: Sequence[dict],
        ended: Sequence[int] = (),
        successes: Sequence[bool | None] = (),
        finals: Sequence[Any] = (),
    ) -> Any:
        """Record a step and return the rewards that the learner is to see."""
        states, finals = self._reader.states_of(observations, infos, ended, finals)
        shaping = self.recorder.record(
            self._actions,
            states,
            # DummyVecEnv hands rewards on as float32 and SubprocVecEnv as float64; recorded, they are the same.
            np.asarray(rewards, np.float32),
            terminated,
            truncated,
            ended,
            successes,
            finals=finals,
        )
        if shaping is None:
            return rewards
        for info, reward in zip(infos, rewards):
            info[OUTCOME_REWARD] = float(reward)
        return (rewards + shaping).astype(rewards.dtype)

    def _begin(self, envs: Sequence[int], observations: Any, tickets: Sequence[Ticket]) -> None:
        infos = [self.reset_infos[env] for env in envs]
        labels: list[Any] | None = None
        if tickets:
            labels = [ticket.group for ticket in tickets]
        elif self._reader.task != "start":
            labels = [
                self._reader.task_label(partial(row, self.observation_space, observations, env), info)
                for env, info in zip(envs, infos)
            ]
        self.recorder.begin(envs, self._reader.starts_of(observations, envs, infos), labels)

    def assign_credit(self, unfinished: str = "mask") -> WindowCredit:
        """Credit the steps since the last call; arrays (T, num_envs). See `Recorder.assign_credit`."""
        return self.recorder.assign_credit(unfinished)


def _check_inner(venv: VecEnv, group_size: int | None) -> None:
    """Refuse VecEnvs that cannot be recorded, or not in groups."""
    inner = venv
    while isinstance(inner, VecEnvWrapper):
        name = type(inner).__name__
        if isinstance(inner, CreditVecEnv):
            raise ValueError("this VecEnv is wrapped by graphwrap.wrap already; wrap it once")
        if isinstance(inner, VecNormalize):
            raise ValueError(
                "VecNormalize inside graphwrap.wrap lets equal states drift apart and changes the rewards; wrap first, "
                "then normalise: VecNormalize(graphwrap.wrap(venv, ...))"
            )
        if group_size is not None and type(inner) not in _SAME_OBSERVATIONS:
            raise ValueError(
                f"{name} inside graphwrap.wrap(group_size=...) would miss the resets that begin a group's episodes; "
                f"wrap first, then add it: {name}(graphwrap.wrap(venv, group_size={group_size}), ...)"
            )
        inner = inner.venv
    if find_credit_vector_env(getattr(inner, "vector_env", None)) is not None:
        raise ValueError(
            "the VectorEnv inside as_vec_env is wrapped by graphwrap.wrap already; wrap once, and last: "
            "graphwrap.wrap(as_vec_env(venv), ...)"
        )
    if isinstance(inner, (DummyVecEnv, SubprocVecEnv)) and any(inner.env_is_wrapped(CreditEnv)):
        raise ValueError("the sub-environments are wrapped by graphwrap.wrap already; wrap the VecEnv alone")
    if group_size is None:
        return
    check_whole_groups(venv.num_envs, group_size)
    monitored = [env for env, has in enumerate(venv.env_is_wrapped(Monitor)) if has]
    if monitored and not all(venv.get_attr("allow_early_resets", indices=monitored)):
        raise ValueError(
            "Monitor(allow_early_resets=False) refuses the second reset that gives an episode its group's seed; make "
            "the environments with allow_early_resets=True (the default)"
        )
