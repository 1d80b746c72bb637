"""What the engine's facts say of a state, in the names that players see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_STATES = {  # in the order in which they are told
    "ishot": "hot",
    "iscool": "cool",
    "isclean": "clean",
    "issliced": "sliced",
    "istoggled": "on",
}
USED = frozenset({"atlocation", "receptacleatlocation", "inreceptacle", "holds", "opened", *_STATES})
"""The predicates that are read."""


@dataclass(frozen=True)
class Facts:
    """A state of a game, seen from above: also what the player has not found yet.

    Args:
        location: The receptacles at the agent's spot, sorted; several may share one. Empty in the middle of a room.
        holding: What the agent carries, None if nothing.
        items: Thing -> the receptacle that it is in or on. What is carried is in none.
        states: Thing -> some of "hot", "cool", "clean", "sliced" and "on".
        opened: Open receptacles.
    """

    location: tuple[str, ...]
    holding: str | None
    items: Mapping[str, str]
    states: Mapping[str, tuple[str, ...]]
    opened: frozenset[str]

    @property
    def held(self) -> tuple[str, tuple[str, ...]] | None:
        """What the agent carries, with its states."""
        return None if self.holding is None else (self.holding, self.states.get(self.holding, ()))

    def moved(self, first: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
        """The things that are in another receptacle than in `first`: (thing, first, now), sorted."""
        return tuple(
            (thing, first[thing], now) for thing, now in self.items.items() if first.get(thing, now) != now
        )


def read_facts(facts: Iterable[tuple[str, tuple[str, ...]]], names: Mapping[str, str]) -> Facts:
    """Read facts.

    Args:
        facts: Predicates with the engine's names of what they are about; those beside `USED` are passed over.
        names: The players' name of each thing.
    """
    here: str | None = None
    spots: dict[str, list[str]] = {}
    holding: str | None = None
    items: dict[str, str] = {}
    told: dict[str, set[str]] = {}
    opened: set[str] = set()
    for predicate, things in facts:
        if predicate == "receptacleatlocation":
            spots.setdefault(things[1], []).append(names[things[0]])
        elif predicate == "inreceptacle":
            items[names[things[0]]] = names[things[1]]
        elif predicate == "atlocation":
            here = things[1]
        elif predicate == "holds":
            holding = names[things[1]]
        elif predicate == "opened":
            opened.add(names[things[0]])
        elif predicate in _STATES:
            told.setdefault(names[things[0]], set()).add(_STATES[predicate])
    return Facts(
        tuple(sorted(spots.get(here, ()))) if here is not None else (),
        holding,
        dict(sorted(items.items())),
        {
            name: tuple(state for state in _STATES.values() if state in known)
            for name, known in sorted(told.items())
        },
        frozenset(opened),
    )
