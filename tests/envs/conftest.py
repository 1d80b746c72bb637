"""Games for the tests of ALFWorld."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def alfworld_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder: one small game of each type in train, one of valid_seen and of valid_unseen."""
    from graphwrap.envs.alfred.generation import Games, make_games

    folder = tmp_path_factory.mktemp("alfworld")
    make_games(folder, Games("train", 1, 3))
    make_games(folder, Games("valid_seen", 1, 3, types=("pick_two_obj_and_place",)))
    make_games(folder, Games("valid_unseen", 1, 3, types=("look_at_obj_in_light",)))
    return folder


@pytest.fixture(scope="session")
def small_games(alfworld_data: Path) -> list[Path]:
    """The game files of train, in order."""
    return sorted(alfworld_data.glob("json_2.1.1/train/*/*/game.tw-pddl"))


@pytest.fixture(scope="session")
def release_games(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two game files as large as the release's."""
    from graphwrap.envs.alfred.generation import Games, make_games

    types = ("pick_clean_then_place_in_recep", "look_at_obj_in_light")
    made = make_games(tmp_path_factory.mktemp("release"), Games("train", 1, 1, "release", types))
    return sorted(made.folder.glob("*/*/game.tw-pddl"))
