"""Checkpoints: whole or not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from graphwrap.agents.runs.checkpoints import (
    ABOUT,
    TRAINER,
    Checkpoints,
    changed_settings,
    differences,
    restore,
)
from tests.agents.small_runs import small_policy, small_settings

pytestmark = pytest.mark.llm

STATE = {"step": 3, "moments": [torch.arange(3.0)], "nested": {"rate": 1e-6}}


def save(checkpoints: Checkpoints, update: int, score: float | None = None, policy=None) -> None:
    with checkpoints.saving(update, policy or small_policy(), STATE, small_settings(), score):
        pass


def weights_of(policy) -> dict[str, torch.Tensor]:
    named = dict(policy.model.named_parameters())
    if policy.value_head is not None:
        named |= {f"value_head.{name}": weight for name, weight in policy.value_head.named_parameters()}
    return {name: weight.detach().clone() for name, weight in named.items()}


def randomise(policy, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator))


@pytest.mark.parametrize("rank", [0, 2])
def test_everything_comes_back_bit_for_bit(tmp_path, rank):
    policy = small_policy(rank=rank, critic=True)
    randomise(policy, 1)
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 7, 0.5, policy)
    checkpoint = checkpoints.latest
    other = small_policy(rank=rank, critic=True)
    restore(other, checkpoint)
    before, after = weights_of(policy), weights_of(other)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert any(
        not torch.equal(weight, before[name]) for name, weight in weights_of(small_policy(rank=rank)).items()
    )
    state = checkpoint.trainer_state()
    assert (state["step"], state["nested"]) == (3, {"rate": 1e-6})
    assert torch.equal(state["moments"][0], torch.arange(3.0))
    assert (checkpoint.update, checkpoint.score) == (7, 0.5)
    assert checkpoint.settings["model.tiny.hidden"] == 32
    assert checkpoint.versions["torch"] == torch.__version__.split("+")[0] or checkpoint.versions["torch"]


@pytest.mark.parametrize("rank", [0, 2])
def test_from_pretrained_loads_the_whole_model(tmp_path, rank):
    policy = small_policy(rank=rank)
    randomise(policy, 1)
    save(Checkpoints(tmp_path), 1, None, policy)
    folder = tmp_path / "latest" / "model"
    assert list(folder.glob("*.safetensors"))
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = policy.tokenizer("@ up")["input_ids"]
    assert tokenizer("@ up")["input_ids"] == ids
    with torch.no_grad():
        expected = policy.model(input_ids=torch.tensor([ids])).logits
        torch.testing.assert_close(
            model(input_ids=torch.tensor([ids])).logits, expected, rtol=1e-4, atol=1e-4
        )


def test_the_newest_and_the_first_best_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.latest is None
    assert checkpoints.best is None
    for update, score in ((1, None), (2, 0.25), (3, 0.5), (4, 0.5), (5, 0.125), (6, None)):
        save(checkpoints, update, score)
        best = checkpoints.best
        assert checkpoints.latest.update == update
        assert (best and best.update) == {1: None, 2: 2}.get(update, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "best",
        "latest",
        "update-000003",
        "update-000006",
    ]
    assert [os.readlink(tmp_path / name) for name in ("best", "latest")] == ["update-000003", "update-000006"]


def test_what_is_not_whole_is_never_picked_up(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    saving = checkpoints.saving(2, small_policy(), STATE, small_settings())
    with pytest.raises(ZeroDivisionError), saving:
        1 / (checkpoints.latest.update - 1)  # it counts from the end of the block on
    assert not list(tmp_path.glob(".*"))
    (tmp_path / ".update-000003.0123.part" / "model").mkdir(parents=True)
    (tmp_path / ".update-000003.0123.part" / ABOUT).write_text("{}")
    (tmp_path / "update-000004").mkdir()
    (tmp_path / "update-9").mkdir()
    assert [each.update for each in checkpoints.all()] == [1]
    checkpoints.clean()
    assert not list(tmp_path.glob(".*"))


def test_damage_is_told_with_the_way_out(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    checkpoint = checkpoints.latest
    for file in (checkpoint.path / TRAINER, checkpoint.model / "model.safetensors"):
        file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(ValueError, match=r"trainer\.pt must be what this program wrote.*remove the folder"):
        checkpoint.trainer_state()
    with pytest.raises(ValueError, match=r"must hold this model's weights.*remove the folder"):
        restore(small_policy(), checkpoint)


def test_the_model_of_other_settings_is_refused(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    with pytest.raises(ValueError, match="another model"):
        restore(small_policy("model.tiny.layers=2"), checkpoints.latest)


def test_settings_that_decide_the_curve(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    there = checkpoints.latest
    assert changed_settings(there.settings, small_settings()) == []
    free = (
        "save_every=3",
        "updates=90",
        "engine.max_batch=7",
        "wandb=x",
        "validation.every=2",
        "env.processes=1",
    )
    assert changed_settings(there.settings, small_settings(*free)) == []
    told = changed_settings(
        there.settings, small_settings("seed=4", "credit.name=grpo", "ppo.learning_rate=1e-3")
    )
    assert told == [
        "credit.name: 'graphgpo' there, 'grpo' asked for",
        "credit.parameters: {'omega': 0.8} there, {} asked for",
        "ppo.learning_rate: 0.0003 there, 0.001 asked for",
        "seed: 0 there, 4 asked for",
    ]
    assert changed_settings(there.settings, small_settings("updates=90", "ppo.schedule=linear")) == [
        "ppo.schedule: 'constant' there, 'linear' asked for",
        f"updates: {there.settings['updates']} there, 90 asked for",
    ]


def test_differences_are_those_that_json_keeps():
    assert differences({"table": {"1": [2]}}, {"table": {1: (2,)}}, ()) == []
    assert differences({"a": 1, "b": 2}, {"a": 2, "b": 3, "c": None}, {"b"}) == ["a: 1 there, 2 asked for"]


KILLED = """
import os, signal, sys, time
from tests.agents.small_runs import small_policy, small_settings
from graphwrap.agents.runs.checkpoints import Checkpoints, restore
policy, settings = small_policy(), small_settings()
checkpoints = Checkpoints(sys.argv[1])

