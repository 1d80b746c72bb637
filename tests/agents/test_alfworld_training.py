"""The shipped settings of ALFWorld train on its real engine, and what they train is evaluated there."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from graphwrap import Transitions
from graphwrap.agents.models.warm_start import random_walks
from graphwrap.agents.runs.config import load_settings, shipped_configs
from graphwrap.agents.runs.tracking import read_metrics
from graphwrap.agents.runs.trainer import Trainer
from graphwrap.cli import make_app
from graphwrap.envs.pool import env_maker

pytestmark = pytest.mark.alfworld

SMALL = (
    "model.tiny.hidden=64",
    "model.tiny.heads=2",
    "model.tiny.intermediate=128",
    "model.tiny.warm_start_rows=256",
    "model.tiny.warm_start_epochs=6",
    "model.tiny.warm_start_learning_rate=1e-2",
    "model.tiny.warm_start_guided=1.0",
    "env.kwargs.task_types=[pick_and_place_simple]",
    "env.kwargs.max_steps=8",
    "rollout.tasks=2",
    "rollout.group_size=4",
    "validation.episodes=4",
    "updates=2",
    "threads=1",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    with open(folder.parent / "console.txt", "w", encoding="utf-8") as file:
        Trainer(load_settings("alfworld-tiny", SMALL), folder, console=Console(file=file)).run()
    return folder


def test_the_warm_start_tells_how_far_it_is(run):
    told = (run.parent / "console.txt").read_text(encoding="utf-8")
    assert "learns from random actions and walkthroughs" in told
    losses = [
        float(line.split(", ")[1].split()[0]) for line in told.splitlines() if "warm start: epoch" in line
    ]
    assert len(losses) == 6
    assert losses[0] > losses[-1]


def test_two_updates(run):
    rows = read_metrics(run)
    assert [row["update"] for row in rows] == [1, 2]
    for row in rows:
        assert row["complete_groups"] == 2
        assert row["ratio_mean"] == pytest.approx(1, abs=0.2)
        assert 1 <= row["episode_length"] <= 8
        assert row["credit/visit_degree"] <= row["credit/propagation_degree"] <= 4
        assert not math.isnan(row["success/pick_and_place_simple"])
    assert 0 <= rows[-1]["validation/success_rate"] <= 1
    assert rows[0]["kl"] == pytest.approx(0, abs=1e-2)


def test_groups_are_games_and_states_are_those_of_graphgpo(run):
    first = Transitions.load(run / "transitions" / "update-000001.parquet")
    assert first.num_tasks == 2
    assert first.num_episodes == 8
    observation, *_, commands = first.state_labels[first.state[0]]
    assert "You are in the middle of a room" in observation
    assert "inventory" in commands


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_the_checkpoint_is_evaluated_on_every_split(run, tmp_path, split):
    out = tmp_path / "evaluation"
    options = ["--split", split, "evaluation.tasks=5", "evaluation.task_option=game", "--out", str(out)]
    done = CliRunner().invoke(make_app(), ["evaluate", str(run), *options])
    assert done.exit_code == 0, done.output
    result = json.loads((out / "result.json").read_text())
    assert result["settings"]["env.kwargs"]["split"] == split
    episodes = [json.loads(file.read_text()) for file in sorted(out.glob("episodes/*/episode.json"))]
    assert len({episode["name"] for episode in episodes}) == 5
    assert all(episode["name"].startswith(f"{split}/pick_and_place_simple-") for episode in episodes)
    assert Transitions.load(out / "transitions.parquet").num_episodes == 5


@pytest.mark.parametrize("name", [name for name in shipped_configs() if name.startswith("alfworld")])
@pytest.mark.parametrize("held_out", [False, True])
def test_the_environment_of_the_shipped_settings_can_be_played(name, held_out, monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    settings = load_settings(name)
    guided = 0.0 if held_out else settings.model.tiny.warm_start_guided
    states = random_walks(env_maker(settings.env, held_out), 40, 0, guided)
    assert len(states) == 40
    assert any(state.taught for state in states) == (guided > 0)
    assert all("go to" in " ".join(state.admissible) for state in states)
