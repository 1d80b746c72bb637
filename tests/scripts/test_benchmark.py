"""The speed benchmark."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from graphwrap import TransitionGraph
from graphwrap.cli import make_app
from graphwrap.scripts.benchmark import cells
from graphwrap.scripts.ratios import Ratio, interleaved, random_transitions


def ratio(ours: list[float], other: list[float], limit: float, at_most: bool) -> Ratio:
    return Ratio("graph", "something", "ours", "other", "s", ours, other, limit, at_most, {})


def test_pairs_alternate():
    calls: list[str] = []

    def measure(name: str, value: float):
        return lambda: calls.append(name) or value

    ours, other = interleaved(measure("ours", 1.0), measure("other", 2.0), 3)
    assert calls == ["ours", "other", "other", "ours", "ours", "other"]
    assert (ours, other) == ([1.0] * 3, [2.0] * 3)


def test_the_ratio_is_the_median_of_the_pairs():
    measured = ratio([1.0, 1.0, 8.0], [2.0, 1.0, 2.0], 1.0, True)
    assert measured.ratios == [0.5, 1.0, 4.0]
    assert (measured.median, measured.holds) == (1.0, True)
    assert not ratio([1.1], [1.0], 1.0, True).holds
    assert ratio([0.96], [1.0], 0.95, False).holds
    assert not ratio([0.94], [1.0], 0.95, False).holds
    assert cells(measured)[0][2:] == ["1.00 (0.50 to 4.00)", "at most 1.00: yes"]


def test_random_transitions_are_as_described():
    transitions = random_transitions(20_000, 20)
    assert (len(transitions), transitions.num_tasks) == (20_000, 20)
    assert random_transitions(20_000, 20, seed=0).state.tolist() == transitions.state.tolist()
    graph = TransitionGraph.from_transitions(transitions)
    steps_per_node = len(transitions) / (graph.num_nodes - transitions.num_tasks)
    assert 3.5 < steps_per_node < 6.0
    successes = np.mean(transitions.outcome == 0)
    assert 0.1 < successes < 0.35


def test_the_command_measures_the_graph(tmp_path):
    arguments = ["bench", "--only", "graph", "--pairs", "2", "--rows", "3000", "--tasks", "3", "--out"]
    result = CliRunner().invoke(make_app(), [*arguments, str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "2 pairs are too few to rely on" in result.output
    about = json.loads((tmp_path / "benchmark.json").read_text())
    assert about["settings"]["rows"] == 3000
    assert about["command"].startswith("graphwrap bench")
    assert set(about["versions"]) >= {"python", "numpy", "graphwrap"}
    (measured,) = about["ratios"]
    assert measured["name"] == "graph"
    assert measured["median_ratio"] == pytest.approx(
        np.median(np.array(measured["ours_each"]) / measured["other_each"])
    )
    assert "3,000 integer-state transitions in 3 tasks" in (tmp_path / "benchmark.md").read_text()


@pytest.mark.slow
def test_the_command_measures_training(tmp_path):
    arguments = ["bench", "--only", "training", "--pairs", "1", "--updates", "1", "--num-envs", "16"]
    result = CliRunner().invoke(make_app(), [*arguments, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    (measured,) = json.loads((tmp_path / "benchmark.json").read_text())["ratios"]
    assert measured["unit"] == "steps/s"
    assert 0.3 < measured["median_ratio"] < 3.0
    assert measured["details"] == {"gradient steps with": 8.0, "gradient steps bare": 8.0}


def test_an_unknown_ratio_is_refused():
    result = CliRunner().invoke(make_app(), ["bench", "--only", "speed"])
    assert result.exit_code == 2
    assert "graph or training" in result.output


def test_environments_make_whole_groups():
    result = CliRunner().invoke(make_app(), ["bench", "--only", "training", "--num-envs", "9"])
    assert result.exit_code == 2
    assert "is a multiple of 8" in result.output
