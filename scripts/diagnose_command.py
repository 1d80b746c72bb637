"""`graphwrap diagnose`: what recorded episodes offer to graph credit, beside what the papers tell of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

_NAME = "graphwrap diagnose"
_NEEDED = {"pyarrow": "io", "rich": "cli"}
_FILE = "transitions.parquet"

PAPERS = {
    "progress_in_failures": "0.22",
    "progress_in_successes": "0.35",
    "node_group_size": "about 5",
    "single_step_share": "below 0.4",
    "single_visit_share": "about 0.6",
    "single_propagation_share": "about 0.2",
}
"""ALFWorld, early in training: progress from GraphGPO (arXiv 2605.26684, Figure 1), the others from GRAFT (arXiv
2609.28963)."""

_BARS = {
    "progress_in_failures": "steps of failures\nthat make progress",
    "progress_in_successes": "steps of successes\nthat make progress",
    "single_step_share": "steps alone\nin their state",
    "single_visit_share": "informed by one\nepisode: GiGPO",
    "single_propagation_share": "informed by one\nepisode: GRAFT",
}


def diagnose(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Files of transitions, or folders of train-llm, of compare --agent llm or of evaluate.",
            show_default=False,
        ),
    ],
    updates: Annotated[int, typer.Option(help="Of each run take its first updates only. 0: all.")] = 0,
    credit: Annotated[str, typer.Option(help="The method whose credit is looked at.")] = "graphgpo",
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw the shares that the papers tell of, too, to this file.", show_default=False),
    ] = None,
) -> None:
    """Tell whether recorded episodes can carry graph credit: how often states recur, and whose outcomes reach them.

    Every file is one batch. The table has the mean of each number over the batches, the lowest and the highest, and
    what the papers tell of their ALFWorld runs early in training. docs/methods.md says what each number is.

    Examples:

        graphwrap diagnose results/my-run --updates 10
        graphwrap diagnose results/alfworld-tiny --updates 10 --picture early.png
        graphwrap diagnose recorded.parquet --credit graft
    """
    from rich.console import Console

    from graphwrap._progress import progress_bars
    from graphwrap.scripts.train_llm import require_packages

    console = Console()
    try:
        require_packages(_NEEDED)
        if updates < 0:
            raise ValueError(f"--updates must be at least 0, got {updates}")
        files = [file for path in paths for file in find_batches(path, updates)]
        rows = []
        with progress_bars(console if console.is_terminal else None) as bars:
            job = bars.add_task("batches", total=len(files), says="")
            for file in files:
                rows.append(diagnostics_of(file, credit))
                bars.advance(job)
        numbers = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        if picture is not None:
            draw(numbers, picture)
    except (ImportError, OSError, ValueError) as error:
        typer.echo(f"{_NAME}: {error}", err=True)
        raise typer.Exit(2) from None
    _show(console, numbers)
    if picture is not None:
        typer.echo(f"drawn: {picture}")


def find_batches(path: Path, updates: int = 0) -> list[Path]:
    """The files of transitions at a path, sorted.

    Args:
        path: a file; or a folder with `transitions.parquet`, or with folders `transitions` at any depth.
        updates: of the files in each folder `transitions` take the first so many; 0: all.

    Raises:
        FileNotFoundError: there is none.
    """
    for file in (path, path / _FILE):
        if file.is_file():
            return [file]
    folders = sorted(folder for folder in path.rglob("transitions") if folder.is_dir())
    found = [file for folder in folders for file in sorted(folder.glob("*.parquet"))[: updates or None]]
    if not found:
        raise FileNotFoundError(
            f"a path must be a file of transitions, or a folder that has {_FILE} or transitions/*.parquet in it, got "
            f"{path}: train-llm and evaluate write them, and Transitions.save"
        )
    return found


def diagnostics_of(file: Path, credit: str) -> dict[str, float]:
    """The diagnostics of one batch under a method.

    Raises:
        ValueError: the file holds something else, or there is no such method.
    """
    import warnings

    from graphwrap import Transitions, make_credit

    method = make_credit(credit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table tells the same
        return method(Transitions.load(file)).diagnostics


def draw(numbers: Mapping[str, np.ndarray], path: Path) -> None:
    """Draw the shares that the papers tell of, and theirs.

    Args:
        numbers: float64 (batches,) by the name of a diagnostic.
        path: image file; the suffix decides the format.

    Raises:
        ImportError: matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the picture needs matplotlib: pip install 'graphwrap[plot]'") from error
    from graphwrap._files import whole_file
    from graphwrap.scripts.comparison.curves import FAINT, INK, axes_style

    figure = Figure(figsize=(9.5, 4.4), dpi=160, facecolor="white", layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(_BARS):
        known = numbers[name][~np.isnan(numbers[name])]
        ours = known.mean() if len(known) else 0.0
        theirs = float(PAPERS[name].split()[-1])
        for offset, height, told, colour in (
            (-0.2, ours, f"{ours:.2f}" if len(known) else "none", "#009E73"),
            (0.2, theirs, PAPERS[name], FAINT),
        ):
            axes.bar(place + offset, height, 0.38, color=colour, zorder=2)
            axes.annotate(
                told,
                (place + offset, height),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                color=INK,
                size=9,
            )
        if len(known) > 1:
            axes.plot([place - 0.33] * 2, np.quantile(known, (0.1, 0.9)), color=INK, linewidth=1.4, zorder=3)
    axes_style(
        axes, "Green: these episodes (line: 80% of their batches). Grey: the papers' ALFWorld runs", grid="y"
    )
    axes.set_xticks(range(len(_BARS)), _BARS.values())
    axes.set_ylim(0.0, 1.08)
    axes.set_ylabel("share of steps", color=INK, size=9.5)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix[1:])


def _show(console: Any, numbers: Mapping[str, np.ndarray]) -> None:
    from rich.table import Table

    table = Table("number", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("mean", "lowest", "highest", "papers, ALFWorld"):
        table.add_column(title, justify="right")
    for name, values in numbers.items():
        known = values[~np.isnan(values)]
        told = (
            [f"{number:,.4g}" for number in (known.mean(), known.min(), known.max())]
            if len(known)
            else ["-"] * 3
        )
        table.add_row(name, *told, PAPERS.get(name, ""))
    console.print(table)
    console.print(f"{len(next(iter(numbers.values())))} batches", highlight=False)
