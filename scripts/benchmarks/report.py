"""The measurements as a table, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from graphwrap.scripts.benchmarks.ratio import Measured, Ratio

HEADER = ("work", "figure (range)", "bar", "holds", "ours", "other")


def number(value: float, unit: str = "") -> str:
    """A number with three digits and its unit."""
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".strip()


def cells(measured: Measured) -> list[str]:
    """The row of one measurement, under `HEADER`."""
    ours = number(float(np.median(measured.ours_each)), measured.unit)
    if isinstance(measured, Ratio):
        each, unit = measured.ratios, "x"
        other = number(float(np.median(measured.other_each)), measured.unit)
    else:
        each, unit, other = measured.ours_each, f" {measured.unit}", ""
    spread = f"{number(measured.figure)}{unit} ({number(min(each))} to {number(max(each))})"
    return [measured.name, spread, f"{measured.bar}{unit}", "yes" if measured.holds else "NO", ours, other]


def to_json(
    results: Sequence[Measured],
    failures: dict[str, str],
    settings: dict[str, Any],
    bandwidth: dict[str, float],
) -> dict[str, Any]:
    """The measurements with machine, versions, settings, command and every pair."""
    from graphwrap.doctor import machine, versions
    from graphwrap.scripts.comparison.results import command_line

    return {
        "settings": settings,
        "machine": machine(),
        "bandwidth": bandwidth,
        "versions": versions(),
        "command": command_line("bench"),
        "results": [{**asdict(result), "figure": result.figure, "holds": result.holds} for result in results],
        "failures": failures,
    }


def to_markdown(
    results: Sequence[Measured],
    failures: dict[str, str],
    settings: dict[str, Any],
    bandwidth: dict[str, float],
) -> str:
    """The measurements as Markdown: one table, then what was measured."""
    from graphwrap.doctor import machine, versions

    known = ", ".join(f"{name} {version}" for name, version in versions().items() if version)
    speed = ", ".join(f"{name} {value:.1f}" for name, value in bandwidth.items())
    lines = [f"Machine: {machine()}; memory on one core: {speed}.", "", f"Versions: {known}.", ""]
    lines += ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    lines += ["| " + " | ".join(cells(result)) + " |" for result in results]
    lines += ["", f"Medians of {settings['pairs']} interleaved pairs.", ""]
    for result in results:
        against = f"; against: {result.other}" if isinstance(result, Ratio) else ""
        lines.append(f"- **{result.name}**: {result.what}. Ours: {result.ours}{against}.{_details(result)}")
    lines += [f"- **{name}** was not measured: {reason}" for name, reason in failures.items()]
    return "\n".join(lines) + "\n"


def _details(result: Measured) -> str:
    return "".join(
        f" {name[:1].upper()}{name[1:]}: {number(value)}." for name, value in result.details.items()
    )
