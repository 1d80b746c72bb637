"""ALFWorld's text games in TextWorld's PDDL engine."""

from __future__ import annotations

import json
import os
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from graphwrap.envs.alfred import library
from graphwrap.envs.alfred.facts import Facts
from graphwrap.envs.alfred.imports import require_engine

_KEYS = ("pddl_domain", "pddl_problem", "grammar")


@dataclass(frozen=True)
class State:
    """What a player, and one who sees the facts, knows after a reset or a step.

    Args:
        observation: The engine's text.
        admissible: The possible commands, sorted.
        won: Whether the goal is reached.
        facts: What holds.
    """

    observation: str
    admissible: tuple[str, ...]
    won: bool
    facts: Facts


@dataclass(frozen=True)
class GameFile:
    """What the engine reads of a game file."""

    pddl_domain: str
    pddl_problem: str
    grammar: str


class Player(Protocol):
    """One way to play games."""

    def reset(self, game: GameFile) -> State:
        """Begin a game."""

    def step(self, command: str) -> State:
        """Do a command."""

    def plan(self) -> list[str]:
        """The planner's commands from here."""


class GameFileError(ValueError):
    """A game file that cannot be played."""


class Engine:
    """Plays one game after the other.

    Making one takes a library of 1 MB, which stays loaded until the process ends and goes to the next engine when this
    one is closed. An engine is for one thread, and several engines do not know of each other.

    A game file has a grammar that Python evaluates, so an untrusted file is untrusted code.

    Args:
        cache: Work out once what stays the same; False is TextWorld's own code. The outputs are the same.

    Raises:
        ModuleNotFoundError: A package of the engine is missing.
    """

    def __init__(self, cache: bool = True) -> None:
        require_engine()
        borrowed = library.borrow()
        self._give_back = weakref.finalize(self, library.give_back, borrowed)
        self._give_back.atexit = False
        self._player: Player | None
        if cache:
            from graphwrap.envs.alfred.caching import CachedPlayer

            self._player = CachedPlayer(borrowed)
        else:
            from graphwrap.envs.alfred.stock import StockPlayer

            self._player = StockPlayer(borrowed)
        self._read: tuple[object, GameFile] | None = None
        self._begun = False

    def load(self, path: str | os.PathLike[str]) -> State:
        """Begin the game of a file; also to begin the same game again.

        Raises:
            FileNotFoundError: There is none.
            GameFileError: It is no game file, or no action can reach its goal.
        """
        player = self._open()
        self._begun = False
        game = self._game(Path(path))
        try:
            state = player.reset(game)
        except ValueError as error:
            raise GameFileError(f"{path} cannot be played: {error}") from error
        self._begun = True
        return state

    def step(self, command: str) -> State:
        """Do a command; one that is not possible changes nothing, and says "Nothing happens."."""
        return self._playing("step").step(command)

    def plan(self) -> list[str]:
        """Commands that win the game from where it is, found by Fast Downward; none if it finds no way.

        Seconds in a large house. The plan takes "go to", "open", "take" and the like, not "look" or "examine".
        """
        return self._playing("plan").plan()

    def close(self) -> None:
        """Give the library back; more than once is fine."""
        self._player = None
        self._give_back()

    def _open(self) -> Player:
        if self._player is None:
            raise RuntimeError("the engine is closed: make a new one")
        return self._player

    def _playing(self, name: str) -> Player:
        player = self._open()
        if not self._begun:
            raise RuntimeError(f"{name} needs a game: call load first")
        return player

    def _game(self, path: Path) -> GameFile:
        about = path.stat()
        version = (path, about.st_mtime_ns, about.st_size, about.st_ino)
        if self._read is None or self._read[0] != version:
            self._read = version, read_game(path)
        return self._read[1]


def read_game(path: Path) -> GameFile:
    """Read a game file.

    Raises:
        GameFileError: It is none.
    """
    try:
        content = json.loads(path.read_bytes())
        texts = {key: content[key] for key in _KEYS}
        if not all(isinstance(text, str) for text in texts.values()):
            raise TypeError
    except (ValueError, KeyError, TypeError) as error:
        raise GameFileError(
            f"a game file is JSON with the texts {', '.join(_KEYS)}; {path} is not"
        ) from error
    return GameFile(**texts)


def read_walkthrough(path: Path) -> tuple[str, ...]:
    """The commands by which a game file says that it is won; a plan, not the shortest one.

    Raises:
        GameFileError: It says none.
    """
    commands = json.loads(path.read_bytes()).get("walkthrough")
    if not commands:
        raise GameFileError(f"{path} has no walkthrough; graphwrap alfworld-games makes games that have one")
    return tuple(commands)
