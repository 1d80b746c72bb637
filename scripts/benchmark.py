"""The two speed ratios of the project, each the median of interleaved pairs.

Run as ``graphwrap bench`` or ``python scripts/benchmark.py``.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from graphwrap.scripts.ratios import Ratio, graph_ratio, training_ratio

FEWEST_PAIRS = 7


def to_json(ratios: list[Ratio], settings: dict[str, Any]) -> dict[str, Any]:
    """The measurements with machine, versions, settings, command and every pair."""
    from graphwrap.doctor import machine, versions
    from graphwrap.scripts.comparison.results import command_line

    return {
        "settings": settings,
        "machine": machine(),
        "versions": versions(),
        "command": command_line("bench"),
        "ratios": [{**asdict(ratio), "median_ratio": ratio.median, "holds": ratio.holds} for ratio in ratios],
    }


HEADER = ("what", "median", "ratio (range)", "wanted")


def cells(ratio: Ratio) -> list[list[str]]:
    """The rows of a table for one ratio, under `HEADER`."""

    def number(value: float) -> str:
        return f"{value:.3f} {ratio.unit}" if value < 100 else f"{value:,.0f} {ratio.unit}"

    wanted = (
        f"{'at most' if ratio.at_most else 'at least'} {ratio.limit:.2f}: {'yes' if ratio.holds else 'NO'}"
    )
    spread = f"{ratio.median:.2f} ({min(ratio.ratios):.2f} to {max(ratio.ratios):.2f})"
    return [
        [ratio.ours, number(float(np.median(ratio.ours_each))), spread, wanted],
        [ratio.other, number(float(np.median(ratio.other_each))), "", ""],
    ]


def to_markdown(ratios: list[Ratio]) -> str:
    """The measurements as Markdown."""
    from graphwrap.doctor import machine, versions

    known = ", ".join(f"{name} {version}" for name, version in versions().items() if version)
    lines = [f"Machine: {machine()}.", "", f"Versions: {known}.", ""]
    for ratio in ratios:
        lines += [f"**{ratio.what}** (median of {len(ratio.ratios)} interleaved pairs)", ""]
        lines += ["| " + " | ".join(HEADER) + " |", "|---|---|---|---|"]
        lines += ["| " + " | ".join(row) + " |" for row in cells(ratio)]
        lines += ["", "; ".join(f"{name}: {value:,.3g}" for name, value in ratio.details.items()) + ".", ""]
    return "\n".join(lines)


def bench(
    only: Annotated[str | None, typer.Option(help="One of: graph, training. [default: both]")] = None,
    pairs: Annotated[int, typer.Option(help="Interleaved pairs of each ratio.", min=1)] = FEWEST_PAIRS,
    rows: Annotated[int, typer.Option(help="Transitions of the graph ratio.", min=100)] = 1_000_000,
    tasks: Annotated[int, typer.Option(help="Tasks of the graph ratio.", min=1)] = 1_000,
    updates: Annotated[int, typer.Option(help="PPO updates per measurement.", min=1)] = 5,
    num_envs: Annotated[int, typer.Option(help="Environments, a multiple of 8.", min=8)] = 128,
    network: Annotated[
        str, typer.Option(help="grid, that of the comparison; or mlp, SB3's small one.")
    ] = "grid",
    out: Annotated[Path | None, typer.Option(help="Write FOLDER/benchmark.json and .md.")] = None,
) -> None:
    """Measure the two speed ratios: credit against SciPy's shortest paths, and training with credit against without.

    Each is the median of interleaved pairs after a warm-up. Run it on an otherwise idle machine.

    Examples:

        graphwrap bench
        graphwrap bench --only graph --pairs 15
        graphwrap bench --out results/bench
    """
    from importlib.util import find_spec

    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from graphwrap.doctor import machine
    from graphwrap.scripts.comparison.results import write_bytes, write_json

    if only not in (None, "graph", "training"):
        raise typer.BadParameter(f"is graph or training, got {only!r}", param_hint="--only")
    if network not in ("grid", "mlp"):
        raise typer.BadParameter(f"is grid or mlp, got {network!r}", param_hint="--network")
    if num_envs % 8:
        raise typer.BadParameter(
            f"is a multiple of 8, the size of a group, got {num_envs}", param_hint="--num-envs"
        )
    needed = {"graph": ("scipy", "scipy"), "training": ("stable_baselines3", "'graphwrap[sb3]'")}
    for name, (module, package) in needed.items():
        if only in (None, name) and find_spec(module) is None:
            typer.echo(f"graphwrap bench --only {name} needs {module}: pip install {package}", err=True)
            raise typer.Exit(2)

    console = Console()
    ratios = []
    with Progress(console=console, transient=True) as progress:
        total = pairs * (2 if only is None else 1)
        bar = progress.add_task("pairs", total=total)
        if only in (None, "graph"):
            ratios.append(graph_ratio(rows, tasks, pairs, lambda: progress.advance(bar)))
        if only in (None, "training"):
            ratios.append(training_ratio(updates, pairs, num_envs, network, lambda: progress.advance(bar)))
    console.print(machine(), highlight=False)
    for ratio in ratios:
        table = Table(*HEADER, title=f"{ratio.what}; {pairs} interleaved pairs", title_justify="left")
        for row in cells(ratio):
            table.add_row(*row)
        console.print(table)
        console.print("; ".join(f"{name}: {value:,.3g}" for name, value in ratio.details.items()))
    if pairs < FEWEST_PAIRS:
        console.print(f"{pairs} pairs are too few to rely on: take at least {FEWEST_PAIRS}")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        settings = {
            "only": only,
            "pairs": pairs,
            "rows": rows,
            "tasks": tasks,
            "updates": updates,
            "num_envs": num_envs,
            "network": network,
        }
        write_json(out / "benchmark.json", to_json(ratios, settings))
        write_bytes(out / "benchmark.md", to_markdown(ratios).encode("utf-8"))
        console.print(f"{out / 'benchmark.json'}\n{out / 'benchmark.md'}", highlight=False)


if __name__ == "__main__":
    typer.run(bench)
