"""Runs in two processes, on CPUs and gloo: the same as in one."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from graphwrap import Transitions
from graphwrap.agents.distributed import World, faults_of_processes, joined
from graphwrap.agents.runs.tracking import read_metrics
from graphwrap.agents.runs.trainer import Trainer
from tests.agents.small_runs import small_settings
from tests.agents.two_processes import BROKEN, SCENARIOS, free_port, save_model, settings_of, start

pytestmark = pytest.mark.llm

LATEST = Path("checkpoints") / "latest"
TIMED = ("credit_share", "tokens_per_second", "credit/seconds")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[str], list[int], float]:
    """The folder of all scenarios, their model; the processes' outputs, statuses, and seconds between their ends."""
    # torch's gloo on CPUs ends a process by a signal once in a dozen starts, cause unknown: then all is done once more.
    for _ in range(2):
        out = tmp_path_factory.mktemp("two")
        model = save_model(out / "model")
        processes = start([model, str(out)], free_port())
        outputs = [processes[1].communicate(timeout=600)[0]]
        ended = time.monotonic()
        outputs.insert(0, processes[0].communicate(timeout=600)[0])
        seconds = time.monotonic() - ended
        if all(process.returncode >= 0 for process in processes):
            break
    return out, model, outputs, [process.returncode for process in processes], seconds


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_two_processes_train_as_one_does(runs, scenario, tmp_path):
    out, model, outputs, *_ = runs
    assert (out / scenario / LATEST).exists(), outputs
    Trainer(settings_of(scenario, model, 2), tmp_path).run()
    files = sorted(path.relative_to(tmp_path / LATEST) for path in (tmp_path / LATEST).rglob("*.safetensors"))
    assert files
    for file in files:
        weights, others = (load_file(folder / LATEST / file) for folder in (tmp_path, out / scenario))
        assert weights.keys() == others.keys()
        for name, weight in weights.items():
            np.testing.assert_allclose(weight.numpy(), others[name].numpy(), rtol=0, atol=1e-5, err_msg=name)
    ours, theirs = (read_metrics(folder) for folder in (tmp_path, out / scenario))
    for row, other in zip(ours, theirs, strict=True):
        assert row.keys() == other.keys()
        for name, value in row.items():
            if name not in TIMED and not name.startswith("seconds/"):
                assert other[name] == pytest.approx(value, rel=1e-3, abs=1e-5, nan_ok=True), name
    for row in ours:
        assert row["mixed_groups"] > 0
        assert row["invalid_share"] < 0.5
        assert row["grad_norm"] > 1e-2
    for name in ("update-000001", "update-000002"):
        steps, others = (
            Transitions.load(folder / "transitions" / f"{name}.parquet")
            for folder in (tmp_path, out / scenario)
        )
        assert len(steps) == len(others)
        np.testing.assert_array_equal(steps.reward, others.reward)


def test_a_checkpoint_of_sharded_weights_is_a_whole_model(runs):
    out, model, *_ = runs
    trained = AutoModelForCausalLM.from_pretrained(out / "fsdp-token" / LATEST / "model")
    before = AutoModelForCausalLM.from_pretrained(model)
    changes = [
        float((now - then).detach().abs().max())
        for now, then in zip(trained.parameters(), before.parameters(), strict=True)
    ]
    assert min(changes) > 0
    assert max(changes) < 1e-2


def test_one_process_goes_on_with_the_run_of_two(runs, tmp_path):
    out, model, *_ = runs
    Trainer(settings_of("fsdp-token", model, 3), tmp_path / "one").run()
    other = tmp_path / "other"
    shutil.copytree(out / "fsdp-token", other, symlinks=True)
    rows = Trainer(settings_of("fsdp-token", model, 3), other).run()
    assert len(rows) == 3
    weights, others = (
        load_file(folder / LATEST / "model" / "model.safetensors") for folder in (tmp_path / "one", other)
    )
    for name, weight in weights.items():
        np.testing.assert_allclose(weight.numpy(), others[name].numpy(), rtol=0, atol=1e-5, err_msg=name)


def test_an_error_in_one_process_ends_the_other(runs):
    out, _, outputs, statuses, seconds = runs
    assert all(status != 0 for status in statuses)
    assert "LookupError: this process fails" in outputs[1]
    assert "another process of this run has ended" in outputs[0]
    assert seconds < 120
    assert [row["update"] for row in read_metrics(out / BROKEN)] in ([1], [1, 2])


def test_a_process_alone_joins_nobody(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined(small_settings()) as world:
        assert type(world) is World
        assert (world.rank, world.size, world.is_main) == (0, 1, True)
        assert world.gather(3) == [3]
        assert world.share("x") == "x"
        world.barrier()
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ValueError, match=r"rollout.tasks=18"), joined(small_settings()):
        pass


def test_settings_that_do_not_fit_several_processes_are_named():
    settings = small_settings("rollout.tasks=6", "engine.name=vllm", "engine.tensor_parallel=2")
    settings.model.device = "cuda:1"
    faults = faults_of_processes(settings, 4)
    assert [fault.split()[0] for fault in faults] == [
        "rollout.tasks",
        "model.device",
        "engine.own_process",
        "engine.tensor_parallel",
    ]
    assert faults_of_processes(small_settings("rollout.tasks=8"), 4) == []
