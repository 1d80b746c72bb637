"""Tasks and their PDDL."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from graphwrap.envs.alfred.houses import House, Receptacle, Room, Thing, room, scenes
from graphwrap.envs.alfred.problems import Task, draw_house, draw_task, problem, sentence, symbol
from graphwrap.envs.alfred.tables import SPLITS, TASK_TYPES, tables

pytestmark = pytest.mark.alfworld

CLEAN = "pick_clean_then_place_in_recep"
LOOK = "look_at_obj_in_light"
TWO = "pick_two_obj_and_place"

SINK = Receptacle("Sink|-00.70|+00.93|-00.65|SinkBasin", "SinkBasin", "loc|0|-3|3|30")
FRIDGE = Receptacle("Fridge|+00.97|+00.00|+01.25", "Fridge", "loc|0|5|1|0")
MUG = Thing("Mug|+00.97|+00.10|+01.25", "Mug", FRIDGE)
HOUSE = House(Room("Kitchen", 10, (SINK, FRIDGE), ("Mug",)), (MUG,), "loc|2|2|0|30")


def test_symbols_are_alfworlds() -> None:
    assert (
        symbol("Cabinet|+00.68|+00.50|-02.20")
        == "Cabinet_bar__plus_00_dot_68_bar__plus_00_dot_50_bar__minus_02_dot_20"
    )
    assert symbol("loc|-6|2|3|-30") == "loc_bar__minus_6_bar_2_bar_3_bar__minus_30"


def test_a_small_problem_word_for_word() -> None:
    text = problem(Task(CLEAN, "Mug", "Fridge", "", 10), HOUSE, "x", "small")
    sink = "Sink_bar__minus_00_dot_70_bar__plus_00_dot_93_bar__minus_00_dot_65_bar_SinkBasin"
    fridge = "Fridge_bar__plus_00_dot_97_bar__plus_00_dot_00_bar__plus_01_dot_25"
    mug = "Mug_bar__plus_00_dot_97_bar__plus_00_dot_10_bar__plus_01_dot_25"
    assert (
        text
        == f"""(define (problem plan_x)
(:domain alfred)
(:objects
agent1 - agent
MugType - otype
FridgeType - rtype
SinkBasinType - rtype
{mug} - object
{fridge} - receptacle
{sink} - receptacle
loc_bar_0_bar__minus_3_bar_3_bar_30 - location
loc_bar_0_bar_5_bar_1_bar_0 - location
loc_bar_2_bar_2_bar_0_bar_30 - location
)
(:init
(receptacleType {fridge} FridgeType)
(receptacleType {sink} SinkBasinType)
(objectType {mug} MugType)
(canContain FridgeType MugType)
(canContain SinkBasinType MugType)
(pickupable {mug})
(isReceptacleObject {mug})
(cleanable {mug})
(heatable {mug})
(coolable {mug})
(openable {fridge})
(atLocation agent1 loc_bar_2_bar_2_bar_0_bar_30)
(inReceptacle {mug} {fridge})
(receptacleAtLocation {fridge} loc_bar_0_bar_5_bar_1_bar_0)
(receptacleAtLocation {sink} loc_bar_0_bar__minus_3_bar_3_bar_30)
(objectAtLocation {mug} loc_bar_0_bar_5_bar_1_bar_0)
)
(:goal (and (exists (?r - receptacle) (exists (?o - object) (and (cleanable ?o) (objectType ?o MugType) \
(receptacleType ?r FridgeType) (isClean ?o) (inReceptacle ?o ?r) ) ) ) ) ) )
"""
    )


def test_a_release_problem_names_every_class() -> None:
    text = problem(Task(CLEAN, "Mug", "Fridge", "", 10), HOUSE, "x", "release")
    for name in (
        "Apple - object",
        "AppleType - otype",
        "WineBottle - object",
        "BedType - rtype",
        "SafeType - rtype",
    ):
        assert f"\n{name}\n" in text
    assert text.count(" - otype") == len(tables().things) == 79
    assert (
        text.split("(:init")[1]
        == problem(Task(CLEAN, "Mug", "Fridge", "", 10), HOUSE, "x", "small").split("(:init")[1]
    )


@pytest.mark.parametrize("task_type", TASK_TYPES)
@pytest.mark.parametrize("size", ["small", "release"])
@pytest.mark.parametrize("split", SPLITS)
def test_tasks_can_be_done_where_they_are(split: str, size: str, task_type: str) -> None:
    rng = np.random.default_rng(1)
    needs = {"clean": "Cleanable", "heat": "Heatable", "cool": "Coolable"}
    stations = {"clean": "SinkBasin", "heat": "Microwave", "cool": "Fridge"}
    verb = task_type.split("_")[1]
    for _ in range(20):
        task = draw_task(task_type, split, size, rng)
        empty = room(task.scene, size)
        kinds = {one.kind for one in empty.receptacles}
        assert task.type == task_type
        assert task.scene in scenes(split, size)
        assert task.thing in empty.things
        if task_type == LOOK:
            assert (task.receptacle, task.lamp) == ("", "DeskLamp")
            assert "DeskLamp" in empty.things
        else:
            assert task.thing in tables().fits[task.receptacle]
            assert task.receptacle in kinds
        if verb in needs:
            assert task.thing in tables().able[needs[verb]]
            assert stations[verb] in kinds - {task.receptacle}
        house = draw_house(task, size, rng)
        assert [one.kind for one in house.things[: task.targets]] == [task.thing] * task.targets
        assert all(one.where.kind != task.receptacle for one in house.things[: task.targets])
        if size == "small":
            count = Counter(one.kind for one in house.things)
            assert count[task.thing] == task.targets == (2 if task_type == TWO else 1)
            assert len(house.things) == 5 + (task_type == LOOK)


def test_release_houses_are_full_and_have_copies() -> None:
    rng = np.random.default_rng(0)
    task = Task("pick_and_place_simple", "Mug", "CounterTop", "", 10)
    houses = [draw_house(task, "release", rng) for _ in range(20)]
    assert all(set(room(10, "release").things) == {one.kind for one in house.things} for house in houses)
    assert {sum(one.kind == "Mug" for one in house.things) for house in houses} == {1, 2, 3}
    # A copy may lie where the task wants one: such a house is solved before it is begun.
    assert any(
        one.kind == "Mug" and one.where.kind == "CounterTop" for house in houses for one in house.things
    )


def test_names_parameters_and_words() -> None:
    rng = np.random.default_rng(0)
    clean, look = Task(CLEAN, "Mug", "Fridge", "", 10), Task(LOOK, "Book", "", "DeskLamp", 301)
    assert clean.name == "pick_clean_then_place_in_recep-Mug-None-Fridge-10"
    assert look.name == "look_at_obj_in_light-Book-None-DeskLamp-301"
    assert look.parameters == {
        "mrecep_target": "",
        "object_sliced": False,
        "object_target": "Book",
        "parent_target": "",
        "toggle_target": "DeskLamp",
    }
    said = {sentence(clean, rng) for _ in range(20)}
    assert said == {"put a clean mug in fridge", "clean some mug and put it in fridge"}
    assert {sentence(look, rng) for _ in range(20)} == {
        "look at book under the desklamp",
        "examine the book with the desklamp",
    }


def test_tasks_differ() -> None:
    rng = np.random.default_rng(0)
    tasks = {draw_task("pick_and_place_simple", "train", "small", rng).name for _ in range(50)}
    assert len(tasks) > 40
    assert len({re.sub(r"-\d+$", "", name) for name in tasks}) > 20
