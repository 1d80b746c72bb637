"""An evaluation from beginning to end, in a folder."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphwrap._progress import progress_bars
from graphwrap.agents.evaluation.folder import EvaluationFolder, Totals
from graphwrap.agents.evaluation.playing import Broken, Evaluation
from graphwrap.agents.evaluation.records import Place, Record
from graphwrap.agents.evaluation.report import to_markdown
from graphwrap.agents.evaluation.settings import OPENAI, EvaluationSettings, trials_of
from graphwrap.agents.evaluation.summary import Summary, last_trials, summarise

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Outcome:
    """What came of an evaluation."""

    summary: Summary
    broken: list[Broken]  # episodes that their environment broke off
    totals: Totals
    cost: float | None  # in the currency of the prices; None where there are none


def evaluate(
    settings: EvaluationSettings,
    out: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    command: str = "",
    console: Console | None = None,
) -> Outcome:
    """Play what is missing, and write down what came of it.

    The folder gets `evaluation.json` (settings, versions, machine, commands), `episodes/` (a folder of each, as it
    ends), `result.json`, `result.md` and `transitions.parquet`.

    Args:
        settings: Of the evaluation.
        out: Its folder. Episodes that are there, of the same settings, are not played again.
        overwrite: Begin anew instead.
        command: The command line, to be written down.
        console: Where progress is shown; None: nowhere.

    Raises:
        ImportError, ValueError, RuntimeError: Something is missing, or does not fit; or the folder holds an evaluation
            with other settings; or an endpoint does not answer, or every episode broke off.
        OSError: Something cannot be read or written. Finished episodes are kept.
    """
    folder = EvaluationFolder(out)
    folder.check(settings, overwrite)
    with folder.held():
        totals = folder.open(settings, command, overwrite)
        broken = _play(settings, folder, totals, console)
        records = {
            place: record
            for place, record in folder.records.all().items()
            if place.task < settings.evaluation.tasks
        }
        outcome = Outcome(summarise(records, trials_of(settings)), broken, totals, _cost(settings, totals))
        folder.save_result(
            _as_json(settings, outcome, folder.about()), to_markdown(settings, outcome, folder.about())
        )
    return outcome


def _play(
    settings: EvaluationSettings, folder: EvaluationFolder, totals: Totals, console: Console | None
) -> list[Broken]:
    from graphwrap.agents.evaluation.parts import make_parts

    def say(text: str) -> None:
        if console is not None:
            console.print(text, highlight=False, markup=False, soft_wrap=True)

    before, began = totals.seconds, time.perf_counter()
    plan = Evaluation(settings, folder.records)
    missing = plan.missing()
    if plan.finished:
        say(f"{len(plan.finished)} episodes are finished, {len(missing)} tasks are to be played on")
    if not missing:
        return []
    with ExitStack() as stack:
        envs = min(settings.evaluation.parallel, len(missing))
        parts = stack.enter_context(closing(make_parts(settings, folder.path, totals.usage, envs, say)))
        bars = stack.enter_context(progress_bars(console))
        bar = bars.add_task("episodes", total=plan.total, says="")

        def save() -> None:
            totals.seconds = before + time.perf_counter() - began
            folder.save_totals(totals)

        steps = 0

        def report(record: Record | None) -> None:
            nonlocal steps
            if record is None:
                steps += 1
                if settings.engine.name == OPENAI:
                    save()
            bars.update(
                bar, completed=plan.total - plan.open, says=_told(plan.finished, settings, totals, steps)
            )

        stack.callback(save)
        return plan.run(parts.agent, parts.player, report)


def _told(finished: dict[Place, Record], settings: EvaluationSettings, totals: Totals, steps: int) -> str:
    ended = last_trials(finished, trials_of(settings))
    told = [f"step {steps}"]
    if ended:
        told.insert(0, f"success {sum(record.success for record in ended.values()) / len(ended):.3f}")
    cost = _cost(settings, totals)
    return ", ".join(told if cost is None else [*told, f"cost {cost:.4f}"])


def _cost(settings: EvaluationSettings, totals: Totals) -> float | None:
    endpoint = settings.openai
    if settings.engine.name != OPENAI or not (endpoint.prompt_price or endpoint.answer_price):
        return None
    return totals.usage.cost(endpoint.prompt_price, endpoint.answer_price)


def _as_json(settings: EvaluationSettings, outcome: Outcome, about: dict[str, Any]) -> dict[str, Any]:
    return {
        **outcome.summary.as_json(),
        "broken": [{"task": one.place.task, "error": one.error} for one in outcome.broken],
        "wanted": settings.evaluation.tasks * settings.evaluation.repeats,
        "usage": outcome.totals.usage.as_dict() if settings.engine.name == OPENAI else None,
        "cost": outcome.cost,
        "seconds": outcome.totals.seconds,
        **{name: about[name] for name in ("command", "versions", "machine", "settings", "starts")},
    }
