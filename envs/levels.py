"""Levels by number, and sets of them: fixed boards with their optimal lengths, shipped or read from files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from graphwrap._files import whole_file
from graphwrap.envs.cells import (
    BOX,
    BOX_ON_TARGET,
    NUM_CODES,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
    board_to_text,
)
from graphwrap.envs.solver import solve
from graphwrap.envs.xsb import UNKNOWN, decode, format_xsb, parse_xsb

GENERATE = "generate:"  # begins the text that names a LevelGenerator


class LevelSource(ABC):
    """Levels by number, 0 to ``len() - 1``, all of one size: what the environments need. Immutable."""

    name: str
    """How reports call the source."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and columns of every level."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def board(self, level: int) -> np.ndarray:
        """Cell codes of a level, uint8 (H, W), read-only."""

    @abstractmethod
    def optimal_length(self, level: int) -> int:
        """Number of actions of a shortest solution, ``UNKNOWN`` (-1) where not known."""

    @abstractmethod
    def select(self, indices: Sequence[int] | np.ndarray) -> LevelSet:
        """The set of the given levels, in that order."""

    def boards_of(self, levels: np.ndarray) -> np.ndarray:
        """The boards of some levels, a new uint8 (k, H, W)."""
        return np.stack([self.board(level) for level in levels.tolist()])

    def optimal_lengths(self, levels: np.ndarray) -> np.ndarray:
        """The optimal lengths of some levels, int (k,)."""
        return np.array([self.optimal_length(level) for level in levels.tolist()], np.int64)

    def text(self, index: int) -> str:
        """One level as XSB text."""
        return board_to_text(self.board(index))

    def draw(self, path: str | Path, indices: Sequence[int] | None = None, columns: int = 8) -> None:
        """Writes a contact sheet, a picture of some levels. Needs matplotlib (``pip install 'graphwrap[plot]'``).

        Args:
            path: image file; the suffix decides the format.
            indices: the levels to draw; None: 24 spread evenly over a set, the first 24 of a generator.
            columns: levels per row.

        Raises:
            ImportError: matplotlib is missing.
            ValueError: no level is asked for, or one that there is not; or there is no such format.
        """
        from graphwrap.envs.render import contact_sheet

        contact_sheet(self, path, self._some(24) if indices is None else indices, columns)

    @abstractmethod
    def _some(self, count: int) -> list[int]:
        """At most `count` levels that show what the source is like."""

    def __copy__(self) -> LevelSource:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> LevelSource:
        return self


