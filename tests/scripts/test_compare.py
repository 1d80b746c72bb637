"""The command `graphwrap compare`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from pyarrow import parquet
from typer.testing import CliRunner

from graphwrap.cli import make_app
from graphwrap.scripts.comparison.results import REPORT_FILES, Folder
from graphwrap.scripts.comparison.settings import Settings, parse_credit
from graphwrap.scripts.comparison.training import train_run

TINY = ["--updates", "2", "--num-envs", "16", "--batch-size", "48", "--eval-episodes", "8"]
CLOCK = {"seconds", "collect_seconds", "credit_seconds"}


def compare(out: Path, *arguments: str):
    return CliRunner().invoke(
        make_app(), ["compare", "--out", str(out), *TINY, *arguments], env={"COLUMNS": "160"}
    )


def curves(folder: Path) -> dict[str, list]:
    """All updates of all runs but for times, comparable with ==."""
    table = parquet.read_table(folder / "comparison.parquet")
    return {
        name: list(map(repr, table[name].to_pylist())) for name in table.column_names if name not in CLOCK
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Two credits, two seeds, two runs at a time."""
    out = tmp_path_factory.mktemp("compare") / "finished"
    result = compare(out, "--credits", "outcome,graphgpo", "--seeds", "2", "--jobs", "2")
    assert result.exit_code == 0, result.output
    return out


def test_a_comparison_leaves_a_report(finished):
    for name in REPORT_FILES:
        assert (finished / name).stat().st_size > 0, name
    table = parquet.read_table(finished / "comparison.parquet")
    assert table.num_rows == 2 * 2 * 2
    assert table["credit"].to_pylist() == ["outcome"] * 4 + ["graphgpo"] * 4
    assert table["seed"].to_pylist() == [0, 0, 1, 1] * 2
    told = json.loads((finished / "summary.json").read_text())
    success = np.reshape(table["success"].to_numpy(), (2, 2, 2)).mean(axis=2)  # credit, seed
    assert told["graphgpo"]["title"] == "graphgpo (omega=0.8)"
    assert told["graphgpo"]["metrics"]["auc"]["mean"] == pytest.approx(success[1].mean())
    difference = told["graphgpo"]["paired_differences"]["outcome"]["auc"]
    assert difference["mean"] == pytest.approx((success[1] - success[0]).mean())
    about = json.loads((finished / "settings.json").read_text())
    assert about["settings"]["num_envs"] == 16
    assert about["credits"]["graphgpo"]["parameters"]["omega"] == 0.8
    assert set(about["versions"]) >= {"python", "numpy", "torch", "stable-baselines3", "graphwrap"}
    assert "2 seeds are a demonstration, not evidence" in (finished / "summary.md").read_text()


def test_a_run_is_the_same_in_parallel_and_alone(finished):
    settings = Settings(
        updates=2, num_envs=16, batch_size=48, held_out_kwargs={"split": "test"}, eval_episodes=8
    )
    threads = torch.get_num_threads()
    try:
        alone = train_run(settings, parse_credit("graphgpo", {"omega": 0.8}), 1)
    finally:
        torch.set_num_threads(threads)
    (parallel,) = (run for run in Folder(finished).runs() if (run.credit, run.seed) == ("graphgpo", 1))
    for name, values in parallel.curve.items():
        if name not in CLOCK:
            np.testing.assert_array_equal(values, [row[name] for row in alone.rows], err_msg=name)


def test_a_finished_comparison_only_reports(finished):
    before = curves(finished)
    began = time.perf_counter()
    result = compare(finished, "--credits", "outcome,graphgpo", "--seeds", "2")
    assert time.perf_counter() - began < 3.0  # no worker was started
    assert result.exit_code == 0, result.output
    assert "4 of 4 runs are in" in result.output
    assert "Difference to outcome at equal seeds" in result.output
    assert curves(finished) == before


def test_other_settings_are_refused(finished):
    result = compare(
        finished, "--credits", "outcome,graphgpo", "--seeds", "2", "--entropy", "0.5", "--omega", "0.3"
    )
    assert result.exit_code == 2
    assert "entropy: 0.01 there, 0.5 asked for" in result.output
    assert "graphgpo omega: 0.8 there, 0.3 asked for" in result.output


def test_a_failing_run_does_not_stop_the_others(tmp_path):
    out = tmp_path / "failing"
    env = ["--env", "tests.scripts.comparison.jobs_to_run:graphwrap-tests/BreaksForSeed1-v0"]
    result = compare(out, *env, "--credits", "grpo", "--seeds", "3", "--jobs", "2")
    assert result.exit_code == 1
    assert "grpo seed 1 failed: Traceback" in result.output
    assert "RuntimeError: broken on purpose" in result.output
    assert "failed: grpo seed 1; the same command tries again" in result.output
    assert [run.seed for run in Folder(out).runs()] == [0, 2]
    assert json.loads((out / "summary.json").read_text())["grpo"]["metrics"]["auc"]["seeds"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--credits", "graphgp"], "did you mean 'graphgpo'"),
        (["--seeds", "none"], "seeds are a count"),
        (["--num-envs", "20"], "multiple of group_size"),
        (["--env", "No-Such-Env-v0"], "cannot be made"),
        (["--env-kwargs", "[]"], "--env-kwargs is a JSON object"),
        (["--env-kwargs", '{"splat": 1}'], "cannot be made"),
        (["--eval-env-kwargs", "{}"], "held-out levels must not be training levels"),
        (["--env-kwargs", '{"obs": "text"}'], "not Text"),
        (["--jobs", "0"], "jobs must be at least 1"),
        (["--target", "20"], "target must be in (0, 1]"),
        (["--eval-env-kwargs", '{"splat": 1}'], "cannot be made"),
        (["--eval-env-kwargs", '{"split": "test", "obs": "codes"}'], "must have the observation_space"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(tmp_path, arguments, message):
    result = compare(tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "out").exists()


def start(out: Path, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "graphwrap.cli", "compare", "--out", str(out), "--credits", "grpo,graft"]
    # Long enough that a signal comes in time, on a busy machine too.
    longer = ["--updates", "4", "--seeds", "2", "--jobs", "1"]
    return subprocess.Popen(
        [*command, *TINY, *longer, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # A shell's background jobs ignore Ctrl-C, and so would this process if the tests are one.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def until_a_run_is_finished(out: Path, process: subprocess.Popen) -> None:
    limit = time.monotonic() + 120
    while not list(out.glob("runs/*.json")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """What `start` leaves when nothing interrupts it."""
    out = tmp_path_factory.mktemp("whole") / "whole"
    process = start(out)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    return out


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "Ctrl-C"])
def test_an_interrupted_comparison_resumes_to_the_same_result(tmp_path, whole, how):
    broken = tmp_path / "broken"
    process = start(broken)
    until_a_run_is_finished(broken, process)
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # as a terminal does: to the workers too
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 130, output
        assert "finished runs are kept" in output
        assert "Traceback" not in output
    else:
        process.kill()
        process.wait(timeout=60)
        process.stdout.close()
    assert 1 <= len(Folder(broken).runs()) < 4
    process = start(broken)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    assert len(Folder(broken).runs()) == 4
    assert curves(broken) == curves(whole)
