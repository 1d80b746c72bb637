"""The words of a game, by rules that are read once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphwrap.envs.alfred.engine import Engine, GameFileError
from graphwrap.envs.alfred.grammar import Terminal, read_grammar
from graphwrap.envs.alfred.tables import grammar
from tests.envs.alfred.stock import stock

pytestmark = pytest.mark.alfworld


@pytest.mark.parametrize(
    "task",
    [
        "put a clean mug on the shelf",
        "look at the pen, under the lamp.  Then stop",
        "put bob's mug (the red one) in a box; now!",
        "put 2 mugs in the cabinet - quickly",
        "put a café au lait on the desk",
        'say \\"hello\\" to the mug',
        "put {a mug",
        "a task with\\n a line of its own",
    ],
)
def test_any_task_reads_as_in_textworld(task: str, small_games: list[Path], tmp_path: Path) -> None:
    game = json.loads(small_games[0].read_text())
    game["grammar"] = grammar().replace("UNKNOWN GOAL", task)
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps(game))
    assert Engine().load(path) == stock().load(path)


def test_a_grammar_that_cannot_be_read_is_named(small_games: list[Path], tmp_path: Path) -> None:
    game = json.loads(small_games[0].read_text())
    game["grammar"] = grammar()[:500]
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps(game))
    engine = Engine()
    with pytest.raises(GameFileError, match=r"game\.tw-pddl cannot be played: .*grammar"):
        engine.load(path)
    assert engine.load(small_games[0]).admissible


def test_games_that_differ_in_the_task_share_the_rules() -> None:
    first, second = (
        read_grammar(grammar().replace("UNKNOWN GOAL", task)) for task in ("rest", "put it away")
    )
    assert first.rules["task"][0].symbols == (Terminal("Your task is to: rest."),)
    assert second.rules["task"][0].symbols == (Terminal("Your task is to: put it away."),)
    assert {**first.rules, "task": ()} == {**second.rules, "task": ()}


class NoFacts:
    def matches(self, query: object, bound: object) -> Iterator[dict[tuple[str, str], str]]:
        return iter(())


def test_a_rule_that_is_missing_is_named() -> None:
    with pytest.raises(KeyError, match="no such rule"):
        read_grammar(grammar()).derive("#no such rule#", NoFacts(), {}, {})


def test_what_a_command_is_called_is_kept_where_nothing_can_change_it() -> None:
    rules = read_grammar(grammar())
    go_to = rules.actions["gotolocation"][0]
    assert rules.is_fixed(go_to, frozenset({"atlocation", "opened"}))
    assert not rules.is_fixed(go_to, frozenset({"receptacleatlocation"}))
    assert not rules.is_fixed("#intro#", frozenset())
    assert rules.is_fixed("take {o} from {r}", frozenset({"holds"}))
