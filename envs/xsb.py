"""Reading and writing level files: blocks of XSB characters under ``;`` headings, as Boxoban has them.

Above the first level stand header lines; ``; 7 optimal 4`` heads level 7, whose shortest solution has 4 actions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from graphwrap.envs.cells import CODES, SYMBOLS, board_to_text

UNKNOWN = -1  # optimal length of a level nobody has solved

_HEADING = re.compile(r";\s*(\d+)(?:\s+optimal\s+(\d+))?\s*$")


def parse_xsb(text: str) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """The boards of a level file.

    Returns:
        boards, uint8 (n, H, W), codes 0..6; optimal, int32 (n,), ``UNKNOWN`` where the heading gives none;
        the header: the ``;`` lines above the first level, without the ``;``.

    Raises:
        ValueError: an unknown character, a row or level of another size, or no level at all.
    """
    blocks: list[list[str]] = []
    optimal: list[int] = []
    header: list[str] = []
    rows: list[str] = []
    pending = UNKNOWN

    for number, line in enumerate([*text.splitlines(), ""], start=1):
        heading = _HEADING.match(line)
        if line.startswith(";") or not line.strip():
            if rows:
                if blocks and len(rows) != len(blocks[0]):
                    raise ValueError(
                        f"All levels of a file have one size: level {len(blocks)}, which ends above line {number}, "
                        f"has {len(rows)} rows, the first one has {len(blocks[0])}. Split the file by size."
                    )
                blocks.append(rows)
                optimal.append(pending)
                rows, pending = [], UNKNOWN
            if heading:
                pending = int(heading[2]) if heading[2] else UNKNOWN
            elif line.startswith(";") and not blocks:
                header.append(line[1:].strip())
            continue
        unknown = sorted(set(line) - set(CODES))
        if unknown:
            raise ValueError(
                f"A level row has the characters {SYMBOLS!r} only: line {number} has {unknown[0]!r} in {line!r}."
            )
        width = len((blocks[0] if blocks else rows or [line])[0])
        if len(line) != width:
            raise ValueError(
                f"All rows of a file have one width: line {number} has {len(line)} characters, the first row has "
                f"{width}: {line!r}. Fill the outside with '#'."
            )
        rows.append(line)

    if not blocks:
        raise ValueError(f"A level file has at least one block of {SYMBOLS!r} characters, got {text[:60]!r}.")
    boards = [[[CODES[symbol] for symbol in row] for row in block] for block in blocks]
    return np.array(boards, np.uint8), np.array(optimal, np.int32), tuple(header)


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
