"""Episodes of text environments, played by an engine in batches."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphwrap.agents.distributed import World
from graphwrap.agents.engines import Engine, Sampling
from graphwrap.agents.engines.chat import Chat, Reply, TokenChat
from graphwrap.agents.prompting.answers import thought_of
from graphwrap.agents.prompts import Prompt, Prompter, Turn, parse_action
from graphwrap.envs.pool import Crash, EnvPool, Reset
from graphwrap.envs.text import task_text
from graphwrap.recording.success import SUCCESS_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator

INVALID = "<invalid>"
"""The action of a step whose answer held no valid one; the environment gets this text, too."""


@dataclass(frozen=True, eq=False)
class EpisodeStep:
    """One step."""

    observation: str  # before it
    state: Hashable
    prompt: Prompt
    answer: Reply
    text: str  # the answer's
    action: str  # the parsed action, or INVALID
    reason: str  # why the answer is invalid; empty if it is not
    reward: float  # the environment's reward less the penalty of an invalid answer
    penalty: float
    next_state: Hashable
    terminated: bool
    truncated: bool


@dataclass(eq=False)
class Episode:
    """One episode. It is finished, or it was broken off because its environment crashed or its prompt is too long."""

    env: int  # the environment's number in the pool
    group: int
    seed: int
    task: str = ""  # what to do, as prompts show it
    name: str = ""  # info["task"]
    task_type: str = ""
    reflections: tuple[str, ...] = ()  # notes of earlier trials of its task, shown in its prompts
    start: Hashable = None  # the first state
    steps: list[EpisodeStep] = field(default_factory=list)
    success: bool | None = None  # None: not finished
    crash: str = ""  # the error that broke it off
    begun: bool = False  # False: the environment crashed in reset()
    last_observation: str = ""  # what the last step of a finished one led to
    last_prompt: tuple[int, ...] | None = (
        None  # of the observation that a time limit cut it off at, if asked for
    )

    @property
    def finished(self) -> bool:
        """Whether it came to an end of its own."""
        return self.success is not None

    @property
    def env_return(self) -> float:
        """The undiscounted sum of the environment's own rewards, no penalty."""
        return sum(step.reward + step.penalty for step in self.steps)

    @property
    def scored(self) -> bool:
        """Whether it is finished and no reward is NaN."""
        return self.finished and not np.isnan(self.env_return)


@dataclass
class _View:
    """What the agent sees of a running episode."""

    observation: str
    admissible: Sequence[str] | None
    state: Hashable
    turns: list[Turn] = field(default_factory=list)

    def see(self, observation: str, info: dict[str, Any]) -> None:
        self.observation = observation
        self.admissible = info.get("admissible_actions")
        self.state = info.get("state_key", observation)


Progress = Callable[[int, int, int], None]
"""Called after every step of the environments with (step, episodes that ended, episodes)."""


