"""Rooms for games: AI2-THOR's floor plans as alfworld ships them, whole or cut down, and things in them.

A room is a matter of its scene number and size alone, whatever the seed, so that a scene is a place one can know. As in
ALFWorld, train and valid_seen play in the plans 7 to 30 of each kind of room, valid_unseen in the plans 1 to 6. As text
a room is its receptacles: no small room of valid_unseen has the same receptacles as a small room of the other splits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeVar

import numpy as np

from graphwrap.envs.alfred.tables import FIRST_SCENES, PLANS, floor_plan, tables

T = TypeVar("T")
Size = Literal["small", "release"]
SIZES = ("small", "release")
UNSEEN_PLANS = 6

LAMP = "DeskLamp"  # a FloorLamp stands in no receptacle, and ALFWorld's "use" wants one
LAMP_PLACES = frozenset({"Desk", "Dresser", "SideTable", "DiningTable", "CoffeeTable", "Shelf"})

# Receptacle class -> fewest and most that a small room keeps, of those that its plan has.
_KEPT: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "Kitchen": {
        "Fridge": (1, 1),
        "Microwave": (1, 1),
        "SinkBasin": (1, 1),
        "CounterTop": (1, 2),
        "Cabinet": (1, 3),
        "Drawer": (0, 2),
        "DiningTable": (0, 1),
    },
    "Bedroom": {
        "Bed": (1, 1),
        "Desk": (1, 1),
        "Drawer": (1, 3),
        "SideTable": (0, 1),
        "Dresser": (0, 1),
        "Shelf": (0, 3),
    },
}
_SMALL_THINGS = {
    "Kitchen": ("Apple", "Bread", "Cup", "Egg", "Fork", "Mug", "Plate", "Potato", "Spoon", "Tomato"),
    "Bedroom": ("Book", "CD", "CellPhone", "CreditCard", "KeyChain", "Pen", "Pencil"),
}
# Receptacles that plans name without saying where they are: how many of each.
_ELSEWHERE = {
    "CoffeeMachine": 1,
    "Drawer": 2,
    "GarbageCan": 1,
    "HandTowelHolder": 1,
    "LaundryHamper": 1,
    "Ottoman": 1,
    "Safe": 1,
    "Shelf": 2,
    "SinkBasin": 1,
    "StoveBurner": 4,
    "Toaster": 1,
    "Toilet": 1,
    "ToiletPaperHanger": 1,
    "TowelHolder": 1,
}


@dataclass(frozen=True)
class Receptacle:
    """A receptacle: its identity in the simulator, its class, and the spot from which it is used."""

    identity: str
    kind: str
    spot: str


@dataclass(frozen=True)
class Thing:
    """A thing: its identity in the simulator, its class, and the receptacle that it is in."""

    identity: str
    kind: str
    where: Receptacle


@dataclass(frozen=True)
class Room:
    """A room without its things."""

    kind: str
    scene: int
    receptacles: tuple[Receptacle, ...]
    things: tuple[str, ...]
    """Classes of things that may be here, sorted; each fits somewhere."""

    def homes(self, thing: str, without: Collection[str] = ()) -> list[Receptacle]:
        """The receptacles that may hold a class of thing, except those of the classes `without`."""
        return [one for one in self.receptacles if one.kind not in without and holds(one.kind, thing)]


@dataclass(frozen=True)
class House:
    """A room with its things, and the spot where the agent starts, at which no receptacle is."""

    room: Room
    things: tuple[Thing, ...]
    start: str


def holds(receptacle: str, thing: str) -> bool:
    """May a receptacle class hold a class of thing?"""
    if thing == LAMP:
        return receptacle in LAMP_PLACES
    return thing in tables().fits.get(receptacle, ())


def scenes(split: str, size: Size) -> tuple[int, ...]:
    """The scene numbers of a split, sorted."""
    numbers = range(UNSEEN_PLANS) if split == "valid_unseen" else range(UNSEEN_PLANS, PLANS)
    return tuple(
        first + number for kind, first in FIRST_SCENES.items() if has(size, kind) for number in numbers
    )


def has(size: Size, kind: str) -> bool:
    """Are there rooms of this kind in games of this size?"""
    return size == "release" or kind in _KEPT


@cache
def room(scene: int, size: Size) -> Room:
    """The room of a scene number."""
    kind = next(kind for kind, first in reversed(FIRST_SCENES.items()) if scene >= first)
    receptacles = _whole(scene) if size == "release" else _cut_rooms(kind)[scene]
    plan = floor_plan(scene)
    candidates = (
        [name for name in plan.classes if name in tables().things]
        if size == "release"
        else [*_SMALL_THINGS[kind], *({LAMP} & set(plan.classes))]
    )
    somewhere = [name for name in candidates if any(holds(one.kind, name) for one in receptacles)]
    return Room(kind, scene, receptacles, tuple(sorted(somewhere)))


def furnish(empty: Room, things: Sequence[tuple[str, Collection[str]]], rng: np.random.Generator) -> House:
    """Put things into a room, and the agent where no receptacle is.

    Args:
        empty: the room.
        things: the class of each thing, and the classes of receptacles that it must not be in.
        rng: what decides.

    Raises:
        ValueError: a thing fits nowhere.
    """
    names = {one.identity.lower() for one in empty.receptacles}
    placed = []
    for kind, without in things:
        homes = empty.homes(kind, without)
        if not homes:
            raise ValueError(
                f"A thing needs a receptacle: scene {empty.scene} has none for {kind} outside {sorted(without)}."
            )
        where = pick(rng, homes)
        placed.append(Thing(_identity_near(where, kind, names, rng), kind, where))
    taken = {one.spot for one in empty.receptacles}
    return House(empty, tuple(placed), _free_spot(empty.scene, taken, rng))


def pick(rng: np.random.Generator, choices: Sequence[T]) -> T:
    """One of the choices, each as likely."""
    return choices[int(rng.integers(len(choices)))]


def layout(receptacles: Sequence[Receptacle]) -> tuple[tuple[str, int], ...]:
    """What a room is as text: how many receptacles of each class it has, sorted by class."""
    return tuple(sorted(Counter(one.kind for one in receptacles).items()))


def _whole(scene: int) -> tuple[Receptacle, ...]:
    """All receptacles of a plan. Those whose place it does not say stand at spots of their own."""
    plan = floor_plan(scene)
    found = [
        Receptacle(
            identity,
            identity.split("|")[-1] if identity.count("|") > 3 else identity.split("|")[0],
            _spot(*at),
        )
        for identity, at in plan.receptacles.items()
    ]
    rng = np.random.default_rng(np.random.SeedSequence([scene, 0]))
    names = {one.identity.lower() for one in found}
    spots = {one.spot for one in found}
    placed = {one.kind for one in found}
    for kind in sorted(set(plan.classes) & set(_ELSEWHERE) - placed):
        for _ in range(_ELSEWHERE[kind]):
            spot = _free_spot(scene, spots, rng)
            spots.add(spot)
            point = plan.points[int(rng.integers(len(plan.points)))]
            base = (float(point[0]), 0.9, float(point[1]))
            found.append(Receptacle(_identity(kind, base, names, rng), kind, spot))
    return tuple(sorted(found, key=lambda one: one.identity))


@cache
def _cut_rooms(kind: str) -> Mapping[int, tuple[Receptacle, ...]]:
    """The small rooms of a kind, by scene number; those of valid_unseen first, whose layouts the others avoid."""
    cut: dict[int, tuple[Receptacle, ...]] = {}
    unseen: set[tuple[tuple[str, int], ...]] = set()
    for number in range(PLANS):
        scene = FIRST_SCENES[kind] + number
        rng = np.random.default_rng(np.random.SeedSequence([scene, 1]))
        few = _some(_whole(scene), _KEPT[kind], rng)
        while number >= UNSEEN_PLANS and layout(few) in unseen:
            few = _some(_whole(scene), _KEPT[kind], rng)
        if number < UNSEEN_PLANS:
            unseen.add(layout(few))
        cut[scene] = few
    return cut


def _some(
    whole: Sequence[Receptacle], kept: Mapping[str, tuple[int, int]], rng: np.random.Generator
) -> tuple[Receptacle, ...]:
    """Some of a room's receptacles, no two at one spot."""
    few: list[Receptacle] = []
    for kind, (fewest, most) in kept.items():
        candidates = [one for one in whole if one.kind == kind]
        wanted = int(rng.integers(fewest, most + 1))
        for index in rng.permutation(len(candidates)).tolist():
            if wanted > 0 and candidates[index].spot not in {one.spot for one in few}:
                few.append(candidates[index])
                wanted -= 1
    return tuple(sorted(few, key=lambda one: one.identity))