@dataclass(frozen=True, eq=False, repr=False)
class LevelSet(LevelSource):
    """Boards of one size. Immutable: the arrays are read-only copies, and copying returns the set itself.

    Args:
        name: how reports call the set.
        boards: (n, H, W) cell codes 0..6, each closed by walls, with one player, as many targets as boxes
            and at least one box off its target.
        optimal: (n,) number of actions of a shortest solution, ``UNKNOWN`` (-1) where not known; None: all unknown.
        header: lines that say where the set comes from.

    Raises:
        ValueError: a board or length that breaks these rules; names the level.
    """

    name: str
    boards: np.ndarray  # uint8 (n, H, W)
    optimal: np.ndarray = None  # type: ignore[assignment]  # int32 (n,), never None once built
    header: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        boards = _checked_boards(self.boards)
        optimal = _checked_optimal(self.optimal, len(boards))
        boards.setflags(write=False)
        optimal.setflags(write=False)
        object.__setattr__(self, "boards", boards)
        object.__setattr__(self, "optimal", optimal)
        object.__setattr__(self, "header", tuple(self.header))

    def __len__(self) -> int:
        return len(self.boards)

    def __repr__(self) -> str:
        count, height, width = self.boards.shape
        return f"LevelSet({self.name!r}, {count} levels of {height}x{width})"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of every level."""
        return self.boards.shape[1], self.boards.shape[2]

    def board(self, level: int) -> np.ndarray:
        """Cell codes of a level, uint8 (H, W), read-only."""
        return self.boards[level]

    def boards_of(self, levels: np.ndarray) -> np.ndarray:
        """The boards of some levels, a new uint8 (k, H, W)."""
        return self.boards[levels]

    def optimal_length(self, level: int) -> int:
        """Number of actions of a shortest solution, ``UNKNOWN`` (-1) where not known."""
        return int(self.optimal[level])

    def optimal_lengths(self, levels: np.ndarray) -> np.ndarray:
        """The optimal lengths of some levels, int (k,)."""
        return self.optimal[levels]

    def _some(self, count: int) -> list[int]:
        return np.unique(np.linspace(0, len(self) - 1, count).astype(int)).tolist()

    def __reduce__(self) -> tuple[Any, ...]:
        return LevelSet, (self.name, self.boards, self.optimal, self.header)

    def select(self, indices: Sequence[int] | np.ndarray) -> LevelSet:
        """The set of the given levels (integer indices or a boolean mask), in that order."""
        picked = np.arange(len(self))[np.asarray(indices)]
        return replace(self, boards=self.boards[picked], optimal=self.optimal[picked])

    def solved(self, max_states: int = 1_000_000) -> LevelSet:
        """The same levels with every unknown optimal length filled in.

        Raises:
            ValueError: a level has no solution.
            RuntimeError: the solver gave up after ``max_states`` positions.
        """
        optimal = self.optimal.copy()
        for index in np.flatnonzero(optimal == UNKNOWN).tolist():
            solution = solve(self.boards[index], max_states)
            if solution is None:
                raise ValueError(
                    f"A level needs a solution, level {index} of {self.name} has none:\n{self.text(index)}"
                )
            optimal[index] = len(solution)
        return replace(self, optimal=optimal)

    def describe(self) -> dict[str, Any]:
        """Plain numbers about the set: counts, size, boxes and the histogram of optimal lengths."""
        known = self.optimal[self.optimal != UNKNOWN]
        boxes = np.isin(self.boards, (BOX, BOX_ON_TARGET)).sum(axis=(1, 2))
        values, counts = np.unique(known, return_counts=True)
        return {
            "name": self.name,
            "levels": len(self),
            "height": self.boards.shape[1],
            "width": self.boards.shape[2],
            "boxes_min": int(boxes.min()),
            "boxes_max": int(boxes.max()),
            "unsolved": int(len(self) - len(known)),
            "optimal_median": float(np.median(known)) if len(known) else None,
            "optimal_mean": float(known.mean()) if len(known) else None,
            "optimal_histogram": {int(length): int(count) for length, count in zip(values, counts)},
        }

    def save(self, path: str | Path) -> None:
        """Writes the set as a level file, which ``load_levels(path)`` reads. An interruption leaves no part of it."""
        with whole_file(path) as file:
            file.write(format_xsb(self.boards, self.optimal, self.header).encode("utf-8"))


def level_sets() -> dict[str, tuple[str, ...]]:
    """The shipped sets: name to splits."""
    found: dict[str, tuple[str, ...]] = {}
    names = [path.name.removesuffix(".txt") for path in _data().iterdir() if path.name.endswith(".txt")]
    for name, split in sorted(name.rsplit("-", 1) for name in names):
        found[name] = (*found.get(name, ()), split)
    return found


def load_levels(levels: str | Path | LevelSet = "6x6-1", split: str = "train") -> LevelSet:
    """A level set by name, from a file, or as it is.

    Args:
        levels: name of a shipped set, path of a level file (Boxoban's, or an XSB collection; see
            ``graphwrap.envs.xsb.parse_xsb``), or a LevelSet.
        split: the part of a shipped set, "train" or "test"; says nothing about files and LevelSets.

    Raises:
        ValueError: no such set, split or file; lists what there is. Or the file breaks LevelSet's rules.
    """
    if isinstance(levels, LevelSet):
        return levels
    shipped = level_sets()
    if str(levels) in shipped:
        if split not in shipped[str(levels)]:
            raise ValueError(
                f"The splits of {levels} are {', '.join(shipped[str(levels)])}; got split={split!r}."
            )
        return _load_shipped(str(levels), split)
    if str(levels).startswith(GENERATE):
        raise ValueError(
            f"{levels!r} makes levels without end, which is no fixed set: give it to an environment, or take "
            f"LevelGenerator.parse({str(levels)!r}).select(range(100))."
        )
    path = Path(levels)
    if not path.is_file():
        raise ValueError(
            f"levels is a shipped set ({', '.join(shipped)}), the path of a level file, a LevelSet, or levels made on "
            f"the fly such as 'generate:7x7-2'; got {levels!r}, and there is no such file."
        )
    try:
        boards, optimal, header = parse_xsb(decode(path.read_bytes()))
        return LevelSet(path.stem, boards, optimal, header)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


@cache
def _load_shipped(name: str, split: str) -> LevelSet:
    text = (_data() / f"{name}-{split}.txt").read_text(encoding="ascii")
    boards, optimal, header = parse_xsb(text)
    return LevelSet(f"{name}-{split}", boards, optimal, header)


def _data() -> Any:
    return files("graphwrap.envs") / "data"


def _checked_boards(boards: np.ndarray) -> np.ndarray:
    given = np.asarray(boards)
    if given.ndim != 3 or given.shape[0] < 1 or min(given.shape[1:]) < 3 or given.dtype.kind not in "iu":
        raise ValueError(
            f"boards is an integer array (n, H, W) with n >= 1 and H, W >= 3, "
            f"got shape {given.shape} and dtype {given.dtype}."
        )

    def require(good: np.ndarray, rule: str) -> None:
        if not good.all():
            index = int(np.flatnonzero(~good)[0])
            shown = board_to_text(np.where((given[index] < 0) | (given[index] > 255), 255, given[index]))
            raise ValueError(f"{rule}; level {index} breaks this:\n{shown}")

    inside = given[:, 1:-1, 1:-1]
    walls = (given == WALL).sum(axis=(1, 2)) - (inside == WALL).sum(axis=(1, 2))
    border = given.shape[1] * given.shape[2] - inside.shape[1] * inside.shape[2]

    def count(*codes: int) -> np.ndarray:
        return np.isin(given, codes).sum(axis=(1, 2))

    require(((given >= 0) & (given < NUM_CODES)).all(axis=(1, 2)), f"Cell codes are 0 to {NUM_CODES - 1}")
    require(walls == border, "Every cell at the border is a wall (0)")
    require(count(PLAYER, PLAYER_ON_TARGET) == 1, "A level has one player (5, or 6 on a target)")
    require(count(BOX) == count(TARGET, PLAYER_ON_TARGET), "A level has as many targets as boxes")
    require(count(BOX) > 0, "A level starts with at least one box off its target")
    return np.array(given, dtype=np.uint8, order="C")


def _checked_optimal(optimal: np.ndarray | None, count: int) -> np.ndarray:
    if optimal is None:
        return np.full(count, UNKNOWN, np.int32)
    given = np.asarray(optimal)
    if given.shape != (count,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"optimal has one integer per level, shape ({count},), got shape {given.shape} and dtype {given.dtype}."
        )
    wrong = np.flatnonzero((given < 1) & (given != UNKNOWN))
    if len(wrong):
        raise ValueError(
            f"An optimal length is at least 1, or {UNKNOWN} where not known; level {wrong[0]} has {given[wrong[0]]}."
        )
    return np.array(given, dtype=np.int32)
