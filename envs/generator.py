"""Levels without end, made when they are asked for by gym-sokoban's room generator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from graphwrap.envs.cells import WALL, canonical
from graphwrap.envs.gym_sokoban import VERSION, generate_room, require_gym_sokoban
from graphwrap.envs.levels import GENERATE, LevelSet, LevelSource, load_levels
from graphwrap.envs.solver import solve
from graphwrap.envs.xsb import UNKNOWN

TEST_SHARE = 1 / 6  # of the wall layouts, as in the shipped sets
ROOMS_PER_LEVEL = 1000  # rooms to make for one level before giving up

_GRAMMAR = re.compile(r"generate:(\d+)x(\d+)-(\d+)(?::(\d+)-(\d+))?")


@dataclass(frozen=True)
class LevelGenerator(LevelSource):
    """2**31 levels of gym-sokoban's generator: level k is the same in every process, and made when it is first met.

    An environment draws the number of the next level from its generator, so ``reset(seed=s)`` always begins in the same
    room. The latest 10,000 rooms of the process are kept.

    No wall layout occurs in both splits, rotated or mirrored neither. The splits are those of the shipped sets: levels
    made for "train" share no layout with a shipped "test" set, or the other way round.

    Args:
        size: rows and columns, walls included.
        boxes: boxes per level.
        split: "train" or "test". One room in six is a test room, so those take six times as long to make.
        optimal: keep rooms only whose shortest solution has this many actions, (least, most); every room is then
            solved, and its optimal length known. None: any room, unsolved.

    Raises:
        ImportError: gym-sokoban is missing.
        ValueError: an argument out of its range.

    >>> LevelGenerator((7, 7), boxes=2).name
    'generate:7x7-2'
    """

    size: tuple[int, int] = (6, 6)
    boxes: int = 1
    split: str = "train"
    optimal: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", tuple(self.size))
        if len(self.size) != 2 or min(self.size) < 3:
            raise ValueError(f"size is rows and columns, at least 3 each, got {self.size}.")
        if self.boxes < 1:
            raise ValueError(f"boxes is at least 1, got {self.boxes}.")
        if self.split not in ("train", "test"):
            raise ValueError(f"The splits of generated levels are train, test; got split={self.split!r}.")
        if self.optimal is not None:
            object.__setattr__(self, "optimal", tuple(self.optimal))
            least, most = self.optimal
            if not 1 <= least <= most:
                raise ValueError(f"optimal is (least, most) with 1 <= least <= most, got {self.optimal}.")
        require_gym_sokoban()

    @classmethod
    def parse(cls, text: str, split: str = "train") -> LevelGenerator:
        """Reads "generate:HxW-BOXES", or "generate:HxW-BOXES:LEAST-MOST" with a range of optimal lengths.

        Raises:
            ValueError: the text is something else, or an argument is out of its range.
            ImportError: gym-sokoban is missing.
        """
        found = _GRAMMAR.fullmatch(text.strip())
        if found is None:
            raise ValueError(
                f"Generated levels are written generate:HxW-BOXES, such as generate:7x7-2, or with the least and most "
                f"actions of a shortest solution, such as generate:7x7-2:8-25; got {text!r}."
            )
        height, width, boxes, *optimal = (int(group) if group else 0 for group in found.groups())
        return cls((height, width), boxes, split, (optimal[0], optimal[1]) if found[4] else None)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The text that `parse` reads."""
        difficulty = "" if self.optimal is None else f":{self.optimal[0]}-{self.optimal[1]}"
        return f"{GENERATE}{self.size[0]}x{self.size[1]}-{self.boxes}{difficulty}"

    def __len__(self) -> int:
        return 2**31

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of every level."""
        return self.size

    def board(self, level: int) -> np.ndarray:
        """Cell codes of a level, uint8 (H, W), read-only; made now if it is not among the latest ones.

        Raises:
            RuntimeError: no room of the wanted kind came in ``ROOMS_PER_LEVEL`` rooms.
        """
        return _make(self, level)[0]

    def optimal_length(self, level: int) -> int:
        """Number of actions of a shortest solution, ``UNKNOWN`` (-1) where `optimal` is None."""
        return UNKNOWN if self.optimal is None else _make(self, level)[1]

    def select(self, indices: Sequence[int] | np.ndarray) -> LevelSet:
        """The fixed set of the given levels, in that order, such as ``select(range(100))``."""
        numbers = [int(index) for index in indices]
        lengths = [self.optimal_length(level) for level in numbers]
        header = (
            f"{self.name}, split {self.split}: {len(numbers)} levels",
            f"rooms by generate_room of gym-sokoban {VERSION} (github.com/mpSchrader/gym-sokoban, MIT licence)",
        )
        boards = np.stack([self.board(level) for level in numbers])
        return LevelSet(f"{self.name}-{self.split}", boards, np.array(lengths), header)

    def _some(self, count: int) -> list[int]:
        return list(range(count))


def level_source(levels: str | Path | LevelSource, split: str = "train") -> LevelSource:
    """What an environment's argument `levels` stands for: a set, a file, or a generator; see `load_levels`.

    Raises:
        ValueError: there is no such thing; lists what there is.
        ImportError: levels are to be made, and gym-sokoban is missing.
    """
    if isinstance(levels, LevelSource):
        return levels
    if isinstance(levels, str) and levels.startswith(GENERATE):
        return LevelGenerator.parse(levels, split)
    return load_levels(levels, split)


def split_of(room: np.ndarray, seed: int, test_share: float) -> str:
    """The split of a room: drawn once per wall layout, whatever the order of the rooms.

    Args:
        room: cell codes, (H, W).
        seed: of the division into splits.
        test_share: chance that a layout is of split "test".
    """
    layout = int.from_bytes(canonical(room == WALL), "big")
    return "test" if np.random.default_rng([seed, layout]).random() < test_share else "train"


@lru_cache(maxsize=10_000)
def _make(levels: LevelGenerator, level: int) -> tuple[np.ndarray, int]:
    for number in range(ROOMS_PER_LEVEL):
        room = generate_room((level << 32) + number, levels.size, levels.boxes)
        if split_of(room, 0, TEST_SHARE) != levels.split:
            continue
        length = UNKNOWN
        if levels.optimal is not None:
            solution = solve(room)
            if solution is None or not levels.optimal[0] <= len(solution) <= levels.optimal[1]:
                continue
            length = len(solution)
        room.setflags(write=False)
        return room, length
    raise RuntimeError(
        f"Level {level} of {levels.name}, split {levels.split}, is none of the first {ROOMS_PER_LEVEL} rooms: ask for "
        f"a larger size, fewer boxes or a wider range of optimal lengths."
    )
