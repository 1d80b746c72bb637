"""Group statistics in float64: the one normalisation that every method uses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from graphwrap._jit import jit
from graphwrap.kernels.grouping import BoolArray, FloatArray, Int32Array

EQUAL_WITHIN = 1e-9
"""Values of a group that differ by at most this share of their scale are equal: rounding is not credit."""

SMALL, LARGE = 1e-100, 1e100
"""Spreads outside these are brought to 1 before they are squared."""

SMALLEST, BEST, NUMBER, TOTAL, SQUARES, LARGEST = range(
    6
)  # columns of what `graph_advantages` keeps per node
MEAN, INVERSE = TOTAL, SQUARES


@jit
def largest_by_group(value: FloatArray, group: Int32Array, num_groups: int, member: BoolArray) -> FloatArray:
    """float64 (num_groups,): largest absolute value among the members of each group, 0 without members."""
    largest = np.zeros(num_groups)
    for i in range(len(value)):
        if member[i]:
            largest[group[i]] = max(largest[group[i]], abs(value[i]))
    return largest


@jit
def normalise(
    value: FloatArray,
    indptr: Int32Array,
    rows: Int32Array,
    member: BoolArray,
    scale: FloatArray,
    std: bool,
    eps: float,
    sign_of_single: bool,
) -> FloatArray:
    """`(x - mean) / (std + eps)` within each group, with the sample standard deviation (ddof 1).

    Groups whose members are all equal (max - min <= 1e-9 * scale) get exactly 0, so nothing is NaN or infinite.

    Args:
        value: float64 (N,).
        indptr: int32 (G + 1,), with `rows` the rows of each group (CSR).
        rows: int32 (N,).
        member: bool (N,); rows that are not members take no part and get 0.
        scale: float64 (G,), the size of the quantity, below which differences are rounding.
        std: whether to divide; False subtracts the mean only.
        eps: added to the standard deviation.
        sign_of_single: a group of one gets the sign of its value (GRAFT, step 5) instead of 0.

    Returns:
        float64 (N,).
    """
    result = np.zeros(len(value))
    buffer = np.empty(_largest_group(indptr))
    for group in range(len(indptr) - 1):
        count = 0
        for k in range(indptr[group], indptr[group + 1]):
            if member[rows[k]]:
                buffer[count] = value[rows[k]]
                count += 1
        _normalise_in_place(buffer[:count], scale[group], std, eps, sign_of_single)
        count = 0
        for k in range(indptr[group], indptr[group + 1]):
            if member[rows[k]]:
                result[rows[k]] = buffer[count]
                count += 1
    return result


@jit
def _normalise_in_place(x: FloatArray, scale: float, std: bool, eps: float, sign_of_single: bool) -> None:
    total, low, high = 0.0, np.inf, -np.inf
    for i in range(len(x)):
        total += x[i]
        low = min(low, x[i])
        high = max(high, x[i])
    equal_within = EQUAL_WITHIN * scale
    if len(x) < 2 or high - low <= equal_within:
        counts = sign_of_single and len(x) == 1 and abs(low) > equal_within
        x[:] = np.sign(low) if counts else 0.0
        return
    unit = 1.0
    if high - low < SMALL or high - low > LARGE:  # their squares would vanish or overflow
        unit = max(-low, high)
        total = 0.0
        for i in range(len(x)):
            x[i] /= unit
            total += x[i]
    mean = total / len(x)
    if std:
        squares = 0.0
        for i in range(len(x)):
            squares += (x[i] - mean) ** 2
        divisor = np.sqrt(squares / (len(x) - 1)) + eps / unit
    else:
        divisor = 1.0 / unit
    for i in range(len(x)):
        x[i] = (x[i] - mean) / divisor


@jit
def _largest_group(indptr: Int32Array) -> int:
    largest = 0
    for group in range(len(indptr) - 1):
        largest = max(largest, indptr[group + 1] - indptr[group])
    return largest


@jit
def graph_advantages(
    distance: FloatArray,
    source: Int32Array,
    target: Int32Array,
    cost: FloatArray,
    add_cost: bool,
    from_here: bool,
    omega: float,
    factor: float,
    order: Int32Array,
    episode_offsets: npt.NDArray[np.int64],
    task_episodes: tuple[Int32Array, Int32Array],
    task_offsets: Int32Array,
    solved: BoolArray,
    rewards: FloatArray,
    result: FloatArray,
) -> None:
    """GraphGPO's R^G = factor * omega ** exponent, and its `normalise` with `std` and without `eps` within each node.

    Such a norm does not depend on a common factor, so the powers p are taken relative to the best row of each node and
    none underflows. It is made from q = 1 - p: the best row has q = 0, so that sums of q and of its squares lose
    nothing, and the rows need not be gathered by node. Task by task, so that all but the columns stays in the fastest
    memory.

    Args:
        distance: float64 (M,).
        source: int32 (N,), node each row leaves.
        target: int32 (N,), node each row leads to.
        cost: float64 (N,).
        add_cost: the exponent is d(target) + cost, else d(target).
        from_here: d(source) is subtracted from it.
        omega: base of the power.
        factor: R^G at the goal.
        order: int32 (N,), rows by episode and step.
        episode_offsets: int64 (E + 1,).
        task_episodes: int32 (K + 1,) and (E,), the episodes of each task (CSR).
        task_offsets: int32 (K + 1,), the nodes of task k are `task_offsets[k]:task_offsets[k + 1]`.
        solved: bool (K,), the tasks whose rows do not get 0.
        rewards: float64 (N,), written: R^G.
        result: float64 (N,), written: the norm.
    """
    task_start, episodes = task_episodes
    most_nodes, most_rows = 0, 0
    for task in range(len(solved)):
        num_rows = 0
        for e in range(task_start[task], task_start[task + 1]):
            num_rows += episode_offsets[episodes[e] + 1] - episode_offsets[episodes[e]]
        most_rows = max(most_rows, num_rows)
        most_nodes = max(most_nodes, task_offsets[task + 1] - task_offsets[task])
    # Unsigned, since Numba adds a test for counting from the end to every use of a signed index.
    rows, nodes = np.empty(most_rows, np.uint32), np.empty(most_rows, np.uint32)
    below, exponents = np.empty(most_rows), np.empty(most_rows)
    node = np.empty((most_nodes, 6))
    powers = np.empty(64)  # those of unit costs
    for whole_exponent in range(len(powers)):
        powers[whole_exponent] = omega**whole_exponent
    for task in range(len(solved)):
        begin, size = task_offsets[task], task_offsets[task + 1] - task_offsets[task]
        node[:size] = 0.0
        node[:size, SMALLEST] = np.inf
        num_rows = 0
        for e in range(task_start[task], task_start[task + 1]):
            episode = episodes[e]
            for k in range(episode_offsets[episode], episode_offsets[episode + 1]):
                row = np.uint32(order[k])
                u = np.uint32(source[row] - begin)
                exponent = distance[np.uint32(target[row])]
                if add_cost:
                    exponent += cost[row]
                if from_here:
                    exponent -= distance[np.uint32(source[row])]
                power = -1.0
                if exponent < len(powers):
                    whole = np.uint32(exponent)
                    if whole == exponent:
                        power = powers[whole]
                if power < 0.0:
                    power = omega**exponent
                rewards[row] = factor * power
                rows[num_rows], nodes[num_rows] = row, u
                below[num_rows], exponents[num_rows] = power, exponent
                num_rows += 1
                node[u, SMALLEST] = min(node[u, SMALLEST], exponent)
                node[u, BEST] = max(node[u, BEST], power)
        if not solved[task]:
            for i in range(num_rows):
                result[rows[i]] = 0.0
            continue
        for i in range(num_rows):
            u = nodes[i]
            if SMALL < node[u, BEST] < LARGE:
                q = 1.0 - below[i] / node[u, BEST]
            else:  # the powers themselves vanish or overflow
                q = 1.0 - omega ** (exponents[i] - node[u, SMALLEST])
            below[i] = q
            node[u, NUMBER] += 1.0
            node[u, TOTAL] += q
            node[u, SQUARES] += q * q
            node[u, LARGEST] = max(node[u, LARGEST], q)
        for u in range(size):
            if node[u, NUMBER] < 2.0 or node[u, LARGEST] <= EQUAL_WITHIN:
                node[u, MEAN] = node[u, INVERSE] = 0.0
            else:
                node[u, MEAN] /= node[u, NUMBER]
                deviations = node[u, SQUARES] - node[u, NUMBER] * node[u, MEAN] ** 2
                node[u, INVERSE] = 1.0 / np.sqrt(deviations / (node[u, NUMBER] - 1.0))
        for i in range(num_rows):
            u = nodes[i]
            result[rows[i]] = (node[u, MEAN] - below[i]) * node[u, INVERSE]


@jit
def group_mean(value: FloatArray, group: Int32Array, num_groups: int, member: BoolArray) -> FloatArray:
    """float64 (num_groups,): mean of the members of each group, exact if they are equal, 0 without members."""
    count = np.zeros(num_groups, np.int64)
    first = np.zeros(num_groups)
    above = np.zeros(num_groups)
    for i in range(len(value)):
        if member[i]:
            g = group[i]
            if count[g] == 0:
                first[g] = value[i]
            count[g] += 1
            above[g] += value[i] - first[g]
    for g in range(num_groups):
        if count[g] > 0:
            first[g] += above[g] / count[g]
    return first


@jit
def weighted_sum(
    first_weight: float, first: FloatArray, second_weight: float, second: FloatArray
) -> FloatArray:
    """float64 (N,): first_weight * first + second_weight * second, without arrays in between."""
    result = np.empty(len(first))
    for i in range(len(first)):
        result[i] = first_weight * first[i] + second_weight * second[i]
    return result
