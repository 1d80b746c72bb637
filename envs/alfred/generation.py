"""Games made from a seed, each proven by playing its walkthrough in the real engine.

What is made depends on the arguments alone, byte for byte: game number i of a type is the same in every run that makes
it, however many others that run makes. Number i of valid_seen has the task of number i of train with the same seed, and
another house: it is "seen" if train has that many games. valid_unseen has tasks in scenes of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from graphwrap._files import whole_file, whole_folder
from graphwrap.envs.alfred.folders import GAME, RELEASE, GameText, is_whole, move, staging
from graphwrap.envs.alfred.houses import SIZES, Size
from graphwrap.envs.alfred.imports import require_engine
from graphwrap.envs.alfred.plans import walkthrough
from graphwrap.envs.alfred.problems import Task, draw_house, draw_task, problem, sentence
from graphwrap.envs.alfred.tables import SPLITS, TASK_TYPES, alfworld_folder

if TYPE_CHECKING:
    from graphwrap.envs.alfred.engine import Engine

ATTEMPTS = 50  # houses drawn for a task before giving up
_TASK, _HOUSE = 0, 1  # what a stream of random numbers decides


class Rejected(Exception):
    """A game is not one to keep; the text says why."""


@dataclass(frozen=True)
class Games:
    """Which games to make.

    Args:
        split: "train", "valid_seen" or "valid_unseen".
        per_type: games of each type.
        seed: at least 0.
        size: "small", kitchens and bedrooms cut down to a few receptacles and 5 or 6 things; or "release", all of
            AI2-THOR's rooms, full.
        types: task types.

    Raises:
        ValueError: an argument that does not exist or is out of its range.
    """

    split: str = "train"
    per_type: int = 10
    seed: int = 0
    size: Size = "small"
    types: tuple[str, ...] = TASK_TYPES

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise ValueError(f"split is one of {', '.join(SPLITS)}; got {self.split!r}.")
        if self.size not in SIZES:
            raise ValueError(f"size is one of {', '.join(SIZES)}; got {self.size!r}.")
        unknown = [name for name in self.types if name not in TASK_TYPES]
        if unknown or not self.types or len(set(self.types)) < len(self.types):
            raise ValueError(
                f"types are some of {', '.join(TASK_TYPES)}, each once; got {', '.join(self.types)!r}."
            )
        for name, value, least in (("per_type", self.per_type, 1), ("seed", self.seed, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is an integer of at least {least}, got {value!r}.")

    def task(self, task_type: str, index: int) -> Task:
        """The task of a game."""
        group = "valid_unseen" if self.split == "valid_unseen" else "train"
        return draw_task(task_type, group, self.size, self._stream(_TASK, group, task_type, index, 0))

    def folder(self, task: Task, index: int) -> str:
        """Where a game is within the folder of its split."""
        return f"{task.name}/trial_{self.size}_{self.seed}_{index:05d}"

    def draw(self, task_type: str, index: int, attempt: int = 0) -> GameText:
        """A game that nobody has played yet."""
        task = self.task(task_type, index)
        rng = self._stream(_HOUSE, self.split, task_type, index, attempt)
        house = draw_house(task, self.size, rng)
        folder = self.folder(task, index)
        return GameText(
            folder,
            task.type,
            task.parameters,
            task.scene,
            sentence(task, rng),
            problem(task, house, folder.split("/")[-1], self.size),
            tuple(walkthrough(task, house)),
        )

    def _stream(
        self, decides: int, split: str, task_type: str, index: int, attempt: int
    ) -> np.random.Generator:
        of_game = (decides, SPLITS.index(split), TASK_TYPES.index(task_type), index, attempt)
        return np.random.default_rng(np.random.SeedSequence([*of_game, SIZES.index(self.size), self.seed]))


@dataclass
class Made:
    """What `make_games` did."""

    folder: Path
    """The folder of the split."""
    made: int = 0
    kept: int = 0
    """Games that were there already."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Games that were drawn and not kept, by reason."""


