from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from graphwrap.cli import make_app
from graphwrap.scripts.benchmarks import BENCHMARKS, Benchmark


def bench(*arguments: str):
    return CliRunner().invoke(make_app(), ["bench", *arguments])


def test_it_measures_and_writes(tmp_path):
    result = bench("--only", "graphs", "--pairs", "2", "--quick", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "the numbers mean nothing" in result.output
    about = json.loads((tmp_path / "benchmark.json").read_text())
    assert about["settings"] == {"only": ["graphs"], "pairs": 2, "quick": True}
    assert about["command"].startswith("graphwrap bench")
    assert set(about["versions"]) >= {"python", "numpy", "graphwrap"}
    assert set(about["bandwidth"]) == {"triad GB/s", "copy GB/s"}
    unit, costs = about["results"]
    assert (unit["name"], costs["name"]) == ("graphs, unit costs", "graphs, different costs")
    assert unit["figure"] == pytest.approx(np.median(np.array(unit["ours_each"]) / unit["other_each"]))
    assert "3,000 integer-state transitions in 3 tasks" in (tmp_path / "benchmark.md").read_text()
    assert not list(tmp_path.glob("*.part"))


def test_the_list_names_all_and_what_they_need():
    result = bench("--list")
    assert result.exit_code == 0, result.output
    for name in BENCHMARKS:
        assert f" {name} " in result.output


def test_an_unknown_name_is_refused():
    result = bench("--only", "graphs,speed")
    assert result.exit_code == 2
    assert "speed" in result.output
    assert "graphs" in result.output


def test_what_cannot_be_measured_is_named_and_the_rest_is_kept(tmp_path, monkeypatch):
    broken = {
        "missing": Benchmark(
            "missing", "something", "graphs:measure", 1, (("no_such_module", "no-such-package"),)
        ),
        "failing": Benchmark("failing", "something", "graphs:no_such_function"),
    }
    for name, benchmark in broken.items():
        monkeypatch.setitem(BENCHMARKS, name, benchmark)
    result = bench("--only", "missing,failing,graphs", "--pairs", "1", "--quick", "--out", str(tmp_path))
    assert result.exit_code == 1
    assert "pip install no-such-package" in result.output
    about = json.loads((tmp_path / "benchmark.json").read_text())
    assert about["failures"].keys() == broken.keys()
    assert "no_such_function" in about["failures"]["failing"]
    assert [one["name"] for one in about["results"]] == ["graphs, unit costs", "graphs, different costs"]
