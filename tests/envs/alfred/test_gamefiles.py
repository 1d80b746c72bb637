"""Which games are found, and what is said where there are none."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from graphwrap.envs.alfred import shipped
from graphwrap.envs.alfred.gamefiles import find_games, game_of
from graphwrap.envs.alfred.tables import TASK_TYPES

pytestmark = pytest.mark.alfworld


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has no data."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    return tmp_path


@pytest.fixture
def few_shipped(alfworld_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The set that comes with the package is not unpacked."""
    folder = alfworld_data / "json_2.1.1"
    monkeypatch.setattr(shipped, "shipped_games", lambda split: folder / split)
    return folder


def test_games_are_sorted_and_have_types(alfworld_data: Path) -> None:
    games = find_games("train", alfworld_data)
    assert [game.name for game in games] == sorted(game.name for game in games)
    assert sorted(game.task_type for game in games) == sorted(TASK_TYPES)
    for game in games:
        split, task, trial = game.name.split("/")
        assert game.path == alfworld_data / "json_2.1.1" / split / task / trial / "game.tw-pddl"
        assert task.startswith(game.task_type + "-")
    assert find_games("train", alfworld_data / "json_2.1.1") == games
    (seen,) = find_games("valid_seen", str(alfworld_data))
    assert seen.task_type == "pick_two_obj_and_place"


def test_some_task_types(alfworld_data: Path) -> None:
    wanted = ["pick_two_obj_and_place", "look_at_obj_in_light"]
    assert sorted(game.task_type for game in find_games("train", alfworld_data, wanted)) == sorted(wanted)
    with pytest.raises(
        FileNotFoundError, match=r"none of the 1 games in .*valid_seen is of look_at_obj_in_light"
    ):
        find_games("valid_seen", alfworld_data, ["look_at_obj_in_light"])
    for wrong in (["look"], []):
        with pytest.raises(ValueError, match="task_types are some of pick_and_place_simple, "):
            find_games("train", alfworld_data, wrong)


def test_they_are_those_that_alfworld_finds(
    alfworld_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from graphwrap.envs.alfred.imports import importing

    with importing():
        from alfworld.agents.environment.alfred_tw_env import AlfredTWEnv

    train = tmp_path / "json_2.1.1" / "train"
    shutil.copytree(alfworld_data / "json_2.1.1" / "train", train)
    tasks = sorted(train.iterdir())
    (game,) = tasks[0].glob("*/game.tw-pddl")
    content = json.loads(game.read_text())
    game.write_text(json.dumps({**content, "solvable": False}))
    (game,) = tasks[1].glob("*/game.tw-pddl")
    game.with_name("traj_data.json").unlink()
    (game,) = tasks[2].glob("*/game.tw-pddl")
    game.write_text(json.dumps({**content, "solvable": None, "walkthrough": ['"solvable": true']}))
    tasks[3].rename(tasks[3].with_name(tasks[3].name + "-Sliced"))
    tasks[4].rename(tasks[4].with_name("trials of any name"))
    config = {
        "dataset": {"data_path": str(train), "num_train_games": -1},
        "env": {"task_types": [1, 2, 3, 4, 5, 6], "goal_desc_human_anns_prob": 0},
    }
    theirs = AlfredTWEnv(config, "train").game_files
    capsys.readouterr()
    ours = find_games("train", tmp_path)
    assert sorted(theirs) == sorted(str(game.path) for game in ours)
    assert len(ours) == 2


def test_no_game_is_said_at_once(alfworld_data: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no game .*nowhere.*alfworld-download.*data='shipped'"):
        find_games("train", tmp_path / "nowhere")
    with pytest.raises(
        FileNotFoundError, match=r"no game .*test; there is train, valid_seen, valid_unseen\. Make"
    ):
        find_games("test", alfworld_data)


def test_where_games_come_from(
    home: Path, alfworld_data: Path, few_shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_games("train")[0].path.is_relative_to(few_shipped)
    own = home / ".cache" / "alfworld"
    shutil.copytree(alfworld_data / "json_2.1.1" / "train", own / "json_2.1.1" / "train")
    assert find_games("train")[0].path.is_relative_to(own)
    monkeypatch.setenv("ALFWORLD_DATA", str(own))  # as alfworld does when it is imported
    assert find_games("train")[0].path.is_relative_to(own)
    shutil.rmtree(own)
    assert find_games("train")[0].path.is_relative_to(few_shipped)
    other = home / "data"
    shutil.copytree(alfworld_data / "json_2.1.1" / "train", other / "json_2.1.1" / "train")
    monkeypatch.setenv("ALFWORLD_DATA", "~/data")
    assert find_games("train")[0].path.is_relative_to(other)
    assert find_games("train", "shipped")[0].path.is_relative_to(few_shipped)
    shutil.rmtree(other)
    with pytest.raises(
        FileNotFoundError, match=f"no game that can be won in {other}"
    ):  # not another set instead
        find_games("train")


def test_the_game_of_a_path(alfworld_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = find_games("train", alfworld_data)[0]
    assert game_of(known.path) == known
    monkeypatch.chdir(known.path.parent)
    assert game_of(Path("game.tw-pddl")).name == known.name
    path = tmp_path / "game.tw-pddl"
    path.write_bytes(known.path.read_bytes())
    assert game_of(path).task_type == "unknown"
    assert os.fspath(game_of(path).path) == os.fspath(path)
