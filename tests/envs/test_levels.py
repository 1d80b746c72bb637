from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from graphwrap.envs import LevelSet, level_sets, load_levels, solve
from graphwrap.envs.cells import canonical
from graphwrap.envs.xsb import UNKNOWN

from .boards import three_levels

SHIPPED = {"6x6-1": (6, 1, 4, 12), "6x6-1-easy": (6, 1, 1, 5), "7x7-1": (7, 1, 5, 15), "7x7-2": (7, 2, 8, 25)}


def test_shipped_sets() -> None:
    assert level_sets() == dict.fromkeys(SHIPPED, ("test", "train"))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_set(name: str) -> None:
    side, boxes, least, most = SHIPPED[name]
    train, test = load_levels(name, "train"), load_levels(name, "test")
    assert train.boards.shape == (2000, side, side)
    assert test.boards.shape == (400, side, side)
    assert (train.name, test.name) == (f"{name}-train", f"{name}-test")
    for levels in (train, test):
        assert "made by: graphwrap levels make" in "".join(levels.header)
        assert "MIT" in "".join(levels.header)
        assert len({board.tobytes() for board in levels.boards}) == len(levels)
        assert levels.optimal.min() >= least
        assert levels.optimal.max() <= most
        facts = levels.describe()
        assert (facts["boxes_min"], facts["boxes_max"]) == (boxes, boxes)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_optimal_lengths(name: str, split: str) -> None:
    levels = load_levels(name, split)
    some = range(0, len(levels), 1 if name == "6x6-1" else 20)
    for board, length in zip(levels.boards[some], levels.optimal[some]):
        solution = solve(board)
        assert solution is not None
        assert len(solution) == length


@pytest.mark.parametrize("name", SHIPPED)
def test_held_out_levels_share_no_layout_with_the_training_levels(name: str) -> None:
    layouts = [
        {canonical(board == 0) for board in load_levels(name, split).boards} for split in ("train", "test")
    ]
    assert len(layouts[0]) > 100
    assert len(layouts[1]) > 20
    assert not layouts[0] & layouts[1]


def test_canonical_is_one_for_eight_images() -> None:
    board = load_levels().boards[0]
    images = [np.rot90(side, turns) for side in (board, board.T) for turns in range(4)]
    assert len({image.tobytes() for image in images}) == 8
    assert len({canonical(image) for image in images}) == 1
    assert canonical(board) != canonical(load_levels().boards[1])
    assert canonical(np.zeros((2, 6))) == canonical(np.zeros((6, 2))) != canonical(np.zeros((3, 4)))


def test_select_keeps_order_and_lengths() -> None:
    levels = three_levels()
    assert levels.select([2, 0]).optimal.tolist() == [2, 1]
    assert levels.select([2, 0]).text(1) == levels.text(0)
    hard = levels.select(levels.optimal > 1)
    assert len(hard) == 1
    assert hard.text(0) == levels.text(2)


def test_solved_fills_in_unknown_lengths_only() -> None:
    levels = three_levels()
    assert levels.optimal.tolist() == [1, UNKNOWN, 2]
    filled = levels.solved()
    assert filled.optimal.tolist() == [1, 5, 2]
    assert levels.optimal[1] == UNKNOWN
    stuck = LevelSet("stuck", [[[0, 0, 0, 0, 0], [0, 4, 1, 5, 0], [0, 1, 1, 2, 0], [0, 0, 0, 0, 0]]])
    with pytest.raises(ValueError, match="level 0 of stuck has none"):
        stuck.solved()


def test_describe() -> None:
    assert three_levels().describe() == {
        "name": "three",
        "levels": 3,
        "height": 5,
        "width": 7,
        "boxes_min": 1,
        "boxes_max": 2,
        "unsolved": 1,
        "optimal_median": 1.5,
        "optimal_mean": 1.5,
        "optimal_histogram": {1: 1, 2: 1},
    }
    histogram = load_levels(split="test").describe()["optimal_histogram"]
    assert sum(histogram.values()) == 400
    unsolved = LevelSet("new", three_levels().boards).describe()
    assert unsolved["optimal_median"] is None
    assert unsolved["optimal_histogram"] == {}


def test_save_and_load(tmp_path: Path) -> None:
    levels = LevelSet("mine", three_levels().boards, three_levels().optimal, ("by hand", "two lines"))
    levels.save(tmp_path / "mine.txt")
    read = load_levels(tmp_path / "mine.txt")
    assert (read.name, read.header) == ("mine", ("by hand", "two lines"))
    np.testing.assert_array_equal(read.boards, levels.boards)
    np.testing.assert_array_equal(read.optimal, levels.optimal)
    assert load_levels(str(tmp_path / "mine.txt")).text(1) == levels.text(1)
    assert load_levels(levels) is levels


def test_an_interrupted_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three_levels().save(tmp_path / "mine.txt")
    before = (tmp_path / "mine.txt").read_bytes()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        load_levels().save(tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert (tmp_path / "mine.txt").read_bytes() == before


def test_immutable_and_never_copied() -> None:
    boards = three_levels().boards.copy()
    levels = LevelSet("mine", boards)
    boards[:] = 0
    assert levels.text(0) == three_levels().text(0)
    assert copy.copy(levels) is copy.deepcopy(levels) is levels
    read = pickle.loads(pickle.dumps(levels))
    np.testing.assert_array_equal(read.boards, levels.boards)
    for array in (levels.boards, levels.optimal, read.boards, read.optimal):
        assert not array.flags.writeable
    with pytest.raises(AttributeError):
        levels.name = "other"  # type: ignore[misc]


WALLED = np.array([[0, 0, 0, 0, 0], [0, 5, 4, 2, 0], [0, 0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({(1, 0): 1}, "Every cell at the border is a wall"),
        ({(1, 2): 7}, "Cell codes are 0 to 6"),
        ({(1, 1): 1}, "A level has one player"),
        ({(1, 2): 5}, "A level has one player"),
        ({(1, 3): 1}, "as many targets as boxes"),
        ({(1, 2): 3, (1, 3): 1}, "at least one box off its target"),
    ],
)
def test_boards_that_are_refused(changes: dict, message: str) -> None:
    bad = WALLED.copy()
    for cell, code in changes.items():
        bad[cell] = code
    with pytest.raises(ValueError, match=rf"{message}.*; level 1 breaks this"):
        LevelSet("bad", np.stack([WALLED, bad]))


@pytest.mark.parametrize(
    "boards", [WALLED, np.zeros((0, 5, 5), int), np.zeros((1, 2, 5), int), WALLED[None] * 1.0]
)
def test_arrays_that_are_refused(boards: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"boards is an integer array \(n, H, W\)"):
        LevelSet("bad", boards)


def test_lengths_that_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one integer per level, shape \(1,\), got shape \(2,\)"):
        LevelSet("bad", WALLED[None], np.array([1, 2]))
    with pytest.raises(ValueError, match="at least 1, or -1 where not known; level 0 has 0"):
        LevelSet("bad", WALLED[None], np.array([0]))


def test_draw(tmp_path: Path) -> None:
    three_levels().draw(tmp_path / "three.png", columns=2)
    load_levels(split="test").draw(tmp_path / "some.png", [0, 399])
    for name in ("three.png", "some.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"one or more of 0 to 2, got \[3\]"):
        three_levels().draw(tmp_path / "bad.png", [3])
    with pytest.raises(ValueError, match="got none"):
        three_levels().draw(tmp_path / "bad.png", [])
    assert not (tmp_path / "bad.png").exists()


def test_draw_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'graphwrap\[plot\]'"):
        three_levels().draw(tmp_path / "three.png")
