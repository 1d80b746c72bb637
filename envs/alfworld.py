"""ALFWorld's household tasks as a text environment."""

from __future__ import annotations

import hashlib
import os
import string
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from graphwrap.envs.alfred.engine import Engine, State, read_walkthrough
from graphwrap.envs.alfred.gamefiles import Game, find_games, game_of

SUCCESS_REWARD = {"success": 10.0, "sparse": 1.0}
_OBSERVATIONS = ("plain", "enriched")
_TASK = "Your task is to: "
_OPTIONS = ("game",)


class ALFWorldEnv(gym.Env[str, str]):
    """Tasks such as "put a clean mug on the shelf" in a house told in words, in ALFWorld's own engine.

    ``reset(seed=s)`` begins a game that depends on s alone: seeds 0 to n - 1 are the n games of the split, each once,
    in a fixed order that mixes the task types, and seed s is the game of seed s modulo n.
    ``reset(options={"game": g})`` begins game g, its place in ``env.games`` (sorted by name), its name or the path of
    a game file. Without either it is the next draw of the generator.

    An action is a command of the engine, such as "go to drawer 1"; it is case-sensitive. Any other text is a step after
    which nothing has changed, and the observation is "Nothing happens.".

    The infos are those of a text environment (see `graphwrap.envs.text`): ``admissible_actions``, the engine's
    commands; ``task``, the game's name; ``task_description``, what to do; ``task_type``; ``is_success`` with the last
    step; and ``won``. ``state_key`` is, as in GraphGPO (arXiv 2605.26684), the observation, where the agent is, what it
    holds and in which state, which things were moved from where to where, and the admissible actions; it is read from
    the engine's facts instead of from the text. An action that is not admissible leaves the key as it is.

    Several run in processes in an `EnvPool`, or in Gymnasium's AsyncVectorEnv with ``shared_memory=False``, as its
    shared memory does not carry texts.

    A game file has a grammar that Python evaluates: an untrusted game file is untrusted code.

    Args:
        split: "train", "valid_seen" or "valid_unseen".
        data: ALFWorld's data folder, or "shipped"; see `find_games`.
        task_types: Only games of these types.
        observation: "plain", the engine's text; "enriched", with location, what is held and moved things below it.
        reward: Of the step that wins: "success", 10; "sparse", 1. Any other step has 0.
        max_steps: An episode is truncated at this many steps, unless that step wins.
        walkthrough: Whether a reset's info has ``walkthrough``, the commands by which the game file says that it is
            won: for a warm start (`model.tiny.warm_start_guided` of ``graphwrap train-llm``). Prompts do not show it.
        cache: Whether the engine keeps what stays the same; the outputs are the same, and slow without.
        render_mode: None or "ansi".

    Raises:
        ModuleNotFoundError: The engine is not installed.
        FileNotFoundError: There are no games.
        ValueError: An argument or game that does not exist.
        TypeError: An action that is no str.
        ResetNeeded: A step before the first reset or after the end of the episode.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        split: str = "train",
        data: str | os.PathLike[str] | None = None,
        task_types: Sequence[str] | None = None,
        observation: Literal["plain", "enriched"] = "plain",
        reward: Literal["success", "sparse"] = "success",
        max_steps: int = 50,
        walkthrough: bool = False,
        cache: bool = True,
        render_mode: str | None = None,
    ) -> None:
        for name, value, known in (
            ("observation", observation, _OBSERVATIONS),
            ("reward", reward, tuple(SUCCESS_REWARD)),
            ("render_mode", render_mode, (None, "ansi")),
        ):
            if value not in known:
                raise ValueError(f"{name} is one of {', '.join(map(repr, known))}, got {value!r}")
        if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
            raise ValueError(f"max_steps is an integer of at least 1, got {max_steps!r}")
        self.games: tuple[Game, ...] = find_games(split, data, task_types)
        self.max_steps = max_steps
        self.render_mode = render_mode
        self.observation_space = spaces.Text(2**14, charset=string.printable)
        self.action_space = spaces.Text(2**8, charset=string.printable)
        self._order = sorted(range(len(self.games)), key=lambda place: _digest(self.games[place].name))
        self._enriched = observation == "enriched"
        self._reward = SUCCESS_REWARD[reward]
        self._gives_walkthrough = walkthrough
        self._engine = Engine(cache)
        self._state: State | None = None
        self._key: Hashable = None
        self._about: dict[str, str] = {}
        self._first: dict[str, str] = {}  # where each thing was seen first
        self._shown = ""
        self._steps = 0
        self._running = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin the game of ``seed``, of ``options["game"]``, or of the generator's next draw."""
        game = self._chosen(options) if options else None
        super().reset(seed=seed)
        if game is None:
            count = len(self.games)
            place = int(self.np_random.integers(count)) if seed is None else self._order[int(seed) % count]
            game = self.games[place]
        self._running = False
        state = self._engine.load(game.path)
        self._first = dict(state.facts.items)
        self._steps = 0
        self._running = True
        self._about = {
            "task": game.name,
            "task_description": state.observation.rpartition(_TASK)[2].strip(),
            "task_type": game.task_type,
        }
        told = {"walkthrough": list(read_walkthrough(game.path))} if self._gives_walkthrough else {}
        return self._seen(state, True), {**self._info(state), **told}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """One command."""
        if not isinstance(action, str):
            raise TypeError(f"An action is a str such as 'go to drawer 1', got {action!r}.")
        if not self._running:
            raise ResetNeeded(
                "Call reset() before the first step."
                if self._state is None
                else "The episode has ended: call reset() before the next step."
            )
        assert self._state is not None
        known = action.strip() in self._state.admissible
        state = self._engine.step(action)
        for thing, place in state.facts.items.items():
            self._first.setdefault(thing, place)
        self._steps += 1
        truncated = not state.won and self._steps >= self.max_steps
        self._running = not (state.won or truncated)
        shown = self._seen(state, known)
        return shown, self._reward if state.won else 0.0, state.won, truncated, self._info(state)

    def render(self) -> str | None:  # type: ignore[override]
        """What was observed last."""
        return self._shown if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Give the engine's library back; more than once is fine."""
        self._running = False
        self._engine.close()

    def _chosen(self, options: dict[str, Any]) -> Game:
        unknown = [name for name in options if name not in _OPTIONS]
        if unknown:
            raise ValueError(f"options of reset are {', '.join(_OPTIONS)}, got {unknown[0]!r}")
        wanted = options["game"]
        if isinstance(wanted, int) and not isinstance(wanted, bool):
            if not 0 <= wanted < len(self.games):
                raise ValueError(f"options['game'] is 0 to {len(self.games) - 1}, got {wanted!r}")
            return self.games[wanted]
        if not isinstance(wanted, (str, os.PathLike)):
            raise ValueError(f"options['game'] is a number, a name or a path, got {wanted!r}")
        named = [game for game in self.games if wanted == game.name]
        if not named and not Path(wanted).is_file():
            raise ValueError(f"options['game'] is a game's name or a game file, got {str(wanted)!r}")
        return named[0] if named else game_of(Path(wanted))

    def _seen(self, state: State, known: bool) -> str:
        """Note a state; returns what the agent sees of it."""
        location, held, moved = state.facts.location, state.facts.held, state.facts.moved(self._first)
        if known:
            self._key = (state.observation, location, held, moved, state.admissible)
        self._state = state
        self._shown = state.observation
        if self._enriched:
            self._shown = "\n".join([state.observation, *_told(location, held, moved)])
        return self._shown

    def _info(self, state: State) -> dict[str, Any]:
        info: dict[str, Any] = {
            **self._about,
            "admissible_actions": list(state.admissible) if self._running else [],
            "won": state.won,
            "state_key": self._key,
        }
        return info if self._running else {**info, "is_success": state.won}


def _told(
    location: tuple[str, ...],
    held: tuple[str, tuple[str, ...]] | None,
    moved: tuple[tuple[str, str, str], ...],
) -> list[str]:
    holding = "nothing"
    if held is not None:
        thing, states = held
        holding = f"{thing} ({', '.join(states)})" if states else thing
    return [
        f"Location: {', '.join(location) or 'the middle of a room'}",
        f"Holding: {holding}",
        f"Moved: {'; '.join(f'{thing} from {first} to {now}' for thing, first, now in moved) or 'nothing'}",
    ]


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()
