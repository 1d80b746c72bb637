"""What the quick engine says is what TextWorld's own code says."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from graphwrap.envs.alfred import caching
from graphwrap.envs.alfred.engine import Engine, State
from tests.envs.alfred.stock import play, stock

pytestmark = pytest.mark.alfworld


def digest(states: Iterable[State]) -> str:
    content = hashlib.sha256()
    for state in states:
        facts = state.facts
        content.update(repr((state.observation, state.admissible, state.won)).encode())
        content.update(repr((facts.location, facts.holding, facts.items, facts.states)).encode())
        content.update(repr(sorted(facts.opened)).encode())
    return content.hexdigest()


def test_a_short_walk_is_the_same(small_games: list[Path]) -> None:
    assert digest(play(Engine(), small_games[0], 30)) == digest(play(stock(), small_games[0], 30))


@pytest.mark.slow
@pytest.mark.parametrize("size", ["small", "release"])
@pytest.mark.parametrize("place", [0, 1])
def test_long_walks_are_the_same(
    size: str, place: int, small_games: list[Path], release_games: list[Path]
) -> None:
    game = small_games[2 + place] if size == "small" else release_games[place]
    walked = list(play(Engine(), game, 200))
    assert digest(walked) == digest(play(stock(), game, 200))
    told = {state.observation.split()[1] for state in walked}
    assert {"arrive", "are", "pick", "move", "open", "happens."} <= told


def test_textworlds_own_code_is_there_too(small_games: list[Path]) -> None:
    plain, quick = Engine(cache=False), Engine()
    assert list(play(plain, small_games[1], 20)) == list(play(quick, small_games[1], 20))
    assert plain.plan() == quick.plan() != []


def test_winning_is_the_same(small_games: list[Path]) -> None:
    for game in (small_games[0], small_games[-1]):
        quick, slow = Engine(), stock()
        states = [(quick.load(game), slow.load(game))]
        plan = quick.plan()
        states += [(quick.step(command), slow.step(command)) for command in plan]
        assert all(ours == theirs for ours, theirs in states)
        assert [ours.won for ours, _ in states] == [False] * len(plan) + [True]
        for command in ("look", "inventory", "jump"):  # the engine goes on after the end
            assert quick.step(command) == slow.step(command)


def test_a_game_played_before_begins_as_it_did(small_games: list[Path]) -> None:
    engine = Engine()
    first = [list(play(engine, game, 20)) for game in small_games[:3]]
    again = [list(play(engine, game, 20)) for game in small_games[:3]]
    assert first == again


def test_a_game_is_read_again_before_it_takes_much_memory(
    small_games: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caching, "_RELOADED_AFTER", 5)
    assert list(play(Engine(), small_games[0], 24, seed=1)) == list(play(stock(), small_games[0], 24, seed=1))
