"""Wrappers of a single environment."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from graphwrap.credit import CreditMethod
from graphwrap.recording.online import OUTCOME_REWARD
from graphwrap.recording.options import check_options, make_recorder
from graphwrap.recording.reading import Reader
from graphwrap.recording.tickets import Ticket, Tickets
from graphwrap.recording.windows import WindowCredit
from graphwrap.states import StateKey


class CreditEnv(gymnasium.Wrapper, RecordConstructorArgs):
    """Records a Gymnasium environment's steps and credits them; what is seen from outside stays as it was.

    Made by `graphwrap.wrap`, which documents the arguments. With `group_size=G`, G resets in a row share a seed;
    `reset(seed=)` sets the base seed that the groups' seeds are made from, and begins a new group.
    """

    def __init__(
        self,
        env: gymnasium.Env,
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
        if find_credit_env(env) is not None:
            raise ValueError("this Env is wrapped by graphwrap.wrap already; wrap it once")
        RecordConstructorArgs.__init__(
            self,
            credit=credit,
            task=task,
            group_size=group_size,
            success=success,
            state=state,
            member_noise=member_noise,
            online=online,
            gamma=gamma,
        )
        gymnasium.Wrapper.__init__(self, env)
        self._reader = Reader(env.observation_space, env.action_space, task, success, state)
        self._tickets = None if group_size is None else Tickets(int(group_size))
        self._member_noise = member_noise
        self.recorder = make_recorder(1, self._reader, credit, group_size, online, gamma)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and begin an episode; one that runs stays unfinished.

        Raises:
            ValueError: With `group_size`, the start differs from that of the group's first member.
        """
        if self._tickets is not None:
            if seed is not None:
                self._tickets.seed(seed)
                self.recorder.abandon_groups()
            self.recorder.abort()
            ticket = self._tickets.take()
            try:
                return self._begin(ticket.seed, options, ticket)
            except BaseException:
                self.abandon_groups()  # one that lacks a member is never complete
                raise
        self.recorder.abort()
        return self._begin(seed, options, None)

    def _begin(
        self, seed: int | None, options: dict[str, Any] | None, ticket: Ticket | None
    ) -> tuple[Any, dict[str, Any]]:
        labels: list[Any] | None = None
        observation, info = self.env.reset(seed=seed, options=options)
        if ticket is not None:
            labels = [ticket.group]
            if self._member_noise:
                self.env.np_random = ticket.generator()
        elif self._reader.task != "start":
            labels = [self._reader.task_label(lambda: observation, info)]
        self.recorder.begin([0], self._reader.one_state(copy.deepcopy(observation), info), labels)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the environment and record the step.

        Raises:
            ResetNeeded: No episode runs.
        """
        if not self.recorder.is_recording:
            raise ResetNeeded(
                "step() needs a running episode: call reset() first, also after an episode's end"
            )
        taken = copy.deepcopy(action)
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except Exception:
            raise  # a step that was refused is no step: the episode goes on
        except BaseException:
            self.recorder.abort()  # interrupted in mid-step: nobody knows where the environment is
            raise
        try:
            shaping = self._record(taken, observation, reward, terminated, truncated, info)
        except BaseException:
            self.recorder.abort()  # the environment has stepped, and the episode would lack that step
            raise
        if shaping is not None:
            info = {**info, OUTCOME_REWARD: float(reward)}
            reward = float(reward) + float(shaping[0])
        return observation, reward, terminated, truncated, info

    def _record(
        self,
        action: Any,
        observation: Any,
        reward: SupportsFloat,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> np.ndarray | None:
        ended: tuple[int, ...] = ()
        successes: tuple[bool | None, ...] = ()
        if terminated or truncated:
            ended = (0,)
            successes = (self._reader.succeeded(observation, float(reward), terminated, truncated, info),)
        return self.recorder.record(
            self._reader.one_action(action),
            self._reader.one_state(observation, info),
            [float(reward)],
            [bool(terminated)],
            [bool(truncated)],
            ended,
            successes,
        )

    def assign_credit(self, unfinished: str = "mask") -> WindowCredit:
        """Credit the steps since the last call; arrays (T,). See `Recorder.assign_credit`."""
        return self.recorder.assign_credit(unfinished).of_single()

    def abandon_groups(self) -> None:
        """Begin a new group with the next reset, even if the running one has members to come."""
        self.recorder.abandon_groups()
        if self._tickets is not None:
            self._tickets.next_group()


def find_credit_env(env: gymnasium.Env | None) -> CreditEnv | None:
    """Return what `graphwrap.wrap` made, somewhere inside `env`; None where it made nothing."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, CreditEnv):
            return env
        env = env.env
    return None


class SeededReset(gymnasium.Wrapper, RecordConstructorArgs):
    """Spares an environment inside `graphwrap.wrap(VecEnv, group_size=...)` its second reset.

    Stable-Baselines3 resets an environment without a seed as soon as its episode ends, and `graphwrap.wrap` resets it
    again with its group's seed. This wrapper, the outermost one of each environment, lets only the second one through:

        make_vec_env(..., wrapper_class=graphwrap.SeededReset)

    The first reset, a reset in mid-episode and any reset with a seed or options are real.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self._final: tuple[Any] | None = None  # the last observation of an episode that has ended
        self._waiting = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; the first unseeded reset after an episode's end only returns its last observation."""
        final, self._final = self._final, None
        if final is not None and seed is None and not options:
            self._waiting = True
            return final[0], {}
        self._waiting = False
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the environment.

        Raises:
            RuntimeError: The reset with a seed did not come.
        """
        if self._waiting:
            raise RuntimeError(
                "SeededReset waits for a reset with a seed, which only graphwrap.wrap(venv, group_size=...) makes; "
                "wrap the VecEnv so, or leave SeededReset out"
            )
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            self._final = (observation,)
        return observation, reward, terminated, truncated, info
