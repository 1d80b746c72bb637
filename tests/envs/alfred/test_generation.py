"""Games are the same for the same seed, and each can be won in the real engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from graphwrap.envs.alfred import generation
from graphwrap.envs.alfred.engine import Engine
from graphwrap.envs.alfred.folders import GAME, STATE, GameText, is_whole, staging
from graphwrap.envs.alfred.generation import Games, Rejected, make_game, make_games, play, prove
from graphwrap.envs.alfred.tables import SPLITS, TASK_TYPES
from tests.envs.alfred.trees import tree

pytestmark = pytest.mark.alfworld

SIMPLE = "pick_and_place_simple"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """An engine for tests that load a game first."""
    one = Engine()
    yield one
    one.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One small train game of each type, seed 7."""
    return make_games(tmp_path_factory.mktemp("made"), Games("train", 1, 7)).folder.parents[1]


def games_of(out: Path) -> list[Path]:
    return sorted(path.parent for path in out.rglob(GAME))


def test_layout_of_a_data_folder(made: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == ["json_2.1.1", "logic"]
    assert sorted(path.name for path in (made / "logic").iterdir()) == ["alfred.pddl", "alfred.twl2"]
    folders = games_of(made)
    assert [GameText.read(folder).type for folder in folders] == sorted(TASK_TYPES)
    for folder in folders:
        game = GameText.read(folder)
        assert folder.relative_to(made).as_posix() == f"json_2.1.1/train/{game.folder}"
        goal = game.parameters["parent_target"] or game.parameters["toggle_target"]
        assert (
            folder.parent.name == f"{game.type}-{game.parameters['object_target']}-None-{goal}-{game.scene}"
        )
        assert folder.name == "trial_small_7_00000"
        assert sorted(path.name for path in folder.iterdir()) == [
            "game.tw-pddl",
            "initial_state.pddl",
            "traj_data.json",
        ]
        assert (folder / STATE).read_text() == game.problem


def test_one_seed_gives_the_same_bytes_and_more_games_change_none(made: Path, tmp_path: Path) -> None:
    result = make_games(tmp_path, Games("train", 2, 7))
    assert (result.made, result.kept) == (12, 0)
    again = tree(tmp_path)
    assert {name: content for name, content in again.items() if "00001" not in name} == tree(made)
    assert len(again) == len(tree(made)) + 18


def test_types_do_not_change_each_other(made: Path, tmp_path: Path) -> None:
    make_games(tmp_path, Games("train", 1, 7, types=(TASK_TYPES[5], TASK_TYPES[1])))
    few = tree(tmp_path)
    assert len(few) == 2 * 3 + 2
    assert few.items() <= tree(made).items()


def test_bytes_do_not_depend_on_the_process() -> None:
    code = (
        "import hashlib; from graphwrap.envs.alfred.generation import *; print(hashlib.sha256(repr("
        "[Games(split, 1, 3, size).draw(name, 0) for split in SPLITS for size in SIZES for name in TASK_TYPES]"
        ").encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(digests) == 1


def test_seeds_splits_and_indices_give_other_games() -> None:
    drawn = {
        (split, seed, index): Games(split, 1, seed).draw(SIMPLE, index)
        for split in SPLITS
        for seed in (0, 1, 2**40)
        for index in range(4)
    }
    assert len({game.problem.split("(:init")[1] for game in drawn.values()}) == len(drawn)
    tasks = {key: game.folder.split("/")[0] for key, game in drawn.items()}
    for seed in (0, 1, 2**40):
        for index in range(4):
            assert tasks["train", seed, index] == tasks["valid_seen", seed, index]
    assert len({tasks["train", seed, index] for seed in (0, 1, 2**40) for index in range(4)}) > 8


def test_every_type_is_won_in_textworlds_own_code(made: Path) -> None:
    engine = Engine(cache=False)
    try:
        for folder in games_of(made):
            game = GameText.read(folder)
            state = engine.load(folder / GAME)
            assert f"Your task is to: {game.task}." in state.observation
            assert not state.won
            for command in game.walkthrough[:-1]:
                assert command in state.admissible
                state = engine.step(command)
                assert not state.won
            assert engine.step(game.walkthrough[-1]).won
    finally:
        engine.close()


@pytest.mark.parametrize("split", ["train", "valid_unseen"])
def test_release_games_of_every_type_are_won(split: str, engine: Engine, tmp_path: Path) -> None:
    for name in TASK_TYPES:
        game = Games(split, 1, 2, "release").draw(name, 0)
        game.write(tmp_path)
        assert play(engine, tmp_path / GAME, game.walkthrough) == game.walkthrough


def drawn() -> GameText:
    return Games("train", 1, 7).draw(SIMPLE, 0)


def broken(game: GameText, what: str) -> GameText:
    thing, goal = game.parameters["object_target"], game.parameters["parent_target"]
    lines = game.problem.split("\n")
    if what == "won at the start":
        there = next(
            line.split()[1]
            for line in lines
            if f" {goal}Type)" in line and line.startswith("(receptacleType")
        )
        lines = [
            f"{line.rsplit(' ', 1)[0]} {there})" if line.startswith(f"(inReceptacle {thing}_") else line
            for line in lines
        ]
    elif what == "cannot be won":
        lines = [line for line in lines if line != f"(canContain {goal}Type {thing}Type)"]
    elif what == "the walkthrough is not admissible":
        return replace(game, walkthrough=("fly to the moon", *game.walkthrough))
    else:
        return replace(game, walkthrough=game.walkthrough[:-1])
    assert lines != game.problem.split("\n")
    return replace(game, problem="\n".join(lines))


@pytest.mark.parametrize(
    "reason",
    [
        "won at the start",
        "cannot be won",
        "the walkthrough is not admissible",
        "the walkthrough does not win",
    ],
)
def test_bad_games_are_rejected(engine: Engine, reason: str, tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=reason):
        prove(engine, broken(drawn(), reason), tmp_path / "game")
    assert not list(tmp_path.iterdir())


def test_a_walkthrough_ends_where_the_game_is_won(engine: Engine, tmp_path: Path) -> None:
    game = drawn()
    prove(engine, replace(game, walkthrough=(*game.walkthrough, "look", "inventory")), tmp_path / "game")
    assert GameText.read(tmp_path / "game").walkthrough == game.walkthrough


def test_a_game_that_is_won_at_the_start_is_drawn_again(engine: Engine, tmp_path: Path) -> None:
    games = Games("train", 2, 21, "release")
    first, second = games.draw(SIMPLE, 1, 0), games.draw(SIMPLE, 1, 1)
    with pytest.raises(Rejected, match="won at the start"):
        prove(engine, first, tmp_path / "first")
    rejected: Counter[str] = Counter()
    target = tmp_path / first.folder
    make_game(engine, games, SIMPLE, 1, tmp_path / "staged", target, rejected)
    assert rejected == {"won at the start": 1}
    assert GameText.read(target).problem == second.problem != first.problem
    assert first.folder == second.folder


class Unwinnable(Games):
    """Games of which none can be won."""

    def draw(self, task_type: str, index: int, attempt: int = 0) -> GameText:
        """Nothing fits where it should go."""
        return broken(super().draw(task_type, index, attempt), "cannot be won")


def test_it_gives_up_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(generation, "ATTEMPTS", 3)
    with pytest.raises(
        RuntimeError, match=r"3 games were drawn for .* none was good .cannot be won: 3.: choose another seed"
    ):
        make_games(tmp_path, Unwinnable("train", 1, 7, types=(SIMPLE,)))
    assert sorted(tree(tmp_path)) == ["logic/alfred.pddl", "logic/alfred.twl2"]


def test_existing_games_stay_and_half_ones_are_made_again(made: Path, tmp_path: Path) -> None:
    games = Games("train", 1, 7, types=TASK_TYPES[:2])
    first, second = (
        tmp_path / "json_2.1.1" / "train" / games.draw(name, 0).folder for name in TASK_TYPES[:2]
    )
    make_games(tmp_path, games)
    (first / STATE).write_text("mine")
    (second / STATE).unlink()
    seen: list[tuple[str, int]] = []
    result = make_games(tmp_path, games, lambda name, count: seen.append((name, count)))
    assert (result.made, result.kept, result.folder) == (1, 1, tmp_path / "json_2.1.1" / "train")
    assert seen == [(TASK_TYPES[0], 1), (TASK_TYPES[1], 2)]
    assert (first / STATE).read_text() == "mine"
    assert tree(second) == tree(made / second.relative_to(tmp_path))


def test_a_killed_run_leaves_whole_games_and_goes_on(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = [
        sys.executable,
        "-m",
        "graphwrap.cli",
        "alfworld-games",
        str(out),
        "--per-type",
        "1",
        "--seed",
        "7",
    ]
    process = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not list(out.glob("json_2.1.1/train/*/*/traj_data.json")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    left = games_of(out / "json_2.1.1")
    assert left
    assert all(is_whole(folder) for folder in left)
    assert tree(out / "json_2.1.1").items() <= tree(made / "json_2.1.1").items()
    both = [subprocess.Popen(run, stdout=subprocess.DEVNULL) for _ in range(2)]  # they may meet in one folder
    assert [process.wait() for process in both] == [0, 0]
    assert tree(out / "json_2.1.1") == tree(made / "json_2.1.1")


def test_what_killed_processes_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    for name, age in ((".making-old", 2 * 24 * 3600), (".making-new", 60)):
        (tmp_path / name / "game").mkdir(parents=True)
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    with staging(tmp_path) as made:
        assert made.parent == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == [".making-new"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "test"}, "split is one of train, valid_seen, valid_unseen; got 'test'"),
        ({"size": "big"}, "size is one of small, release; got 'big'"),
        ({"types": ("pick",)}, "types are some of pick_and_place_simple, .*, each once; got 'pick'"),
        ({"types": ()}, "types are some of"),
        ({"types": (SIMPLE, SIMPLE)}, "each once"),
        ({"per_type": 0}, "per_type is an integer of at least 1, got 0"),
        ({"seed": -1}, "seed is an integer of at least 0, got -1"),
        ({"seed": 1.5}, "seed is an integer of at least 0, got 1.5"),
    ],
)
def test_wrong_requests(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Games(**arguments)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError, match=r"written to a folder, and .*file is a file"):
        make_games(tmp_path / "file", Games())
    assert (tmp_path / "file").read_text() == "mine"
