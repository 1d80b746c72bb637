from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphwrap.scripts.levels_command import make_levels_app


def show(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(make_levels_app(), ["show", *arguments])
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.txt"
    path.write_text("Title: A\n  ####\n###  #\n#@$ .#\n######\n\n; b\n#####\n#.$@#\n#####\n")
    return path


def test_shipped_sets() -> None:
    code, output = show()
    assert code == 0
    for name in ("6x6-1", "7x7-1", "7x7-2"):
        assert f"{name}-train" in output
        assert f"{name}-test" in output
    code, output = show("7x7-2", "--split", "test")
    assert code == 0
    assert "7x7-2-test" in output
    assert "400" in output
    assert "7x7-2-train" not in output


def test_a_file_of_the_users(mine: Path, tmp_path: Path) -> None:
    code, output = show(str(mine))
    assert code == 0
    assert "4x6" in output
    assert "unknown: 2" in output
    code, output = show(str(mine), "--solve", "--index", "1", "--index", "0")
    assert code == 0
    assert "1: 1 2: 1" in output
    assert output.endswith("; 1 ###### #.$@## ###### ###### ; 0 ###### ### # #@$ .# ######")
    code, output = show(str(mine), "--index", "1", "--draw", str(tmp_path / "one.png"))
    assert code == 0
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_levels_made_on_the_fly(tmp_path: Path) -> None:
    picture = tmp_path / "rooms.png"
    code, output = show(
        "generate:5x6-1", "--split", "train", "--count", "7", "--solve", "--draw", str(picture)
    )
    assert code == 0
    assert "7 of 2**31" in output
    assert "5x6" in output
    assert picture.stat().st_size > 10_000
    code, output = show("generate:5x5-1:1-9", "--count", "2")
    assert code == 0
    assert output.count("2 of 2**31") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["nothing.txt"],
            "levels is a shipped set (6x6-1, 6x6-1-easy, 7x7-1, 7x7-2), the path of a level file, a LevelSet",
        ),
        (["generate:6"], "generate:HxW-BOXES"),
        (["generate:6x6-1", "--split", "dev"], "splits of generated levels are train, test"),
        (["generate:6x6-1", "--draw", "x.png"], "need one set"),
        (["6x6-1", "--split", "test", "--index", "400"], "--index is 0 to 399, got 400"),
        (["6x6-1", "--count", "0"], "--count is at least 1, got 0"),
    ],
)
def test_wrong_requests_are_answered(arguments: list[str], message: str) -> None:
    code, output = show(*arguments)
    assert code == 2
    assert f"graphwrap levels show: {message}" in output or message in output
    assert "Traceback" not in output


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.txt"
    path.write_text("#####\n#@$x#\n#####\n")
    code, output = show(str(path))
    assert code == 2
    assert "broken.txt: A level row has the characters" in output
    assert "line 2 has 'x'" in output


@pytest.mark.parametrize("command", ["make", "show"])
def test_help_has_examples(command: str) -> None:
    result = CliRunner().invoke(make_levels_app(), [command, "--help"])
    assert result.exit_code == 0
    assert f"graphwrap levels {command} " in result.output
    assert "Examples" in result.output
