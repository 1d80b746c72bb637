"""Measure what this package promises about speed and memory. Run as ``graphwrap bench``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from graphwrap.scripts.benchmarks import BENCHMARKS, FEWEST_PAIRS, Benchmark, Measured, Settings

NUMBERS_ARE_OFF = "sizes are small, so the numbers mean nothing"


def bench(
    only: Annotated[
        str | None, typer.Option(help="Names, separated by commas. [default: all, see --list]")
    ] = None,
    pairs: Annotated[int, typer.Option(help="Interleaved pairs of each ratio.", min=1)] = FEWEST_PAIRS,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: shows that it runs, measures nothing.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write FOLDER/benchmark.json and .md.")] = None,
    show: Annotated[bool, typer.Option("--list", help="Show what can be measured and leave.")] = False,
) -> None:
    """Measure speed and memory against the best alternatives, and hold each figure against its bar.

    A ratio is the median of interleaved pairs after a warm-up. Run it on an otherwise idle machine. What cannot be
    measured here is named, and the rest is measured all the same; the exit status is then 1.

    Examples:

        graphwrap bench
        graphwrap bench --only graphs,text --pairs 15
        graphwrap bench --out results/bench
    """
    from rich.console import Console
    from rich.progress import Progress

    from graphwrap.doctor import machine
    from graphwrap.scripts.benchmarks.bandwidth import measure_bandwidth

    console = Console()
    if show:
        _list(console)
        return
    names = list(BENCHMARKS) if only is None else [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown or not names:
        raise typer.BadParameter(
            f"takes names among {', '.join(BENCHMARKS)}, got {', '.join(unknown) or 'none'}",
            param_hint="--only",
        )
    settings = {"only": names, "pairs": pairs, "quick": quick}
    results: list[Measured] = []
    failures: dict[str, str] = {}
    console.print(machine(), highlight=False)
    bandwidth = measure_bandwidth(*((8, 2) if quick else ()))
    with Progress(console=console, transient=True) as progress:
        total = progress.add_task("all", total=len(names))
        for name in names:
            benchmark = BENCHMARKS[name]
            bar = progress.add_task(name, total=pairs * benchmark.series)
            found, reason = _measure(benchmark, pairs, quick, partial(progress.advance, bar))
            results += found
            if reason:
                failures[name] = reason
            progress.remove_task(bar)
            progress.advance(total)
            if out is not None:
                _write(out, results, failures, settings, bandwidth)
    _print(console, results, failures)
    if quick:
        console.print(NUMBERS_ARE_OFF)
    elif pairs < FEWEST_PAIRS:
        console.print(f"{pairs} pairs are too few to rely on: take at least {FEWEST_PAIRS}")
    if out is not None:
        console.print(f"{out / 'benchmark.json'}\n{out / 'benchmark.md'}", highlight=False)
    if failures:
        raise typer.Exit(1)


def _measure(
    benchmark: Benchmark, pairs: int, quick: bool, on_pair: Callable[[], None]
) -> tuple[list[Measured], str]:
    """What was measured, and what went wrong: one fault must not lose the results of the others.

    Each subject has a process of its own, so that none is measured in memory that others have left in pieces.
    """
    from graphwrap.scripts.comparison.jobs import run_jobs

    missing = benchmark.missing()
    if missing:
        return [], f"needs what is not installed: pip install {' '.join(missing)}"
    for event in run_jobs(measure_job, [(benchmark, pairs, quick)], 1):
        if event.kind == "update":
            on_pair()
        elif event.kind == "done":
            return event.value, ""
        elif event.kind == "failed":
            return [], event.value.strip().splitlines()[-1]
    raise AssertionError("a job ends as done or failed")


def measure_job(
    benchmark: Benchmark, pairs: int, quick: bool, report: Callable[[None], None]
) -> list[Measured]:
    """Measure one subject, as a job of `graphwrap.scripts.comparison.jobs`."""
    return benchmark.measure(Settings(pairs, quick, lambda: report(None)))


def _list(console: Any) -> None:
    from rich.table import Table

    table = Table("name", "measures", "needs")
    for benchmark in BENCHMARKS.values():
        missing = benchmark.missing()
        table.add_row(benchmark.name, benchmark.what, f"pip install {' '.join(missing)}" if missing else "")
    console.print(table)


def _print(console: Any, results: list[Measured], failures: dict[str, str]) -> None:
    from rich.table import Table

    from graphwrap.scripts.benchmarks.report import HEADER, cells

    table = Table(*HEADER, title="Measured", title_justify="left")
    for result in results:
        row = cells(result)
        table.add_row(*row, style=None if result.holds else "yellow")
    if results:
        console.print(table)
    for name, reason in failures.items():
        console.print(f"{name} was not measured: {reason}", style="red", markup=False, soft_wrap=True)


def _write(
    out: Path,
    results: list[Measured],
    failures: dict[str, str],
    settings: dict[str, Any],
    bandwidth: dict[str, float],
) -> None:
    from graphwrap.scripts.benchmarks.report import to_json, to_markdown
    from graphwrap.scripts.comparison.results import write_bytes, write_json

    out.mkdir(parents=True, exist_ok=True)
    parts = (results, failures, settings, bandwidth)
    write_json(out / "benchmark.json", to_json(*parts))
    write_bytes(out / "benchmark.md", to_markdown(*parts).encode("utf-8"))


if __name__ == "__main__":
    typer.run(bench)
