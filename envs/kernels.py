"""Numba kernels of the batched Sokoban: begin episodes, refuse actions, step, and planes of the cells.

One sub-environment is one row of

- ``cells``, uint8 (n, H * W): codes 0..6, row by row;
- ``counters``, int64 (n, 5): PLAYER_AT, UNCOVERED, COUNTED, BOXES, STEPS;
- ``phase``, uint8 (n,): NEVER, RUNNING, ENDED, or BEGUN in place of the current step.
"""

from __future__ import annotations

import numpy as np

from graphwrap._jit import jit
from graphwrap.envs.cells import BOX, BOX_ON_TARGET, FLOOR, NUM_CODES, PLAYER, PLAYER_ON_TARGET, TARGET
from graphwrap.envs.rules import BOX_REWARD, STEP_REWARD, WIN_REWARD
from graphwrap.envs.streams import draw

NEVER, RUNNING, ENDED, BEGUN = range(4)

# Columns of `counters`. COUNTED: boxes on targets as of the last reward; gym-sokoban starts it at 0 on every level.
PLAYER_AT, UNCOVERED, COUNTED, BOXES, STEPS = range(5)
NUM_COUNTERS = 5

DRAW, MISSING = -1, -2  # in place of a level


@jit
def _place(cells: np.ndarray, counters: np.ndarray, row: int, board: np.ndarray) -> None:
    boxes = uncovered = player = 0
    for cell in range(len(board)):
        code = board[cell]
        cells[row, cell] = code
        if code == BOX:
            boxes += 1
            uncovered += 1
        elif code == BOX_ON_TARGET:
            boxes += 1
        elif code in (PLAYER, PLAYER_ON_TARGET):
            player = cell
    counters[row, PLAYER_AT] = player
    counters[row, UNCOVERED] = uncovered
    counters[row, COUNTED] = 0
    counters[row, BOXES] = boxes
    counters[row, STEPS] = 0


@jit
def begin(
    cells: np.ndarray, counters: np.ndarray, phase: np.ndarray, rows: np.ndarray, boards: np.ndarray
) -> None:
    """Starts an episode in each of `rows`, int64 (k,), on its board, uint8 (k, H * W)."""
    for number in range(len(rows)):
        _place(cells, counters, rows[number], boards[number])
        phase[rows[number]] = RUNNING


@jit
def begin_ended(
    cells: np.ndarray,
    counters: np.ndarray,
    phase: np.ndarray,
    next_phase: int,
    streams: np.ndarray,
    bound: int,
    ready: np.ndarray,
    table: np.ndarray,
    optimal: np.ndarray,
    by_row: bool,
    numbers: np.ndarray,
    masks: np.ndarray,
) -> int:
    """Starts an episode in every ended row, on the level made ready for it or its stream's next, or does nothing.

    Args:
        cells: see above.
        counters: see above.
        phase: see above.
        next_phase: of the rows begun, RUNNING or BEGUN.
        streams: uint64 (n, 6), see ``graphwrap.envs.streams``.
        bound: draws are of 0 to ``bound - 1``.
        ready: int64 (n,), the level to begin; DRAW: what the stream draws; MISSING: there is none yet. Levels that have
            begun are replaced by MISSING.
        table: uint8 (m, H * W), the boards.
        optimal: int32 (m,), their optimal lengths, negative where unknown.
        by_row: the board of a row is ``table[row]``, else ``table[level]``.
        numbers: int64 (2, n), written where a row begins: its level, and its optimal length if known.
        masks: bool (2, n), written: where `numbers` is.

    Returns:
        A row that ended and whose level is missing, or -1 if all have begun.
    """
    for row in range(len(phase)):
        if phase[row] == ENDED and ready[row] == MISSING:
            return row
    for row in range(len(phase)):
        if phase[row] != ENDED:
            continue
        level = ready[row]
        if level == DRAW:
            level = draw(streams[row], bound)
        else:
            ready[row] = MISSING
        board = row if by_row else level
        _place(cells, counters, row, table[board])
        phase[row] = next_phase
        numbers[0, row] = level
        masks[0, row] = True
        if optimal[board] >= 0:
            numbers[1, row] = optimal[board]
            masks[1, row] = True
    return -1


