"""Which episode every row of a recording belongs to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from graphwrap._jit import jit
from graphwrap.kernels.grouping import BoolArray, FloatArray, Int32Array

Int64Array = npt.NDArray[np.int64]


@jit
def follow_episodes(
    begun: tuple[Int64Array, Int64Array, Int32Array, Int64Array],
    running: Int64Array,
    next_step: Int32Array,
    current: Int32Array,
    total: FloatArray,
    next_state: Int32Array,
    reward: FloatArray,
    is_step: BoolArray,
    ends: BoolArray,
    episode: Int64Array,
    step: Int32Array,
    state: Int32Array,
) -> tuple[Int64Array, Int64Array, FloatArray]:
    """Go through T rows of n environments in the order in which they happened.

    Args:
        begun: of the B episodes that began, in that order: the row before which, int64 (B,) from 0 to T; the
            environment, int64 (B,); its first state, int32 (B,); its number, int64 (B,).
        running: int64 (n,), number of the episode that runs in each environment, -1 for none; updated.
        next_step: int32 (n,), its next step; updated.
        current: int32 (n,), the state it is in; updated.
        total: float64 (n,), its return so far, added up step by step; updated.
        next_state: int32 (T, n).
        reward: float64 (T, n).
        is_step: bool (T, n), False where an environment made no step.
        ends: bool (T, n), True where a step ended its episode.
        episode, step, state: (T, n), written: number of the episode (-1 where there was no step), step within it, and
            the state that the step left.

    Returns:
        Of the episodes that ended, in that order: their place in the flattened rows, int64; number, int64; and return,
        float64.
    """
    begun_row, begun_env, begun_state, begun_number = begun
    num_rows, n = next_state.shape
    count = 0
    for t in range(num_rows):
        for env in range(n):
            count += is_step[t, env] and ends[t, env]
    places, numbers, totals = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    count, k = 0, 0
    for t in range(num_rows + 1):
        while k < len(begun_row) and begun_row[k] == t:
            env = begun_env[k]
            running[env] = begun_number[k]
            next_step[env] = 0
            current[env] = begun_state[k]
            total[env] = 0.0
            k += 1
        if t == num_rows:
            break
        for env in range(n):
            state[t, env] = current[env]
            current[env] = next_state[t, env]
            if not is_step[t, env]:
                episode[t, env] = -1
                step[t, env] = 0
                continue
            episode[t, env] = running[env]
            step[t, env] = next_step[env]
            next_step[env] += 1
            total[env] += reward[t, env]
            if ends[t, env]:
                places[count] = t * n + env
                numbers[count] = running[env]
                totals[count] = total[env]
                count += 1
                running[env] = -1
    return places, numbers, totals
