"""Comparisons of LLM agents: the trainer of `graphwrap train-llm` under each credit."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphwrap.scripts.comparison.results import TRAININGS, run_name
from graphwrap.scripts.comparison.settings import LLM, CreditSpec, Report, Rows
from graphwrap.scripts.comparison.training import DIAGNOSTICS, HELD_OUT, ROW

if TYPE_CHECKING:
    from graphwrap.agents.settings import Settings as RunSettings

CONFIG = "sokoban-tiny"
CREDITS = ("grpo", "gigpo", "graphgpo", "graft")
STARTS = "starts"
"""Models made from nothing, by seed, which the runs start from."""
_NAMES = {
    "success": "success_rate",
    "outcome_return": "env_return",
    "seconds": "seconds/total",
    "collect_seconds": "seconds/rollout",
    "credit_seconds": "seconds/credit",
    "approx_kl": "kl",
    "held_out": "validation/success_rate",
    "complete_groups": "complete_groups",
    **{name: f"credit/{name}" for name in DIAGNOSTICS if name != "complete_groups"},
}
"""What the trainer calls the numbers of `graphwrap.scripts.comparison.training.train_run`, where it is another name."""


@dataclass(frozen=True)
class LLMSettings:
    """Settings of a comparison of LLM agents; see `graphwrap.scripts.comparison.settings.Compared`."""

    run: RunSettings  # its credit and seed count for nothing

    @property
    def updates(self) -> int:
        """Updates of a run."""
        return self.run.updates

    @property
    def update_size(self) -> str:
        """How much one update plays, for people."""
        return f"{self.run.rollout.tasks} x {self.run.rollout.group_size} episodes"

    def check(self) -> None:
        """Nothing is left to check; loading the settings has."""

    def describe(self) -> dict[str, Any]:
        """All settings by dotted name."""
        from graphwrap.agents.runs.config import flat

        of_runs = ("credit.name", "credit.parameters", "seed")
        ours = {name: value for name, value in flat(self.run).items() if name not in of_runs}
        return {"learner": LLM, "env": self.run.env.id, **ours}

    def train(
        self, credit: CreditSpec, seed: int, folder: Path, report: Report
    ) -> tuple[Rows, dict[str, Any]]:
        """Do a run in a folder of its own, which an interrupted one goes on in."""
        from graphwrap.agents.runs.parts import TINY
        from graphwrap.agents.runs.trainer import Trainer
        from graphwrap.agents.settings import CRITIC, CreditSettings

        method = dataclasses.replace(self.run.credit, name=credit.name, parameters=dict(credit.parameters))
        assert isinstance(method, CreditSettings)
        # A run of a comparison is a process that may have none of its own; its numbers do not depend on them.
        env = dataclasses.replace(self.run.env, processes=0)
        settings = dataclasses.replace(self.run, credit=method, seed=seed, env=env)
        steps = 0.0

        def row_of(told: dict[str, Any]) -> dict[str, float]:
            nonlocal steps
            steps += told["steps"]
            return make_row(told, steps)

        start = None
        if settings.model.path == TINY:
            # Its warm start takes minutes, and all credits without a critic start from the same model.
            critic = "-critic" if credit.name == CRITIC else ""
            start = folder / TRAININGS / STARTS / f"seed{seed}{critic}"
        trainer = Trainer(settings, folder / TRAININGS / run_name(credit.label, seed), start=start)
        told = trainer.run(lambda row: report(make_row(row, float("nan"))))
        rows = [row_of(row) for row in told]
        facts = {
            **{name: rows[-1][name] for name in HELD_OUT},
            "held_out_episodes": self.run.validation.episodes,
            "gradient_steps": int(sum(row["gradient_steps"] for row in rows)),
            "seconds": sum(row["seconds"] for row in rows),
            "credit_seconds": sum(row["credit_seconds"] for row in rows),
            "steps": int(steps),
        }
        return rows, facts


def make_row(told: dict[str, Any], steps: float) -> dict[str, float]:
    """The row of one update.

    Args:
        told: what the trainer says of it.
        steps: of the environments so far.
    """
    names = (*ROW, *DIAGNOSTICS, *HELD_OUT)
    row = {name: float(told.get(_NAMES.get(name, name), float("nan"))) for name in names}
    row["trained_share"] = told["trained_rows"] / max(told["steps"], 1)
    return {"update": float(told["update"]), "steps": float(steps), **row}
