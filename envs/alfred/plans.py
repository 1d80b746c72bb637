"""Walkthroughs from what the generator knows: where everything is.

A walkthrough is a plan that wins, not a shortest one: it fetches the task's own things, lowest number first, and takes
the receptacle with the lowest number where any of a class would do. The planner, which finds shorter ones,
takes seconds to minutes in large houses.
"""

from __future__ import annotations

from collections import Counter

from graphwrap.envs.alfred.houses import House, Receptacle, Thing
from graphwrap.envs.alfred.problems import LOOK, STATIONS, Task, symbol
from graphwrap.envs.alfred.tables import tables


def names(house: House) -> dict[str, str]:
    """What the game calls things and receptacles, such as ``"mug 2"``, by their identity.

    As alfworld's Demangler counts: the last of a class, by its symbol, has the number 1.
    """
    identities = [one.identity for one in (*house.room.receptacles, *house.things)]
    kinds = {one.identity: one.kind.lower() for one in (*house.room.receptacles, *house.things)}
    found: dict[str, str] = {}
    numbers: Counter[str] = Counter()
    for identity in sorted(identities, key=lambda one: symbol(one).lower(), reverse=True):
        numbers[kinds[identity]] += 1
        found[identity] = f"{kinds[identity]} {numbers[kinds[identity]]}"
    return found


def walkthrough(task: Task, house: House) -> list[str]:
    """The commands that do a task in a house."""
    return _Walk(house).commands_for(task)


class _Walk:
    """Commands as they are given, and what they changed: where the agent is and what is open."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.names = names(house)
        self.commands: list[str] = []
        self.at = house.start
        self.opened: set[str] = set()

    def commands_for(self, task: Task) -> list[str]:
        for thing in sorted(self.house.things[: task.targets], key=self.number):
            name = self.names[thing.identity]
            source = self.reach(thing.where)
            self.commands.append(f"take {name} from {source}")
            if task.type == LOOK:
                lamp = next(one for one in self.house.things if one.kind == task.lamp)
                self.go(lamp.where)
                self.commands.append(f"use {self.names[lamp.identity]}")
                continue
            if task.type in STATIONS:
                verb, _, station = STATIONS[task.type]
                self.commands.append(f"{verb} {name} with {self.go(self.first(station))}")
            self.commands.append(f"move {name} to {self.reach(self.first(task.receptacle))}")
        return self.commands

    def go(self, receptacle: Receptacle) -> str:
        """Stands at a receptacle; several may share a spot, and there is no going to where one is."""
        name = self.names[receptacle.identity]
        if receptacle.spot != self.at:
            self.commands.append(f"go to {name}")
            self.at = receptacle.spot
        return name

    def reach(self, receptacle: Receptacle) -> str:
        """Stands at an open receptacle."""
        name = self.go(receptacle)
        if receptacle.kind in tables().openable and receptacle.identity not in self.opened:
            self.commands.append(f"open {name}")
            self.opened.add(receptacle.identity)
        return name

    def first(self, kind: str) -> Receptacle:
        found = [one for one in self.house.room.receptacles if one.kind == kind]
        return min(found, key=self.number)

    def number(self, one: Receptacle | Thing) -> int:
        return int(self.names[one.identity].split()[-1])
