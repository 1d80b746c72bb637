from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from graphwrap.envs import LevelGenerator, SokobanEnv, level_sets, load_levels, solve
from graphwrap.envs.cells import canonical
from graphwrap.envs.generator import level_source
from graphwrap.envs.xsb import UNKNOWN


def test_names_are_read_back() -> None:
    for text, size, boxes, optimal in (
        ("generate:6x6-1", (6, 6), 1, None),
        ("generate:7x10-4", (7, 10), 4, None),
        ("generate:7x7-2:8-25", (7, 7), 2, (8, 25)),
    ):
        levels = LevelGenerator.parse(text, "test")
        assert levels == LevelGenerator(size, boxes, "test", optimal)
        assert levels.name == text
        assert levels.shape == size
        assert level_source(text, "test") == levels
    assert level_source(levels) is levels
    assert pickle.loads(pickle.dumps(levels)) == levels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("generate:6x6", "generate:HxW-BOXES, such as generate:7x7-2.*got 'generate:6x6'"),
        ("generate:", "got 'generate:'"),
        ("generate:6-1", "got 'generate:6-1'"),
        ("generate:6x6-1:3", "got 'generate:6x6-1:3'"),
        ("generate:2x6-1", r"at least 3 each, got \(2, 6\)"),
        ("generate:6x6-0", "boxes is at least 1, got 0"),
        ("generate:6x6-1:0-4", r"1 <= least <= most, got \(0, 4\)"),
        ("generate:6x6-1:5-4", r"1 <= least <= most, got \(5, 4\)"),
    ],
)
def test_texts_that_are_refused(text: str, message: str) -> None:
    for make in (LevelGenerator.parse, level_source, SokobanEnv):
        with pytest.raises(ValueError, match=message):
            make(text)


def test_other_arguments_that_are_refused() -> None:
    with pytest.raises(ValueError, match="splits of generated levels are train, test; got split='valid'"):
        SokobanEnv("generate:6x6-1", split="valid")
    with pytest.raises(ValueError, match=r"no fixed set.*LevelGenerator.parse\('generate:6x6-1'\).select"):
        load_levels("generate:6x6-1")


def test_gym_sokoban_is_missed_at_construction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gym_sokoban", None)
    with pytest.raises(ImportError, match=r"pip install --no-deps gym-sokoban==0.0.6"):
        gym.make("graphwrap/Sokoban-v0", levels="generate:6x6-1")


def test_levels_are_of_the_wanted_kind() -> None:
    levels = LevelGenerator((6, 7), 2, optimal=(3, 8))
    for level in (0, 1, 2**31 - 1):
        board = levels.board(level)
        assert board.shape == (6, 7)
        assert board.dtype == np.uint8
        assert not board.flags.writeable
        assert (board == 4).sum() + (board == 3).sum() == 2
        solution = solve(board)
        assert solution is not None
        assert 3 <= len(solution) <= 8
        assert levels.optimal_length(level) == len(solution)
    assert LevelGenerator().optimal_length(0) == UNKNOWN


def test_the_splits_share_no_layout_with_each_other_or_the_shipped_sets() -> None:
    layouts = {
        split: {canonical(LevelGenerator(split=split).board(level) == 0) for level in range(count)}
        for split, count in (("train", 40), ("test", 12))
    }
    shipped = {
        split: {canonical(board == 0) for board in load_levels("6x6-1", split).boards}
        for split in ("train", "test")
    }
    assert not layouts["train"] & layouts["test"]
    assert not layouts["train"] & shipped["test"]
    assert not layouts["test"] & shipped["train"]
    assert layouts["train"] & shipped["train"]
    assert "6x6-1" in level_sets()


def test_select_is_the_fixed_set(tmp_path: Any) -> None:
    levels = LevelGenerator((5, 6), 1, optimal=(2, 9))
    fixed = levels.select([4, 0])
    assert fixed.name == "generate:5x6-1:2-9-train"
    np.testing.assert_array_equal(fixed.boards, [levels.board(4), levels.board(0)])
    assert fixed.optimal.tolist() == [levels.optimal_length(4), levels.optimal_length(0)]
    assert levels.text(4) == fixed.text(0)
    fixed.save(tmp_path / "fixed.txt")
    np.testing.assert_array_equal(load_levels(tmp_path / "fixed.txt").boards, fixed.boards)
    levels.draw(tmp_path / "rooms.png", [4, 0])
    assert (tmp_path / "rooms.png").read_bytes().startswith(b"\x89PNG")


def test_one_seed_one_room_in_every_process() -> None:
    kwargs = {"levels": "generate:6x6-1", "obs": "text"}
    env = gym.make("graphwrap/Sokoban-v0", **kwargs)
    assert json.loads(env.spec.to_json())["kwargs"] == kwargs
    rooms = [env.reset(seed=seed)[0] for seed in (0, 1, 0)]
    assert rooms[0] == rooms[2] != rooms[1]
    script = (
        "import gymnasium, graphwrap, json\n"
        "env = gymnasium.make('graphwrap/Sokoban-v0', levels='generate:6x6-1', obs='text')\n"
        "print(json.dumps([env.reset(seed=seed)[0] for seed in (0, 1, 0)]))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == rooms


def test_resets_draw_numbers_of_levels_from_the_seed() -> None:
    env = SokobanEnv("generate:6x6-1", obs="codes")
    rng = np.random.default_rng(7)
    _, info = env.reset(seed=7)
    infos = [info, *(env.reset()[1] for _ in range(3))]
    assert infos == [{"level": int(level)} for level in rng.integers(2**31, size=4)]
    observation, info = env.reset(options={"level": 12})
    assert info == {"level": 12}
    np.testing.assert_array_equal(observation, env.levels.board(12))
    with pytest.raises(ValueError, match=r"integer of 0 to 2147483647 for generate:6x6-1, got 2147483648"):
        env.reset(options={"level": 2**31})
    assert SokobanEnv("generate:6x6-1:1-20").reset(seed=0)[1]["optimal_length"] >= 1


def test_rooms_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = LevelGenerator((6, 8))
    first = levels.board(3)
    monkeypatch.setattr("graphwrap.envs.generator.generate_room", None)
    assert LevelGenerator((6, 8)).board(3) is first


def test_the_search_for_a_room_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphwrap.envs.generator.ROOMS_PER_LEVEL", 3)
    env = SokobanEnv("generate:5x5-1:90-99")
    with pytest.raises(RuntimeError, match=r"none of the first 3 rooms: ask for a larger size"):
        env.reset(seed=0)