@jit
def refused_row(phase: np.ndarray, actions: np.ndarray, num_actions: int, skip_ended: bool) -> int:
    """The first row that cannot be stepped with its action, or -1; `skip_ended`: ended rows take any action."""
    for row in range(len(phase)):
        if phase[row] == ENDED and skip_ended:
            continue
        if phase[row] != RUNNING or actions[row] < 0 or actions[row] >= num_actions:
            return row
    return -1


@jit
def step(
    cells: np.ndarray,
    counters: np.ndarray,
    phase: np.ndarray,
    actions: np.ndarray,
    offsets: np.ndarray,
    pushes: np.ndarray,
    max_steps: int,
    dense: bool,
    idle_reward: float,
    rewards: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
) -> int:
    """One action in every running row; those that have begun in place of this step get reward 0 and no end.

    Args:
        cells: changed in place, as are counters and phase.
        counters: see above.
        phase: see above.
        actions: int64 (n,), within range where a row runs.
        offsets: int64 (A,), from the player's cell to the next one.
        pushes: bool (A,), may the action push.
        max_steps: an episode is truncated at this many steps.
        dense: gym-sokoban's dense rewards.
        idle_reward: of an action that changes nothing, where not dense.
        rewards: float64 (n,), written.
        terminated: bool (n,), written.
        truncated: bool (n,), written.

    Returns:
        The number of rows whose episode ended.
    """
    ended = 0
    for row in range(len(phase)):
        rewards[row] = 0.0
        terminated[row] = truncated[row] = False
        if phase[row] != RUNNING:
            phase[row] = RUNNING
            continue
        offset = offsets[actions[row]]
        here = counters[row, PLAYER_AT]
        there = here + offset
        code = cells[row, there]
        changed = False
        if code in (FLOOR, TARGET):
            changed = True
        elif pushes[actions[row]] and code in (BOX, BOX_ON_TARGET):
            beyond = cells[row, there + offset]
            if beyond in (FLOOR, TARGET):
                changed = True
                if beyond == FLOOR:
                    cells[row, there + offset] = BOX
                else:
                    cells[row, there + offset] = BOX_ON_TARGET
                    counters[row, UNCOVERED] -= 1
                if code == BOX_ON_TARGET:
                    counters[row, UNCOVERED] += 1
        if changed:
            on_target = code in (TARGET, BOX_ON_TARGET)
            cells[row, there] = PLAYER_ON_TARGET if on_target else PLAYER
            cells[row, here] = FLOOR if cells[row, here] == PLAYER else TARGET
            counters[row, PLAYER_AT] = there

        counters[row, STEPS] += 1
        won = counters[row, UNCOVERED] == 0
        if dense:
            on_targets = counters[row, BOXES] - counters[row, UNCOVERED]
            reward = STEP_REWARD
            if on_targets > counters[row, COUNTED]:
                reward += BOX_REWARD
            elif on_targets < counters[row, COUNTED]:
                reward -= BOX_REWARD
            counters[row, COUNTED] = on_targets
            if won:
                reward += WIN_REWARD
            rewards[row] = reward
        elif won:
            rewards[row] = WIN_REWARD
        elif not changed:
            rewards[row] = idle_reward
        if won or counters[row, STEPS] >= max_steps:
            terminated[row] = won
            truncated[row] = not won
            phase[row] = ENDED
            ended += 1
    return ended


@jit
def fill_planes(cells: np.ndarray, planes: np.ndarray) -> None:
    """Writes `planes`, float32 (n, 7, H * W): 1 where the cell has the plane's code, else 0."""
    for row in range(cells.shape[0]):
        for code in range(NUM_CODES):
            for cell in range(cells.shape[1]):
                planes[row, code, cell] = 1.0 if cells[row, cell] == code else 0.0
