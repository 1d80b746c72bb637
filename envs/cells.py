"""The seven kinds of Sokoban cells: codes, XSB characters, and board to text."""

from __future__ import annotations

import numpy as np

WALL, FLOOR, TARGET, BOX_ON_TARGET, BOX, PLAYER, PLAYER_ON_TARGET = range(7)
NUM_CODES = 7

SYMBOLS = "# .*$@+"  # SYMBOLS[code], the characters of XSB level files
CODES = {symbol: code for code, symbol in enumerate(SYMBOLS)} | {"-": FLOOR, "_": FLOOR}

_TO_ASCII = bytes(ord(SYMBOLS[code]) if code < NUM_CODES else ord("?") for code in range(256))


def cells_to_text(cells: bytes | bytearray, width: int) -> str:
    """Rows of XSB characters joined by newlines.

    Args:
        cells: codes 0..6, row by row, ``height * width`` bytes.
        width: cells per row.
    """
    line = cells.translate(_TO_ASCII).decode("ascii")
    return "\n".join([line[start : start + width] for start in range(0, len(line), width)])


def board_to_text(board: np.ndarray) -> str:
    """XSB text of one board, codes 0..6 of shape (H, W)."""
    return cells_to_text(np.ascontiguousarray(board, dtype=np.uint8).tobytes(), board.shape[1])


def canonical(board: np.ndarray) -> bytes:
    """The same bytes for all eight rotations and reflections of a board, and for no other board.

    Args:
        board: (H, W), any dtype whose values are below 256.
    """
    board = np.asarray(board, dtype=np.uint8)
    images = (np.rot90(side, turns) for side in (board, board.T) for turns in range(4))
    return min(bytes(image.shape) + image.tobytes() for image in images)
