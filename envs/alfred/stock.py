"""ALFWorld's games as TextWorld plays them."""

from __future__ import annotations

from ctypes import CDLL
from dataclasses import asdict
from typing import Any

from graphwrap.envs.alfred.engine import GameFile, State
from graphwrap.envs.alfred.facts import read_facts
from graphwrap.envs.alfred.imports import importing
from graphwrap.envs.alfred.translation import muted


class StockPlayer:
    """TextWorld's engine and ALFWorld's names.

    Args:
        library: Nobody else uses it.
    """

    def __init__(self, library: CDLL) -> None:
        with importing():
            import textworld
            from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
            from textworld.envs import PddlEnv

        class Env(PddlEnv):
            def __init__(self) -> None:  # PddlEnv's loads a library of its own
                textworld.Environment.__init__(self, textworld.EnvInfos(won=True, admissible_commands=True))
                self.downward_lib = library

        self._env = AlfredDemangler(Env(), shuffle=False)
        self._game: GameFile | None = None

    def reset(self, game: GameFile) -> State:
        """Begin a game.

        Raises:
            ValueError: It cannot be won, has nothing to win, or has a fault.
        """
        with importing(), muted():
            if game is not self._game:
                self._game = None
                try:
                    self._env.load(asdict(game))
                except KeyError as error:  # Fast Downward's whole task is then a variable of its own
                    raise ValueError("no action can reach the goal of the game, or it has no goal") from error
                except (Exception, SystemExit) as error:  # the translator means to be a program
                    raise ValueError(f"the game has a fault: {type(error).__name__}: {error}") from error
                self._game = game
            return _state(self._env.reset())

    def step(self, command: str) -> State:
        """Do a command."""
        return _state(self._env.step(command)[0])

    def plan(self) -> list[str]:
        """The planner's commands from here."""
        env = self._env.unwrapped
        return env._pddl_state.replan(env._entity_infos)


def _state(state: Any) -> State:
    names = {key: thing.name for key, thing in state["_entity_infos"].items()}
    facts = ((fact.name, tuple(thing.name for thing in fact.arguments)) for fact in state["_facts"])
    return State(
        state.feedback, tuple(state["admissible_commands"]), bool(state["won"]), read_facts(facts, names)
    )
