"""The check that measures the LLM trainer on a GPU, run on a CPU."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import gymnasium as gym
import pytest
import torch

from graphwrap.scripts import gpu_check

pytestmark = pytest.mark.llm

SCRIPT = Path(gpu_check.__file__).resolve()
SMALL = (
    *(
        "--size",
        "tiny",
        "--device",
        "cpu",
        "--engine",
        "transformers",
        "--steps",
        "3",
        "--answer-tokens",
        "5",
    ),
    *("--tasks", "2", "--group-size", "3", "--updates", "2"),
)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the file as a person does. Returns the exit status."""
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    return left.value.code or 0


@pytest.mark.filterwarnings("ignore:every step of this batch")
def test_a_small_check_on_a_cpu(monkeypatch, tmp_path, capsys):
    out, folder = tmp_path / "results" / "check.json", tmp_path / "scratch"
    folder.mkdir()
    assert run(monkeypatch, *SMALL, "--out", str(out), "--folder", str(folder)) == 0
    assert list(folder.iterdir()) == []
    report = json.loads(out.read_text())
    rows, summary = report["updates"], report["summary"]
    assert [row["update"] for row in rows] == [1, 2]
    assert all(row["steps"] == row["trained_rows"] <= 2 * 3 * 3 for row in rows)
    assert all(row["sampled_tokens"] == row["trained_tokens"] == 5 * row["steps"] for row in rows)
    assert all(row["gradient_steps"] == 1 for row in rows)
    last = rows[1]
    assert summary["seconds/rollout"] == last["seconds/rollout"]
    assert summary["seconds/together"] == pytest.approx(
        last["seconds/rollout"] + last["seconds/update"] + last["seconds/sync"]
    )
    assert summary["seconds/rollout"] > sum(
        summary[f"seconds/{part}"] for part in ("engine", "env", "prompt", "credit")
    )
    assert summary["credit_share"] == pytest.approx(last["seconds/credit"] / summary["seconds/together"])
    assert summary["answer_tokens_per_second"] == pytest.approx(
        last["sampled_tokens"] / last["seconds/rollout"]
    )
    assert summary["trained_tokens_per_second"] == pytest.approx(
        last["steps"] * (last["prompt_tokens"] + 5) / last["seconds/update"]
    )
    assert summary["drift_mean"] < 1e-5
    assert report["memory"]["host_peak"] > 0.1
    assert report["memory"]["gpu_peak"] is None
    assert report["versions"]["torch"] == torch.__version__
    # Embedding; queries, keys and values with bias; output; three maps of the MLP; three norms.
    assert report["parameters"] == 1024 * 64 + 64 * 128 + 128 + 64 * 64 + 3 * 64 * 128 + 3 * 64
    shown = capsys.readouterr().out
    assert "answer tokens/s" in shown
    assert "update 2" in shown


def test_without_a_gpu_it_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run(monkeypatch, "--out", str(tmp_path / "check.json")) == 2
    assert "needs a GPU" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "value", "says"), [("--size", "huge", "tiny"), ("--engine", "other", "transformers")]
)
def test_options_that_do_not_exist(monkeypatch, capsys, option, value, says):
    assert run(monkeypatch, "--device", "cpu", option, value) == 2
    assert says in capsys.readouterr().err


def test_the_shape_is_that_of_qwen():
    from transformers import Qwen2ForCausalLM

    with torch.device("meta"):
        model = Qwen2ForCausalLM(gpu_check.config_of(gpu_check.SIZES["qwen2.5-0.5b"]))
    assert (
        sum(weight.numel() for weight in model.parameters()) == 494_032_768
    )  # as its model card has it, 0.49B


def test_boards_are_stirred_by_what_is_no_action():
    make = gpu_check.StirredTextSokoban
    plain = gym.make("graphwrap/TextSokoban-v0")
    envs = [make() for _ in range(4)]
    start, _ = plain.reset(seed=3)
    assert {env.reset(seed=3)[0] for env in envs} == {start}
    for move in ("up", "left", "down", "right"):
        seen = plain.step(move)
        assert all(env.step(move) == seen for env in envs)
    assert len({tuple(env.step("noise")[0] for _ in range(6)) for env in envs}) > 1
