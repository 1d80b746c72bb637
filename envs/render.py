"""Pictures of boards: 16x16 pixel tiles drawn from simple shapes, and contact sheets of level sets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from graphwrap._files import whole_file
from graphwrap.envs.cells import BOX, BOX_ON_TARGET, NUM_CODES, PLAYER, PLAYER_ON_TARGET, TARGET, WALL

if TYPE_CHECKING:
    from graphwrap.envs.levels import LevelSource

TILE = 16  # pixels per cell and side


@cache
def tiles() -> np.ndarray:
    """The picture of each cell code, uint8 (7, 16, 16, 3), read-only."""
    y, x = np.mgrid[0:TILE, 0:TILE]
    centre = (TILE - 1) / 2
    radius = np.hypot(y - centre, x - centre)
    side = np.maximum(abs(y - centre), abs(x - centre))

    art = np.empty((NUM_CODES, TILE, TILE, 3), np.uint8)
    art[:] = (226, 219, 204)  # floor
    mortar = (y % 8 == 7) | ((x + 8 * (y // 8 % 2)) % TILE == TILE - 1)
    art[WALL] = np.where(mortar[..., None], (74, 78, 92), (112, 117, 133))
    ring = (radius < 5.2) & (radius > 3.2)
    for code in (TARGET, PLAYER_ON_TARGET):
        art[code][ring | (radius < 1.5)] = (196, 62, 58)
    for code, plank, edge in (
        (BOX, (201, 152, 84), (124, 84, 38)),
        (BOX_ON_TARGET, (122, 178, 98), (58, 105, 46)),
    ):
        art[code][side < 7] = plank
        art[code][((side < 7) & (side > 5)) | ((side < 6) & (abs(abs(y - centre) - abs(x - centre)) < 1))] = (
            edge
        )
    for code in (PLAYER, PLAYER_ON_TARGET):
        head = np.hypot(y - 4.5, x - centre) < 3
        body = (y > 7) & (y < 15) & (abs(x - centre) < 1.5 + (y - 6) / 3)
        art[code][head] = (238, 190, 152)
        art[code][body] = (52, 92, 168)
    art.setflags(write=False)
    return art


def board_to_rgb(board: np.ndarray) -> np.ndarray:
    """The pictures of boards of codes 0..6, (..., H, W): a new uint8 (..., 16 H, 16 W, 3)."""
    *batch, height, width = board.shape
    return tiles()[board].swapaxes(-4, -3).reshape(*batch, height * TILE, width * TILE, 3)


def contact_sheet(levels: LevelSource, path: str | Path, indices: Sequence[int], columns: int = 8) -> None:
    """Writes a picture of some levels in a grid, each titled with its index and optimal length.

    Args:
        levels: the set, or the generator.
        path: image file; the suffix decides the format.
        indices: the levels to draw, at least one.
        columns: levels per row.

    Raises:
        ImportError: matplotlib is missing.
        ValueError: no level is asked for, or one that there is not; or there is no such format.
    """
    outside = [index for index in indices if not 0 <= index < len(levels)]
    if len(indices) == 0 or outside:
        raise ValueError(f"indices are one or more of 0 to {len(levels) - 1}, got {outside or 'none'}.")

    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("A contact sheet needs matplotlib: pip install 'graphwrap[plot]'") from error

    columns = min(columns, len(indices))
    rows = -(-len(indices) // columns)
    side = 1.3 if columns > 3 else 2.6  # inches: the title needs some width
    figure = Figure(figsize=(side * columns, (side + 0.2) * rows + 0.3), dpi=100, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.set_axis_off()
    for axis, index in zip(axes, indices):
        length = levels.optimal_length(index)
        axis.imshow(board_to_rgb(levels.board(index)), interpolation="nearest")
        axis.set_title(f"{index}" + (f": {length} steps" if length > 0 else ""), fontsize=8)
    figure.suptitle(f"{levels.name} ({len(indices)} of {len(levels)} levels)", fontsize=10)
    picture = BytesIO()
    figure.savefig(picture, format=Path(path).suffix[1:] or "png")
    with whole_file(path) as file:
        file.write(picture.getvalue())
