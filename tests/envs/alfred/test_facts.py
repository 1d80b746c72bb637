"""Location, holding, moved things and states, in the players' words."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphwrap.envs.alfred.engine import Engine
from graphwrap.envs.alfred.facts import Facts, read_facts

pytestmark = pytest.mark.alfworld

NAMES = {
    name: name.replace("_", " ") for name in ("mug_1", "lamp_1", "desk_1", "drawer_1", "drawer_2", "shelf_1")
}
PLACES = [
    ("receptacleatlocation", ("drawer_2", "l1")),
    ("receptacleatlocation", ("drawer_1", "l1")),
    ("receptacleatlocation", ("desk_1", "l2")),
    ("canContain", ("DeskType", "MugType")),
]


def test_a_spot_may_have_several_receptacles() -> None:
    assert read_facts([("atlocation", ("agent1", "l1")), *PLACES], NAMES).location == ("drawer 1", "drawer 2")
    assert read_facts([("atlocation", ("agent1", "l2")), *PLACES], NAMES).location == ("desk 1",)
    assert read_facts([("atlocation", ("agent1", "l9")), *PLACES], NAMES).location == ()


def test_things_and_their_states() -> None:
    facts = read_facts(
        [
            ("holds", ("agent1", "mug_1")),
            ("inreceptacle", ("lamp_1", "desk_1")),
            ("isclean", ("mug_1",)),
            ("ishot", ("mug_1",)),
            ("istoggled", ("lamp_1",)),
            ("opened", ("drawer_2",)),
            ("not_opened", ("drawer_1",)),
        ],
        NAMES,
    )
    assert facts == Facts(
        (),
        "mug 1",
        {"lamp 1": "desk 1"},
        {"lamp 1": ("on",), "mug 1": ("hot", "clean")},
        frozenset({"drawer 2"}),
    )
    assert facts.held == ("mug 1", ("hot", "clean"))
    assert read_facts([], NAMES).held is None


def test_moved_is_what_is_elsewhere_than_at_first() -> None:
    facts = read_facts([("inreceptacle", ("mug_1", "desk_1")), ("inreceptacle", ("lamp_1", "desk_1"))], NAMES)
    assert facts.moved({"mug 1": "shelf 1", "lamp 1": "desk 1"}) == (("mug 1", "shelf 1", "desk 1"),)
    assert facts.moved({}) == ()


def test_they_follow_a_game(small_games: list[Path]) -> None:
    """The clean task's plan: what the text says of each command is what the facts say."""
    (game,) = (path for path in small_games if "pick_clean" in str(path))
    engine = Engine()
    state = engine.load(game)
    assert state.facts.location == ()
    assert state.facts.holding is None
    first, opened = state.facts.items, set()
    carried = ""
    for command in engine.plan():
        state = engine.step(command)
        verb, _, rest = command.partition(" ")
        facts = state.facts
        if verb == "go":
            assert rest.removeprefix("to ") in facts.location
        elif verb == "open":
            opened.add(rest)
        elif verb == "take":
            carried, _, place = rest.partition(" from ")
            assert first[carried] == place
            assert facts.held == (carried, ())
            assert carried not in facts.items
        elif verb == "clean":
            assert facts.held == (carried, ("clean",))
        elif verb == "move":
            place = rest.partition(" to ")[2]
            assert facts.held is None
            assert facts.moved(first) == ((carried, first[carried], place),)
            assert facts.states == {carried: ("clean",)}
        assert facts.opened == opened
    assert carried
    assert state.won
