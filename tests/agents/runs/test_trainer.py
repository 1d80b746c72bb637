"""Training runs: from their settings to rows, files and checkpoints, and on after an interruption."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from graphwrap import Transitions
from graphwrap.agents.runs.run_folder import RunFolder
from graphwrap.agents.runs.tracking import read_metrics
from graphwrap.agents.runs.trainer import Trainer, _spread
from tests.agents.small_runs import random_model, small_settings
from tests.agents.walk import Walk

pytestmark = pytest.mark.llm

ROOT = Path(__file__).parents[3]
RUN = (
    "env.kwargs.max_steps=3",
    "env.held_out_kwargs.max_steps=3",
    "rollout.tasks=2",
    "rollout.group_size=2",
    "rollout.invalid_penalty=0.1",
    "ppo.minibatch=4",
    "ppo.kl=0.01",
    "validation.episodes=2",
    "validation.every=2",
    "save_every=2",
    "show_episodes=1",
    "model.tiny.warm_start_rows=64",
    "model.tiny.warm_start_epochs=1",
)


def settings_of(*overrides: str):
    return small_settings(*RUN, *overrides)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 4 updates in one go."""
    out = tmp_path_factory.mktemp("whole")
    Trainer(settings_of("updates=4"), out).run()
    return out


def without_seconds(rows: list[dict]) -> list[dict]:
    timed = ("credit_share", "tokens_per_second", "credit/seconds")
    return [
        {name: value for name, value in row.items() if not name.startswith("seconds/") and name not in timed}
        for row in rows
    ]


def assert_same_run(one: Path, other: Path) -> None:
    for file in ("model/model.safetensors",):
        weights, others = (load_file(out / "checkpoints" / "latest" / file) for out in (one, other))
        assert weights.keys() == others.keys()
        for name, weight in weights.items():
            np.testing.assert_array_equal(weight.numpy(), others[name].numpy())
    states = [RunFolder(out).checkpoints.latest.trainer_state() for out in (one, other)]
    for number, moments in states[0]["state"].items():
        for name, value in moments.items():
            np.testing.assert_array_equal(value.numpy(), states[1]["state"][number][name].numpy())
    np.testing.assert_equal(without_seconds(read_metrics(one)), without_seconds(read_metrics(other)))
    for folder in ("episodes", "transitions"):
        names = sorted(path.name for path in (one / folder).iterdir())
        assert names == sorted(path.name for path in (other / folder).iterdir())
        for name in names:
            assert (one / folder / name).read_bytes() == (other / folder / name).read_bytes()


def test_a_run_writes_down_everything(whole_run):
    rows = read_metrics(whole_run)
    assert [row["update"] for row in rows] == [1, 2, 3, 4]
    for row in rows:
        phases = [row[f"seconds/{phase}"] for phase in ("rollout", "update", "sync", "save")]
        assert sum(phases) <= row["seconds/total"] + 1e-9
        assert row["seconds/engine"] + row["seconds/env"] + row["seconds/credit"] <= row["seconds/rollout"]
        assert row["credit_share"] == pytest.approx(row["seconds/credit"] / row["seconds/total"])
        assert 0 <= row["success_rate"] <= 1
        assert row["drift_max"] < 1e-4
        assert row["trained_tokens"] == row["sampled_tokens"]
        assert row["credit/steps"] == row["rows"] == row["trained_rows"]
        for name in (
            "episode_length",
            "invalid_share",
            "kl",
            "ratio_mean",
            "ratio_max",
            "learning_rate",
            "grad_norm",
        ):
            assert np.isfinite(row[name]), name
    assert [("validation/success_rate" in row) for row in rows] == [False, True, False, True]
    about = json.loads((whole_run / "run.json").read_text())
    assert about["seed"] == 0
    assert about["settings"]["credit.name"] == "graphgpo"
    assert {"numpy", "torch", "transformers"} <= set(about["versions"])
    assert "cores" in about["machine"]
    transitions = Transitions.load(whole_run / "transitions" / "update-000003.parquet")
    assert len(transitions) == rows[2]["rows"]
    assert transitions.num_episodes == 4
    assert list((whole_run / "tensorboard").iterdir())
    text = (whole_run / "episodes" / "update-000002.md").read_text()
    assert text.startswith("# Update 2\n")
    assert "## Task 0, " in text
    assert "# Held out, after update 2" in text
    assert "advantage " in text


