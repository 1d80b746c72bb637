"""`graphwrap levels`: make Sokoban level sets, and look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def make_levels_app() -> Any:
    """The typer app with the commands `make` and `show`."""
    from graphwrap.scripts import make_levels

    app = typer.Typer(
        help="Sokoban level sets: make new ones, look at those there are.", no_args_is_help=True
    )
    app.command("make")(make_levels.main)
    app.command("show")(show)
    return app


def show(
    levels: Annotated[
        str | None, typer.Argument(help="A shipped set or a level file. [default: every shipped set]")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="train or test, of a shipped set. [default: both]")
    ] = None,
    draw: Annotated[Path | None, typer.Option(help="Write a contact sheet to this image file.")] = None,
    index: Annotated[int | None, typer.Option(help="Print this level as text.")] = None,
) -> None:
    """Describe level sets: counts and optimal lengths; draw some levels, or print one.

    Without a set, all that are shipped.

    Examples:

        graphwrap levels show
        graphwrap levels show 6x6-1 --split test --draw levels.png
        graphwrap levels show my-levels.txt --index 0
    """
    from rich.console import Console
    from rich.table import Table

    from graphwrap.envs import level_sets, load_levels

    shipped = level_sets()
    try:
        if levels is None:
            wanted = [
                (name, part) for name, parts in shipped.items() for part in parts if split in (None, part)
            ]
        elif levels in shipped:
            wanted = [(levels, part) for part in ([split] if split is not None else shipped[levels])]
        else:
            wanted = [(levels, "train")]
        sets = [load_levels(name, part) for name, part in wanted]
    except ValueError as error:
        typer.echo(f"graphwrap levels show: {error}", err=True)
        raise typer.Exit(2) from None
    if (draw is not None or index is not None) and len(sets) != 1:
        names = ", ".join(one.name for one in sets) or "none"
        typer.echo(f"graphwrap levels show: --draw and --index need one set, these are {names}", err=True)
        raise typer.Exit(2)

    console = Console()
    table = Table("set", "levels", "size", "boxes", "optimal length: levels")
    for one in sets:
        facts = one.describe()
        boxes = sorted({facts["boxes_min"], facts["boxes_max"]})
        histogram = "  ".join(f"{length}: {count}" for length, count in facts["optimal_histogram"].items())
        table.add_row(
            one.name,
            str(facts["levels"]),
            f"{facts['height']}x{facts['width']}",
            " to ".join(map(str, boxes)),
            histogram or "unknown",
        )
    console.print(table)
    if index is not None:
        if not 0 <= index < len(sets[0]):
            typer.echo(f"graphwrap levels show: --index is 0 to {len(sets[0]) - 1}, got {index}", err=True)
            raise typer.Exit(2)
        console.print(sets[0].text(index), highlight=False, markup=False)
    if draw is not None:
        try:
            sets[0].draw(draw)
        except (ImportError, OSError, ValueError) as error:
            typer.echo(f"graphwrap levels show: {error}", err=True)
            raise typer.Exit(2) from None
        console.print(str(draw), highlight=False)
