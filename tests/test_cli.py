"""The command line."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from typer.testing import CliRunner

import graphwrap
from graphwrap.cli import make_app
from graphwrap.methods import METHODS, PRESETS


def invoke(*arguments: str):
    return CliRunner().invoke(make_app(), list(arguments), env={"COLUMNS": "120", "TERMINAL_WIDTH": "120"})


def test_help_lists_the_commands():
    result = invoke("--help")
    assert result.exit_code == 0
    for command in ("compare", "train-llm", "levels", "methods", "bench", "doctor"):
        assert command in result.output


@pytest.mark.parametrize(
    "command",
    [["compare"], ["train-llm"], ["bench"], ["methods"], ["levels", "make"], ["levels", "show"], ["doctor"]],
)
def test_help_of_a_command_teaches(command):
    result = invoke(*command, "--help")
    assert result.exit_code == 0
    if command != ["doctor"]:
        examples = [line for line in result.output.splitlines() if f"  graphwrap {' '.join(command)}" in line]
        assert len(examples) >= 2
        assert all(line.count("graphwrap") == 1 for line in examples)


def test_version():
    assert invoke("--version").output.strip() == f"graphwrap {graphwrap.__version__}"


def test_methods_shows_each_with_parameters_and_paper():
    output = invoke("methods").output
    for name, method in METHODS.items():
        assert f"{name}  {method.__name__}" in output
        assert method.paper in output
    for name in PRESETS:
        assert name in output


def test_methods_shows_one():
    output = " ".join(invoke("methods", "graphgpo").output.split())
    assert "graphgpo GraphGPO, arXiv 2605.26684" in output
    assert "R^G(s, a, s') = r_succ * omega ** (d(s') + c(s, a))" in output
    assert "omega 0.1 in (0, 1)" in output
    assert "exponent 'cost' one of 'cost', 'next', 'progress'" in output
    assert "GiGPO" not in output
    reference = " ".join(invoke("methods", "gigpo-reference").output.split())
    assert "gigpo with std=False, episode_statistics='step', eps=1e-06" in reference


def test_an_unknown_method_is_answered_with_the_names():
    result = invoke("methods", "graphgp")
    assert result.exit_code == 2
    assert "the names are grpo, rloo" in result.output
    assert "did you mean graphgpo" in result.output


def test_levels_show(tmp_path):
    output = invoke("levels", "show").output
    assert "6x6-1-train" in output
    assert "6x6-1-test" in output
    picture = tmp_path / "levels.png"
    result = invoke("levels", "show", "6x6-1", "--split", "test", "--index", "0", "--draw", str(picture))
    assert result.exit_code == 0, result.output
    assert "6x6-1-train" not in result.output
    assert "######" in result.output
    assert picture.stat().st_size > 1_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["9x9-7"], "levels is a shipped set"),
        (["6x6-1", "--split", "best"], "splits of 6x6-1 are"),
        (["6x6-1", "--index", "0"], "need one set"),
        (["6x6-1", "--split", "test", "--index", "100000"], "--index is 0 to"),
    ],
)
def test_wrong_levels_are_answered(arguments, message):
    result = invoke("levels", "show", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_a_picture_that_cannot_be_drawn_is_answered(tmp_path):
    result = invoke("levels", "show", "6x6-1", "--split", "test", "--draw", str(tmp_path / "levels.nothing"))
    assert result.exit_code == 2
    assert "graphwrap levels show: Format 'nothing' is not supported" in result.output


def test_doctor_says_what_works():
    result = invoke("doctor")
    assert result.exit_code == 0, result.output
    assert "the credit of a known graph is right" in result.output
    assert "Numba cache" in result.output
    for package in ("numpy", "numba", "gymnasium", "stable-baselines3", "torch", "gym-sokoban"):
        assert package in result.output


def run_python(code: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )


def test_help_imports_nothing_heavy():
    done = run_python(
        """
        import sys
        from graphwrap.cli import make_app
        make_app()
        heavy = {"numba", "torch", "stable_baselines3", "matplotlib", "pyarrow", "scipy", "pandas"} & set(sys.modules)
        assert not heavy, heavy
        """
    )
    assert done.returncode == 0, done.stderr


def test_without_typer_the_way_to_get_it_is_named():
    done = run_python(
        """
        import sys
        sys.modules["typer"] = None
        from graphwrap.cli import main
        main()
        """
    )
    assert done.returncode == 1
    assert done.stderr.strip() == "The graphwrap command needs typer: pip install 'graphwrap[cli]'"


def test_without_sb3_compare_names_the_extra():
    done = run_python(
        """
        import sys
        for name in ("stable_baselines3", "pyarrow"):
            sys.modules[name] = None
        from graphwrap.cli import make_app
        make_app()(["compare"])
        """
    )
    assert done.returncode == 2
    assert "stable_baselines3, pyarrow missing; install with: pip install 'graphwrap[sb3,io]'" in done.stderr