def test_tensorboard_has_every_number(whole_run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(whole_run / "tensorboard"))
    events.Reload()
    rows = read_metrics(whole_run)
    for name in ("success_rate", "kl", "seconds/total", "credit/nodes"):
        assert [event.step for event in events.Scalars(name)] == [1, 2, 3, 4]
        values = [event.value for event in events.Scalars(name)]
        np.testing.assert_allclose(values, [row[name] for row in rows], rtol=1e-6)


def test_the_same_settings_give_the_same_run_and_other_seeds_another(whole_run, tmp_path):
    Trainer(settings_of("updates=4", "engine.max_batch=64"), tmp_path / "same").run()
    assert_same_run(whole_run, tmp_path / "same")
    other = Trainer(settings_of("updates=1", "seed=1"), tmp_path / "other").run()
    first = read_metrics(whole_run)[0]
    assert other[0]["entropy"] != first["entropy"]


KILLED = """
import os, signal, sys
from tests.agents.runs.test_trainer import settings_of
from graphwrap.agents.runs.trainer import Trainer
def kill(row):
    if row["update"] == 3:  # whose row is written, and whose checkpoint is not
        os.kill(os.getpid(), signal.SIGKILL)
Trainer(settings_of("updates=4"), sys.argv[1]).run(kill)
"""


def test_a_killed_run_goes_on_bit_for_bit(whole_run, tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [row["update"] for row in read_metrics(tmp_path)] == [1, 2, 3]
    assert RunFolder(tmp_path).checkpoints.latest.update == 2
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"update": 4, "succ')  # as if it had been killed while it wrote
    new = []
    rows = Trainer(settings_of("updates=4"), tmp_path).run(new.append)
    assert [row["update"] for row in new] == [3, 4]
    assert len(rows) == 4
    assert_same_run(whole_run, tmp_path)
    assert [start["update"] for start in RunFolder(tmp_path).about()["starts"]] == [0, 2]
    assert Trainer(settings_of("updates=4"), tmp_path).run(new.append) == rows  # nothing is left to do
    assert len(new) == 2


def test_ctrl_c_stops_after_a_whole_update_and_the_run_goes_on(whole_run, tmp_path):
    from graphwrap.agents.runs.trainer import Interrupted

    def interrupt(row):
        if row["update"] == 1:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match="2 of 4 updates are done"):
        Trainer(settings_of("updates=4", "save_every=4", "validation.every=2"), tmp_path).run(interrupt)
    assert signal.getsignal(signal.SIGINT) is before
    assert RunFolder(tmp_path).checkpoints.latest.update == 2
    Trainer(settings_of("updates=4"), tmp_path).run()
    assert_same_run(whole_run, tmp_path)


def test_a_critic_and_adapters_go_on_bit_for_bit(tmp_path):
    model = random_model(tmp_path / "model")
    overrides = (
        f"model.path={model}",
        "model.lora.rank=2",
        "credit.name=ppo",
        "validation.episodes=0",
        "save_every=1",
    )
    Trainer(settings_of(*overrides, "updates=3"), tmp_path / "whole").run()
    Trainer(settings_of(*overrides, "updates=1"), tmp_path / "parts").run()
    rows = Trainer(settings_of(*overrides, "updates=3"), tmp_path / "parts").run()
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    assert rows[-1]["value_loss"] >= 0


def test_settings_that_decide_the_curve_are_refused_and_nothing_is_changed(whole_run):
    before = {path: path.read_bytes() for path in whole_run.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=r"(?s)differ:\n  seed: 0 there, 5 asked for\nchoose another --out"):
        Trainer(settings_of("updates=4", "seed=5"), whole_run)
    with pytest.raises(ValueError, match="updates: 4 are done, 3 asked for"):
        Trainer(settings_of("updates=3"), whole_run)
    assert before == {path: path.read_bytes() for path in whole_run.rglob("*") if path.is_file()}


def test_a_run_without_a_checkpoint_yet_is_not_begun_anew_with_other_settings(tmp_path):
    class Stop(Exception):
        pass

    def stop(row):
        if row["update"] == 1:
            raise Stop

    with pytest.raises(Stop):
        Trainer(settings_of("updates=2", "save_every=9", "validation.every=0"), tmp_path).run(stop)
    assert RunFolder(tmp_path).checkpoints.latest is None
    with pytest.raises(ValueError, match="seed: 0 there, 5 asked for"):
        Trainer(settings_of("updates=2", "seed=5"), tmp_path)
    assert len(read_metrics(tmp_path)) == 1