def save_on_and_on(first):
    for update in range(first, first + 1000):
        with checkpoints.saving(update, policy, {"update": update}, settings, update % 3):
            pass

reached = kills = 0
while kills < 12 or reached < 2 and kills < 60:  # a busy machine saves little between two kills
    delay = 0.01 + 0.037 * kills
    kills += 1
    child = os.fork()  # a process of its own, without the seconds that imports take
    if not child:
        save_on_and_on(reached + 1)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for checkpoint in checkpoints.all():
        assert checkpoint.trainer_state() == {"update": checkpoint.update}
        restore(policy, checkpoint)
    if checkpoints.latest:
        assert checkpoints.latest.update >= reached
        reached = checkpoints.latest.update
print(reached)
"""


def run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3], timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kill_9_leaves_whole_checkpoints(tmp_path):
    assert int(run(KILLED, str(tmp_path))) > 1


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import torch
from tests.agents.small_runs import small_policy, small_settings
from graphwrap.agents.runs.checkpoints import Checkpoints
checkpoints = Checkpoints(sys.argv[1])
policy, settings = small_policy(), small_settings()
with checkpoints.saving(1, policy, {}, settings):
    pass
for state, limit in (({"moments": torch.zeros(100_000)}, 100_000), ({}, 10_000)):  # in the moments, in the model
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        with checkpoints.saving(2, policy, state, settings):
            pass
    except OSError as error:
        print(error.strerror)
"""


def test_a_full_disk_is_named_and_leaves_the_earlier_checkpoint(tmp_path):
    told = run(FULL, str(tmp_path)).splitlines()
    assert len(told) == 2
    for line in told:
        assert line.startswith(f"the checkpoint of update 2 cannot be written to {tmp_path}: ")
        assert line.endswith("that of update 1 is whole. Free space there, then the same command goes on")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "update-000001"]
    assert json.loads((tmp_path / "latest" / ABOUT).read_text())["update"] == 1
