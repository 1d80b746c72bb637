"""The run that docs/llm-agents.md shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphwrap.agents.runs.config import load_settings
from graphwrap.agents.runs.trainer import Trainer

pytestmark = pytest.mark.llm

PAGE = Path(__file__).parents[2] / "docs" / "llm-agents.md"
SMALL = (
    "updates=1",
    "rollout.tasks=2",
    "rollout.group_size=2",
    "model.tiny.hidden=64",
    "model.tiny.layers=1",
)
SMALL += ("model.tiny.warm_start_rows=128", "validation.episodes=2", "threads=1", "model.device=cpu")


def block(language: str, beginning: str) -> str:
    """The code block of the page that begins so."""
    found = re.findall(rf"^```{language}\n({re.escape(beginning)}.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(found) == 1
    return found[0]


def test_the_run_of_the_guide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("rooms.py").write_text(block("python", '"""A text environment of one\'s own'))
    Path("rooms.txt").write_text(block("text", "[first]"))
    Path("rooms.yaml").write_text(block("yaml", "env: {id:"))
    settings = load_settings("rooms.yaml")
    assert settings.updates == 20
    assert settings.prompt.max_tokens == 112
    (row,) = Trainer(load_settings("rooms.yaml", SMALL), "run").run()
    assert row["steps"] == row["trained_rows"] > 0
    assert 20 < row["prompt_tokens"] < row["prompt_tokens_max"] < 112
    assert row["history_dropped_share"] == 0
    shown = Path("run/episodes/update-000001.md").read_text()
    assert "Open the door in the hall." in shown
    table = PAGE.read_text().split("| number | what it is |")[1]
    told = {re.sub(r"^(credit|validation|seconds|invalid|success)/.*", r"\1/", name) for name in row}
    missing = {name for name in told - {"update"} if f"`{name}" not in table}
    assert not missing
