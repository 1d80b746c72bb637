"""Tasks, the houses they are given in, and both as PDDL problems in the shape of ALFWorld's own.

A task is a type, a thing, a receptacle and a scene, ALFRED's "task instance".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from graphwrap.envs.alfred.houses import LAMP, House, Room, Size, furnish, holds, pick, room, scenes
from graphwrap.envs.alfred.tables import tables

CLEAN, HEAT, COOL = (f"pick_{verb}_then_place_in_recep" for verb in ("clean", "heat", "cool"))
LOOK, TWO = "look_at_obj_in_light", "pick_two_obj_and_place"
STATIONS = {
    CLEAN: ("clean", "Cleanable", "SinkBasin"),
    HEAT: ("heat", "Heatable", "Microwave"),
    COOL: ("cool", "Coolable", "Fridge"),
}
"""Task type -> its verb, what the thing has to be, and the receptacle class that does it."""

_SMALL_OTHERS = 5  # things of a small house, the task's among them, besides a lamp
_COPIES = (1, 1, 1, 2, 2, 3)  # of a class of things in a house of release size
_ESCAPES = str.maketrans({"-": "_minus_", "|": "_bar_", "+": "_plus_", ".": "_dot_", ",": "_comma_"})


@dataclass(frozen=True)
class Task:
    """What is to be done, and where: classes of the simulator, and its scene number."""

    type: str
    thing: str
    receptacle: str
    """Where the thing goes; "" for look_at_obj_in_light."""
    lamp: str
    """The lamp to look by; "" for the other types."""
    scene: int

    @property
    def name(self) -> str:
        """As ALFWorld names folders of games."""
        return f"{self.type}-{self.thing}-None-{self.receptacle or self.lamp}-{self.scene}"

    @property
    def parameters(self) -> dict[str, str | bool]:
        """ALFRED's ``pddl_params``."""
        return {
            "mrecep_target": "",
            "object_sliced": False,
            "object_target": self.thing,
            "parent_target": self.receptacle,
            "toggle_target": self.lamp,
        }

    @property
    def targets(self) -> int:
        """How many things it takes; they are the first of the house's things."""
        return 2 if self.type == TWO else 1


def draw_task(task_type: str, split: str, size: Size, rng: np.random.Generator) -> Task:
    """A task of a type, in a scene of a split."""
    return pick(rng, pick(rng, _tasks(task_type, split, size)))


def draw_house(task: Task, size: Size, rng: np.random.Generator) -> House:
    """A house for a task: its things outside the receptacles they belong in, and others anywhere.

    In a house of release size others may be like the task's own, so it may be solved before it is begun.
    """
    empty = room(task.scene, size)
    things: list[tuple[str, Collection[str]]] = [(task.thing, {task.receptacle})] * task.targets
    others = [name for name in empty.things if name not in (task.thing, LAMP)]
    if size == "small":
        for _ in range(_SMALL_OTHERS - task.targets):
            things.append((pick(rng, others), ()))
        if task.lamp:
            things.append((LAMP, ()))
    else:
        things += [(task.thing, ())] * (pick(rng, _COPIES) - 1)
        for name in others:
            things += [(name, ())] * pick(rng, _COPIES)
        things += [(LAMP, ())] * (LAMP in empty.things)
    return furnish(empty, things, rng)


def sentence(task: Task, rng: np.random.Generator) -> str:
    """The task in words, by one of ALFWorld's templates."""
    return pick(rng, tables().sentences[task.type]).format(**_words(task, str.lower))


def problem(task: Task, house: House, name: str, size: Size) -> str:
    """The PDDL problem of a task in a house, called ``plan_`` and `name`.

    That of release size names every class of the simulator, as the released ones do.
    """
    receptacles = sorted(house.room.receptacles, key=lambda one: one.identity)
    things = sorted(house.things, key=lambda one: one.identity)
    spots = {one.spot for one in receptacles} | {house.start}
    here, kinds = {one.kind for one in things}, {one.kind for one in receptacles}
    known = tables()
    named = [f"{kind} - object" for kind in known.things] if size == "release" else []
    lines = [
        f"(define (problem plan_{name})",
        "(:domain alfred)",
        "(:objects",
        "agent1 - agent",
        *named,
        *(f"{kind}Type - otype" for kind in (known.things if size == "release" else sorted(here))),
        *(f"{kind}Type - rtype" for kind in (known.fixed if size == "release" else sorted(kinds))),
        *(f"{symbol(one.identity)} - object" for one in things),
        *(f"{symbol(one.identity)} - receptacle" for one in receptacles),
        *(f"{symbol(spot)} - location" for spot in sorted(spots)),
        ")",
        "(:init",
        *(f"(receptacleType {symbol(one.identity)} {one.kind}Type)" for one in receptacles),
        *(f"(objectType {symbol(one.identity)} {one.kind}Type)" for one in things),
        *(
            f"(canContain {into}Type {kind}Type)"
            for into in sorted(kinds)
            for kind in sorted(here)
            if kind in known.fits.get(into, ())
        ),
        *(fact for one in things for fact in _abilities(one.kind, symbol(one.identity))),
        *(f"(openable {symbol(one.identity)})" for one in receptacles if one.kind in known.openable),
        f"(atLocation agent1 {symbol(house.start)})",
        *(f"(inReceptacle {symbol(one.identity)} {symbol(one.where.identity)})" for one in things),
        *(f"(receptacleAtLocation {symbol(one.identity)} {symbol(one.spot)})" for one in receptacles),
        *(f"(objectAtLocation {symbol(one.identity)} {symbol(one.where.spot)})" for one in things),
        ")",
    ]
    goal = " ".join(known.goals[task.type].format(**_words(task, str)).split())
    return "\n".join([*lines, goal]) + "\n"


def symbol(identity: str) -> str:
    """The PDDL symbol of an identity, as ALFWorld writes it."""
    return identity.translate(_ESCAPES)


@cache
def _tasks(task_type: str, split: str, size: Size) -> tuple[tuple[Task, ...], ...]:
    """The tasks of a type: one entry per scene and thing of a split, with the receptacles it can be taken to."""
    rooms = [room(scene, size) for scene in scenes(split, size)]
    rooms = [one for one in rooms if one.kind in tables().rooms[task_type]]
    found = (tuple(_of_thing(task_type, one, thing)) for one in rooms for thing in one.things)
    return tuple(tasks for tasks in found if tasks)


def _of_thing(task_type: str, where: Room, thing: str) -> Iterator[Task]:
    if thing == LAMP:
        return
    if task_type == LOOK:
        if LAMP in where.things:
            yield Task(LOOK, thing, "", LAMP, where.scene)
        return
    kinds = sorted({one.kind for one in where.receptacles})
    station = ""
    if task_type in STATIONS:
        _, ability, station = STATIONS[task_type]
        if station not in kinds or thing not in tables().able[ability]:
            return
    for goal in kinds:
        if goal != station and holds(goal, thing) and where.homes(thing, {goal}):
            yield Task(task_type, thing, goal, "", where.scene)


def _abilities(kind: str, name: str) -> Iterator[str]:
    able = tables().able
    if kind not in able["Toggleable"]:
        yield f"(pickupable {name})"
    if kind in tables().movable:
        yield f"(isReceptacleObject {name})"
    for ability in ("Cleanable", "Heatable", "Coolable", "Toggleable", "Sliceable"):
        if kind in able[ability]:
            yield f"({ability.lower()} {name})"


def _words(task: Task, form: Callable[[str], str]) -> dict[str, str]:
    return {"obj": form(task.thing), "recep": form(task.receptacle), "toggle": form(task.lamp)}
