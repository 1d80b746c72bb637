from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from graphwrap.envs import load_levels, solve
from graphwrap.envs.cells import canonical
from graphwrap.scripts.make_levels import app, make_levels


def test_a_small_set() -> None:
    seen: list[tuple[int, int]] = []
    sets = make_levels(train=12, test=4, seed=3, progress=lambda done, total: seen.append((done, total)))
    assert {split: (levels.name, len(levels)) for split, levels in sets.items()} == {
        "train": ("6x6-1-train", 12),
        "test": ("6x6-1-test", 4),
    }
    assert seen == [(number, 16) for number in range(1, 17)]
    for levels in sets.values():
        lengths = [len(solve(board) or ()) for board in levels.boards]
        assert lengths == levels.optimal.tolist()
        assert min(lengths) >= 4
        assert max(lengths) <= 12
        assert len({board.tobytes() for board in levels.boards}) == len(levels)
    layouts = [{canonical(board == 0) for board in levels.boards} for levels in sets.values()]
    assert not layouts[0] & layouts[1]


@pytest.mark.parametrize("name", ["6x6-1", "7x7-1", "7x7-2"])
def test_the_shipped_files_begin_as_the_maker_makes_them(name: str) -> None:
    """Levels are found in one order, so a set of the same proportions is a prefix of the shipped one."""
    kinds: dict[str, dict] = {
        "6x6-1": {},
        "7x7-1": {"size": (7, 7), "min_optimal": 5, "max_optimal": 15},
        "7x7-2": {"size": (7, 7), "boxes": 2, "min_optimal": 8, "max_optimal": 25},
    }
    for split, levels in make_levels(train=15, test=3, **kinds[name]).items():
        shipped = load_levels(name, split)
        np.testing.assert_array_equal(levels.boards, shipped.boards[: len(levels)])
        np.testing.assert_array_equal(levels.optimal, shipped.optimal[: len(levels)])


@pytest.mark.slow
def test_the_shipped_files_byte_for_byte(tmp_path: Path) -> None:
    """As their headers say. The larger sets take minutes and differ in the arguments only."""
    header = load_levels(split="test").header
    command = next(line for line in header if line.startswith("made by: graphwrap levels make "))
    result = CliRunner().invoke(app, [*command.split()[5:], "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for split in ("train", "test"):
        shipped = files("graphwrap.envs") / "data" / f"6x6-1-{split}.txt"
        assert (tmp_path / f"6x6-1-{split}.txt").read_bytes() == shipped.read_bytes()


def test_the_command_writes_the_same_bytes_each_time(tmp_path: Path) -> None:
    arguments = [
        "--train",
        "5",
        "--test",
        "2",
        "--boxes",
        "2",
        "--height",
        "7",
        "--width",
        "6",
        "--seed",
        "1",
    ]
    outputs = []
    for folder in ("one", "two"):
        result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / folder), "--draw"])
        assert result.exit_code == 0, result.output
        assert "7x6-2-train" in result.output
        outputs.append(sorted((tmp_path / folder).glob("*.txt")))
    assert [path.name for path in outputs[0]] == ["7x6-2-test.txt", "7x6-2-train.txt"]
    assert [path.read_bytes() for path in outputs[0]] == [path.read_bytes() for path in outputs[1]]
    assert (tmp_path / "one" / "7x6-2-train.png").stat().st_size > 1000
    read = load_levels(tmp_path / "one" / "7x6-2-train.txt")
    assert read.describe()["boxes_min"] == 2
    command = "graphwrap levels make --height 7 --width 6 --boxes 2 --train 5 --test 2 --min-optimal 4 --max-optimal 12"
    assert f"made by: {command} --seed 1" in read.header


def test_an_interruption_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("graphwrap.scripts.make_levels.generate_room", interrupt)
    result = CliRunner().invoke(app, ["--out", str(tmp_path), "--train", "3"])
    assert result.exit_code == 130
    assert "interrupted; no half-written file is left" in result.output
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_said_first(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["--out", str(tmp_path / "file" / "levels")])
    assert result.exit_code == 2
    assert "graphwrap levels make: " in result.output
    assert "levels'" in result.output


def test_one_split_only() -> None:
    assert list(make_levels(train=3, test=0, seed=1)) == ["train"]
    assert list(make_levels(train=0, test=3, seed=1)) == ["test"]


def test_another_seed_makes_other_levels() -> None:
    one, two = (make_levels(train=3, test=0, seed=seed)["train"] for seed in (1, 2))
    assert not np.array_equal(one.boards, two.boards)


def test_too_few_rooms_end_in_an_error() -> None:
    with pytest.raises(
        RuntimeError, match=r"20 rooms of 6x6 with 1 boxes gave \d+ of 50 train and .* more max_rooms"
    ):
        make_levels(train=50, test=0, max_rooms=20)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train": 0, "test": 0}, "at least one level is wanted; got 0 and 0"),
        ({"train": -1, "test": 4}, "train and test are at least 0"),
        ({"min_optimal": 5, "max_optimal": 4}, "1 <= min_optimal <= max_optimal, got 5 and 4"),
        ({"seed": -1}, "seed is at least 0"),
    ],
)
def test_wrong_arguments(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_levels(**arguments)


def test_wrong_options_are_answered_without_a_traceback(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["--out", str(tmp_path), "--train", "-1"])
    assert result.exit_code == 2
    assert "graphwrap levels make: train and test are at least 0" in result.output
