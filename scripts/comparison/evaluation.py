"""Success of a policy on levels or seeds that training has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from graphwrap.envs.generator import LevelGenerator
from graphwrap.envs.levels import LevelSet
from graphwrap.recording.reading import Reader
from graphwrap.scripts.comparison.settings import SOKOBAN, Settings

HELD_OUT_SEEDS = 200
_DOMAIN = 0x68656C64  # keeps held-out seeds apart from training seeds, SeedSequence([base seed, group])


@dataclass(frozen=True)
class Start:
    """What an episode is reset with."""

    seed: int
    level: int | None = None  # of the held-out level set

    @property
    def options(self) -> dict[str, Any] | None:
        """The options of `reset`."""
        return None if self.level is None else {"level": self.level}


def held_out_kwargs(settings: Settings) -> dict[str, Any]:
    """Constructor arguments of the held-out environment."""
    return {**settings.env_kwargs, **settings.held_out_kwargs}


def held_out_starts(settings: Settings) -> list[Start]:
    """The held-out episodes of a comparison, the same for every credit and seed.

    Sokoban with a level set plays each held-out level once (`eval_episodes` of them, spread evenly), with made levels
    the first ones of the held-out split; any other environment is reset with seeds of its own.

    Raises:
        ValueError: a held-out level is a training level too, or there are fewer levels than asked for.
    """
    if settings.env != SOKOBAN:
        count = HELD_OUT_SEEDS if settings.eval_episodes is None else settings.eval_episodes
        return [Start(_seed(number)) for number in range(count)]
    levels = _levels(settings.env, held_out_kwargs(settings))
    training = _levels(settings.env, settings.env_kwargs)
    advice = 'give --eval-env-kwargs, such as \'{"levels": "test-levels.txt"}\''
    if not isinstance(levels, LevelSet):
        if levels == training:
            raise ValueError(
                f"held-out levels must not be training levels, but both are {levels.name}, split {levels.split}; "
                f"{advice}"
            )
        count = HELD_OUT_SEEDS if settings.eval_episodes is None else settings.eval_episodes
        return [Start(_seed(level), level) for level in range(count)]
    if isinstance(training, LevelSet):  # made ones share no wall layout with the sets of the other split
        known = {board.tobytes() for board in training.boards}
        shared = sum(board.tobytes() in known for board in levels.boards)
        if shared:
            raise ValueError(
                f"held-out levels must not be training levels, but {shared} of the {len(levels)} levels of "
                f"{levels.name} are; {advice}"
            )
    count = len(levels) if settings.eval_episodes is None else settings.eval_episodes
    if count > len(levels):
        raise ValueError(
            f"eval_episodes={count}, but {levels.name} has {len(levels)} levels, each played once"
        )
    chosen = np.linspace(0, len(levels) - 1, count).round().astype(int).tolist()
    return [Start(_seed(level), level) for level in chosen]


def _levels(env: str, kwargs: dict[str, Any]) -> LevelSet | LevelGenerator:
    made = gymnasium.make(env, **kwargs)
    try:
        return made.unwrapped.levels  # type: ignore[attr-defined]
    finally:
        made.close()


def _seed(number: int) -> int:
    return int(np.random.SeedSequence([_DOMAIN, number]).generate_state(1)[0])


class HeldOut:
    """The held-out episodes of a comparison, played in a batch of environments.

    Args:
        settings: of the comparison.
        batch: environments that are stepped together.
    """

    def __init__(self, settings: Settings, batch: int = 128) -> None:
        self.starts = held_out_starts(settings)
        self.success_return = settings.success_return
        kwargs = held_out_kwargs(settings)
        self.envs = [gymnasium.make(settings.env, **kwargs) for _ in range(min(batch, len(self.starts)))]
        space = self.envs[0]
        self._reader = Reader(space.observation_space, space.action_space, "start", None, None)

    def play(self, act: Callable[[Any], Any]) -> np.ndarray:
        """Play every episode once.

        Args:
            act: actions (n, ...) for a batch of n observations (a dict of batches for a Dict space).

        Returns:
            bool (episodes,): which of them succeeded, in the order of `starts`.
        """
        succeeded = np.zeros(len(self.starts), np.bool_)
        waiting = list(enumerate(self.starts))[::-1]
        running: list[tuple[int, gymnasium.Env]] = []
        observations: list[Any] = []
        returns: list[float] = []
        for env in self.envs:
            number, start = waiting.pop()
            running.append((number, env))
            observations.append(env.reset(seed=start.seed, options=start.options)[0])
            returns.append(0.0)
        while running:
            actions = act(_stack(observations))
            over = []
            for place, (number, env) in enumerate(running):
                observation, reward, terminated, truncated, info = env.step(actions[place])
                observations[place] = observation
                returns[place] += float(reward)
                if not (terminated or truncated):
                    continue
                succeeded[number] = self._succeeded(
                    observation, float(reward), terminated, truncated, info, returns[place]
                )
                if waiting:
                    number, start = waiting.pop()
                    running[place] = (number, env)
                    observations[place] = env.reset(seed=start.seed, options=start.options)[0]
                    returns[place] = 0.0
                else:
                    over.append(place)
            for place in reversed(over):
                del running[place], observations[place], returns[place]
        return succeeded

    def _succeeded(
        self, observation: Any, reward: float, terminated: bool, truncated: bool, info: dict, total: float
    ) -> bool:
        if self.success_return is not None:
            return round(total, 6) >= self.success_return  # rounded as by Monitor, which training goes by
        said = self._reader.succeeded(observation, reward, terminated, truncated, info)
        return (terminated and total > 0) if said is None else said

    def close(self) -> None:
        """Close the environments."""
        for env in self.envs:
            env.close()


def _stack(observations: Sequence[Any]) -> Any:
    if isinstance(observations[0], dict):
        return {key: np.stack([one[key] for one in observations]) for key in observations[0]}
    return np.stack(observations)
