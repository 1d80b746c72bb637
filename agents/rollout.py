"""Rollouts: groups of episodes, their credit and what to log about them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from graphwrap.agents.distributed import World
from graphwrap.agents.engines import Engine, Sampling
from graphwrap.agents.playing.episodes import INVALID, Episode, Player, Progress
from graphwrap.agents.playing.outcomes import is_mixed, statistics
from graphwrap.agents.playing.rows import StepRows, rows_of
from graphwrap.agents.prompts import Prompter
from graphwrap.agents.seeding import distinct_seeds, seed_of
from graphwrap.agents.settings import CRITIC, Settings
from graphwrap.credit import Credit, zeros
from graphwrap.envs.pool import EnvPool
from graphwrap.graph import TransitionGraph
from graphwrap.recording.recorder import Recorder, WindowCredit
from graphwrap.states import make_table
from graphwrap.transitions import Transitions

Method = Callable[[Transitions], Credit]


@dataclass(eq=False)
class Batch:
    """What one update is made from."""

    rows: StepRows
    episodes: list[Episode]  # those that `rows` come from, whole groups
    credit: WindowCredit | None  # its `transitions` can be saved; None where there are no episodes
    metrics: dict[str, float]  # of everything that was sampled


class Rollout:
    """Plays groups of episodes and credits their steps.

    With `rollout.dynamic_sampling`, groups in which all finished episodes succeed or all fail are dropped whole, and
    as many new tasks are played again, until `rollout.tasks` groups are mixed or `rollout.max_attempts` attempts were
    made. Outcomes decide, not rewards: penalties give every group a spread.

    Args:
        settings: The run's settings.
        prompter: Makes prompts.
        engine: Answers them.
        pool: `rollout.tasks` times `rollout.group_size` environments; number n plays task n // group_size. Of several
            processes each has its share: those of its tasks.
        method: The credit method; None with `credit.name` "ppo".
        held_out: The environments of `play`. None: those of `pool`.
        world: The processes. Each plays whole groups, and all of them get all episodes; `collect` and `play` must be
            called by all.

    Raises:
        ValueError: The pool has another size, or a method is missing or not wanted.
    """

    def __init__(
        self,
        settings: Settings,
        prompter: Prompter,
        engine: Engine,
        pool: EnvPool,
        method: Method | None = None,
        *,
        held_out: EnvPool | None = None,
        world: World | None = None,
    ) -> None:
        rollout = settings.rollout
        critic = settings.credit.name == CRITIC
        self.world = world = world or World()
        if pool.num_envs * world.size != rollout.tasks * rollout.group_size:
            share = f" / {world.size} processes" if world.size > 1 else ""
            raise ValueError(
                f"the pool must have rollout.tasks * rollout.group_size{share} = {rollout.tasks} * "
                f"{rollout.group_size}{share} environments, got {pool.num_envs}"
            )
        if critic == (method is not None):
            raise ValueError(
                f"method must be a credit method, or None with credit.name={CRITIC}, got {method!r} with "
                f"credit.name={settings.credit.name}; make_credit(name) gives one"
            )
        self.settings = settings
        self.method: Method = method or _uncredited
        self.player = Player(
            prompter,
            engine,
            pool,
            invalid_penalty=rollout.invalid_penalty,
            last_prompts=critic,
            world=world,
        )
        self.held_out = Player(prompter, engine, held_out or pool, world=world)

    def collect(self, update: int, progress: Progress | None = None) -> Batch:
        """Play the episodes of one update. With equal weights it gives the same batch, whatever was played before.

        Args:
            update: Its number, from 0.
            progress: Called after every step of the environments with (step, ended episodes, episodes).

        Raises:
            ValueError: Members of a group start in different states.
            RuntimeError: Every environment crashed.

        Warns:
            UserWarning: Dynamic sampling found too few mixed groups.
        """
        began = time.perf_counter()
        settings, size = self.settings.rollout, self.settings.rollout.group_size
        seconds = self.player.seconds = dict.fromkeys(self.player.seconds, 0.0)
        sampled: list[Episode] = []
        kept: list[Episode] = []
        attempts = settings.max_attempts if settings.dynamic_sampling else 1
        attempt = 0
        while attempt < attempts and len(kept) < settings.tasks * size:
            episodes = self._play(update, attempt, progress)
            sampled += episodes
            groups = [episodes[begin : begin + size] for begin in range(0, len(episodes), size)]
            kept += [
                episode
                for group in groups
                if not settings.dynamic_sampling or is_mixed(group)
                for episode in group
            ]
            attempt += 1
        kept = kept[: settings.tasks * size]
        if len(kept) < settings.tasks * size:
            warnings.warn(
                f"dynamic sampling found {len(kept) // size} groups with both successes and failures in {attempt} "
                f"attempts and {settings.tasks} are wanted: update {update} trains on these alone. Choose tasks that "
                "are neither too easy nor too hard, or leave rollout.dynamic_sampling out",
                UserWarning,
                stacklevel=2,
            )
        started = time.perf_counter()
        credit = credit_of(kept, self.method, size)
        seconds = {**seconds, "credit": time.perf_counter() - started}
        critic = self.settings.credit.name == CRITIC
        rows = rows_of(kept, None if critic else credit)
        metrics = {
            **statistics(sampled, size),
            "attempts": float(attempt),
            "kept_groups": float(len(kept) // size),
            "rows": float(len(rows)),
            "trainable_rows": float(np.count_nonzero(rows.mask)),
        }
        if credit is not None and not critic:
            metrics.update({f"credit/{name}": float(value) for name, value in credit.diagnostics.items()})
        metrics.update({f"seconds/{phase}": value for phase, value in seconds.items()})
        metrics["seconds/rollout"] = time.perf_counter() - began
        return Batch(rows, kept, credit, metrics)

    def play(
        self, seeds: Sequence[int], temperature: float, progress: Progress | None = None
    ) -> tuple[list[Episode], dict[str, float]]:
        """Play one episode per seed with the held-out environments; nothing is credited.

        Args:
            seeds: What the environments are reset with.
            temperature: 0 takes the likeliest tokens.
            progress: As in `collect`, for as many episodes as there are environments at a time.

        Returns:
            The episodes, and the same numbers as in `collect` over them.

        Raises:
            RuntimeError: Every environment crashed.
        """
        player, settings = self.held_out, self.settings
        player.seconds = dict.fromkeys(player.seconds, 0.0)
        played: list[Episode] = []
        num_envs = player.pool.num_envs * self.world.size
        if self.world.size > 1:  # as many at a time as one process plays
            num_envs = min(num_envs, max(1, settings.validation.episodes))
        for begin in range(0, len(seeds), num_envs):
            places = range(begin, min(begin + num_envs, len(seeds)))
            own = _share(places, self.world)
            episodes = player.begin([seeds[place] for place in own], own)

            def sampling(step: int, begin: int = begin) -> Sampling:
                seed = seed_of(settings.seed, "validation", begin, step)
                return Sampling(temperature, settings.rollout.max_tokens, seed)

            player.finish(episodes, sampling, progress)
            played += self._together(episodes)
        player.check(played)
        metrics = statistics(played, 1)
        metrics.update({f"seconds/{phase}": value for phase, value in player.seconds.items()})
        return played, metrics

    def _play(self, update: int, attempt: int, progress: Progress | None) -> list[Episode]:
        """Play `rollout.tasks` new groups, of which this process plays its share."""
        settings, seed = self.settings.rollout, self.settings.seed
        seeds = distinct_seeds(seed, "tasks", update, attempt, count=settings.tasks)
        groups = np.repeat(_share(range(settings.tasks), self.world), settings.group_size)
        episodes = self.player.begin(
            [seeds[group] for group in groups], (groups + attempt * settings.tasks).tolist()
        )
        self.player.check(episodes)
        _recorder(
            episodes, self.method, settings.group_size
        )  # members that start apart are found before they play

        def sampling(step: int) -> Sampling:
            return Sampling(
                settings.temperature, settings.max_tokens, seed_of(seed, "sampling", update, attempt, step)
            )

        self.player.finish(episodes, sampling, progress)
        self.player.check(episodes)
        return self._together(episodes)

    def _together(self, episodes: list[Episode]) -> list[Episode]:
        """The episodes of all processes, in the order and with the numbers that they have in one process."""
        parts = self.world.gather(episodes)
        for part, before in zip(parts, accumulate(map(len, parts), initial=0)):
            for episode in part:
                episode.env += before
        return [episode for part in parts for episode in part]


def credit_of(episodes: Sequence[Episode], method: Method, group_size: int) -> WindowCredit | None:
    """Credit the steps of whole groups, played to their ends.

    Args:
        episodes: E of them; those that were broken off count as unfinished.
        method: The credit method.
        group_size: Episodes of a group.

    Returns:
        Arrays (T, E): [t, e] is step t of `episodes[e]`. None where no episode has a step.
    """
    if not any(episode.steps for episode in episodes):
        return None
    recorder = _recorder(episodes, method, group_size)
    lengths = np.array([len(episode.steps) for episode in episodes])
    crashed = np.array([bool(episode.crash) for episode in episodes])
    states = [episode.start for episode in episodes]
    for t in range(lengths.max()):
        recorder.abort(np.flatnonzero(crashed & (lengths == t)))
        actions = [INVALID] * len(episodes)
        rewards, terminated, truncated = (np.zeros(len(episodes)) for _ in range(3))
        for e in np.flatnonzero(lengths > t).tolist():
            step = episodes[e].steps[t]
            actions[e], states[e] = step.action, step.next_state
            rewards[e], terminated[e], truncated[e] = step.reward, step.terminated, step.truncated
        ended = np.flatnonzero(~crashed & (lengths == t + 1))
        successes = [episodes[e].success for e in ended.tolist()]
        recorder.record(
            actions, list(states), rewards, terminated > 0, truncated > 0, ended, successes, partly=True
        )
    recorder.abort()
    return recorder.assign_credit()


def _share(places: range, world: World) -> range:
    """The places that this process plays: neighbours, as many as the others have or one more."""
    return places[len(places) * world.rank // world.size : len(places) * (world.rank + 1) // world.size]


def _recorder(episodes: Sequence[Episode], method: Method, group_size: int) -> Recorder:
    """A recorder in which the episodes have begun, but for those whose environment crashed in reset()."""
    recorder = Recorder(len(episodes), make_table(), make_table(), method, group_size=group_size)
    begun = [e for e, episode in enumerate(episodes) if episode.begun]
    recorder.begin(
        begun, [episodes[e].start for e in begun], [(episodes[e].group, episodes[e].seed) for e in begun]
    )
    return recorder


def _uncredited(transitions: Transitions) -> Credit:
    """Credit 0: a critic gives it later."""
    graph = TransitionGraph.from_transitions(transitions)
    nothing = zeros(graph)
    return Credit(nothing, nothing, nothing, None, None, graph, 0.0)