class Player:
    """Plays episodes in the environments of a pool. Only episodes that run are prompted, all of them in one batch.

    Args:
        prompter: Makes prompts.
        engine: Answers them; one of tokens, or a chat.
        pool: The environments.
        invalid_penalty: Taken from the reward of a step whose answer holds no valid action.
        last_prompts: Whether an episode that was truncated gets `last_prompt`.
        world: The processes, each with a player of its own. They go step by step together, so that an answer is drawn
            as if one process played all episodes; `begin` and `finish` must be called by all.
    """

    def __init__(
        self,
        prompter: Prompter,
        engine: Engine | Chat,
        pool: EnvPool,
        *,
        invalid_penalty: float = 0.0,
        last_prompts: bool = False,
        world: World | None = None,
    ) -> None:
        self.prompter = prompter
        self.chat = engine if isinstance(engine, Chat) else TokenChat(engine, prompter)
        self.pool = pool
        self.invalid_penalty = invalid_penalty
        self.last_prompts = last_prompts
        self.world = world or World()
        self.seconds = {"engine": 0.0, "env": 0.0, "prompt": 0.0}
        self._prompts: dict[Hashable, Prompt] = {}
        self._views: dict[int, _View] = {}

    def begin(self, seeds: Sequence[int], groups: Sequence[int]) -> list[Episode]:
        """Reset the first environments of the pool, one per seed.

        Raises:
            ValueError: There are more seeds than environments.
        """
        if len(seeds) > self.pool.num_envs:
            raise ValueError(
                f"there is one episode per environment, {self.pool.num_envs} at most, got {len(seeds)} seeds"
            )
        episodes = [Episode(env, group, seed) for env, (seed, group) in enumerate(zip(seeds, groups))]
        self.enter(episodes)
        return episodes

    def enter(
        self, episodes: Sequence[Episode], options: Sequence[Mapping[str, Any] | None] | None = None
    ) -> None:
        """Begin episodes, each in its environment; other environments go on.

        Args:
            episodes: New ones. Those whose environment crashes have not `begun`.
            options: What else each environment is reset with.
        """
        with self._timed("env"):
            resets = self.pool.reset(
                [episode.env for episode in episodes], [episode.seed for episode in episodes], options
            )
        self._prompts.clear()
        for episode, reset in zip(episodes, resets):
            if isinstance(reset, Crash):
                episode.crash = reset.error
            else:
                self._enter(episode, reset)

    def finish(
        self,
        episodes: Sequence[Episode],
        sampling: Callable[[int], Sampling],
        progress: Progress | None = None,
    ) -> None:
        """Play the episodes of `begin` to their ends.

        Args:
            episodes: What `begin` returned.
            sampling: A function of the step's number.
            progress: Is told about every step.

        Warns:
            UserWarning: A prompt is too long; its episode is broken off as if the environment had crashed.
        """
        t = 0
        active = [episode for episode in episodes if episode.begun]
        while any(running := self.world.gather(len(active))):
            if active:
                first = sum(running[: self.world.rank])
                active = self.advance(active, replace(sampling(t), first=first))
            t += 1
            if progress is not None:
                progress(t, len(episodes) - len(active), len(episodes))

    def check(self, episodes: Sequence[Episode]) -> None:
        """See that not all episodes of all processes were broken off; to be called by all.

        Raises:
            RuntimeError: They were; the first error is quoted.
        """
        crashes = [crash for part in self.world.gather([one.crash for one in episodes]) for crash in part]
        if crashes and all(crashes):
            raise RuntimeError(f"every environment crashed; the first one says: {crashes[0]}")

    def advance(self, active: Sequence[Episode], sampling: Sampling) -> list[Episode]:
        """Make one step in each of some running episodes. Returns those that still run.

        Warns:
            UserWarning: A prompt is too long; its episode is broken off as if the environment had crashed.
        """
        episodes: list[Episode] = []
        prompts: list[Prompt] = []
        for episode in active:
            try:
                prompts.append(self._prompt(episode))
                episodes.append(episode)
            except ValueError as error:
                episode.crash = str(error)
                warnings.warn(f"an episode is broken off: {error}", UserWarning, stacklevel=3)
        if not episodes:
            return []
        with self._timed("engine"):
            answers = self.chat.answer(prompts, sampling)
        return self._step(episodes, prompts, answers)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - began

    def _enter(self, episode: Episode, reset: Reset) -> None:
        view = self._views[episode.env] = _View(reset.observation, None, None)
        view.see(reset.observation, reset.info)
        episode.begun = True
        episode.start = view.state
        episode.task = task_text(reset.info)
        episode.name = reset.info.get("task", "")
        episode.task_type = reset.info.get("task_type", "")

    def _prompt(self, episode: Episode) -> Prompt:
        """The prompt of the episode's view; members of a group are often in the same place.

        Raises:
            ValueError: It is too long.
        """
        with self._timed("prompt"):
            view = self._views[episode.env]
            history = (
                tuple(view.turns[-self.prompter.settings.history :]) if self.prompter.settings.history else ()
            )
            admissible = None if view.admissible is None else tuple(view.admissible)
            step = len(episode.steps)
            key = (episode.task, step, history, view.observation, admissible, episode.reflections)
            if key not in self._prompts:
                self._prompts[key] = self.prompter.encode(
                    task=episode.task,
                    step=step,
                    history=history,
                    observation=view.observation,
                    admissible=admissible,
                    reflections=episode.reflections,
                )
            return self._prompts[key]

    def _step(self, active: Sequence[Episode], prompts: list[Prompt], answers: list[Reply]) -> list[Episode]:
        """Do what the answers say. Returns the episodes that still run."""
        template = self.prompter.template
        with self._timed("prompt"):
            parsed = [
                parse_action(
                    answer.text,
                    self._views[episode.env].admissible,
                    finished=answer.finished,
                    think=template.think,
                )
                for episode, answer in zip(active, answers, strict=True)
            ]
            actions = [one.action if one.valid else INVALID for one in parsed]
        with self._timed("env"):
            results = self.pool.step([episode.env for episode in active], actions)
        running = []
        for episode, prompt, answer, action, one, result in zip(
            active, prompts, answers, actions, parsed, results
        ):
            if isinstance(result, Crash):
                episode.crash = result.error
                continue
            view = self._views[episode.env]
            observation, state = view.observation, view.state
            view.see(result.observation, result.info)
            penalty = 0.0 if one.valid else self.invalid_penalty
            episode.steps.append(
                EpisodeStep(
                    observation,
                    state,
                    prompt,
                    answer,
                    answer.text,
                    action,
                    one.reason,
                    float(result.reward) - penalty,
                    penalty,
                    view.state,
                    result.terminated,
                    result.truncated,
                )
            )
            thought = thought_of(answer.text) if template.shows_thoughts else ""
            view.turns.append(Turn(observation, action if one.valid else "", thought))
            if not (result.terminated or result.truncated):
                running.append(episode)
                continue
            told = [result.info[name] for name in SUCCESS_KEYS if result.info.get(name) is not None]
            episode.success = bool(told[0] if told else result.terminated and episode.env_return > 0)
            episode.last_observation = result.observation
            episode.task_type = episode.task_type or result.info.get("task_type", "")
            if self.last_prompts and result.truncated and not result.terminated:
                with suppress(ValueError):  # too long a prompt has no value
                    episode.last_prompt = self._prompt(episode).token_ids
        return running