def make_games(
    out: Path | str,
    games: Games,
    progress: Callable[[str, int], None] | None = None,
) -> Made:
    """Make games in ``out/json_2.1.1/SPLIT``; those that are there stay as they are.

    A game gets its place when it is proven, as a whole, so that an interrupted run leaves whole games only and the same
    call goes on. `out` can be ALFWorld's own data folder, ``ALFWORLD_DATA``.

    Args:
        out: folder, made where it is missing.
        games: which.
        progress: called for each game with its task type and the number of games there are.

    Raises:
        ModuleNotFoundError: the engine is missing.
        NotADirectoryError: `out` is a file.
        RuntimeError: a task had no game that can be won.
    """
    from graphwrap.envs.alfred.engine import Engine

    require_engine()
    if Path(out).exists() and not Path(out).is_dir():
        raise NotADirectoryError(f"Games are written to a folder, and {out} is a file: choose another name.")
    folder = Path(out) / RELEASE / games.split
    result = Made(folder)
    wanted = [(name, index) for index in range(games.per_type) for name in games.types]
    engine: Engine | None = None
    write_logic(Path(out))
    try:
        with staging(Path(out)) as staged:
            for count, (name, index) in enumerate(wanted, 1):
                target = folder / games.folder(games.task(name, index), index)
                if is_whole(target):
                    result.kept += 1
                else:
                    engine = engine or Engine()
                    make_game(engine, games, name, index, staged, target, result.rejected)
                    result.made += 1
                if progress is not None:
                    progress(name, count)
    finally:
        if engine is not None:
            engine.close()
    return result


def make_game(
    engine: Engine,
    games: Games,
    task_type: str,
    index: int,
    staged: Path,
    target: Path,
    rejected: Counter[str],
) -> None:
    """Draw a game until one is proven, and put it at `target`.

    Raises:
        RuntimeError: none of many was.
    """
    reasons: Counter[str] = Counter()
    last: Rejected | None = None
    for attempt in range(ATTEMPTS):
        try:
            prove(engine, games.draw(task_type, index, attempt), staged / "game")
        except Rejected as reason:
            reasons[str(reason)] += 1
            rejected[str(reason)] += 1
            last = reason
            continue
        move(staged / "game", target)
        return
    raise RuntimeError(
        f"{ATTEMPTS} games were drawn for {target.parent.name} and none was good "
        f"({'; '.join(f'{reason}: {count}' for reason, count in reasons.items())}): choose another seed."
    ) from last


def prove(engine: Engine, game: GameText, folder: Path) -> None:
    """Write a game to `folder` if its walkthrough wins it; its walkthrough ends where it is won.

    Raises:
        Rejected: it is won at the start, cannot be won, or is not won by its walkthrough; then there is no folder.
    """
    with whole_folder(folder) as written:
        game.write(written)
        commands = play(engine, written / GAME, game.walkthrough)
        if commands != game.walkthrough:
            replace(game, walkthrough=commands).write(written)


def play(engine: Engine, path: Path, commands: Sequence[str]) -> tuple[str, ...]:
    """Play commands in the real engine until the game is won; returns those that it took.

    Raises:
        Rejected: see `prove`.
    """
    from graphwrap.envs.alfred.engine import GameFileError

    try:
        state = engine.load(path)
    except GameFileError as error:
        raise Rejected("cannot be won") from error
    if state.won:
        raise Rejected("won at the start")
    for count, command in enumerate(commands, 1):
        if command not in state.admissible:
            raise Rejected("the walkthrough is not admissible")
        state = engine.step(command)
        if state.won:
            return tuple(commands[:count])
    raise Rejected("the walkthrough does not win")


def write_logic(out: Path) -> None:
    """The domain and grammar where ALFWorld's own configuration looks for them: ``out/logic``."""
    (out / "logic").mkdir(parents=True, exist_ok=True)
    for name in ("alfred.pddl", "alfred.twl2"):
        if not (out / "logic" / name).exists():
            with whole_file(out / "logic" / name) as file:
                file.write((alfworld_folder() / "data" / name).read_bytes())
