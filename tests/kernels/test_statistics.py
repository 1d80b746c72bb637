import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.kernels.grouping import rows_by_key
from graphwrap.kernels.statistics import group_mean, largest_by_group, normalise

floats = st.floats(-1e6, 1e6, allow_nan=False)


def norm(value, group, *, member=None, scale=None, std=True, eps=0.0, single=False):
    value = np.asarray(value, np.float64)
    group = np.asarray(group, np.int32)
    groups = int(group.max(initial=0)) + 1
    member = np.ones(len(value), bool) if member is None else np.asarray(member)
    scale = largest_by_group(value, group, groups, member) if scale is None else np.asarray(scale, np.float64)
    return normalise(value, *rows_by_key(group, groups), member, scale, std, eps, single)


def test_sample_standard_deviation():
    np.testing.assert_allclose(norm([0, 10, 3, 5], [0, 0, 1, 1]), [-(0.5**0.5), 0.5**0.5] * 2)
    np.testing.assert_allclose(norm([1, 2, 6], [0, 0, 0]), np.array([-2, -1, 3]) / 7**0.5)


def test_mean_only():
    np.testing.assert_array_equal(norm([0, 10], [0, 0], std=False), [-5, 5])


def test_eps_shrinks():
    np.testing.assert_allclose(norm([0, 2], [0, 0], eps=1.0), np.array([-1, 1]) / (2**0.5 + 1))


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e-170, 1e170, 1.7e308])
def test_squares_neither_vanish_nor_overflow(size):
    expected = np.array([-2, 1, 1]) / 3**0.5
    np.testing.assert_allclose(norm([-size, size, size], [0] * 3), expected)
    np.testing.assert_allclose(norm([0, size, size], [0] * 3), expected)
    if 1e-300 <= size <= 1e300:
        np.testing.assert_allclose(norm([0, size, size], [0] * 3, std=False), np.array([-2, 1, 1]) * size / 3)


def test_a_group_of_one_is_zero_or_its_sign():
    assert norm([3.0, -2.0], [0, 1]).tolist() == [0, 0]
    assert norm([3.0, -2.0, 0.0], [0, 1, 2], single=True).tolist() == [1, -1, 0]
    assert norm([1e-12], [0], scale=[1.0], single=True).tolist() == [0]


@pytest.mark.parametrize("std", [True, False])
def test_rounding_is_not_a_difference(std):
    value = [0.1 + 0.2, 0.3, 0.3]
    assert value[0] != value[1]
    assert norm(value, [0, 0, 0], std=std).tolist() == [0, 0, 0]


def test_rows_that_are_not_members_do_not_count():
    result = norm([0, 10, 1e9], [0, 0, 0], member=[True, True, False])
    np.testing.assert_allclose(result, [-(0.5**0.5), 0.5**0.5, 0])


@given(st.lists(st.tuples(floats, st.integers(0, 3), st.booleans()), min_size=1, max_size=40))
def test_moments_of_every_group(rows):
    value, group, member = (np.array(column) for column in zip(*rows))
    result = norm(value, group, member=member)
    assert np.isfinite(result).all()
    for g in range(group.max() + 1):
        inside = (group == g) & member
        x = value[inside]
        if len(x) < 2 or x.max() - x.min() <= 1e-9 * np.abs(x).max():
            assert (result[inside] == 0).all()
        else:
            x = x / np.abs(x).max()  # the squares of what is tiny would vanish
            np.testing.assert_allclose(result[inside], (x - x.mean()) / x.std(ddof=1), atol=1e-6)
    assert (result[~member] == 0).all()


def test_group_mean():
    mean = group_mean(
        np.array([1.0, 3, 100]), np.array([0, 0, 1], np.int32), 3, np.array([True, True, False])
    )
    assert mean.tolist() == [2, 0, 0]


def test_the_mean_of_equal_values_is_exact():
    assert group_mean(np.full(3, 0.1), np.zeros(3, np.int32), 1, np.ones(3, bool)).tolist() == [0.1]
