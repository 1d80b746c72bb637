"""Walkthroughs of houses made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from graphwrap.envs.alfred.houses import House, Receptacle, Room, Thing
from graphwrap.envs.alfred.imports import importing
from graphwrap.envs.alfred.plans import names, walkthrough
from graphwrap.envs.alfred.problems import Task, draw_house, draw_task, symbol
from graphwrap.envs.alfred.tables import TASK_TYPES

pytestmark = pytest.mark.alfworld

LEFT = Receptacle("Drawer|+01.00|+00.20|+00.00", "Drawer", "loc|1|1|0|30")
RIGHT = Receptacle("Drawer|+01.00|+00.40|+00.00", "Drawer", "loc|1|1|0|30")  # at the same spot
TABLE = Receptacle("SideTable|-01.00|+00.50|+00.00", "SideTable", "loc|-3|1|0|30")
DESK = Receptacle("Desk|-02.00|+00.50|+00.00", "Desk", "loc|-5|1|0|30")
SINK = Receptacle("Sink|-00.70|+00.93|-00.65|SinkBasin", "SinkBasin", "loc|0|-3|3|30")
MICROWAVE = Receptacle("Microwave|-00.75|+00.93|-00.65", "Microwave", "loc|0|-4|3|30")
ROOM = Room("Kitchen", 1, (DESK, LEFT, RIGHT, MICROWAVE, SINK, TABLE), ())
LAMP = Thing("DeskLamp|-02.00|+00.60|+00.00", "DeskLamp", DESK)


def pen(number: int, where: Receptacle) -> Thing:
    return Thing(f"Pen|+00.00|+00.00|+00.0{9 - number}", "Pen", where)


def house(*things: Thing) -> House:
    return House(ROOM, things, "loc|9|9|0|30")


def test_the_last_of_a_class_has_the_number_one() -> None:
    found = names(house(pen(1, DESK), pen(3, DESK), pen(2, DESK), LAMP))
    assert found[pen(1, DESK).identity] == "pen 1"
    assert found[pen(2, DESK).identity] == "pen 2"
    assert found[pen(3, DESK).identity] == "pen 3"
    assert found[LEFT.identity] == "drawer 2"
    assert found[RIGHT.identity] == "drawer 1"
    assert found[SINK.identity] == "sinkbasin 1"
    assert found[LAMP.identity] == "desklamp 1"


@pytest.mark.parametrize("size", ["small", "release"])
def test_names_are_alfworlds(size: str) -> None:
    with importing():
        from alfworld.agents.utils.misc import Demangler

    class Info:
        def __init__(self, identity: str) -> None:
            self.id = symbol(identity).lower()

    rng = np.random.default_rng(5)
    for task_type in TASK_TYPES:
        made = draw_house(draw_task(task_type, "train", size, rng), size, rng)
        known = (*made.room.receptacles, *made.things)
        infos = {one.identity: Info(one.identity) for one in known}
        infos |= {one.spot: Info(one.spot) for one in made.room.receptacles}
        oracle = Demangler(game_infos=infos, shuffle=False)
        said = {one.identity: oracle.demangle_alfred_name(infos[one.identity].id) for one in known}
        assert names(made) == said


def test_simple() -> None:
    task = Task("pick_and_place_simple", "Pen", "SideTable", "", 1)
    assert walkthrough(task, house(pen(1, LEFT))) == [
        "go to drawer 2",
        "open drawer 2",
        "take pen 1 from drawer 2",
        "go to sidetable 1",
        "move pen 1 to sidetable 1",
    ]


def test_two_from_drawers_at_one_spot() -> None:
    task = Task("pick_two_obj_and_place", "Pen", "Drawer", "", 1)
    assert walkthrough(task, house(pen(2, LEFT), pen(1, TABLE))) == [
        "go to sidetable 1",
        "take pen 1 from sidetable 1",
        "go to drawer 1",
        "open drawer 1",
        "move pen 1 to drawer 1",
        "open drawer 2",
        "take pen 2 from drawer 2",
        "move pen 2 to drawer 1",
    ]


def test_look_where_the_thing_is_beside_the_lamp() -> None:
    task = Task("look_at_obj_in_light", "Pen", "", "DeskLamp", 1)
    assert walkthrough(task, house(pen(1, DESK), LAMP)) == [
        "go to desk 1",
        "take pen 1 from desk 1",
        "use desklamp 1",
    ]


def test_clean_and_heat_need_no_open_door_but_taking_does() -> None:
    cup = Thing("Cup|+00.00|+00.00|+00.00", "Cup", MICROWAVE)
    assert walkthrough(Task("pick_heat_then_place_in_recep", "Cup", "SideTable", "", 1), house(cup)) == [
        "go to microwave 1",
        "open microwave 1",
        "take cup 1 from microwave 1",
        "heat cup 1 with microwave 1",
        "go to sidetable 1",
        "move cup 1 to sidetable 1",
    ]
    fork = Thing("Fork|+00.00|+00.00|+00.00", "Fork", TABLE)
    assert walkthrough(Task("pick_clean_then_place_in_recep", "Fork", "Drawer", "", 1), house(fork)) == [
        "go to sidetable 1",
        "take fork 1 from sidetable 1",
        "go to sinkbasin 1",
        "clean fork 1 with sinkbasin 1",
        "go to drawer 1",
        "open drawer 1",
        "move fork 1 to drawer 1",
    ]
