"""The engine neither disturbs its process nor grows, and says what is wrong with a game."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graphwrap.envs.alfred import library
from graphwrap.envs.alfred.caching import cached_game
from graphwrap.envs.alfred.engine import Engine, GameFileError
from graphwrap.scripts.benchmarks.memory import resident
from tests.envs.alfred.stock import play

pytestmark = pytest.mark.alfworld

WALK = """
import hashlib, os, sys
from pathlib import Path
from graphwrap.envs.alfred.engine import Engine
from tests.envs.alfred.stock import play

before = list(sys.argv), os.environ.get("ALFWORLD_DATA"), sys.stdout
content = hashlib.sha256()
for state in play(Engine(), Path(sys.argv[1]), 60):
    content.update(repr((state.observation, state.admissible, state.won)).encode())
assert before == (list(sys.argv), os.environ.get("ALFWORLD_DATA"), sys.stdout)
print(content.hexdigest())
"""


def in_a_process(game: Path, **environment: str) -> str:
    keep = {name: value for name, value in os.environ.items() if name != "ALFWORLD_DATA"}
    done = subprocess.run(
        [sys.executable, "-c", WALK, str(game)],
        env={**keep, **environment},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_every_process_plays_the_same_and_is_left_as_it_was(small_games: list[Path]) -> None:
    content = hashlib.sha256()
    for state in play(Engine(), small_games[0], 60):
        content.update(repr((state.observation, state.admissible, state.won)).encode())
    expected = content.hexdigest() + "\n"  # and nothing else was printed
    assert in_a_process(small_games[0], PYTHONHASHSEED="1") == expected
    assert in_a_process(small_games[0], PYTHONHASHSEED="2", HOME="/proc/no home") == expected


def test_two_engines_play_two_games_at_once(small_games: list[Path]) -> None:
    alone = [list(play(Engine(), game, 40)) for game in small_games[:2]]
    walks = [play(Engine(), game, 40) for game in small_games[:2]]
    assert list(zip(*walks)) == list(zip(*alone))


def test_engines_of_several_threads_do_not_disturb_each_other(small_games: list[Path]) -> None:
    games = small_games[:3] * 2
    alone = [list(play(Engine(), game, 30)) for game in games]
    cached_game.cache_clear()
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(lambda game: list(play(Engine(), game, 30)), games)) == alone


def test_a_library_is_small_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_games: list[Path]
) -> None:
    monkeypatch.setattr(library, "_idle", [])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    written: list[int] = []
    write = Path.write_bytes
    monkeypatch.setattr(
        Path, "write_bytes", lambda path, data: written.append(len(data)) or write(path, data)
    )
    engine = Engine()
    assert list(tmp_path.iterdir()) == []
    assert len(written) == 1
    assert written[0] < 2e6
    assert engine.load(small_games[0]).admissible


def test_a_file_that_is_no_library_is_copied_as_it_is() -> None:
    assert library.without_symbols(b"\xcf\xfa\xed\xfe of a Mac") == b"\xcf\xfa\xed\xfe of a Mac"


@pytest.mark.parametrize("end", [Engine.close, lambda engine: None], ids=["closed", "forgotten"])
def test_the_library_of_an_engine_goes_to_the_next(
    end: Callable[[Engine], None], small_games: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[int] = []
    load = library._load
    monkeypatch.setattr(library, "_idle", [])
    monkeypatch.setattr(library, "_load", lambda: loaded.append(1) or load())
    for game in [*small_games, small_games[0]]:
        engine = Engine()
        assert not engine.load(game).won
        end(engine)
        del engine
        gc.collect()
    assert len(loaded) == 1


def test_closing_twice_gives_the_library_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_idle", [])
    engine = Engine()
    engine.close()
    engine.close()
    assert len(library._idle) == 1
    with pytest.raises(RuntimeError, match="closed"):
        engine.load("game.tw-pddl")


def test_memory_stays_flat_over_resets_of_games_that_are_known(small_games: list[Path]) -> None:
    def reset(times: int) -> None:
        for count in range(times):
            engine.load(small_games[count % len(small_games)])
            for command in ("look", "inventory", "jump"):
                engine.step(command)

    engine = Engine()
    reset(200)
    before = resident("VmRSS")
    reset(1000)
    assert resident("VmRSS") - before < 2e6


@pytest.mark.slow
def test_memory_stays_flat_over_resets_of_games_that_are_new(small_games: list[Path]) -> None:
    engine = Engine()

    def reset(times: int) -> None:
        for count in range(times):
            if count % len(small_games) == 0:
                cached_game.cache_clear()
            for _ in play(engine, small_games[count % len(small_games)], 4, seed=count):
                pass

    reset(60)
    before = resident("VmRSS")
    reset(300)
    assert resident("VmRSS") - before < 8e6


def test_a_step_needs_a_game(small_games: list[Path]) -> None:
    engine = Engine()
    with pytest.raises(RuntimeError, match="step needs a game"):
        engine.step("look")
    engine.load(small_games[0])
    with pytest.raises(FileNotFoundError):
        engine.load(small_games[0].with_name("no game"))
    with pytest.raises(RuntimeError, match="plan needs a game"):
        engine.plan()


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"pddl_domain": 1, "pddl_problem": "", "grammar": ""}', "\0"]
)
def test_a_file_that_is_no_game_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "game.tw-pddl"
    path.write_text(content)
    with pytest.raises(GameFileError, match=r"game\.tw-pddl is not"):
        Engine().load(path)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("(:goal", "(:goal ((", "fault"),
        ("(isToggled ?ot)", "(isUnknown ?ot)", "fault.*Undeclared predicate"),
        ("(isToggled ?ot)", "(isHot ?ot)", "no action can reach the goal"),
    ],
)
@pytest.mark.parametrize("cache", [True, False])
def test_a_game_that_cannot_be_played_is_named(
    old: str, new: str, reason: str, cache: bool, small_games: list[Path], tmp_path: Path
) -> None:
    game = json.loads(small_games[0].read_text())
    assert game["pddl_problem"].count(old) >= 1
    game["pddl_problem"] = game["pddl_problem"].replace(old, new)
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps(game))
    engine = Engine(cache)
    with pytest.raises(GameFileError, match=reason):
        engine.load(path)
    assert engine.load(small_games[0]).admissible


def test_a_file_that_has_changed_is_read_again(small_games: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "game.tw-pddl"
    engine = Engine()
    path.write_bytes(small_games[0].read_bytes())
    first = engine.load(path)
    path.write_bytes(small_games[1].read_bytes())
    assert engine.load(path) == Engine().load(small_games[1]) != first


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_downward", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"needs fast_downward: pip install 'graphwrap\[alfworld\]'"
    ):
        Engine()
