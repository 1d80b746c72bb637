"""An evaluation's result as tables: in the terminal and as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphwrap.agents.evaluation.settings import OPENAI, EvaluationSettings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from graphwrap.agents.evaluation.run import Outcome

HEADER = ("", "episodes", "success, 95% interval")


def describe(settings: EvaluationSettings) -> dict[str, str]:
    """A few words about an evaluation, for its heading."""
    play, agent = settings.evaluation, settings.agent
    kwargs = ", ".join(f"{name}={value}" for name, value in settings.env.kwargs.items())
    return {
        "agent": agent.name + (f", up to {agent.trials} trials" if agent.name == "reflexion" else ""),
        "model": settings.model.path,
        "engine": settings.engine.name
        + (f" at {settings.openai.base_url}" if settings.engine.name == OPENAI else ""),
        "environment": settings.env.id + (f" ({kwargs})" if kwargs else ""),
        "episodes": f"{play.tasks} tasks x {play.repeats}, temperature {play.temperature:g}, seed {play.seed}",
    }


def success_rows(outcome: Outcome) -> list[tuple[str, str, str]]:
    """Success by task type and overall, as text; see `HEADER`."""
    summary = outcome.summary
    rows = [
        (kind, str(estimate.count), estimate.text()) for kind, estimate in summary.success_by_type.items()
    ]
    rows.append(("all", str(summary.success.count), summary.success.text()))
    if len(summary.success_by_trial) > 1:
        for number, estimate in enumerate(summary.success_by_trial, 1):
            rows.append((f"within {number} trial{'s' * (number > 1)}", str(estimate.count), estimate.text()))
    return rows


def number_rows(outcome: Outcome) -> list[tuple[str, str]]:
    """The other numbers, as text."""
    summary, usage = outcome.summary, outcome.totals.usage
    reasons = ", ".join(f"{reason} {share:.3f}" for reason, share in summary.invalid.items())
    rows = [
        ("steps of an episode", summary.steps.text(".2f")),
        ("steps of a success", summary.steps_of_successes.text(".2f")),
        (
            "invalid answers, share of steps",
            summary.invalid_share.text() + (f" ({reasons})" if reasons else ""),
        ),
        ("return", summary.env_return.text()),
        ("ended by a time limit", summary.truncated.text()),
        ("tokens of a prompt, of an answer", f"{summary.prompt_tokens:.0f}, {summary.answer_tokens:.0f}"),
    ]
    if usage.requests:
        said = f"{usage.requests:,} requests, {usage.retries:,} retries, {usage.prompt_tokens:,} + "
        said += f"{usage.answer_tokens:,} tokens"
        said += f" ({usage.estimated:,} requests estimated)" if usage.estimated else ""
        rows.append(("endpoint", said))
    if outcome.cost is not None:
        rows.append(("cost, by the prices given", f"{outcome.cost:.4f}"))
    rows.append(("seconds", f"{outcome.totals.seconds:.0f}"))
    return rows


def to_tables(outcome: Outcome) -> list[RenderableType]:
    """For a rich console."""
    from rich.table import Table

    success = Table(*HEADER, title="Success", title_justify="left")
    for row in success_rows(outcome):
        success.add_row(*row, style="bold" if row[0] == "all" else None)
    numbers = Table("", "", title="Other numbers", title_justify="left", show_header=False)
    for pair in number_rows(outcome):
        numbers.add_row(*pair)
    return [success, numbers]


def to_markdown(settings: EvaluationSettings, outcome: Outcome, about: dict[str, Any]) -> str:
    """For a file, with settings, versions and command."""
    lines = ["# Evaluation", ""]
    lines += [f"- {name}: {value}" for name, value in describe(settings).items()]
    if outcome.broken:
        lines.append(f"- broken off by the environment and not counted: {len(outcome.broken)} episodes")
    lines += ["", "## Success", "", _row(HEADER), _row(["---"] * len(HEADER))]
    lines += [_row(row) for row in success_rows(outcome)]
    lines += ["", "## Other numbers", "", _row(["", ""]), _row(["---", "---"])]
    lines += [_row(row) for row in number_rows(outcome)]
    kinds = "Wilson's" if settings.evaluation.repeats == 1 else "bootstrap"
    lines += [
        "",
        f"Intervals cover 95%: {kinds} for success, bootstrap over tasks for the other numbers. `episodes/` has every "
        "episode to read; `graphwrap.Transitions.load` reads `transitions.parquet`.",
        "",
        "## How",
        "",
        f"```sh\n{about['command']}\n```",
        "",
        f"On {about['machine']}, with "
        + ", ".join(f"{name} {version}" for name, version in about["versions"].items() if version)
        + ". Settings that differ from the defaults:",
        "",
        "```yaml",
        *(f"{name}: {value}" for name, value in _changed(about["settings"]).items()),
        "```",
        "",
    ]
    return "\n".join(lines)


def _changed(settings: dict[str, Any]) -> dict[str, Any]:
    from graphwrap.agents.evaluation.folder import counted

    defaults = counted(EvaluationSettings())
    return {name: value for name, value in settings.items() if defaults.get(name) != value}


def _row(cells: Any) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
