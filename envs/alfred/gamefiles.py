"""Which games there are."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from graphwrap.envs.alfred.folders import GAME, RELEASE, TRAJECTORY
from graphwrap.envs.alfred.imports import OWN_DATA
from graphwrap.envs.alfred.tables import TASK_TYPES

SHIPPED = "shipped"
_VARIABLE = "ALFWORLD_DATA"
_SOLVABLE = b'"solvable"'
_IS_TRUE = re.compile(rb"\s*:\s*true\b")
_LEFT_OUT = ("movable", "Sliced")  # in the name of a folder: what ALFWorld's text games leave out


@dataclass(frozen=True)
class Game:
    """A game file.

    Args:
        path: Where it is.
        name: ``SPLIT/TASK/TRIAL``, the same on every machine.
        task_type: One of `TASK_TYPES`.
    """

    path: Path
    name: str
    task_type: str


def find_games(
    split: str = "train",
    data: str | os.PathLike[str] | None = None,
    task_types: Sequence[str] | None = None,
) -> tuple[Game, ...]:
    """The games of a split that can be won, sorted by name, and the same that ALFWorld finds.

    Args:
        split: "train", "valid_seen", "valid_unseen" or another folder of the data.
        data: ALFWorld's data folder, in which ``json_2.1.1/SPLIT`` is; "shipped", the small set that comes with this
            package; None, the folder of the variable ALFWORLD_DATA or that of ``alfworld-download``, else "shipped".
        task_types: Only games of these.

    Raises:
        FileNotFoundError: There are none; says where they were looked for.
        ValueError: A task type that does not exist.
    """
    unknown = [name for name in task_types or () if name not in TASK_TYPES]
    if unknown or (task_types is not None and not task_types):
        raise ValueError(f"task_types are some of {', '.join(TASK_TYPES)}, got {task_types!r}")
    folder = _release(split, data) / split
    games = sorted(_games(folder), key=lambda game: game.name)
    if not games:
        raise FileNotFoundError(_nothing(split, folder))
    chosen = tuple(game for game in games if task_types is None or game.task_type in task_types)
    if not chosen:
        raise FileNotFoundError(
            f"none of the {len(games)} games in {folder} is of {', '.join(task_types or ())}"
        )
    return chosen


def _release(split: str, data: str | os.PathLike[str] | None) -> Path:
    if data is None:
        given = os.environ.get(_VARIABLE)
        own = os.path.expanduser(OWN_DATA)
        if given and os.path.expanduser(given) != own:
            data = given
        else:
            data = own if Path(own, RELEASE).is_dir() else SHIPPED
    if data == SHIPPED:
        from graphwrap.envs.alfred.shipped import shipped_games

        return shipped_games(split).parent
    folder = Path(data).expanduser()
    return folder if folder.name == RELEASE else folder / RELEASE


def _nothing(split: str, folder: Path) -> str:
    release = folder.parent
    splits = sorted(path.name for path in release.iterdir() if path.is_dir()) if release.is_dir() else []
    there = f"; there is {', '.join(splits)}" if splits else ""
    return (
        f"no game that can be won in {folder}{there}. Make games with `graphwrap alfworld-games`, get ALFWorld's with "
        f"`alfworld-download`, and name their folder by data= or {_VARIABLE}; data='{SHIPPED}' is a small set"
    )


def _games(folder: Path) -> list[Game]:
    found = []
    for at, _, files in os.walk(folder):
        if GAME not in files or TRAJECTORY not in files or any(word in at for word in _LEFT_OUT):
            continue
        path = Path(at, GAME)
        if _can_be_won(path.read_bytes()):
            task_type = _task_type(Path(at))
            if task_type in TASK_TYPES:
                found.append(
                    Game(path, f"{folder.name}/{Path(at).relative_to(folder).as_posix()}", task_type)
                )
    return found


def _can_be_won(content: bytes) -> bool:
    """What the game file says; to read 3,500 files as JSON takes a minute. In a text its quotes would be escaped."""
    place = content.rfind(_SOLVABLE)
    return place >= 0 and _IS_TRUE.match(content, place + len(_SOLVABLE)) is not None


def game_of(path: Path) -> Game:
    """The game of any game file."""
    trial = path.absolute().parent
    known = (trial / TRAJECTORY).is_file()
    return Game(path, "/".join(trial.parts[-3:]), _task_type(trial) if known else "unknown")


def _task_type(trial: Path) -> str:
    """Of the folder's name, ``TYPE-THING-None-RECEPTACLE-SCENE/TRIAL``; else of the trajectory, which is large."""
    named = trial.parent.name.partition("-")[0]
    if named in TASK_TYPES:
        return named
    return str(json.loads((trial / TRAJECTORY).read_bytes()).get("task_type"))