def _spot(x: float, z: float, rotation: int, horizon: int) -> str:
    """A spot as ALFRED writes it: in steps of 0.25 m and quarter turns."""
    return f"loc|{round(4 * x)}|{round(4 * z)}|{rotation // 90}|{horizon}"


def _free_spot(scene: int, taken: Collection[str], rng: np.random.Generator) -> str:
    points = floor_plan(scene).points
    while True:
        x, z = points[int(rng.integers(len(points)))]
        spot = _spot(float(x), float(z), 90 * int(rng.integers(4)), pick(rng, (0, 30)))
        if spot not in taken:
            return spot


def _identity_near(where: Receptacle, kind: str, names: set[str], rng: np.random.Generator) -> str:
    x, y, z = map(float, where.identity.split("|")[1:4])
    return _identity(kind, (x, y, z), names, rng)


def _identity(kind: str, near: tuple[float, float, float], names: set[str], rng: np.random.Generator) -> str:
    """A new identity in the simulator's form, class and coordinates in metres, close to a point.

    A basin's ends in its class: ALFWorld's names double "basin" otherwise.
    """
    owner = kind.removesuffix("Basin")
    while True:
        at = [round(value + int(rng.integers(-30, 31)) / 100, 2) for value in near]
        identity = "|".join([owner, *(f"{value + 0.0:+06.2f}" for value in at)])  # + 0.0: no -00.00
        if owner != kind:
            identity += f"|{kind}"
        if identity.lower() not in names:
            names.add(identity.lower())
            return identity
