"""The games that come with the package."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphwrap.cli import make_app
from graphwrap.envs.alfred.engine import Engine
from graphwrap.envs.alfred.folders import GAME, STATE, GameText
from graphwrap.envs.alfred.generation import play
from graphwrap.envs.alfred.houses import layout, room
from graphwrap.envs.alfred.shipped import (
    SHIPPED,
    cache_folder,
    command,
    made_by,
    pack,
    read_packed,
    shipped_games,
    unpack,
)
from graphwrap.envs.alfred.tables import SPLITS, TASK_TYPES
from tests.envs.alfred.trees import tree

pytestmark = pytest.mark.alfworld


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder of the tests' own."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def games() -> dict[str, list[GameText]]:
    """The shipped games by split."""
    return {split: unpack(read_packed(split)) for split in SPLITS}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """An engine for tests that load a game first."""
    one = Engine()
    yield one
    one.close()


def test_how_many_there_are(games: dict[str, list[GameText]]) -> None:
    for split, per_type in (("train", 20), ("valid_seen", 10), ("valid_unseen", 10)):
        assert Counter(game.type for game in games[split]) == dict.fromkeys(TASK_TYPES, per_type)
    assert sum(len(read_packed(split)) for split in SPLITS) < 120_000


@pytest.mark.parametrize("split", SPLITS)
def test_they_are_what_the_generator_makes(split: str, games: dict[str, list[GameText]]) -> None:
    wanted = SHIPPED[split]
    drawn = [wanted.draw(name, index) for name in TASK_TYPES for index in range(wanted.per_type)]
    assert sorted(games[split], key=lambda game: game.folder) == sorted(drawn, key=lambda game: game.folder)
    assert made_by(read_packed(split)) == command(wanted)


def test_seen_and_unseen(games: dict[str, list[GameText]]) -> None:
    tasks = {split: {game.folder.split("/")[0] for game in games[split]} for split in SPLITS}
    scenes = {split: {game.scene for game in games[split]} for split in SPLITS}
    assert tasks["valid_seen"] <= tasks["train"]
    assert not scenes["valid_unseen"] & scenes["train"]
    rooms = {split: {layout(room(scene, "small").receptacles) for scene in scenes[split]} for split in SPLITS}
    assert not rooms["valid_unseen"] & rooms["train"]
    start = [(game.folder.split("/")[0], _placing(game)) for split in SPLITS for game in games[split]]
    assert len(set(start)) == len(start) == 240  # no two games begin alike


def _placing(game: GameText) -> tuple[tuple[str, str], ...]:
    """What lies where, as far as text tells."""
    lines = [
        line.strip("()").split() for line in game.problem.split("\n") if line.startswith("(inReceptacle ")
    ]
    return tuple(sorted((thing.split("_bar_")[0], where) for _, thing, where in lines))


def test_they_are_unpacked_once(cache: Path, games: dict[str, list[GameText]]) -> None:
    for split in SPLITS:
        folder = shipped_games(split, cache)
        assert folder.parts[-2:] == ("json_2.1.1", split)
        assert folder.is_relative_to(cache)
        assert sorted(path.parent for path in folder.rglob(GAME)) == sorted(
            folder / game.folder for game in games[split]
        )
        times = [path.stat().st_mtime_ns for path in sorted(cache.rglob("*"))]
        assert shipped_games(split, cache) == folder
        assert [path.stat().st_mtime_ns for path in sorted(cache.rglob("*"))] == times
        for game in games[split]:
            assert GameText.read(folder / game.folder) == game


def test_what_was_lost_is_unpacked_again(tmp_path: Path) -> None:
    folder = shipped_games("valid_seen", tmp_path)
    whole = tree(folder)
    next(folder.rglob(STATE)).unlink()
    assert shipped_games("valid_seen", tmp_path) == folder
    assert tree(folder) == whole


def test_several_processes_at_once(cache: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from graphwrap.envs.alfred.shipped import shipped_games; from pathlib import Path;"
        "folder = shipped_games('valid_seen', sys.argv[1]);"
        "print(sum(len(path.read_bytes()) > 0 for path in folder.rglob('game.tw-pddl')))"
    )
    run = [sys.executable, "-c", code, str(tmp_path)]
    processes = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in processes] == ["60"] * 3
    (folder,) = (tmp_path / "alfworld").iterdir()
    expected = shipped_games("valid_seen", cache).parents[1]
    assert folder.name == expected.name
    assert tree(folder) == tree(expected)


@pytest.mark.parametrize("split", SPLITS)
def test_one_of_each_type_is_won(
    split: str, engine: Engine, cache: Path, games: dict[str, list[GameText]]
) -> None:
    folder = shipped_games(split, cache)
    for name in TASK_TYPES:
        game = next(game for game in reversed(games[split]) if game.type == name)
        assert play(engine, folder / game.folder / GAME, game.walkthrough) == game.walkthrough


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_the_recorded_command_makes_them_and_each_is_won(
    split: str, engine: Engine, cache: Path, tmp_path: Path
) -> None:
    words = shlex.split(made_by(read_packed(split)))
    assert words[:3] == ["graphwrap", "alfworld-games", "GAMES"]
    result = CliRunner().invoke(make_app(), ["alfworld-games", str(tmp_path), *words[3:]])
    assert result.exit_code == 0
    folder = shipped_games(split, cache)
    assert tree(tmp_path / "json_2.1.1" / split) == tree(folder)
    for path in sorted(folder.rglob(GAME)):
        game = GameText.read(path.parent)
        assert play(engine, path, game.walkthrough) == game.walkthrough


def test_packing_keeps_everything(games: dict[str, list[GameText]]) -> None:
    packed = pack("a command", games["train"][:3])
    assert unpack(packed) == games["train"][:3]
    assert made_by(packed) == "a command"


def test_an_unknown_split() -> None:
    with pytest.raises(ValueError, match="split is one of train, valid_seen, valid_unseen; got 'test'"):
        shipped_games("test")


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert cache_folder() == tmp_path / "caches" / "graphwrap"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "graphwrap"


def test_without_a_home_it_is_a_private_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    folder = cache_folder()
    assert folder.parent == tmp_path / "temp"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert cache_folder() == folder
    folder.chmod(0o777)
    with pytest.raises(OSError, match="Game files are code, so only their user may write"):
        cache_folder()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(OSError, match="open to others"):
        cache_folder()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ModuleNotFoundError, match=r"need the package alfworld: pip install 'graphwrap\[alfworld\]'"
    ):
        shipped_games("train", tmp_path)
    assert not list(tmp_path.iterdir())
