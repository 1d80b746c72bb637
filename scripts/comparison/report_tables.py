"""A comparison's summary as tables, for Markdown and for the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphwrap.scripts.comparison.report import (
    BASELINES,
    FEW_SEEDS,
    LAST,
    SMOOTHING,
    Reaching,
    Summary,
    interval_text,
)
from graphwrap.scripts.comparison.settings import title_of


@dataclass(frozen=True)
class TextTable:
    """A table of text."""

    title: str
    header: list[str]
    rows: list[list[str]]


def _share(value: float) -> str:
    return f"{value:.3f}"


def _difference(value: float) -> str:
    return f"{value:+.3f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def reaching_text(reaching: Reaching) -> str:
    """Such as "71,040 (3 of 3)", or "not reached (1 of 3)" where the median run did not reach it."""
    median = "not reached" if math.isinf(reaching.median_steps) else _count(reaching.median_steps)
    return f"{median} ({reaching.reached} of {reaching.seeds})"


def success_table(summary: Summary) -> TextTable:
    """One row per credit: what was learnt, and how soon."""
    target = summary.reachings[0].target
    header = [
        "credit",
        "seeds",
        "held-out success",
        "held-out, greedy",
        "area under curve",
        f"steps to {target:g}",
    ]
    rows = []
    for reaching in summary.reachings:
        cells = [
            interval_text(summary.get(reaching.credit, metric), _share)
            for metric in ("held_out", "held_out_greedy", "auc")
        ]
        rows.append([reaching.title, str(reaching.seeds), *cells, reaching_text(reaching)])
    return TextTable("Success", header, rows)


def cost_table(summary: Summary) -> TextTable:
    """One row per credit: what it took, means over seeds."""
    columns: list[tuple[str, str, Callable[[float], str]]] = [
        ("wall time", "seconds", _seconds),
        ("credit's share", "credit_share", _percent),
        ("gradient steps", "gradient_steps", _count),
        ("rows trained on", "trained_share", _percent),
    ]
    rows = []
    for label, title in summary.credits().items():
        estimates = [(summary.get(label, metric), form) for _, metric, form in columns]
        rows.append(
            [title, *("–" if estimate is None else form(estimate.mean) for estimate, form in estimates)]
        )
    return TextTable("Cost of a run", ["credit", *(head for head, _, _ in columns)], rows)


def difference_table(summary: Summary, base: str) -> TextTable | None:
    """Paired differences to `base`, None where no credit has any."""
    rows = []
    for label, title in summary.credits().items():
        found = [
            summary.get(label, metric, base)
            for metric in ("held_out", "held_out_greedy", "auc", "final_success")
        ]
        if any(estimate is not None for estimate in found):
            seeds = max(estimate.seeds for estimate in found if estimate is not None)
            rows.append([title, str(seeds), *(interval_text(estimate, _difference) for estimate in found)])
    if not rows:
        return None
    header = [
        "credit",
        "seeds",
        "held-out success",
        "held-out, greedy",
        "area under curve",
        f"last {LAST} updates",
    ]
    return TextTable(f"Difference to {base} at equal seeds", header, rows)


def tables(summary: Summary) -> list[TextTable]:
    """All tables of a report."""
    found = [
        success_table(summary),
        *(difference_table(summary, base) for base in BASELINES),
        cost_table(summary),
    ]
    return [table for table in found if table is not None]


def note(summary: Summary) -> str:
    """What the numbers of a report can carry."""
    seeds = min(reaching.seeds for reaching in summary.reachings)
    if seeds < FEW_SEEDS:
        count = "1 seed is" if seeds == 1 else f"{seeds} seeds are"
        return (
            f"{count} a demonstration, not evidence: intervals over so few seeds are too narrow. "
            "`graphwrap compare --full` runs 10 seeds."
        )
    return "An interval that excludes 0 in the tables of differences is the evidence to look for."


def explanation(target: float) -> list[str]:
    """What the columns mean."""
    return [
        "Means over seeds with 95% bootstrap intervals; differences are taken between runs of equal seed.",
        "Held-out success: share of episodes won at the end of training, on levels or seeds that training never saw; "
        "greedy takes the likeliest action, else actions are sampled.",
        "Area under curve: mean training success over all updates. Training success counts complete groups only.",
        f"Last {LAST} updates: mean training success over them.",
        f"Steps to {target:g}: environment steps until the training success of {SMOOTHING} updates in a row has that "
        "mean; median over seeds, a run that never got there counts as infinite.",
        "Wall time: rollouts, credit and gradient steps of a run, without evaluation, while other runs had the other "
        "cores. "
        "Credit's share of it covers graph, credit and diagnostics.",
    ]


def to_markdown(summary: Summary, about: dict[str, Any]) -> str:
    """The report as Markdown.

    Args:
        summary: of the comparison.
        about: content of the folder's settings.json.
    """
    settings = about["settings"]
    lines = [f"# {title_of(settings)} under {len(summary.credits())} credits", ""]
    lines += [f"**{note(summary)}**", ""]
    for table in tables(summary):
        lines += [f"## {table.title}", "", "| " + " | ".join(table.header) + " |"]
        lines += ["|" + "---|" * len(table.header)]
        lines += ["| " + " | ".join(row) + " |" for row in table.rows]
        lines += [""]
    lines += [f"- {line}" for line in explanation(summary.reachings[0].target)]
    given = ", ".join(f"{name} {value}" for name, value in settings.items() if value not in (None, {}, False))
    versions = ", ".join(f"{name} {value}" for name, value in about["versions"].items() if value)
    lines += ["", f"Settings: {given}.", "", f"Versions: {versions}.", "", f"Machine: {about['machine']}."]
    lines += ["", f"Command: `{about['command']}`", "", "![Learning curves](curves.png)", ""]
    return "\n".join(lines)


def to_terminal(summary: Summary, console: Any) -> None:
    """Print the tables with rich."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    for table in tables(summary):
        shown = Table(
            title=table.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1)
        )
        for place, head in enumerate(table.header):
            shown.add_column(head, justify="left" if place == 0 else "right", vertical="top")
        for row in table.rows:
            # Two lines a cell: the number, then its interval or its count.
            shown.add_row(*(cell.replace(" [", "\n[").replace(" (", "\n(") for cell in row))
        console.print(shown)
    console.print(note(summary), highlight=False)
