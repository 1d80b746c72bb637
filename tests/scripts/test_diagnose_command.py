"""`graphwrap diagnose`."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from graphwrap import GRAFT, GraphGPO, Transitions
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


def rows_of(output: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in output.splitlines() if line.strip()}


def test_the_table_has_mean_and_range_of_the_batches_and_the_papers_numbers(run, batches):
    code, output = invoke(run)
    assert code == 0
    rows = rows_of(output)
    expected = [GraphGPO()(batch).diagnostics for batch in batches]
    assert list(rows) == ["number", *expected[0], "2"]
    for name in ("node_group_size", "propagation_degree", "visit_degree", "progress_in_failures"):
        values = [numbers[name] for numbers in expected]
        assert [float(cell) for cell in rows[name][:3]] == pytest.approx(
            [np.mean(values), min(values), max(values)], rel=1e-3
        )
    assert rows["single_visit_share"][3:] == ["about", "0.6"]
    assert rows["nodes"][3:] == []


def test_several_paths_count_every_file_once(run):
    first, second = sorted((run / "transitions").iterdir())
    assert rows_of(invoke(first)[1])["1"] == ["batch"]
    assert rows_of(invoke(first, second, run)[1])["2"] == ["batches"]


def test_the_credit_decides_the_share_without_credit(run, batches):
    shares = [GRAFT(lam=0.5)(batch).diagnostics["zero_credit_fraction"] for batch in batches]
    assert shares != [GraphGPO()(batch).diagnostics["zero_credit_fraction"] for batch in batches]
    told = rows_of(invoke(run, "--credit", "graft:lam=0.5")[1])["zero_credit_fraction"]
    assert [float(cell) for cell in told[:3]] == pytest.approx(
        [np.mean(shares), min(shares), max(shares)], rel=1e-3
    )


def test_a_number_without_a_base_is_left_out(run, load_golden):
    columns = load_golden("figure")["transitions"]
    columns["success"] = [False] * len(columns["success"])
    failures = Transitions.from_columns(**columns)
    alone = run.parent / "failures.parquet"
    failures.save(alone)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # they are not for people who look at the table
        code, output = invoke(alone, "--picture", run.parent / "none.png")
    assert code == 0
    assert rows_of(output)["progress_in_failures"] == ["-", "-", "-", "0.22"]
    together = rows_of(invoke(alone, run / "transitions")[1])["progress_in_failures"]
    assert together[:3] == rows_of(invoke(run)[1])["progress_in_failures"][:3]


def test_updates_count_from_the_first_one_of_each_run(run):
    files = sorted((run / "transitions").iterdir())
    assert find_batches(run) == files
    assert find_batches(run, 1) == files[:1]
    assert find_batches(run / "transitions", 1) == files[:1]
    assert find_batches(files[1], 1) == files[1:]
    shutil.copytree(run, run.parent / "other")
    assert find_batches(run.parent, 1) == [run.parent / "other" / "transitions" / files[0].name, files[0]]


def test_an_evaluation_is_found_as_a_whole(run, batches):
    folder = run.parent / "evaluations" / "one"
    (folder / "episodes" / "000").mkdir(parents=True)
    for file in (folder / "transitions.parquet", folder / "episodes" / "000" / "transitions.parquet"):
        batches[0].save(file)
    assert find_batches(folder) == [folder / "transitions.parquet"]
    assert find_batches(run.parent) == [folder / "transitions.parquet", *find_batches(run)]


@pytest.mark.parametrize("name", ["early.png", "early.PNG", "new/early.svg"])
def test_the_picture_is_drawn(run, tmp_path, name):
    picture = tmp_path / name
    code, output = invoke(run, "--updates", 1, "--picture", picture)
    assert code == 0
    assert f"drawn: {picture}" in output.replace("\n", "")
    assert picture.read_bytes()[:4] in (b"\x89PNG", b"<?xm")
    assert [path.name for path in picture.parent.glob(".*.part")] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "a path must be a file of transitions, or a folder"),
        (["run", "--updates", "-1"], "--updates must be at least 0, got -1"),
        (["run", "--credit", "grafd"], "grafd"),
        (["run", "--credit", "graft:lam=2"], "lam"),
        (["run", "--picture", "new/early.doc"], "--picture must be a file that ends in .png, "),
        (["run", "--picture", "early"], "--picture must be a file that ends in .png, "),
        (["run", "--picture", "folder.png"], "--picture must be a file that ends in .png, "),
        (["run", "--picture", "file/early.png"], "cannot write file/early.png: "),
    ],
)
def test_what_cannot_be_done_is_refused(run, monkeypatch, arguments, message):
    monkeypatch.chdir(run.parent)
    Path("folder.png").mkdir()
    Path("file").touch()
    code, output = invoke(*arguments)
    assert code == 2
    assert message in output
    assert sorted(path.name for path in Path().iterdir()) == ["file", "folder.png", "run"]


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.parquet").write_text("notes")
    code, output = invoke(tmp_path / "notes.parquet")
    assert code == 2
    assert "notes.parquet must be a Parquet file written by Transitions.save" in output.replace("\n", "")
