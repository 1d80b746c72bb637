"""`graphwrap alfworld-games`: make games for ALFWorld's engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_NAME = "graphwrap alfworld-games"


def alfworld_games(
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="Folder to write, laid out like ALFWorld's data: give it as ALFWORLD_DATA. Games in it stay.",
            show_default=False,
        ),
    ],
    split: Annotated[str, typer.Option(help="train, valid_seen or valid_unseen.")] = "train",
    per_type: Annotated[int, typer.Option(help="Games of each task type.")] = 10,
    seed: Annotated[
        int,
        typer.Option(
            help="The same seed gives the same files. valid_seen has the tasks that train has with this seed."
        ),
    ] = 0,
    size: Annotated[
        str,
        typer.Option(
            help="small: kitchens and bedrooms with 3 to 11 receptacles and 5 or 6 things; release: all four kinds of "
            "rooms, whole and full, like the released games."
        ),
    ] = "small",
    types: Annotated[
        str,
        typer.Option(help="Task types, comma-separated. [default: all six]", show_default=False),
    ] = "",
) -> None:
    """Make text games for ALFWorld's engine, without ALFWorld's data and without a simulator.

    Rooms are AI2-THOR's floor plans, which alfworld has; what lies where in them, and the task, come from the seed.
    Each game is written after it was won in the real engine by its walkthrough. Games that are won at the start or
    cannot be won are drawn again.

    The same options give the same files byte for byte, and a game does not depend on how many others there are. After
    an interruption the same command goes on.

    Splits are as in ALFWorld: train and valid_seen play in the floor plans 7 to 30 of each kind of room, valid_unseen
    in the plans 1 to 6. Task number i of valid_seen, a type, thing, receptacle and room, is task number i of train
    with the same seed; things lie elsewhere.

    Examples:

        graphwrap alfworld-games games --per-type 20
        graphwrap alfworld-games games --per-type 10 --split valid_unseen
        graphwrap alfworld-games big --size release --types pick_and_place_simple,look_at_obj_in_light
    """
    from rich.console import Console

    from graphwrap._progress import progress_bars
    from graphwrap.envs.alfred.generation import Games, make_games
    from graphwrap.envs.alfred.tables import TASK_TYPES

    console = Console()
    try:
        chosen = tuple(name.strip() for name in types.split(",") if name.strip()) if types else TASK_TYPES
        games = Games(split, per_type, seed, size, chosen)  # type: ignore[arg-type]
        with progress_bars(console) as bars:
            job = bars.add_task(f"games of {split}", total=per_type * len(chosen), says="")
            made = make_games(out, games, lambda name, count: bars.update(job, completed=count, says=name))
    except KeyboardInterrupt:
        typer.echo(
            f"{_NAME}: interrupted; the games made so far are whole, and the same command goes on", err=True
        )
        raise typer.Exit(130) from None
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        typer.echo(f"{_NAME}: {error}", err=True)
        raise typer.Exit(2) from None
    again = "".join(f"; {count} drawn again: {reason}" for reason, count in sorted(made.rejected.items()))
    typer.echo(f"{made.folder}: {made.made} games made, {made.kept} kept{again}")
