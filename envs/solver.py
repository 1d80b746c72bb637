"""Breadth-first search for a shortest solution, counted in environment actions."""

from __future__ import annotations

import numpy as np

from graphwrap.envs.cells import BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET, TARGET, WALL


def _live_cells(walls: list[bool], targets: list[int], steps: tuple[int, ...]) -> list[bool]:
    """Cells from which a lone box can be pushed to some target, found by pulling boxes off the targets."""
    live = [False] * len(walls)
    stack = list(targets)
    while stack:
        cell = stack.pop()
        if live[cell]:
            continue
        live[cell] = True
        for step in steps:
            box, player = cell - step, cell - 2 * step
            if not walls[box] and not walls[player]:
                stack.append(box)
    return live


def solve(board: np.ndarray, max_states: int = 1_000_000) -> tuple[int, ...] | None:
    """A shortest solution.

    Args:
        board: codes 0..6, (H, W), closed by walls at its border, with one player.
        max_states: positions to visit before giving up; one box in 6x6 has at most 240, four in 10x10 millions.

    Returns:
        The actions, 0 up, 1 down, 2 left, 3 right (``SokobanEnv(actions="push")``), moves and pushes alike;
        ``()`` for a solved board, None if there is no solution.

    Raises:
        RuntimeError: neither a solution nor its absence was found within ``max_states`` positions.
    """
    cells = np.asarray(board).astype(int).ravel().tolist()
    size, width = len(cells), np.asarray(board).shape[1]
    steps = (-width, width, -1, 1)
    walls = [code == WALL for code in cells]
    targets = [cell for cell, code in enumerate(cells) if code in (TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET)]
    player = next(cell for cell, code in enumerate(cells) if code in (PLAYER, PLAYER_ON_TARGET))
    boxes = sum(1 << cell for cell, code in enumerate(cells) if code in (BOX, BOX_ON_TARGET))
    goal = sum(1 << cell for cell in targets)
    if boxes == goal:
        return ()
    live = _live_cells(walls, targets, steps)

    start = boxes * size + player
    came_from: dict[int, tuple[int, int]] = {start: (start, -1)}
    frontier = [start]
    while frontier:
        following = []
        for state in frontier:
            boxes, player = divmod(state, size)
            for action, step in enumerate(steps):
                cell = player + step
                if walls[cell]:
                    continue
                moved = boxes
                if boxes >> cell & 1:
                    beyond = cell + step
                    if not live[beyond] or boxes >> beyond & 1:
                        continue
                    moved ^= (1 << cell) | (1 << beyond)
                reached = moved * size + cell
                if reached in came_from:
                    continue
                came_from[reached] = (state, action)
                if moved == goal:
                    return _path(came_from, reached)
                following.append(reached)
        if len(came_from) > max_states:
            raise RuntimeError(
                f"No verdict after {len(came_from)} positions, max_states={max_states}: pass a larger max_states."
            )
        frontier = following
    return None


def _path(came_from: dict[int, tuple[int, int]], state: int) -> tuple[int, ...]:
    actions: list[int] = []
    state, action = came_from[state]
    while action >= 0:
        actions.append(action)
        state, action = came_from[state]
    return tuple(reversed(actions))
