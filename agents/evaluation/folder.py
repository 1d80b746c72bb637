"""The folder of an evaluation: what it may hold, and what is written down about it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphwrap._files import remove, whole_file
from graphwrap.agents.engines.limits import Usage
from graphwrap.agents.evaluation.agents import load_templates
from graphwrap.agents.evaluation.records import TRANSITIONS, Records
from graphwrap.agents.evaluation.settings import COUNTED, FREE, EvaluationSettings
from graphwrap.agents.runs.checkpoints import differences
from graphwrap.agents.runs.config import flat
from graphwrap.agents.runs.run_folder import LOCK, held

ABOUT = "evaluation.json"
TOTALS = "totals.json"
EPISODES = "episodes"
START = "start"
"""A tiny model that was made for this evaluation."""
ENGINE = "engine"
"""Where weights lie while they are handed over to an engine."""
RESULT, REPORT = "result.json", "result.md"
_OWN = (TOTALS, EPISODES, START, ENGINE, RESULT, REPORT, TRANSITIONS)


@dataclass
class Totals:
    """What an evaluation took, all its starts together."""

    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)  # of an endpoint, broken episodes included


class EvaluationFolder:
    """An evaluation on disk. Every file in it is whole, however the process that writes it ends."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.records = Records(self.path / EPISODES)

    def held(self) -> AbstractContextManager[None]:
        """Keep other processes from playing in this folder; see `graphwrap.agents.runs.run_folder.held`."""
        return held(self.path)

    def check(self, settings: EvaluationSettings, overwrite: bool = False) -> None:
        """Check that `open` would not refuse; nothing is changed.

        Raises:
            ValueError: The folder holds something else, or episodes that were played with other settings; says which.
                Or there is no such template.
        """
        load_templates(settings)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} must be a folder, and is a file: choose another --out")
        there = {path.name for path in self.path.iterdir()} - {LOCK} if self.path.exists() else set()
        if there and ABOUT not in there:
            raise ValueError(f"{self.path} is there and holds no evaluation: choose another --out")
        if overwrite or not there:
            return
        differences = _differences(self.about(), settings)
        if differences and self.records.all():
            raise ValueError(
                f"the evaluation in {self.path} cannot go on with what is asked for, since these decide its result and "
                "differ:\n  "
                + "\n  ".join(differences)
                + "\nchoose another --out, the same settings, or --overwrite to begin anew"
            )

    def open(self, settings: EvaluationSettings, command: str = "", overwrite: bool = False) -> Totals:
        """Begin an evaluation, or go on with one. Returns what it took so far.

        Raises:
            ValueError: As in `check`. Nothing is changed.
        """
        from graphwrap.doctor import machine, versions

        self.check(settings, overwrite)
        earlier = self.about() if (self.path / ABOUT).exists() and not overwrite else {"starts": []}
        if overwrite:
            for name in _OWN:
                remove(self.path / name)
        remove(self.path / ENGINE)
        self.records.clean()
        begun = {"command": command, "versions": versions(), "machine": machine()}
        self._write(
            ABOUT,
            {
                "settings": counted(settings),
                "templates": _texts(settings),
                **begun,
                "starts": [*earlier["starts"], begun],
            },
        )
        (self.path / EPISODES).mkdir(exist_ok=True)  # after the file by which the folder is known
        return self._totals()

    def about(self) -> dict[str, Any]:
        """The content of evaluation.json: `settings` by dotted name, `templates`, `command`, `versions`, `machine`,
        `starts`."""
        found: dict[str, Any] = json.loads((self.path / ABOUT).read_text(encoding="utf-8"))
        return found

    def save_totals(self, totals: Totals) -> None:
        """Write down what the evaluation took."""
        self._write(TOTALS, {"seconds": totals.seconds, "usage": totals.usage.as_dict()})

    def save_result(self, result: Mapping[str, Any], report: str) -> None:
        """Write the result, as JSON and as Markdown, and the steps of all finished episodes as one Parquet file."""
        self.records.transitions(list(self.records.all())).save(self.path / TRANSITIONS)
        with whole_file(self.path / REPORT) as file:
            file.write(report.encode("utf-8"))
        self._write(RESULT, result)

    def _totals(self) -> Totals:
        try:
            told = json.loads((self.path / TOTALS).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Totals()
        return Totals(told["seconds"], Usage(**told["usage"]))

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        with whole_file(self.path / name) as file:
            file.write((json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8"))


def counted(settings: EvaluationSettings) -> dict[str, Any]:
    """The settings that an evaluation uses, by dotted name."""
    return {key: value for key, value in flat(settings).items() if key.startswith(COUNTED)}


def _differences(about: Mapping[str, Any], settings: EvaluationSettings) -> list[str]:
    found = differences(about["settings"], counted(settings), FREE)
    if not found:  # a template by another name is told by that
        texts = _texts(settings)
        found = [
            f"the text of the template for the {name}"
            for name in texts
            if about["templates"].get(name) != texts[name]
        ]
    return found


def _texts(settings: EvaluationSettings) -> dict[str, dict[str, Any]]:
    from dataclasses import asdict

    return {name: asdict(template) for name, template in load_templates(settings).items()}
