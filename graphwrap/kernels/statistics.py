"""Group statistics in float64: the one normalisation that every method uses."""

from __future__ import annotations

import numpy as np

from graphwrap._jit import jit
from graphwrap.kernels.grouping import BoolArray, FloatArray, Int32Array

EQUAL_WITHIN = 1e-9
"""Values of a group that differ by at most this share of their scale are equal: rounding is not credit."""


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
        scale: float64 (G,), the size of the quantity, below which differences are rounding; inf makes a group equal.
        std: whether to divide; False subtracts the mean only.
        eps: added to the standard deviation.
        sign_of_single: a group of one gets the sign of its value (GRAFT, step 5) instead of 0.

    Returns:
        float64 (N,).
    """
    result = np.zeros(len(value))
    for group in range(len(indptr) - 1):
        count, total, low, high = 0, 0.0, np.inf, -np.inf
        for k in range(indptr[group], indptr[group + 1]):
            row = rows[k]
            if member[row]:
                count += 1
                total += value[row]
                low = min(low, value[row])
                high = max(high, value[row])
        equal_within = EQUAL_WITHIN * scale[group]
        if count == 1 and sign_of_single and abs(low) > equal_within:
            for k in range(indptr[group], indptr[group + 1]):
                if member[rows[k]]:
                    result[rows[k]] = np.sign(low)
        if count < 2 or high - low <= equal_within:
            continue
        mean = total / count
        divisor = 1.0
        if std:
            squares = 0.0
            for k in range(indptr[group], indptr[group + 1]):
                if member[rows[k]]:
                    squares += (value[rows[k]] - mean) ** 2
            divisor = np.sqrt(squares / (count - 1)) + eps
        for k in range(indptr[group], indptr[group + 1]):
            if member[rows[k]]:
                result[rows[k]] = (value[rows[k]] - mean) / divisor
    return result


@jit
def group_mean(value: FloatArray, group: Int32Array, num_groups: int, member: BoolArray) -> FloatArray:
    """float64 (num_groups,): mean of the members of each group, 0 without members."""
    count = np.zeros(num_groups, np.int64)
    mean = np.zeros(num_groups)
    for i in range(len(value)):
        if member[i]:
            count[group[i]] += 1
            mean[group[i]] += value[i]
    for g in range(num_groups):
        if count[g] > 0:
            mean[g] /= count[g]
    return mean


@jit
def weighted_sum(
    first_weight: float, first: FloatArray, second_weight: float, second: FloatArray
) -> FloatArray:
    """float64 (N,): first_weight * first + second_weight * second, without arrays in between."""
    result = np.empty(len(first))
    for i in range(len(first)):
        result[i] = first_weight * first[i] + second_weight * second[i]
    return result
