"""Group statistics in float64: the one normalisation that every method uses."""

from __future__ import annotations

import numpy as np

from graphwrap._jit import jit
from graphwrap.kernels.grouping import BoolArray, FloatArray, Int32Array

EQUAL_WITHIN = 1e-9
"""Values of a group that differ by at most this share of their scale are equal: rounding is not credit."""

SMALL, LARGE = 1e-100, 1e100
"""Spreads outside these are brought to 1 before they are squared."""


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
def graph_rewards(
    distance: FloatArray,
    source: Int32Array,
    target: Int32Array,
    cost: FloatArray,
    add_cost: bool,
    from_here: bool,
    omega: float,
    factor: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """GraphGPO's R^G = factor * omega ** exponent of every row.

    Args:
        distance: float64 (M,).
        source: int32 (N,), node each row leaves.
        target: int32 (N,), node each row leads to.
        cost: float64 (N,).
        add_cost: the exponent is d(target) + cost, else d(target).
        from_here: d(source) is subtracted from it.
        omega: base of the power.
        factor: R^G at the goal.

    Returns:
        Exponents and R^G, float64 (N,), and the smallest exponent of the rows that leave each node, float64 (M,).
    """
    exponents = np.empty(len(source))
    rewards = np.empty(len(source))
    smallest = np.full(len(distance), np.inf)
    powers = np.full(256, np.nan)
    for row in range(len(source)):
        exponent = distance[target[row]]
        if add_cost:
            exponent += cost[row]
        if from_here:
            exponent -= distance[source[row]]
        exponents[row] = exponent
        rewards[row] = factor * _power(omega, exponent, powers)
        smallest[source[row]] = min(smallest[source[row]], exponent)
    return exponents, rewards, smallest


@jit
def normalise_powers(
    exponents: FloatArray, node: Int32Array, smallest: FloatArray, counts: BoolArray, omega: float
) -> FloatArray:
    """`normalise` with `std` and without `eps`, of omega ** exponent among the rows of each node.

    Such a norm does not depend on a common factor, so the powers p are taken relative to the best row of each node and
    none underflows. It is made from q = 1 - p: the best row has q = 0, so that sums of q and of its squares lose
    nothing, and the rows need not be gathered by node.

    Args:
        exponents: float64 (N,).
        node: int32 (N,) in [0, M).
        smallest: float64 (M,), the smallest exponent of each node.
        counts: bool (M,), False where the result is 0.
        omega: base of the power.

    Returns:
        float64 (N,).
    """
    below = np.empty(len(exponents))
    number = np.zeros(len(smallest))
    total = np.zeros(len(smallest))
    squares = np.zeros(len(smallest))
    largest = np.zeros(len(smallest))
    powers = np.full(256, np.nan)
    for row in range(len(exponents)):
        u = node[row]
        q = 1.0 - _power(omega, exponents[row] - smallest[u], powers)
        below[row] = q
        number[u] += 1.0
        total[u] += q
        squares[u] += q * q
        largest[u] = max(largest[u], q)
    mean, inverse = total, squares
    for u in range(len(smallest)):
        if number[u] < 2.0 or largest[u] <= EQUAL_WITHIN or not counts[u]:
            mean[u], inverse[u] = 0.0, 0.0
        else:
            mean[u] /= number[u]
            inverse[u] = 1.0 / np.sqrt((squares[u] - number[u] * mean[u] * mean[u]) / (number[u] - 1.0))
    for row in range(len(exponents)):
        below[row] = (mean[node[row]] - below[row]) * inverse[node[row]]
    return below


@jit
def _power(omega: float, exponent: float, known: FloatArray) -> float:
    """omega ** exponent; small whole exponents, those of unit costs, are computed once and kept in `known`."""
    if 0.0 <= exponent < len(known):
        whole = int(exponent)
        if whole == exponent:
            if np.isnan(known[whole]):
                known[whole] = omega**whole
            return known[whole]
    return omega**exponent


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
