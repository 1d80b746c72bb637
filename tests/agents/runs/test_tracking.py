"""What a run writes down about itself."""

from __future__ import annotations

import json
import math
import sys
import time

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from graphwrap.agents.runs.tracking import EPISODES, TRANSITIONS, Tracker, file_of_update, read_metrics

pytestmark = pytest.mark.llm


def log(folder, updates, done=0, **values):
    tracker = Tracker(folder, update=done)
    for update in updates:
        tracker.log({"update": update, "x": update / 2, **values})
    tracker.close()


def test_lines_are_plain_json_and_come_back(tmp_path):
    log(tmp_path, [1], nothing=math.nan, numpy=np.float32(0.5), count=np.int64(3), **{"success/1 box": 1.0})
    line = (tmp_path / "metrics.jsonl").read_text()
    assert (
        line == '{"update": 1, "x": 0.5, "nothing": null, "numpy": 0.5, "count": 3, "success/1 box": 1.0}\n'
    )
    assert json.loads(line)["nothing"] is None
    (row,) = read_metrics(tmp_path)
    assert math.isnan(row.pop("nothing"))
    assert row == {"update": 1, "x": 0.5, "numpy": 0.5, "count": 3, "success/1 box": 1.0}


def test_each_line_is_there_once_its_update_is_logged(tmp_path):
    tracker = Tracker(tmp_path)
    for update in (1, 2):
        tracker.log({"update": update})
        assert [row["update"] for row in read_metrics(tmp_path)] == list(range(1, update + 1))
    tracker.close()


def test_a_resumed_run_drops_what_came_after_its_checkpoint(tmp_path):
    log(tmp_path, [1, 2, 3, 4])
    for update in (1, 2, 3):
        for kind in (EPISODES, TRANSITIONS):
            file_of_update(tmp_path, kind, update).write_text("")
    (tmp_path / EPISODES / "mine.md").write_text("")
    (tmp_path / EPISODES / ".update-000003.md.0.part").write_text("")
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"update": 5, "x')
    time.sleep(1.1)  # TensorBoard orders its files by the second they were begun in
    log(tmp_path, [3], done=2, again=1.0)
    rows = read_metrics(tmp_path)
    assert [(row["update"], row.get("again")) for row in rows] == [(1, None), (2, None), (3, 1.0)]
    assert sorted(path.name for path in (tmp_path / EPISODES).iterdir()) == [
        "mine.md",
        "update-000001.md",
        "update-000002.md",
    ]
    assert sorted(path.name for path in (tmp_path / TRANSITIONS).iterdir()) == [
        "update-000001.parquet",
        "update-000002.parquet",
    ]
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("x")] == [1, 2, 3]
    assert [event.step for event in events.Scalars("again")] == [3]


def test_a_run_from_the_beginning_drops_everything(tmp_path):
    log(tmp_path, [1, 2])
    log(tmp_path, [1], again=1.0)
    assert [row.get("again") for row in read_metrics(tmp_path)] == [1.0]


def test_other_lines_are_named(tmp_path):
    assert read_metrics(tmp_path) == []
    for line in ("no json", "[1]", '{"x": 1}'):
        (tmp_path / "metrics.jsonl").write_text(f'{{"update": 1}}\n{line}\n')
        with pytest.raises(ValueError, match="line 2 does not"):
            read_metrics(tmp_path)


def test_a_missing_wandb_is_named_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ImportError, match="pip install wandb"):
        Tracker(tmp_path / "run", wandb="project")
    assert not (tmp_path / "run").exists()
