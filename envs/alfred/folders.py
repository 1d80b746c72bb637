"""Folders of games as ALFWorld has them: what is in one, and how it gets to its place whole.

``json_2.1.1/SPLIT/TYPE-THING-None-RECEPTACLE-SCENE/TRIAL/`` with ``game.tw-pddl``, ``traj_data.json`` and
``initial_state.pddl``.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from graphwrap._files import remove_folder
from graphwrap.envs.alfred.tables import domain, grammar

RELEASE = "json_2.1.1"
GAME, TRAJECTORY, STATE = "game.tw-pddl", "traj_data.json", "initial_state.pddl"
_STAGING = ".making-"
_FORGOTTEN = 24 * 3600  # seconds after which a folder of a process that goes on would have changed


@dataclass(frozen=True)
class GameText:
    """What a game is beside ALFWorld's domain and grammar.

    Args:
        folder: its folder within that of the split, ``TASK/TRIAL``.
        type: its task type.
        parameters: ALFRED's ``pddl_params``.
        scene: the scene's number.
        task: the task in words.
        problem: the PDDL problem.
        walkthrough: commands that win it.
    """

    folder: str
    type: str
    parameters: dict[str, str | bool]
    scene: int
    task: str
    problem: str
    walkthrough: tuple[str, ...]

    def write(self, folder: Path) -> None:
        """Write the game's files into a folder that exists."""
        sentence = "UNKNOWN GOAL"
        game = {
            "pddl_domain": domain(),
            "grammar": grammar().replace(sentence, self.task),
            "pddl_problem": self.problem,
            "solvable": True,
            "walkthrough": list(self.walkthrough),
        }
        trajectory = {
            "task_id": self.folder.split("/")[-1],
            "task_type": self.type,
            "pddl_params": self.parameters,
            "scene": {"floor_plan": f"FloorPlan{self.scene}", "scene_num": self.scene},
            "turk_annotations": {"anns": [{"high_descs": [], "task_desc": self.task, "votes": [1]}]},
        }
        (folder / GAME).write_bytes(json.dumps(game).encode())
        (folder / STATE).write_bytes(self.problem.encode())
        (folder / TRAJECTORY).write_bytes(json.dumps(trajectory, indent=1).encode())

    @classmethod
    def read(cls, folder: Path) -> GameText:
        """The game of a folder ``TASK/TRIAL``."""
        game = json.loads((folder / GAME).read_bytes())
        trajectory = json.loads((folder / TRAJECTORY).read_bytes())
        return cls(
            f"{folder.parent.name}/{folder.name}",
            trajectory["task_type"],
            trajectory["pddl_params"],
            trajectory["scene"]["scene_num"],
            trajectory["turk_annotations"]["anns"][0]["task_desc"],
            game["pddl_problem"],
            tuple(game["walkthrough"]),
        )


def is_whole(folder: Path) -> bool:
    """Does a folder have all files of a game?"""
    return all((folder / name).is_file() for name in (GAME, TRAJECTORY, STATE))


@contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """A folder in `folder` to make things in, where nobody looks for games; what a killed process left is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{_STAGING}*"):
        if time.time() - left.stat().st_mtime > _FORGOTTEN:
            shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(prefix=_STAGING, dir=folder) as made:
        yield Path(made)


def move(folder: Path, target: Path, whole: Callable[[Path], bool] = is_whole) -> None:
    """Give a folder its place; of several processes that do so the first one does, and the others' are removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not whole(target):
        with suppress(FileNotFoundError):  # another process was faster
            remove_folder(target)
    try:
        os.replace(folder, target)
    except OSError:
        if not whole(target):
            raise
        shutil.rmtree(folder)
