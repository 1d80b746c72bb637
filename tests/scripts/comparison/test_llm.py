"""Comparisons of LLM agents."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphwrap.agents.runs.config import load_settings
from graphwrap.agents.runs.tracking import read_metrics
from graphwrap.agents.runs.trainer import Trainer
from graphwrap.cli import make_app
from graphwrap.scripts.comparison.results import Folder
from graphwrap.scripts.comparison.training import DIAGNOSTICS, ROW

from ...agents.small_runs import SMALL

pytestmark = pytest.mark.llm

TINY = [
    *SMALL,
    "rollout.tasks=2",
    "rollout.group_size=2",
    "validation.episodes=4",
    "model.tiny.warm_start_rows=64",
    "model.tiny.warm_start_epochs=1",
]


def compare(out: Path, *arguments: str):
    command = ["compare", "--agent", "llm", "--out", str(out), "--updates", "2", "--jobs", "1"]
    settings = [part for setting in TINY for part in ("--set", setting)]
    return CliRunner().invoke(make_app(), [*command, *settings, *arguments], env={"COLUMNS": "200"})


@pytest.mark.slow
def test_credits_are_compared_and_runs_are_kept(tmp_path):
    result = compare(tmp_path, "--credits", "ppo,graphgpo:omega=0.5", "--seeds", "3,")
    assert result.exit_code == 0, result.output
    assert "LLM agent on graphwrap/TextSokoban-v0: 2 runs of 2 updates, 2 x 2 episodes each" in result.output
    critic, graph = Folder(tmp_path).runs()
    assert (critic.credit, graph.credit, graph.seed) == ("ppo", "graphgpo:omega=0.5", 3)
    for run in (critic, graph):
        told = read_metrics(tmp_path / "trainings" / f"{run.credit.replace(':', '_')}-seed3")
        assert run.curve["update"].tolist() == [1, 2]
        assert run.curve["steps"].tolist() == [told[0]["steps"], told[0]["steps"] + told[1]["steps"]]
        assert run.curve["success"].tolist() == [row["success_rate"] for row in told]
        assert run.curve["seconds"].tolist() == [row["seconds/total"] for row in told]
        assert run.facts["held_out"] == told[-1]["validation/success_rate"]
        assert run.facts["held_out_episodes"] == 4
        known = {name for name in (*ROW, *DIAGNOSTICS) if not math.isnan(run.curve[name][-1])}
        assert known >= {
            "success",
            "credit_seconds",
            "collect_seconds",
            "entropy",
            "gradient_steps",
            "trained_share",
        }
    assert not math.isnan(graph.curve["node_group_size"][0])
    assert graph.curve["trained_share"].tolist() == [1.0, 1.0]
    about = json.loads((tmp_path / "trainings" / "graphgpo_omega=0.5-seed3" / "run.json").read_text())
    assert (about["settings"]["credit.parameters"], about["seed"]) == (
        {**about["settings"]["credit.parameters"], "omega": 0.5},
        3,
    )
    assert "graphgpo (omega=0.5) " in (tmp_path / "summary.md").read_text()

    again = compare(tmp_path, "--credits", "ppo,graphgpo:omega=0.5", "--seeds", "3,")
    assert "2 of 2 runs are in" in again.output
    other = compare(tmp_path, "--credits", "ppo", "--seeds", "3,", "--set", "ppo.entropy=0.5")
    assert other.exit_code == 2
    assert "ppo.entropy: 0.01 there, 0.5 asked for" in other.output
    other = compare(tmp_path, "--credits", "ppo", "--seeds", "4,", "--set", "credit.gamma=0.5")
    assert other.exit_code == 2
    assert "credit.gamma: " in other.output

    anew = compare(tmp_path, "--credits", "ppo", "--seeds", "3,", "--overwrite", "--set", "env.processes=1")
    assert anew.exit_code == 0, anew.output
    assert sorted(path.name for path in (tmp_path / "trainings").iterdir()) == ["ppo-seed3", "starts"]
    about = json.loads((tmp_path / "trainings" / "ppo-seed3" / "run.json").read_text())
    assert len(about["starts"]) == 1
    assert about["settings"]["env.processes"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--credits", "outcome"], "credit 'outcome': "),
        (
            ["--num-envs", "16", "--omega", "0.5"],
            "settings stand in --config and --set, got --num-envs, --omega",
        ),
        (["--config", "sokoban-tinny"], "sokoban-tinny"),
        (["--set", "ppo.entropi=1"], "ppo.entropy"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(tmp_path, arguments, message):
    result = compare(tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_runs_of_a_seed_share_their_start_and_are_what_they_are_alone(tmp_path):
    result = compare(tmp_path / "together", "--credits", "grpo,graphgpo,ppo", "--seeds", "5,", "--jobs", "2")
    assert result.exit_code == 0, result.output
    trainings = tmp_path / "together" / "trainings"
    starts = sorted(folder.name for folder in (trainings / "starts").iterdir())
    assert starts == ["seed5", "seed5-critic"]
    assert not list(trainings.glob("*-seed5/start"))
    settings = load_settings(
        "sokoban-tiny", [*TINY, "credit.name=graphgpo", "credit.parameters.omega=0.8", "updates=2", "seed=5"]
    )
    alone = Trainer(settings, tmp_path / "alone").run()
    together = read_metrics(trainings / "graphgpo-seed5")
    for name in ("success_rate", "loss", "kl", "entropy", "grad_norm", "validation/success_rate"):
        assert [row.get(name) for row in together] == [row.get(name) for row in alone]
