"""`graphwrap alfworld-games`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphwrap.cli import make_app
from graphwrap.envs.alfred import generation

pytestmark = pytest.mark.alfworld


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(make_app(), ["alfworld-games", *arguments], env={"COLUMNS": "120"})
    return result.exit_code, " ".join(result.output.split())


def test_games_are_made_and_kept(tmp_path: Path) -> None:
    out = tmp_path / "games"
    arguments = (
        str(out),
        "--types",
        "look_at_obj_in_light, pick_two_obj_and_place",
        "--split",
        "valid_unseen",
    )
    code, output = invoke(*arguments, "--per-type", "1")
    assert code == 0
    assert "2/2" in output
    assert output.endswith("valid_unseen: 2 games made, 0 kept")
    names = sorted(path.name.split("-")[0] for path in (out / "json_2.1.1" / "valid_unseen").iterdir())
    assert names == ["look_at_obj_in_light", "pick_two_obj_and_place"]
    code, output = invoke(*arguments, "--per-type", "2")
    assert code == 0
    assert output.endswith("valid_unseen: 2 games made, 2 kept")


def test_games_that_were_drawn_again_are_told(tmp_path: Path) -> None:
    types = ("--types", "pick_and_place_simple")
    code, output = invoke(str(tmp_path), "--size", "release", "--seed", "21", "--per-type", "2", *types)
    assert code == 0
    assert output.endswith("train: 2 games made, 0 kept; 1 drawn again: won at the start")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--split", "test"],
            "graphwrap alfworld-games: split is one of train, valid_seen, valid_unseen; got 'test'.",
        ),
        (["--size", "large"], "graphwrap alfworld-games: size is one of small, release; got 'large'."),
        (["--per-type", "0"], "graphwrap alfworld-games: per_type is an integer of at least 1, got 0."),
        (["--seed", "-3"], "graphwrap alfworld-games: seed is an integer of at least 0, got -3."),
        (
            ["--types", "pick"],
            "graphwrap alfworld-games: types are some of pick_and_place_simple, look_at_obj_in_light",
        ),
    ],
)
def test_wrong_requests_are_answered_before_anything_is_written(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    code, output = invoke(str(tmp_path / "games"), *arguments)
    assert code == 2
    assert message in output
    assert not (tmp_path / "games").exists()


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    code, output = invoke(str(tmp_path / "file"))
    assert code == 2
    assert "is a file: choose another name." in output


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("graphwrap.envs.alfred.imports.find_spec", lambda name: None)
    code, output = invoke(str(tmp_path / "games"))
    assert code == 2
    assert "pip install 'graphwrap[alfworld]'" in output
    assert not (tmp_path / "games").exists()


def test_an_interruption_is_answered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(generation, "prove", interrupted)
    code, output = invoke(str(tmp_path), "--per-type", "1")
    assert code == 130
    assert "interrupted; the games made so far are whole, and the same command goes on" in output
    assert not list(tmp_path.glob(".making-*"))


def test_help_has_examples() -> None:
    code, output = invoke("--help")
    assert code == 0
    assert output.count(" graphwrap alfworld-games ") >= 3
    assert "OUT" in output
