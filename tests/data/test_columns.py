from __future__ import annotations

import copy
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.states import intern_columns, state_key

from .values import (
    anything,
    family,
    first_ids,
    same,
)


@given(
    st.lists(
        st.tuples(
            *2 * [st.one_of(st.sampled_from([-3, 0, 1, 2**40, 2**63 - 1, -(2**63)]), st.integers(0, 5))]
        ),
        max_size=30,
    ),
    st.sampled_from(["list", "array", "tuple"]),
)
def test_integer_columns_count_up_row_by_row(pairs, form):
    a, b = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    columns = {
        "list": (a, b),
        "array": (np.array(a, np.int64), np.array(b, np.int64)),
        "tuple": (tuple(a), b),
    }
    (first, second), labels = intern_columns(*columns[form])
    known: dict[int, int] = {}
    expected = [[known.setdefault(value, len(known)) for value in pair] for pair in pairs]
    assert np.stack([first, second], axis=1).tolist() == expected
    assert list(labels) == list(known)
    assert first.dtype == second.dtype == np.int32


@given(st.lists(st.tuples(anything, anything), max_size=8))
def test_columns_of_anything_count_up_row_by_row(pairs):
    a, b = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    (first, second), labels = intern_columns(a, b)
    flat = [value for pair in pairs for value in pair]
    assert np.stack([first, second], axis=1).reshape(-1).tolist() == first_ids(flat)
    for value, i in zip(flat, np.stack([first, second], axis=1).reshape(-1)):
        assert same(labels[i], value) or family(value) is not None


COLUMNS = [
    ([1, 2, 1], [0, 1, 0]),
    (np.array([1, 2, 1], np.uint8), [0, 1, 0]),
    (np.array([2**63, 1, 2**63], np.uint64), [0, 1, 0]),
    ([2**70, 1, 2**70], [0, 1, 0]),
    ([1, True, 1.0], [0, 1, 2]),
    ([1, np.int8(1), np.uint64(1)], [0, 0, 0]),
    ([0.0, -0.0, float("nan"), np.float32("nan")], [0, 0, 1, 1]),
    (np.array([0.5, 1, 0.5], np.float16), [0, 1, 0]),
    (np.array([True, False, True]), [0, 1, 0]),
    ([True, np.bool_(True), False], [0, 0, 1]),
    (["a", np.str_("a"), "b"], [0, 0, 1]),
    (np.array(["a", "b", "a"]), [0, 1, 0]),
    (np.array(["a", None, "a"], object), [0, 1, 0]),
    (np.array([b"a", b"b", b"a"]), [0, 1, 0]),
    (np.array(["2020", "2021", "2020"], "M8[Y]"), [0, 1, 0]),
    (np.array([[1, 2], [1, 3], [1, 2]]), [0, 1, 0]),
    (np.array([[1, 2], [1, 3], [1, 2]])[:, ::-1], [0, 1, 0]),
    (np.array([[1.0, np.nan], [1, 3], [1, -np.nan]], np.float32), [0, 1, 0]),
    ([np.zeros(2), np.ones(2), np.zeros(2)], [0, 1, 0]),
    ([np.array(1), np.array(2), np.array(1)], [0, 1, 0]),
    ([np.zeros(2), np.zeros(2, np.float32), np.zeros((2, 1))], [0, 1, 2]),
    ([np.timedelta64(1, "s"), np.timedelta64(1, "m"), np.timedelta64(1, "s")], [0, 1, 0]),
    (np.array([1, 2, 1], "m8[s]"), [0, 1, 0]),
    (np.ma.array([1, 2, 1], mask=[0, 1, 0]), [0, 1, 0]),
    (np.array([1, 2, 1], ">i4"), [0, 1, 0]),
    (np.arange(6)[::-2] % 4, [0, 1, 0]),
    ([], []),
    (np.zeros((0, 3)), []),
    (np.zeros((3, 0)), [0, 0, 0]),
    (range(3), [0, 1, 2]),
]


@pytest.mark.parametrize(("column", "ids"), COLUMNS, ids=lambda value: repr(value)[:40])
def test_single_columns(column, ids):
    given_values = copy.deepcopy(column)
    (found,), labels = intern_columns(column)
    assert found.tolist() == ids
    assert len(labels) == len(set(ids))
    for value, i in zip(given_values, found):
        assert state_key(labels[i]) == state_key(value)


def test_columns_of_different_kinds_share_one_table():
    (state, after), labels = intern_columns(np.array([1, 2]), [2, None])
    assert (state.tolist(), after.tolist()) == ([0, 1], [1, 2])
    assert list(labels) == [1, 2, None]
    (state, after), labels = intern_columns(np.zeros((1, 2)), np.zeros((1, 2), np.float32))
    assert (state.tolist(), after.tolist()) == ([0], [1])


def test_rounded_columns():
    for column in ([0.11, 0.14, 0.2], np.array([[0.11, 1.0], [0.14, 1.0], [0.2, 1.0]]), [0.11, 0.14, (0.2,)]):
        (ids,), labels = intern_columns(column, round=1)
        assert ids.tolist() == [0, 0, 1]
        assert np.ravel(labels[0])[0] == 0.1


def test_columns_must_be_sequences_of_equal_length():
    for wrong in ("abc", 3, {"a": 1}, np.array(3)):
        with pytest.raises(TypeError, match="a column must be a sequence"):
            intern_columns(wrong)
    for a, b in (([1], [1, 2]), (["a"], ["a", "b"]), (np.zeros((1, 2)), np.zeros((2, 2)))):
        with pytest.raises(ValueError, match=r"equal lengths, got \[1, 2\]"):
            intern_columns(a, b)


SCRIPT = """
import enum, json
import numpy as np
from gymnasium import spaces
from graphwrap.states import intern_columns, make_table
Colour = enum.Enum("Colour", "red green")
rng = np.random.default_rng(3)
words = [chr(97 + i % 5) for i in range(20)]
values = [[w, b"x", None, Colour.red, {w: 1, "k": {"q", w}}, frozenset({w, "z"}), (w, 1.5)][i % 7]
          for i, w in enumerate(words)]
box = make_table(spaces.Box(0, 1, (2,)))
result = [intern_columns(values)[0][0].tolist(), intern_columns(words, words[::-1])[0][0].tolist(),
          box.intern_batch(rng.integers(0, 2, (20, 2)).astype("f4"), 20).tolist(),
          intern_columns(rng.integers(0, 2**60, 9)[[0, 5, 0, 8, 5]])[0][0].tolist()]
print(json.dumps(result))
"""


def test_grouping_is_the_same_for_every_hash_seed():
    results = []
    for seed in ("0", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        results.append(json.loads(run.stdout))
    assert results[0] == results[1]
    assert results[0][3] == [0, 1, 0, 2, 1]
