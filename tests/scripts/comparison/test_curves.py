"""The picture of a comparison."""

from __future__ import annotations

import pytest
from matplotlib.image import imread

from graphwrap.scripts.comparison.curves import COLOURS, _colours, _short_names, draw
from tests.scripts.comparison.frames import NAN, comparison, run


def test_a_picture_is_drawn(tmp_path):
    draw(comparison(), tmp_path / "curves.png", "SB3 PPO on Sokoban")
    height, width, _ = imread(tmp_path / "curves.png").shape
    assert (width, height) == (1840, 800)


@pytest.mark.parametrize(
    "runs",
    [
        [run("grpo", 0, [0.1])],
        [run("grpo", 0, [NAN, NAN]), run("graphgpo", 0, [NAN, 0.2])],
        [run("grpo", 0, [0.0] * 4), run("grpo", 1, [0.0] * 3)],
    ],
    ids=["one run", "no complete group", "never a success"],
)
def test_poor_comparisons_are_drawn_too(tmp_path, runs):
    draw(runs, tmp_path / "curves.png", "CartPole-v1")
    assert (tmp_path / "curves.png").stat().st_size > 10_000


def test_methods_keep_their_colour_and_no_two_share_one():
    labels = ["graphgpo:omega=0.4", "graphgpo", "graphgpo:omega=0.2", "outcome"]
    colours = _colours(labels)
    assert colours["graphgpo"] == COLOURS["graphgpo"]
    assert colours["outcome"] == COLOURS["outcome"]
    assert len(set(colours.values())) == 4


def test_names_are_as_short_as_they_can_be():
    assert _short_names({"grpo": [], "graphgpo:omega=0.4": []}) == {
        "grpo": "grpo",
        "graphgpo:omega=0.4": "graphgpo",
    }
    assert (
        _short_names({"graphgpo": [], "graphgpo:omega=0.4": []})["graphgpo:omega=0.4"] == "graphgpo:omega=0.4"
    )
