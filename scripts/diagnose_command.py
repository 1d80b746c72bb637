"""`graphwrap diagnose`: what recorded episodes offer to graph credit, beside what the papers tell of theirs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

_NAME = "graphwrap diagnose"
_NEEDED = {"pyarrow": "io", "rich": "cli"}
_PICTURES = ("png", "pdf", "svg", "jpg", "webp")

PAPERS = {
    "progress_in_failures": "0.22",
    "progress_in_successes": "0.35",
    "node_group_size": "about 5",
    "single_step_share": "below 0.4",
    "single_visit_share": "about 0.6",
    "single_propagation_share": "about 0.2",
}
"""Of LLM agents in ALFWorld: progress early in training, from GraphGPO (arXiv 2605.26684, Figure 1); the others from
GRAFT (arXiv 2609.28963)."""

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
    updates: Annotated[
        int, typer.Option(help="Of each training run take its first updates only. 0: all.")
    ] = 0,
    credit: Annotated[
        str,
        typer.Option(
            help="The method that zero_credit_fraction is about; parameters as in graphgpo:omega=0.4. The other "
            "numbers do not depend on it, nor on what the episodes were trained with."
        ),
    ] = "graphgpo",
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw the shares that the papers tell of, too, to this file.", show_default=False),
    ] = None,
) -> None:
    """Tell whether recorded episodes can carry graph credit: how often states recur, and whose outcomes reach them.

    Every file is one batch. The table has the mean of each number over the batches, the lowest and the highest, and
    what the papers tell of LLM agents in ALFWorld. docs/methods.md says what each number is.

    Examples:

        graphwrap diagnose results/my-run --updates 10
        graphwrap diagnose results/alfworld-tiny --updates 10 --picture early.png
        graphwrap diagnose first.parquet second.parquet --credit graft
    """
    from rich.console import Console

    from graphwrap._progress import progress_bars

    console = Console()
    try:
        method = _checked(updates, credit, picture)
        found = [file for path in paths for file in find_batches(path, updates)]
        files = list({file.resolve(): file for file in found}.values())
        rows = []
        with progress_bars(console if console.is_terminal else None) as bars:
            job = bars.add_task("batches", total=len(files), says="")
            for file in files:
                rows.append(diagnostics_of(file, method))
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


def _checked(updates: int, credit: str, picture: Path | None) -> Any:
    """The method, once the options are all right.

    Raises:
        ImportError, ValueError: one is not.
    """
    from graphwrap import make_credit
    from graphwrap.scripts.comparison.settings import parse_credit
    from graphwrap.scripts.train_llm import require_packages

    require_packages({**_NEEDED, **({} if picture is None else {"matplotlib": "plot"})})
    if updates < 0:
        raise ValueError(f"--updates must be at least 0, got {updates}")
    if picture is not None and (picture.suffix[1:].lower() not in _PICTURES or picture.is_dir()):
        raise ValueError(
            f"--picture must be a file that ends in .{', .'.join(_PICTURES)}, got {str(picture)!r}"
        )
    spec = parse_credit(credit, {}, own="")
    return make_credit(spec.name, **spec.parameters)


def find_batches(path: Path, updates: int = 0) -> list[Path]:
    """The files of transitions at a path, sorted.

    Args:
        path: a file; or a folder in which, at any depth, training runs and evaluations are looked for.
        updates: of each training run take the files of its first so many updates; 0: all.

    Raises:
        OSError: a folder cannot be read.
        ValueError: there is none.
    """
    from graphwrap.agents.evaluation.folder import EPISODES
    from graphwrap.agents.evaluation.records import TRANSITIONS as OF_EVALUATION
    from graphwrap.agents.runs.tracking import TRANSITIONS as OF_TRAINING

    if path.is_file():
        return [path]

    def stop(error: OSError) -> None:
        raise error

    found: list[Path] = []
    for name, subfolders, names in os.walk(path, onerror=stop if path.exists() else None):
        folder = Path(name)
        subfolders.sort()
        if folder.resolve().name == OF_TRAINING:
            of_updates = sorted(file for file in folder.glob("*.parquet") if file.is_file())
            found += of_updates[: updates or None]
        elif OF_EVALUATION in names:
            found.append(folder / OF_EVALUATION)
            subfolders[:] = [one for one in subfolders if one != EPISODES]  # the same, one by one
    if not found:
        raise ValueError(
            "a path must be a file of transitions, or a folder of training runs or evaluations, in which they are "
            f"{OF_TRAINING}/*.parquet or {OF_EVALUATION}, got {str(path)!r}"
        )
    return found


def diagnostics_of(file: Path, method: Any) -> dict[str, float]:
    """The diagnostics of one batch under a credit method.

    Raises:
        ValueError: the file holds something else.
    """
    import warnings

    from graphwrap import Transitions

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table tells the same
        return method(Transitions.load(file)).diagnostics


def draw(numbers: Mapping[str, np.ndarray], path: Path) -> None:
    """Draw the shares that the papers tell of, and theirs.

    Args:
        numbers: float64 (batches,) by the name of a diagnostic.
        path: image file; the suffix decides the format.

    Raises:
        OSError: it cannot be written.
    """
    from matplotlib.figure import Figure

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
            axes.plot([place - 0.33] * 2, [known.min(), known.max()], color=INK, linewidth=1.4, zorder=3)
    axes_style(axes, "Green: these episodes, line: lowest to highest batch. Grey: papers, ALFWorld")
    axes.set_xticks(range(len(_BARS)), _BARS.values())
    axes.set_ylim(0.0, 1.08)
    axes.set_ylabel("share of steps", color=INK, size=9.5)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            figure.savefig(file, format=path.suffix[1:].lower())
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error


def _show(console: Any, numbers: Mapping[str, np.ndarray]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("number", no_wrap=True)
    for title in ("mean", "lowest", "highest", "papers"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, values in numbers.items():
        known = values[~np.isnan(values)]
        told = ["-"] * 3
        if len(known):
            told = [f"{number:,.4g}" for number in (known.mean(), known.min(), known.max())]
        table.add_row(name, *told, PAPERS.get(name, ""))
    console.print(table)
    batches = len(next(iter(numbers.values())))
    console.print(f"{batches} batch{'' if batches == 1 else 'es'}", highlight=False)
