"""ALFWorld's engine with what stays the same kept, against TextWorld's own code."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from graphwrap.scripts.benchmarks import Settings
from graphwrap.scripts.benchmarks.ratio import Measured, Ratio, interleaved

if TYPE_CHECKING:
    from graphwrap.envs.alfred.engine import Engine
    from graphwrap.envs.alfred.houses import Size

S = TypeVar("S")

SIZES: tuple[Size, ...] = ("small", "release")
STEP_BARS = {"small": 5.0, "release": 4.0}
RESET_BAR = 3.0
COMPARED = 30  # steps that must be the same before anything is measured


def measure(settings: Settings) -> list[Measured]:
    """Steps and resets per CPU second, on two small games and on two as large as the release's."""
    from graphwrap.envs.alfred.generation import Games, make_games

    found: list[Measured] = []
    with TemporaryDirectory() as folder:
        for size in SIZES[:1] if settings.quick else SIZES:
            types = ("pick_clean_then_place_in_recep", "pick_two_obj_and_place")
            made = make_games(Path(folder, size), Games("train", 1, 0, size, types))
            games = sorted(made.folder.glob("*/*/game.tw-pddl"))
            found += _measure(settings, size, games)
    return found


def _measure(settings: Settings, size: str, games: list[Path]) -> list[Measured]:
    from graphwrap.envs.alfred.caching import cached_game
    from graphwrap.envs.alfred.engine import Engine

    engine, stock = Engine(), Stock(_seen)
    steps, their_steps = settings.sized(1500, 20), settings.sized(40, 5)
    for game in games:
        if _walk(engine, game, COMPARED)[1] != _walk(stock, game, COMPARED)[1]:
            raise RuntimeError(f"graphwrap's engine and TextWorld's disagree about {game}")

    def stepping(player: Engine | Stock[Seen], count: int) -> Callable[[], float]:
        return lambda: len(games) * count / sum(_walk(player, game, count)[0] for game in games)

    def resetting(player: Engine | Stock[Seen]) -> Callable[[], float]:
        def once() -> float:
            cached_game.cache_clear()
            return len(games) / _cpu_seconds(lambda: [player.load(game) for game in games])

        return once

    what = f"{len(games)} games of {size} size"
    theirs = "textworld.envs.PddlEnv with alfworld's names"
    each = interleaved(
        stepping(engine, steps), stepping(stock, their_steps), settings.pairs, settings.on_pair
    )
    resets = interleaved(resetting(engine), resetting(stock), settings.pairs, settings.on_pair)
    again = [_cpu_seconds(lambda: engine.load(games[0])) for _ in range(settings.pairs)]
    engine.close()
    return [
        Ratio(
            f"alfworld, steps, {size}",
            f"{what}, random admissible commands",
            "graphwrap's engine",
            "steps per CPU second",
            each[0],
            STEP_BARS[size],
            False,
            theirs,
            each[1],
        ),
        Ratio(
            f"alfworld, resets, {size}",
            f"{what}, none of them played before",
            "graphwrap's engine",
            "resets per CPU second",
            resets[0],
            RESET_BAR,
            False,
            theirs,
            resets[1],
            details={"CPU seconds to begin the same game again": float(np.median(again[1:] or again))},
        ),
    ]


class Seen(NamedTuple):
    """What is compared."""

    observation: str
    admissible: tuple[str, ...]
    won: bool


class Stock(Generic[S]):
    """TextWorld's own environment, with ALFWorld's names for things.

    Args:
        read: What is made of its states.
    """

    def __init__(self, read: Callable[[Any], S]) -> None:
        from graphwrap.envs.alfred.imports import importing
        from graphwrap.envs.alfred.translation import muted

        self.read = read
        with importing(), muted():
            import textworld
            from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos
            from textworld.envs import PddlEnv
        infos = textworld.EnvInfos(won=True, admissible_commands=True)
        self.env = AlfredInfos(AlfredDemangler(PddlEnv(infos), shuffle=False))

    def load(self, path: Path) -> S:
        """Begin the game of a file."""
        from graphwrap.envs.alfred.translation import muted

        with muted():
            self.env.load(str(path))
            return self.read(self.env.reset())

    def step(self, command: str) -> S:
        """Do a command."""
        return self.read(self.env.step(command)[0])


def _seen(state: Any) -> Seen:
    return Seen(state.feedback, tuple(state["admissible_commands"]), bool(state["won"]))


def _walk(player: Engine | Stock[Seen], game: Path, steps: int) -> tuple[float, list[Any]]:
    """CPU seconds of the steps of a random walk, and what was seen of it."""
    rng = np.random.default_rng(0)
    seen = []
    state: Any = player.load(game)

    def walk() -> None:
        nonlocal state
        for _ in range(steps):
            seen.append((state.observation, state.admissible, state.won))
            state = player.step(state.admissible[rng.integers(len(state.admissible))])

    return _cpu_seconds(walk), seen


def _cpu_seconds(function: Callable[[], Any]) -> float:
    gc.collect()
    began = time.process_time()
    function()
    return time.process_time() - began
