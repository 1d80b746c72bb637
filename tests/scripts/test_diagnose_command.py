"""`graphwrap diagnose`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from graphwrap import GraphGPO, Transitions
from graphwrap.cli import make_app
from graphwrap.scripts.diagnose_command import find_batches


def invoke(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(make_app(), ["diagnose", *map(str, arguments)], env={"COLUMNS": "120"})
    return result.exit_code, result.output


@pytest.fixture
def batches(load_golden):
    return [Transitions.from_columns(**load_golden(name)["transitions"]) for name in ("figure", "larger")]


@pytest.fixture
def run(tmp_path: Path, batches) -> Path:
    """A run's folder, with two updates."""
    folder = tmp_path / "run"
    (folder / "transitions").mkdir(parents=True)
    for update, batch in enumerate(batches, 1):
        batch.save(folder / "transitions" / f"update-{update:06d}.parquet")
    return folder


def test_the_table_has_mean_and_range_of_the_batches_and_the_papers_numbers(run, batches):
    code, output = invoke(run)
    assert code == 0
    rows = {line.split()[0]: line.split()[1:] for line in output.splitlines() if line.strip()}
    expected = [GraphGPO()(batch).diagnostics for batch in batches]
    assert list(rows) == ["number", *expected[0], "2"]
    for name in ("node_group_size", "propagation_degree", "visit_degree", "progress_in_failures"):
        values = [numbers[name] for numbers in expected]
        assert [float(cell) for cell in rows[name][:3]] == pytest.approx(
            [np.mean(values), min(values), max(values)], rel=1e-3
        )
    assert rows["single_visit_share"][3:] == ["about", "0.6"]
    assert rows["nodes"][3:] == []


def test_updates_count_from_the_first_one_of_each_run(run):
    files = sorted((run / "transitions").iterdir())
    assert find_batches(run) == files
    assert find_batches(run, 1) == files[:1]
    assert find_batches(run.parent, 1) == files[:1]
    assert find_batches(files[1], 1) == files[1:]


def test_an_evaluations_file_is_found(tmp_path, batches):
    batches[0].save(tmp_path / "transitions.parquet")
    assert find_batches(tmp_path) == [tmp_path / "transitions.parquet"]


def test_the_picture_is_drawn(run, tmp_path):
    picture = tmp_path / "new" / "early.png"
    code, output = invoke(run, "--updates", 1, "--credit", "graft", "--picture", picture)
    assert code == 0
    assert f"drawn: {picture}" in output.replace("\n", "")
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "a path must be a file of transitions, or a folder"),
        (["run", "--updates", "-1"], "--updates must be at least 0, got -1"),
        (["run", "--credit", "grafd"], "grafd"),
        (["run", "--picture", "early.doc"], "doc"),
    ],
)
def test_what_cannot_be_done_is_refused(run, monkeypatch, arguments, message):
    monkeypatch.chdir(run.parent)
    code, output = invoke(*arguments)
    assert code == 2
    assert message in output
    assert not Path("early.doc").exists()


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.parquet").write_text("notes")
    code, output = invoke(tmp_path / "notes.parquet")
    assert code == 2
    assert "notes.parquet" in output
