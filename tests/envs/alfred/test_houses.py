"""Rooms and what lies in them."""

from __future__ import annotations

import numpy as np
import pytest

from graphwrap.envs.alfred.houses import (
    LAMP,
    LAMP_PLACES,
    SIZES,
    Thing,
    furnish,
    layout,
    room,
    scenes,
)
from graphwrap.envs.alfred.tables import floor_plan, tables

pytestmark = pytest.mark.alfworld

SPLITS = ("train", "valid_seen", "valid_unseen")


def every_scene() -> list[int]:
    return [first + number for first in (1, 201, 301, 401) for number in range(30)]


def test_scenes_are_alfworlds() -> None:
    first = {"valid_unseen": range(0, 6), "train": range(6, 30), "valid_seen": range(6, 30)}
    for split, plans in first.items():
        assert scenes(split, "release") == tuple(base + n for base in (1, 201, 301, 401) for n in plans)
        assert scenes(split, "small") == tuple(base + n for base in (1, 301) for n in plans)


def test_a_release_room_is_the_floor_plan() -> None:
    kitchen = room(10, "release")
    assert kitchen.kind == "Kitchen"
    assert layout(kitchen.receptacles) == (
        ("Cabinet", 3),
        ("CoffeeMachine", 1),
        ("CounterTop", 3),
        ("Drawer", 3),
        ("Fridge", 1),
        ("GarbageCan", 1),
        ("Microwave", 1),
        ("Shelf", 3),
        ("SinkBasin", 1),
        ("StoveBurner", 4),
        ("Toaster", 1),
    )
    spots = {one.identity: one.spot for one in kitchen.receptacles}
    assert spots["Fridge|+00.97|+00.00|+01.25"] == "loc|0|5|1|0"
    assert spots["Cabinet|+00.95|+02.16|-02.38"] == "loc|1|-8|1|-30"
    assert spots["Sink|-00.70|+00.93|-00.65|SinkBasin"] == "loc|0|-3|3|30"
    assert {"Apple", "Mug", "Vase"} <= set(kitchen.things)
    assert not {"Chair", "Window", "Fridge", "Book"} & set(kitchen.things)


@pytest.mark.parametrize("size", SIZES)
def test_rooms_are_sound(size: str) -> None:
    for scene in (
        every_scene() if size == "release" else [*scenes("train", "small"), *scenes("valid_unseen", "small")]
    ):
        one = room(scene, size)
        identities = [receptacle.identity.lower() for receptacle in one.receptacles]
        assert len(set(identities)) == len(identities) >= 3
        assert one.things
        for thing in one.things:
            assert any(
                receptacle.kind in LAMP_PLACES
                if thing == LAMP
                else thing in tables().fits.get(receptacle.kind, ())
                for receptacle in one.receptacles
            )


def test_small_rooms_are_parts_of_the_whole_ones() -> None:
    for scene in (*scenes("train", "small"), *scenes("valid_unseen", "small")):
        small = room(scene, "small").receptacles
        assert set(small) <= set(room(scene, "release").receptacles)
        assert len({one.spot for one in small}) == len(small) <= 11
        kinds = {one.kind for one in small}
        assert {"Fridge", "Microwave", "CounterTop"} <= kinds or "Bed" in kinds


@pytest.mark.parametrize("size", SIZES)
def test_no_room_of_valid_unseen_reads_like_one_of_train(size: str) -> None:
    seen, unseen = (
        {layout(room(scene, size).receptacles) for scene in scenes(split, size)}
        for split in ("train", "valid_unseen")
    )
    assert seen
    assert unseen
    assert not seen & unseen


def test_things_lie_where_they_may() -> None:
    kitchen = room(10, "release")
    wanted = [("Mug", {"CounterTop", "Fridge"}), ("Mug", ()), ("Apple", {"Fridge"}), *[("Egg", ())] * 30]
    house = furnish(kitchen, wanted, np.random.default_rng(3))
    assert [one.kind for one in house.things] == ["Mug", "Mug", "Apple", *["Egg"] * 30]
    assert house.things[0].where.kind not in ("CounterTop", "Fridge")
    assert all(one.kind in tables().fits[one.where.kind] for one in house.things)
    assert len({one.identity.lower() for one in house.things}) == 33
    assert house.start not in {one.spot for one in kitchen.receptacles}
    assert len({one.where for one in house.things if one.kind == "Egg"}) > 3


def test_a_house_depends_on_the_generator_alone() -> None:
    def made(seed: int) -> tuple[Thing, ...]:
        return furnish(room(301, "small"), [("Book", ()), (LAMP, ())], np.random.default_rng(seed)).things

    assert made(0) == made(0)
    assert made(0) != made(1)


def test_a_thing_that_fits_nowhere_is_named() -> None:
    everywhere = {one.kind for one in room(10, "release").receptacles}
    with pytest.raises(ValueError, match="scene 10 has none for Bread outside"):
        furnish(room(10, "release"), [("Bread", everywhere)], np.random.default_rng(0))


def test_a_floor_plan_is_read_once() -> None:
    assert floor_plan(1) is floor_plan(1)
