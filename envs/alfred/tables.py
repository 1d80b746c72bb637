"""What the installed alfworld package knows: its domain, grammar, floor plans and which thing may be where.

Its files are read without importing it: the import makes a folder in the user's home and sets an environment variable.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""The task types of ALFWorld's text games, in its order."""

SPLITS = ("train", "valid_seen", "valid_unseen")

FIRST_SCENES = {"Kitchen": 1, "LivingRoom": 201, "Bedroom": 301, "Bathroom": 401}
PLANS = 30
"""Floor plans per kind of room: AI2-THOR's 1 to 30, 201 to 230, ..."""


@dataclass(frozen=True)
class Tables:
    """alfworld's tables of classes such as ``"Apple"`` or ``"CounterTop"``."""

    fits: Mapping[str, frozenset[str]]
    """Receptacle class -> the classes of things that it may hold."""
    able: Mapping[str, frozenset[str]]
    """``"Cleanable"``, ``"Heatable"``, ... -> the classes that are."""
    openable: frozenset[str]
    movable: frozenset[str]
    """Things that are receptacles themselves, such as bowls."""
    fixed: tuple[str, ...]
    """Every receptacle class that is no thing, sorted."""
    things: tuple[str, ...]
    """Every other class of the simulator, sorted."""
    rooms: Mapping[str, tuple[str, ...]]
    """Task type -> the kinds of rooms it is given in, sorted."""
    goals: Mapping[str, str]
    """Task type -> the PDDL goal with ``{obj}``, ``{recep}`` and ``{toggle}`` to fill in."""
    sentences: Mapping[str, tuple[str, ...]]
    """Task type -> texts of the task with the same to fill in."""


@dataclass(frozen=True)
class FloorPlan:
    """A room of the simulator.

    Args:
        receptacles: identity, such as ``"Cabinet|+00.68|+00.50|-02.20"`` -> where one stands to use it: x and z in
            metres, rotation and horizon in degrees.
        classes: what may be in the room, receptacles too; sorted.
        points: where one can stand, x and z in metres, float (n, 2).
    """

    receptacles: Mapping[str, tuple[float, float, int, int]]
    classes: tuple[str, ...]
    points: np.ndarray


def alfworld_folder() -> Path:
    """Where the package alfworld is installed.

    Raises:
        ModuleNotFoundError: it is not.
    """
    found = importlib.util.find_spec("alfworld")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(
            "ALFWorld's games need the package alfworld: pip install 'graphwrap[alfworld]'", name="alfworld"
        )
    return Path(next(iter(found.submodule_search_locations)))


def domain() -> str:
    """ALFWorld's PDDL domain."""
    return (alfworld_folder() / "data" / "alfred.pddl").read_text(encoding="utf-8")


def grammar() -> str:
    """ALFWorld's text grammar, with ``UNKNOWN GOAL`` where a game has its task."""
    return (alfworld_folder() / "data" / "alfred.twl2").read_text(encoding="utf-8")


@cache
def tables() -> Tables:
    """The tables. Sets are sorted where their order could show."""
    constants, library = _module("constants"), _module("goal_library")
    movable = frozenset(constants.MOVABLE_RECEPTACLES)
    fixed = set(constants.RECEPTACLES) - movable
    goals = library.gdict
    return Tables(
        fits={name: frozenset(things) for name, things in constants.VAL_RECEPTACLE_OBJECTS.items()},
        able={name: frozenset(things) for name, things in constants.VAL_ACTION_OBJECTS.items()},
        openable=frozenset(constants.OPENABLE_CLASS_LIST),
        movable=movable,
        fixed=tuple(sorted(fixed)),
        things=tuple(sorted(set(constants.OBJECTS) - fixed)),
        rooms={name: tuple(sorted(constants.GOALS_VALID[name])) for name in TASK_TYPES},
        goals={name: goals[name]["pddl"].replace("#", "-") for name in TASK_TYPES},
        sentences={name: tuple(goals[name]["templates"]) for name in TASK_TYPES},
    )


@cache
def floor_plan(scene: int) -> FloorPlan:
    """The floor plan of a scene number."""
    folder = alfworld_folder() / "gen" / "layouts"

    def read(kind: str) -> bytes:
        return (folder / f"FloorPlan{scene}-{kind}").read_bytes()

    points = np.load(folder / f"FloorPlan{scene}-layout.npy", allow_pickle=False)
    receptacles = {
        identity: (float(x), float(z), int(rotation), int(horizon))
        for identity, (x, z, rotation, horizon) in sorted(json.loads(read("openable.json")).items())
    }
    return FloorPlan(receptacles, tuple(sorted(json.loads(read("objects.json")))), points)


def _module(name: str) -> ModuleType:
    """A module of plain tables in ``alfworld.gen``, without importing the package around it."""
    path = alfworld_folder() / "gen" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"_alfworld_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"alfworld has no {path}: graphwrap knows alfworld 0.4.", name="alfworld")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
