"""TextWorld's own engine with alfworld's wrappers, as both packages make it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from graphwrap.envs.alfred.engine import Engine, State
from graphwrap.envs.alfred.facts import read_facts
from graphwrap.scripts.benchmarks.alfworld import Stock

STRANGE = ["", "jump", " look ", "Look", "go to", "go to mug 99", "look\n", "put apple 1 in/on fridge 1"]


def stock() -> Stock[State]:
    """It plays like an `Engine`."""
    return Stock(_state)


def _state(state: Any) -> State:
    names = {key: thing.name for key, thing in state["_entity_infos"].items()}
    facts = [(fact.name, tuple(thing.name for thing in fact.arguments)) for fact in state["_facts"]]
    return State(state.feedback, tuple(state["admissible_commands"]), state["won"], read_facts(facts, names))


def play(player: Engine | Stock[State], path: Path, steps: int, seed: int = 0) -> Iterator[State]:
    """A random walk that does much, with commands that do not exist, and that begins anew in the middle."""
    rng = np.random.default_rng(seed)
    state = player.load(path)
    yield state
    for step in range(steps):
        if step == steps // 2:
            yield player.load(path)
        verbs = sorted({command.split()[0] for command in state.admissible})
        verb = verbs[rng.integers(len(verbs))]
        commands = [command for command in state.admissible if command.split()[0] == verb]
        command = commands[rng.integers(len(commands))]
        if rng.random() < 0.1:
            command = STRANGE[rng.integers(len(STRANGE))]
        state = player.step(command)
        yield state
