"""Makes the shipped ALFWorld games anew: ``python -m graphwrap.scripts.pack_alfworld [--out envs/data]``."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from graphwrap._files import whole_file
from graphwrap.envs.alfred.folders import GAME, GameText
from graphwrap.envs.alfred.generation import make_games
from graphwrap.envs.alfred.shipped import SHIPPED, command, file_name, pack


def main(
    out: Annotated[Path, typer.Option(help="Folder for the files, alfworld-small-SPLIT.json.xz.")] = Path(
        "envs/data"
    ),
) -> None:
    """Make the games of each split and pack them."""
    for split, games in SHIPPED.items():
        with TemporaryDirectory() as folder:
            made = make_games(folder, games).folder
            content = [GameText.read(path.parent) for path in sorted(made.rglob(GAME))]
        with whole_file(out / file_name(split)) as file:
            file.write(pack(command(games), content))
        typer.echo(f"{out / file_name(split)}: {len(content)} games")


if __name__ == "__main__":
    typer.run(main)
