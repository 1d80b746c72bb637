"""The wrapper of a Gymnasium `VectorEnv`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.wrappers import vector as vector_wrappers

from graphwrap.credit import CreditMethod
from graphwrap.recording.env_wrapper import find_credit_env
from graphwrap.recording.online import OUTCOME_REWARD
from graphwrap.recording.options import check_options, check_whole_groups, make_recorder
from graphwrap.recording.reading import Reader, copy_batch, put_row, row
from graphwrap.recording.tickets import Ticket, Tickets
from graphwrap.recording.vector_infos import InfoRows, gathered, put_info_rows
from graphwrap.recording.windows import WindowCredit
from graphwrap.recording.workers import raise_if_worker_died
from graphwrap.states import StateKey
from graphwrap.vector_envs import MaskedReset, autoreset_mode, info_rows

_DRIFTING = (vector_wrappers.NormalizeObservation, vector_wrappers.NormalizeReward)


class CreditVectorEnv(VectorWrapper):
    """Records the steps of a `VectorEnv` and credits them; what the learner sees stays as it was.

    Made by `graphwrap.wrap`, which documents the arguments. The three autoreset modes record the same episodes: in a
    row of a window where a sub-environment was only reset (NEXT_STEP), `is_step` is False.

    With `group_size=G` every episode is begun by a reset with the seed of the next ticket: group n // G, member n % G.
    In the modes that reset by themselves that is a second reset. `reset(seed=)` sets the base seed that the groups'
    seeds are made from; a whole reset goes on with new groups.

    Attributes:
        recorder: The `graphwrap.recording.recorder.Recorder` of all sub-environments.
    """

    env: Any  # takes a list of seeds, which the base class does not declare

    def __init__(
        self,
        env: VectorEnv,
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
        _check_inner(env, group_size, member_noise)
        super().__init__(env)
        self._mode = autoreset_mode(env)
        self._space = env.single_observation_space
        self._reader = Reader(self._space, env.single_action_space, task, success, state)
        self._tickets = None if group_size is None else Tickets(int(group_size))
        self._member_noise = member_noise
        self._masked_reset = None if group_size is None else MaskedReset(env)
        self._mask_is_kept = env.num_envs == 1  # known to reset only what it is asked to
        # In NEXT_STEP mode: the sub-environments that the next step resets.
        self._ended = np.zeros(env.num_envs, np.bool_)
        self._num_ended = 0
        self._is_online = online
        self.recorder = make_recorder(env.num_envs, self._reader, credit, group_size, online, gamma)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset sub-environments and begin an episode in each; those that run stay unfinished.

        Args:
            seed: As in any `VectorEnv`; with `group_size` the base seed of the groups.
            options: As in any `VectorEnv`. `options["reset_mask"]`, bool (num_envs,), says which ones are reset. A
                whole reset abandons the open groups: their members would come from different policies.

        Raises:
            TypeError: With `group_size`, a list of seeds.
            ValueError: Members of a group start in different states; or with `group_size` the vector environment
                ignores seeds or `reset_mask`.
            RuntimeError: A worker process of the vector environment has died.
        """
        mask = np.ones(self.num_envs, np.bool_)
        if options is not None and "reset_mask" in options:
            mask = np.array(options["reset_mask"])
            if mask.dtype != np.bool_ or mask.shape != (self.num_envs,) or not mask.any():
                raise ValueError(
                    f"options['reset_mask'] must be a bool array of shape ({self.num_envs},) with a True in it, got "
                    f"{options['reset_mask']!r}"
                )
        envs = np.flatnonzero(mask)
        if self._tickets is not None and seed is not None:
            self._tickets.seed(seed)  # type: ignore[arg-type]  # refuses a list
        if mask.all() or (self._tickets is not None and seed is not None):
            self.abandon_groups()
        self.recorder.abort(envs.tolist())
        self._ended = self._ended & ~mask  # also where this reset fails: no step makes up for it
        self._num_ended = int(self._ended.sum())
        try:
            if self._tickets is None:
                observations, infos = self.env.reset(seed=seed, options=options)
                tickets: list[Ticket] = []
            else:
                tickets = [self._tickets.take() for _ in envs]
                if not self._mask_is_kept:
                    self.env.reset()
                    self._probe(envs, tickets)
                observations, infos = self._seeded_reset(envs, tickets, options)
            self._begin(envs, observations, infos, tickets)
        except BaseException as error:
            self.abandon_groups()  # one that lacks a member is never complete
            raise_if_worker_died(error, self.env.unwrapped)
            raise
        return observations, infos

    def _seeded_reset(
        self, envs: np.ndarray, tickets: Sequence[Ticket], options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset `envs`, each with its ticket's seed, and leave the others alone."""
        seeds: list[int | None] = [None] * self.num_envs
        for env, ticket in zip(envs.tolist(), tickets):
            seeds[env] = ticket.seed
        if len(envs) == self.num_envs:
            result = self.env.reset(seed=seeds, options=options)
        else:
            own = {key: value for key, value in (options or {}).items() if key != "reset_mask"}
            assert self._masked_reset is not None
            result = self._masked_reset(np.isin(np.arange(self.num_envs), envs), seeds, own)
        if self._member_noise:
            self._give_noise(dict(zip(envs.tolist(), tickets)))
        return result

    def _give_noise(self, tickets: dict[int, Ticket]) -> None:
        base: Any = self.env.unwrapped
        if hasattr(base, "envs"):
            for env, ticket in tickets.items():
                base.envs[env].unwrapped.np_random = ticket.generator()
        else:
            generators = list(base.get_attr("np_random"))
            for env, ticket in tickets.items():
                generators[env] = ticket.generator()
            base.set_attr("np_random", generators)

    def _probe(self, envs: np.ndarray, tickets: Sequence[Ticket]) -> None:
        """Reset one sub-environment alone, to see before the first step whether that is possible.

        Raises:
            ValueError: The vector environment takes no list of seeds, or resets the others too.
        """
        try:
            self._seeded_reset(envs[:1], tickets[:1])
        except (TypeError, ValueError, gymnasium.error.Error) as error:
            raise ValueError(
                f"group_size resets sub-environments one by one, each with its group's seed, and "
                f"{type(self.env.unwrapped).__name__} does not do that; make the vector environment with "
                "gymnasium.make_vec(..., vectorization_mode='sync'), or leave group_size out"
            ) from error
        self._mask_is_kept = True

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step every sub-environment and record the steps.

        Raises:
            ResetNeeded: A sub-environment has no running episode, and this step will not begin one.
            ValueError: With `group_size`, members of a group start in different states.
            RuntimeError: A worker process of the vector environment has died.

        After an error nobody knows which sub-environments have stepped: what was recorded stays, the running episodes
        are unfinished.
        """
        awaited = self._num_ended if self._mode == AutoresetMode.NEXT_STEP else 0
        if self.recorder.num_idle != awaited:
            envs = np.flatnonzero(~self.recorder.active).tolist()
            raise ResetNeeded(
                f"step() needs a running episode in every sub-environment, {envs} have none: call reset() first, or "
                "reset(options={'reset_mask': ...}) for these alone"
            )
        taken = self._reader.actions_of(actions, self.num_envs)
        try:
            observations, rewards, terminated, truncated, infos = self.env.step(actions)
            return self._record(taken, observations, rewards, terminated, truncated, infos)
        except BaseException as error:
            self.abandon_groups()  # tickets may have been taken for episodes that did not begin
            self.recorder.abort()
            self._ended, self._num_ended = np.zeros(self.num_envs, np.bool_), 0
            raise_if_worker_died(error, self.env.unwrapped)
            raise

    def _record(
        self,
        actions: Any,
        observations: Any,
        rewards: Any,
        terminated: Any,
        truncated: Any,
        infos: dict[str, Any],
    ) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        begun = self._ended if self._num_ended else None  # reset by this step
        done = np.logical_or(terminated, truncated)
        if begun is not None:
            done &= ~begun
        ended = done.nonzero()[0]
        if len(ended):
            states, successes, finals = self._at_ends(
                ended, observations, rewards, terminated, truncated, infos
            )
        else:
            rows = InfoRows(infos, self.num_envs) if not self._reader.whole_states else ()
            states, finals = self._reader.states_of(observations, rows)
            successes = ()
        active = self.recorder.active if self._is_online else None
        shaping = self.recorder.record(
            actions,
            states,
            rewards,
            terminated,
            truncated,
            ended,
            successes,
            finals=finals,
            partly=begun is not None,
        )
        if self._mode == AutoresetMode.SAME_STEP:
            if len(ended):
                observations, infos = self._begin_after_step(ended, observations, infos)
        elif self._mode == AutoresetMode.NEXT_STEP:
            self._ended, self._num_ended = done, len(ended)
            if begun is not None:
                observations, infos = self._begin_after_step(begun.nonzero()[0], observations, infos)
        if shaping is not None:
            infos = {**infos, OUTCOME_REWARD: np.array(rewards), f"_{OUTCOME_REWARD}": active}
            rewards = rewards + shaping
        return observations, rewards, terminated, truncated, infos

    def _at_ends(
        self,
        ended: np.ndarray,
        observations: Any,
        rewards: Any,
        terminated: Any,
        truncated: Any,
        infos: dict[str, Any],
    ) -> tuple[Any, Sequence[bool | None], Sequence[Any]]:
        """The states that a step led to, what its ended episodes say about success, and their final states."""
        finals, final_infos = self._finals(observations, infos, ended)
        by_function = callable(self._reader.success)
        rows: Sequence[Any] = ()
        if by_function or not self._reader.whole_states:
            own = info_rows(final_infos, ended.tolist(), self.num_envs)
            rows = InfoRows(infos, self.num_envs, dict(zip(ended.tolist(), own)))
        successes: Sequence[bool | None]
        if by_function:
            successes = [
                self._reader.succeeded(
                    finals[i] if finals else row(self._space, observations, env),
                    float(rewards[env]),
                    bool(terminated[env]),
                    bool(truncated[env]),
                    rows[env],
                )
                for i, env in enumerate(ended.tolist())
            ]
        else:
            successes = self._reader.successes(final_infos, ended)
        states, finals = self._reader.states_of(observations, rows, ended, finals)
        return states, successes, finals

    def _finals(
        self, observations: Any, infos: dict[str, Any], ended: np.ndarray
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """The last observations of episodes that have ended, () where the batch holds them, and the last infos."""
        if self._mode != AutoresetMode.SAME_STEP:
            return (), infos
        if "final_obs" not in infos:
            raise ValueError(
                "a vector environment that resets in the SAME_STEP must give the last observation of an episode as "
                f"infos['final_obs'], got {sorted(map(str, infos))}"
            )
        final, final_infos = infos["final_obs"], infos.get("final_info", {})
        if not isinstance(final_infos, Mapping):  # a sequence with the info of each environment
            final_infos = gathered(final_infos, ended)
        if isinstance(final, (dict, tuple)):
            return [row(self._space, final, env) for env in ended.tolist()], final_infos
        if isinstance(final, np.ndarray):
            return list(final[ended]), final_infos
        return [final[env] for env in ended.tolist()], final_infos

    def _begin_after_step(
        self, envs: np.ndarray, observations: Any, infos: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Begin the episodes of sub-environments that a step has reset; with groups, reset them with their seeds."""
        if self._tickets is None:
            # A batch of arrays was recorded as it is, the first states of these episodes with it.
            recorded = self._mode == AutoresetMode.NEXT_STEP or self._reader.whole_states
            self._begin(envs, observations, infos, [], recorded=recorded)
            return observations, infos
        tickets = [self._tickets.take() for _ in envs]
        # A wrapper may write into what it handed on, as RecordEpisodeStatistics does into its mask of ended episodes.
        infos = {
            key: value.copy() if isinstance(value, np.ndarray) else value for key, value in infos.items()
        }
        fresh, fresh_infos = self._seeded_reset(envs, tickets)
        observations = copy_batch(observations)
        for env in envs.tolist():
            observations = put_row(self._space, observations, env, row(self._space, fresh, env))
        reset = np.isin(np.arange(self.num_envs), envs)
        infos = put_info_rows(infos, fresh_infos, reset, self.num_envs)
        self._begin(envs, observations, infos, tickets)
        return observations, infos

    def _begin(
        self,
        envs: np.ndarray,
        observations: Any,
        infos: dict[str, Any],
        tickets: Sequence[Ticket],
        *,
        recorded: bool = False,
    ) -> None:
        """Begin an episode in each of `envs`; `recorded`: the last row leads to its first state."""
        reader = self._reader
        by_info = not tickets and reader.task not in ("start", "single")
        own: Sequence[dict[str, Any]] = ()
        if by_info or reader.needs_infos:
            own = info_rows(infos, envs.tolist(), self.num_envs)
        labels: list[Any] | None = None
        if tickets:
            labels = [ticket.group for ticket in tickets]
        elif reader.task != "start":
            labels = [
                reader.task_label(partial(row, self._space, observations, env), info)
                for env, info in zip_longest(envs.tolist(), own)
            ]
        starts = None if recorded else reader.starts_of(observations, envs.tolist(), own)
        self.recorder.begin(envs, starts, labels)

    def assign_credit(self, unfinished: str = "mask") -> WindowCredit:
        """Credit the steps since the last call; arrays (T, num_envs). See `Recorder.assign_credit`."""
        return self.recorder.assign_credit(unfinished)

    def abandon_groups(self) -> None:
        """Begin a new group with the next episode, even if the running one has members to come."""
        self.recorder.abandon_groups()
        if self._tickets is not None:
            self._tickets.next_group()


def find_credit_vector_env(env: Any) -> CreditVectorEnv | None:
    """Return what `graphwrap.wrap` made, somewhere inside a `VectorEnv`; None where it made nothing."""
    while isinstance(env, VectorWrapper):
        if isinstance(env, CreditVectorEnv):
            return env
        env = env.env
    return None


def _check_inner(env: VectorEnv, group_size: int | None, member_noise: bool) -> None:
    """Refuse vector environments that cannot be recorded, or not in groups."""
    if find_credit_vector_env(env) is not None:
        raise ValueError("this VectorEnv is wrapped by graphwrap.wrap already; wrap it once")
    inner: Any = env
    while isinstance(inner, VectorWrapper):
        name = type(inner).__name__
        if isinstance(inner, _DRIFTING):
            raise ValueError(
                f"{name} inside graphwrap.wrap lets equal states or rewards drift apart; wrap first, then normalise: "
                f"{name}(graphwrap.wrap(venv, ...))"
            )
        if isinstance(inner, vector_wrappers.DictInfoToList):
            raise ValueError(
                f"{name} inside graphwrap.wrap hands on a list, and infos are read as the dict that they were; wrap "
                f"first, then convert: {name}(graphwrap.wrap(venv, ...))"
            )
        inner = inner.env
    if any(find_credit_env(sub) is not None for sub in getattr(inner, "envs", ())):
        raise ValueError(
            "the sub-environments are wrapped by graphwrap.wrap already; wrap the VectorEnv alone"
        )
    if member_noise and not (hasattr(inner, "envs") or hasattr(inner, "set_attr")):
        raise ValueError(
            f"member_noise=True gives each sub-environment a generator, which {type(inner).__name__} cannot take; make "
            " the vector environment with vectorization_mode='sync', or leave it out"
        )
    check_whole_groups(env.num_envs, group_size)
