"""Makes Sokoban level sets with gym-sokoban's generator: the shipped ones, or others.

The shipped files in ``envs/data`` come from the commands in their headers, with ``--out envs/data``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from graphwrap.envs.generator import split_of
from graphwrap.envs.gym_sokoban import VERSION, generate_room
from graphwrap.envs.levels import LevelSet
from graphwrap.envs.solver import solve

app = typer.Typer(add_completion=False)


def make_levels(
    name: str | None = None,
    *,
    size: tuple[int, int] = (6, 6),
    boxes: int = 1,
    train: int = 2000,
    test: int = 400,
    min_optimal: int = 4,
    max_optimal: int = 12,
    num_steps: int | None = None,
    seed: int = 0,
    max_rooms: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, LevelSet]:
    """Generates rooms, keeps those of the wanted difficulty, and splits them by wall layout.

    No two levels are equal, and no layout of walls occurs in both splits, not rotated or reflected either, so no
    state of a training level is a state of a test level. Within a split a level may be another one turned: small
    rooms have too few shapes to forbid that. The result depends on the arguments alone.

    Args:
        name: of the set; None: ``"{H}x{W}-{boxes}"``.
        size: rows and columns.
        boxes: boxes per level.
        train: levels wanted in split "train".
        test: levels wanted in split "test".
        min_optimal: least number of actions of a shortest solution.
        max_optimal: largest number of actions of a shortest solution.
        num_steps: length of the generator's random walk; None: gym-sokoban's own choice.
        seed: at least 0.
        max_rooms: rooms to generate before giving up; None: 100 per level wanted.
        progress: called with the number of levels found and wanted, whenever the first rises.

    Returns:
        The LevelSet of each split of at least one level.

    Raises:
        ImportError: gym-sokoban is missing.
        ValueError: no level is wanted, or an argument is out of its range.
        RuntimeError: the rooms did not yield the levels; says how many were found.
    """
    wanted = {"train": train, "test": test}
    total = train + test
    if min(train, test) < 0 or total == 0:
        raise ValueError(
            f"train and test are at least 0, and at least one level is wanted; got {train} and {test}."
        )
    if not 1 <= min_optimal <= max_optimal:
        raise ValueError(f"1 <= min_optimal <= max_optimal, got {min_optimal} and {max_optimal}.")
    limit = 100 * total if max_rooms is None else max_rooms
    found: dict[str, list[tuple[np.ndarray, int]]] = {"train": [], "test": []}
    seen: set[bytes] = set()
    for number in range(limit):
        if all(len(found[split]) == wanted[split] for split in wanted):
            break
        room = generate_room((seed << 32) + number, size, boxes, num_steps)
        solution = solve(room)
        if solution is None or not min_optimal <= len(solution) <= max_optimal:
            continue
        split = split_of(room, seed, test / total)
        content = room.tobytes()
        if content in seen or len(found[split]) == wanted[split]:
            continue
        seen.add(content)
        found[split].append((room, len(solution)))
        if progress is not None:
            progress(len(seen), total)
    if len(seen) < total:
        raise RuntimeError(
            f"{limit} rooms of {size[0]}x{size[1]} with {boxes} boxes gave {len(found['train'])} of {train} train and "
            f"{len(found['test'])} of {test} test levels with {min_optimal} to {max_optimal} optimal actions: ask for "
            f"fewer levels, a wider range or more max_rooms."
        )

    command = {
        "name": name,
        "height": size[0],
        "width": size[1],
        "boxes": boxes,
        "train": train,
        "test": test,
        "min-optimal": min_optimal,
        "max-optimal": max_optimal,
        "num-steps": num_steps,
        "seed": seed,
    }
    words = [word for key, value in command.items() if value is not None for word in (f"--{key}", str(value))]
    name = name or f"{size[0]}x{size[1]}-{boxes}"
    header = (
        f"{size[0]}x{size[1]}, boxes: {boxes}, optimal length in actions: {min_optimal} to {max_optimal}",
        f"rooms by generate_room of gym-sokoban {VERSION} (github.com/mpSchrader/gym-sokoban, MIT licence)",
        f"made by: graphwrap levels make {shlex.join(words)}",
        "no two levels are equal; no wall layout occurs in both splits, not turned or mirrored either",
        "symbols: # wall, space floor, . target, * box on target, $ box, @ player, + player on target",
    )
    return {
        split: LevelSet(
            f"{name}-{split}",
            np.stack([room for room, _ in levels]),
            np.array([length for _, length in levels]),
            (f"graphwrap Sokoban levels {name}, split {split}: {len(levels)} levels", *header),
        )
        for split, levels in found.items()
        if levels
    }


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="Folder for the level files, NAME-SPLIT.txt.")] = Path("levels"),
    name: Annotated[str | None, typer.Option(help="Name of the set. [default: HxW-BOXES]")] = None,
    height: Annotated[int, typer.Option(help="Rows, walls included.")] = 6,
    width: Annotated[int, typer.Option(help="Columns, walls included.")] = 6,
    boxes: Annotated[int, typer.Option(help="Boxes per level.")] = 1,
    train: Annotated[int, typer.Option(help="Training levels.")] = 2000,
    test: Annotated[int, typer.Option(help="Held-out levels.")] = 400,
    min_optimal: Annotated[int, typer.Option(help="Shortest solutions have at least this many actions.")] = 4,
    max_optimal: Annotated[int, typer.Option(help="Shortest solutions have at most this many actions.")] = 12,
    num_steps: Annotated[
        int | None, typer.Option(help="Random walk that digs a room. [default: 1.7 * (rows + columns)]")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = 0,
    draw: Annotated[bool, typer.Option("--draw", help="Also write a contact sheet per split (PNG).")] = False,
) -> None:
    """Make a Sokoban level set with gym-sokoban's generator.

    The files are what `graphwrap levels show` and the environment's argument `levels` take. The same options give the
    same files byte for byte, and the header of a file says them. No wall layout occurs in both splits, so `test` is
    held out. Rooms that are easier or harder than asked for are thrown away: a narrow range takes longer.

    Examples:

        graphwrap levels make --train 200 --test 50 --draw
        graphwrap levels make --boxes 2 --height 7 --width 7 --min-optimal 8 --max-optimal 25 --train 200 --test 50
        graphwrap levels make --name hard --min-optimal 10 --max-optimal 20 --train 100 --test 0 --out my-levels
    """
    columns = (TextColumn("levels"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console()
    try:
        out.mkdir(parents=True, exist_ok=True)
        with Progress(*columns, console=console) as bar:
            job = bar.add_task("levels", total=train + test)
            sets = make_levels(
                name,
                size=(height, width),
                boxes=boxes,
                train=train,
                test=test,
                min_optimal=min_optimal,
                max_optimal=max_optimal,
                num_steps=num_steps,
                seed=seed,
                progress=lambda done, total: bar.update(job, completed=done, total=total),
            )
        for levels in sets.values():
            levels.save(out / f"{levels.name}.txt")
            if draw:
                levels.draw(out / f"{levels.name}.png")
    except KeyboardInterrupt:
        typer.echo(
            "graphwrap levels make: interrupted; no half-written file is left, and the same command makes the same "
            "levels again",
            err=True,
        )
        raise typer.Exit(130) from None
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        typer.echo(f"graphwrap levels make: {error}", err=True)
        raise typer.Exit(2) from None
    table = Table("set", "levels", "median optimal", "levels by optimal length")
    for levels in sets.values():
        facts = levels.describe()
        histogram = "  ".join(f"{length}: {count}" for length, count in facts["optimal_histogram"].items())
        table.add_row(levels.name, str(len(levels)), f"{facts['optimal_median']:g}", histogram)
    console.print(table)


if __name__ == "__main__":
    app()