def test_a_checkpoint_that_cannot_be_read_is_not_passed_over(whole_run, tmp_path):
    shutil.copytree(whole_run, tmp_path / "run", symlinks=True)
    about = RunFolder(tmp_path / "run").checkpoints.latest.path / "checkpoint.json"
    about.write_text("{")
    with pytest.raises(ValueError, match=r"checkpoint\.json must be what this program wrote"):
        Trainer(settings_of("updates=4"), tmp_path / "run")
    assert len(read_metrics(tmp_path / "run")) == 4


def test_equal_settings_go_on_and_a_changed_template_does_not(tmp_path):
    template = tmp_path / "own.txt"
    template.write_text("{observation}")
    own = (f"prompt.template={template}", "model.tiny.warm_start_rows=32", "env.kwargs.render_mode=null")
    Trainer(settings_of("updates=1", *own), tmp_path / "run").run()
    about = tmp_path / "run" / "run.json"
    content = json.loads(about.read_text())
    checkpoint = RunFolder(tmp_path / "run").checkpoints.latest.path / "checkpoint.json"
    older = json.loads(checkpoint.read_text())
    del older["settings"]["model.tiny.warm_start_guided"]  # a setting that came later
    checkpoint.write_text(json.dumps(older))
    assert len(Trainer(settings_of("updates=2", *own), tmp_path / "run").run()) == 2
    template.write_text("{observation} Go on.")
    with pytest.raises(ValueError, match=r"prompt\.template's text"):
        Trainer(settings_of("updates=3", *own), tmp_path / "run")
    assert content["settings"]["prompt.template"] == str(template)


def test_a_resumed_run_keeps_its_vocabulary(tmp_path):
    """Its environment may have other words by then."""
    settings = settings_of("updates=1", "env.id=tests.agents.walk:Walk-v0", "env.kwargs={burns: false}")
    settings.env.held_out_kwargs = {}
    Trainer(settings, tmp_path).run()
    folder = tmp_path / "checkpoints" / "latest" / "model"
    before = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    assert "forth" in before
    settings.updates = 2
    words = Walk.seen
    try:
        Walk.seen = lambda self: f"so {words(self)}"
        Trainer(settings, tmp_path).run()
    finally:
        Walk.seen = words
    assert json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"] == before


def test_prompts_longer_than_the_model_are_refused_at_the_start(tmp_path):
    model = random_model(tmp_path / "model")
    settings = settings_of("updates=1", f"model.path={model}", "prompt.max_tokens=4000")
    with pytest.raises(ValueError, match=r"must be at most 128, the positions of .*, got 4000 \+ 4"):
        Trainer(settings, tmp_path / "run").run()


def test_folders_of_others_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(ValueError, match="is there and holds no training run"):
            Trainer(settings_of(), tmp_path, overwrite=overwrite)
    with pytest.raises(ValueError, match="must be a folder"):
        Trainer(settings_of(), tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_one_process_at_a_time(tmp_path):
    with (
        RunFolder(tmp_path).held(),
        pytest.raises(ValueError, match="one run at a time"),
        RunFolder(tmp_path).held(),
    ):
        pass


def test_overwrite_begins_anew_and_keeps_what_is_not_of_a_run(tmp_path):
    folder = RunFolder(tmp_path)
    folder.open(settings_of())
    first = folder.run_id
    (tmp_path / "mine.txt").write_text("kept")
    (tmp_path / "metrics.jsonl").write_text('{"update": 1}\n')
    assert folder.open(settings_of()) is None
    assert folder.run_id == first
    assert folder.open(settings_of("seed=9"), overwrite=True) is None
    assert folder.run_id != first
    assert read_metrics(tmp_path) == []
    assert (tmp_path / "mine.txt").exists()


def test_shown_episodes_are_successes_and_failures_in_turn():
    class Played:
        def __init__(self, success):
            self.success = success

    played = [Played(success) for success in (False, False, True, None, True)]
    assert _spread(played, 3) == [2, 0, 4]
    assert _spread(played, 9) == [2, 0, 4, 1, 3]
    assert _spread(played[:2], 1) == [0]
