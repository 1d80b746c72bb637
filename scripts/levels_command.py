"""`graphwrap levels`: make Sokoban level sets, look at them, draw them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

_HELP = """Sokoban levels: make sets of them, describe, print and draw any.

Wherever LEVELS stands, that is what the environment's argument `levels` takes: the name of a shipped set (6x6-1, 7x7-1,
7x7-2), a level file (Boxoban's, or an XSB collection from the web), or generate:HxW-BOXES, levels made on the fly.
"""


def make_levels_app() -> Any:
    """The typer app with the commands `make` and `show`."""
    from graphwrap.scripts import make_levels

    app = typer.Typer(help=_HELP, no_args_is_help=True)
    app.command("make")(make_levels.main)
    app.command("show")(show)
    return app


def show(
    levels: Annotated[
        str | None,
        typer.Argument(
            help="A shipped set, a level file or generate:HxW-BOXES. [default: every shipped set]"
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="train or test, of a shipped set or of generated levels. [default: both]"),
    ] = None,
    index: Annotated[
        list[int] | None, typer.Option(help="Print this level as text, and draw no others; may be repeated.")
    ] = None,
    draw: Annotated[
        Path | None,
        typer.Option(help="Write a contact sheet of 24 levels, or of those of --index, to this image."),
    ] = None,
    solve: Annotated[
        bool,
        typer.Option(
            "--solve", help="Work out the optimal lengths that are not known. Hard levels take long."
        ),
    ] = False,
    count: Annotated[int, typer.Option(help="Generated levels to describe.")] = 100,
) -> None:
    """Describe levels: counts, size, boxes and optimal lengths; print some, or draw them.

    The optimal length of a level is the number of actions of a shortest solution, moves and pushes alike.

    Examples:

        graphwrap levels show
        graphwrap levels show 6x6-1 --split test --draw levels.png
        graphwrap levels show my-levels.txt --solve
        graphwrap levels show my-levels.txt --index 0 --index 7
        graphwrap levels show generate:7x7-2 --split test --count 20 --draw rooms.png
    """
    from rich.console import Console

    try:
        if count < 1:
            raise ValueError(f"--count is at least 1, got {count}")
        sources = _sources(levels, split)
        if (draw is not None or index) and len(sources) != 1:
            names = ", ".join(one.name for one in sources) or "none"
            raise ValueError(f"--draw and --index need one set, these are {names}")
        for number in index or ():
            if not 0 <= number < len(sources[0]):
                raise ValueError(f"--index is 0 to {len(sources[0]) - 1}, got {number}")
        console = Console()
        _describe(console, sources, count, solve)
        for number in index or ():
            console.print(f"; {number}\n{sources[0].text(number)}", highlight=False, markup=False)
        if draw is not None:
            sources[0].draw(draw, index or None)
            console.print(str(draw), highlight=False)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        typer.echo(f"graphwrap levels show: {error}", err=True)
        raise typer.Exit(2) from None


def _sources(levels: str | None, split: str | None) -> list[Any]:
    from graphwrap.envs.generator import level_source
    from graphwrap.envs.levels import GENERATE, level_sets

    shipped = level_sets()
    if levels is None:
        return [
            level_source(name, part) for name in shipped for part in shipped[name] if split in (None, part)
        ]
    both = split is None and (levels in shipped or levels.startswith(GENERATE))
    return [level_source(levels, part) for part in (("test", "train") if both else (split or "train",))]


def _describe(console: Any, sources: list[Any], count: int, solve: bool) -> None:
    from rich.table import Column, Table

    from graphwrap.envs import LevelGenerator

    table = Table(Column("set", overflow="fold"), "levels", "size", "boxes", "optimal length: levels")
    for source in sources:
        made = isinstance(source, LevelGenerator)
        one = source.select(range(count)) if made else source
        facts = (one.solved() if solve else one).describe()
        boxes = sorted({facts["boxes_min"], facts["boxes_max"]})
        histogram = "  ".join(f"{length}: {levels}" for length, levels in facts["optimal_histogram"].items())
        unknown = f"unknown: {facts['unsolved']}" if facts["unsolved"] else ""
        table.add_row(
            one.name,
            f"{count} of 2**31" if made else str(facts["levels"]),
            f"{facts['height']}x{facts['width']}",
            " to ".join(map(str, boxes)),
            "  ".join(part for part in (histogram, unknown) if part),
        )
    console.print(table)
