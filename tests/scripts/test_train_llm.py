"""The command that trains a language model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphwrap.agents.policy import Policy
from graphwrap.agents.runs.estimates import estimate_memory, shape_of
from graphwrap.agents.runs.tracking import read_metrics
from graphwrap.cli import make_app
from tests.agents.runs.test_trainer import RUN
from tests.agents.small_runs import SMALL, random_model, small_policy, small_settings

pytestmark = pytest.mark.llm

ROOT = Path(__file__).parents[2]


def invoke(*arguments: str):
    return CliRunner().invoke(
        make_app(), ["train-llm", *arguments], env={"COLUMNS": "200", "TERMINAL_WIDTH": "120"}
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return random_model(tmp_path_factory.mktemp("model") / "random")


def small(model: str, *overrides: str) -> list[str]:
    return ["sokoban-tiny", *SMALL, *RUN, f"model.path={model}", *overrides]


def test_help_teaches():
    result = invoke("--help")
    assert result.exit_code == 0
    examples = [line for line in result.output.splitlines() if "  graphwrap train-llm " in line]
    assert len(examples) >= 3
    assert all(line.count("graphwrap") == 1 for line in examples)


def test_a_run_and_the_same_command_again(model, tmp_path):
    command = [*small(model, "updates=2"), "--out", str(tmp_path / "out")]
    result = invoke(*command)
    assert result.exit_code == 0, result.output
    assert "2 updates, success 0.000 in the last one" in result.output
    assert "held-out success 0.000 at best, after update 2" in result.output
    assert "checkpoints/best/model" in result.output
    rows = read_metrics(tmp_path / "out")
    again = invoke(*command)
    assert again.exit_code == 0
    assert "goes on after update 2 of 2" in again.output
    assert read_metrics(tmp_path / "out") == rows
    other = invoke(*command, "seed=7")
    assert other.exit_code == 2
    assert "seed: 0 there, 7 asked for" in other.output
    anew = invoke(*command, "updates=1", "--overwrite")
    assert anew.exit_code == 0
    assert len(read_metrics(tmp_path / "out")) == 1


def test_dry_run_shows_prompt_tokens_and_memory_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    overrides = [
        *SMALL,
        "rollout.tasks=3",
        "rollout.group_size=8",
        "rollout.max_tokens=4",
        "model.tiny.warm_start_rows=64",
        "env.kwargs.max_steps=4",
    ]
    result = invoke("sokoban-tiny", *overrides, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "First prompt, 37 tokens" in result.output
    assert "<assistant>" in result.output
    assert result.output.count("######") >= 2
    assert "37 on average, 37 at most; limit " in result.output
    assert "96 steps, 3,552 prompt tokens" in result.output
    assert "key-value cache of 24 answers" in result.output
    assert "parameters, of which" in result.output
    assert not list(tmp_path.iterdir())


def test_dry_run_of_several_processes_speaks_once(model, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    result = invoke(*small(model), "--dry-run")
    assert (result.exit_code, result.output) == (0, "")


def test_an_environment_beside_the_user_is_found_and_checked(tmp_path):
    (tmp_path / "own.py").write_text(
        "from graphwrap.envs.text import TextSokobanEnv\n"
        "import gymnasium as gym\n"
        "class Own(TextSokobanEnv):\n"
        "    def step(self, action):\n"
        "        *rest, info = super().step(action)\n"
        "        return *rest, {**info, 'admissible_actions': ['up', ' up']}\n"
        "gym.register('Own-v0', Own)\n"
    )
    program = "import sys; sys.path.remove(''); from graphwrap.cli import main; main()"  # as a console script has it
    command = [sys.executable, "-c", program, "train-llm", "sokoban-tiny", "env.id=own:Own-v0", "--dry-run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "info['admissible_actions'] of step 1 are different" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_estimate_counts_weights_gradients_and_moments(model):
    settings = small_settings(f"model.path={model}", "ppo.kl=0.01")
    policy = small_policy()
    count = sum(weight.numel() for weight in policy.parameters())
    estimate = estimate_memory(settings, shape_of(settings, policy.tokenizer))
    assert (estimate.parameters, estimate.trained) == (count, count)
    assert estimate.trainer["weights"] == 4 * count
    assert estimate.trainer["gradients"] == 4 * count
    assert estimate.trainer["optimizer, two moments"] == 8 * count
    assert estimate.trainer["reference"] == 4 * count
    adapted = small_settings(f"model.path={model}", "ppo.kl=0.01", "model.lora.rank=2")
    adapters = sum(weight.numel() for weight in Policy.load(adapted.model, seed=0).parameters())
    estimate = estimate_memory(adapted, shape_of(adapted, policy.tokenizer))
    assert estimate.trained == adapters
    assert estimate.parameters == count + adapters
    assert "reference" not in estimate.trainer


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sokoban-tny"], "did you mean sokoban-tiny?"),
        (["sokoban-tiny", "ppo.learning_rat=1"], "did you mean ppo.learning_rate?"),
        (["sokoban-tiny", "rollout.top_p=0.9"], "rollout.top_p is refused"),
        (["sokoban-tiny", "prompt.template=nothing", "--dry-run"], "a template is one of"),
        (["sokoban-tiny", "model.path=/nowhere/model", "--dry-run"], "/nowhere/model"),
        (["sokoban-tiny", "env.kwargs.levels=none", "--dry-run"], "none"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(arguments, told):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert told in result.output
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_folders_and_devices_that_are_none_are_told_in_a_line(model, tmp_path, monkeypatch):
    too_long = invoke(*small(model, "updates=1"), "--out", str(tmp_path / ("x" * 300)))
    assert too_long.exit_code == 1
    assert "File name too long; no update kept there" in too_long.output
    command = [*small(model, "updates=1"), "--out", str(tmp_path / "out")]
    assert invoke(*command).exit_code == 0
    (tmp_path / "out" / "metrics.jsonl").unlink()
    lost = invoke(*command)
    assert lost.exit_code == 2
    assert "has checkpoints and no metrics.jsonl; --overwrite begins anew" in lost.output
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    elsewhere = invoke(*small(model, "model.device=cuda"), "--out", str(tmp_path / "elsewhere"))
    assert elsewhere.exit_code == 2
    assert "got 'cuda', and PyTorch sees no GPU" in elsewhere.output
    for result in (too_long, lost, elsewhere):
        assert isinstance(result.exception, SystemExit)


def script(*arguments: str) -> list[str]:
    return [sys.executable, "scripts/train_llm.py", *arguments]


def test_ctrl_c_leaves_a_run_that_goes_on(model, tmp_path):
    command = [*small(model, "updates=100000", "validation.episodes=0"), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        script(*command), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    deadline = time.monotonic() + 120
    while not read_metrics(tmp_path / "out") and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    done = len(read_metrics(tmp_path / "out"))
    assert f"interrupted: {done} of 100000 updates are kept in" in " ".join(output.split())
    assert "Traceback" not in output
    result = invoke(
        *small(model, f"updates={done + 1}", "validation.episodes=0"), "--out", str(tmp_path / "out")
    )
    assert result.exit_code == 0, result.output
    assert f"goes on after update {done} of {done + 1}" in result.output


def test_a_full_disk_is_told_and_the_run_goes_on(model, tmp_path):
    limited = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000));"  # less than the model takes
    limited += "from graphwrap.cli import main; main()"
    command = [*small(model, "updates=2"), "--out", str(tmp_path / "out")]
    environment = {**os.environ, "COLUMNS": "500"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", limited, "train-llm", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "cannot write to" in done.stdout
    assert "once this is mended the same command goes on from there" in done.stdout
    assert not list((tmp_path / "out").rglob("*.part"))
    assert invoke(*command).exit_code == 0
