"""Reading and writing level files: Boxoban's, XSB collections as the web has them, and our own.

Above the first level stand header lines; ``; 7 optimal 4`` heads level 7, whose shortest solution has 4 actions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from graphwrap.envs.cells import CODES, FLOOR, SYMBOLS, WALL, board_to_text

UNKNOWN = -1  # optimal length of a level nobody has solved

_HEADING = re.compile(r";\s*(\d+)(?:\s+optimal\s+(\d{1,9}))?\s*$")
_FLOORS = frozenset(symbol for symbol, code in CODES.items() if code == FLOOR)
_ROW = frozenset(CODES)


@dataclass
class _Block:
    line: int  # where it starts, from 1
    optimal: int
    rows: list[str] = field(default_factory=list)


def decode(data: bytes) -> str:
    """The text of a level file: UTF-8, with or without a byte order mark, or else Latin-1."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def parse_xsb(text: str) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """The boards of a level file.

    A level is a block of rows of ``#`` wall, `` ``, ``-`` or ``_`` floor, ``.`` target, ``$`` box, ``*`` box on target,
    ``@`` player and ``+`` player on target. Blank lines, ``;`` lines and lines of other text (titles, authors) part
    the levels. Rows may be of different length and indented: what lies outside the walls becomes wall. Levels of
    different size are filled up with walls, below and to the right, to the largest height and width of the file.

    Returns:
        boards, uint8 (n, H, W), codes 0..6; optimal, int32 (n,), ``UNKNOWN`` where the heading gives none;
        the header: the ``;`` lines above the first level, without the ``;``.

    Raises:
        ValueError: an unknown character in a row, a level that is not closed by walls, or no level at all.
    """
    blocks, header = _blocks(text)
    if not blocks:
        raise ValueError(f"A level file has at least one block of {SYMBOLS!r} characters, got {text[:60]!r}.")
    boards = [_board(block, number) for number, block in enumerate(blocks)]
    height, width = (max(board.shape[axis] for board in boards) for axis in (0, 1))
    filled = np.full((len(boards), height, width), WALL, np.uint8)
    for target, board in zip(filled, boards):
        target[: board.shape[0], : board.shape[1]] = board
    return filled, np.array([block.optimal for block in blocks], np.int32), header


def format_xsb(boards: np.ndarray, optimal: np.ndarray, header: Iterable[str] = ()) -> str:
    """The text of a level file that ``parse_xsb`` reads back.

    Args:
        boards: uint8 (n, H, W), codes 0..6.
        optimal: int (n,), ``UNKNOWN`` where not known.
        header: lines for the top of the file.
    """
    parts = ["".join(f"; {line}\n" for line in header)] if header else []
    for index, board in enumerate(boards):
        known = f" optimal {int(optimal[index])}" if optimal[index] != UNKNOWN else ""
        parts.append(f"; {index}{known}\n{board_to_text(board)}\n")
    return "\n".join(parts)


def _blocks(text: str) -> tuple[list[_Block], tuple[str, ...]]:
    blocks: list[_Block] = []
    header: list[str] = []
    pending = UNKNOWN
    inside = False  # a level
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        line = line.rstrip()
        if _is_row(line, number):
            if not inside:
                blocks.append(_Block(number, pending))
                pending = UNKNOWN
            inside = True
            blocks[-1].rows.append(line)
            continue
        inside = False
        heading = _HEADING.match(line)
        if heading:
            pending = int(heading[2]) if heading[2] else UNKNOWN
        elif line.startswith(";") and not blocks:
            header.append(line[1:].strip())
    return blocks, tuple(header)


def _is_row(line: str, number: int) -> bool:
    """Is this a row of a level? A row has a wall; nothing else begins with one."""
    unknown = sorted(set(line) - _ROW)
    if unknown:
        if not line.lstrip().startswith("#"):
            return False
        raise ValueError(
            f"A level row has the characters {SYMBOLS!r}, '-' and '_' only: line {number} has {unknown[0]!r} in "
            f"{line!r}. Begin lines of text with ';'."
        )
    if "#" not in line and not _FLOORS.issuperset(line):
        raise ValueError(f"A level row begins and ends with a wall: line {number} is {line!r}.")
    return "#" in line


def _board(block: _Block, number: int) -> np.ndarray:
    """Codes of a block, with walls for whatever lies outside.

    Raises:
        ValueError: outside and inside are not parted by walls.
    """
    width = max(map(len, block.rows))
    board = np.array([[CODES[symbol] for symbol in row.ljust(width)] for row in block.rows], np.uint8)
    if not (
        board[[0, -1]].any() or board[:, [0, -1]].any()
    ):  # all walls, as in most files: nothing lies outside
        return board
    framed = np.pad(board, 1, constant_values=FLOOR)
    outside = np.zeros(framed.shape, np.bool_)
    stack = [(0, 0)]
    while stack:
        y, x = stack.pop()
        if not (0 <= y < framed.shape[0] and 0 <= x < framed.shape[1]):
            continue
        if outside[y, x] or framed[y, x] == WALL:
            continue
        if framed[y, x] != FLOOR:
            shown = "\n".join(block.rows)
            raise ValueError(
                f"A level is closed by walls: in level {number}, at line {block.line}, the outside reaches "
                f"{SYMBOLS[framed[y, x]]!r} in row {y} and column {x} of it:\n{shown}"
            )
        outside[y, x] = True
        stack += [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
    board[outside[1:-1, 1:-1]] = WALL
    return board
