from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.data.intern import _FACTOR, _SEED
from graphwrap.data.rows import ArrayLabels
from graphwrap.data.tables import ArrayTable, ObjectTable
from graphwrap.states import FINGERPRINT_ABOVE, intern_columns, make_table, state_key

from .values import (
    Mutable,
    all_spaces,
    anything,
    array_nests,
    draw_samples,
    first_ids,
)


@given(all_spaces, st.integers(0, 2**31 - 1))
def test_tables_of_every_space_group_like_the_keys(space, seed):
    values = draw_samples(space, seed)
    table = make_table(space)
    ids = [table.intern_one(value) for value in values]
    assert ids == first_ids(values)
    assert len(table) == max(ids) + 1 == len(table.labels)
    for value, i in zip(values, ids):
        assert state_key(table.labels[i]) == state_key(value, space, fingerprint_above=FINGERPRINT_ABOVE)


@given(array_nests, st.integers(0, 2**31 - 1), st.sampled_from([None, 0, 1]))
def test_batches_of_arrays_get_the_ids_of_single_values(space, seed, decimals):
    values = draw_samples(space, seed)
    batch = concatenate(space, values, create_empty_array(space, len(values)))
    table, single = make_table(space, round=decimals), make_table(space, round=decimals)
    assert isinstance(table, ArrayTable)
    ids = table.intern_batch(batch, len(values))
    assert ids.dtype == np.int32
    keys = [state_key(value, space, round=decimals) for value in values]
    by_key = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    assert ids.tolist() == [single.intern_one(value) for value in values] == [by_key[key] for key in keys]
    for i, label in enumerate(table.labels):
        assert state_key(label, space, round=decimals) == list(by_key)[i]
    assert table.intern_batch(batch, len(values)).tolist() == ids.tolist()


@given(st.lists(anything, max_size=8))
def test_object_table_groups_like_pairwise_comparison(values):
    values += copy.deepcopy(values)
    table = make_table()
    assert isinstance(table, ObjectTable)
    assert table.intern_batch(values, len(values)).tolist() == first_ids(values)
    assert [table.intern_one(value) for value in values] == first_ids(values)


def test_a_failed_batch_leaves_the_table_as_it_was():
    table = make_table()
    table.intern_one("a")
    with pytest.raises(TypeError):
        table.intern_batch(["b", Mutable()], 2)
    assert list(table.labels) == ["a"]
    assert table.intern_one("c") == 1


def test_long_double_spaces_use_the_object_table():
    space = spaces.Box(0, 1, (2,), np.longdouble)
    assert make_table(space).intern_one(np.zeros(2, np.longdouble)) == 0
    assert isinstance(make_table(space), ObjectTable)


def colliding_pairs(n: int) -> np.ndarray:
    """Different int64 pairs that the interning hash sends to one number."""
    first = np.arange(n, dtype=np.uint64) * np.uint64(0x1234567)
    after = (_SEED ^ first) * _FACTOR
    after ^= after >> np.uint64(29)
    return np.stack([first, after ^ np.uint64(99)], axis=1).view(np.int64)


def test_rows_with_equal_hashes_are_told_apart():
    pairs = colliding_pairs(300)
    bounds = np.iinfo(np.int64)
    table = make_table(spaces.Box(bounds.min, bounds.max, (2,), np.int64))
    twice = np.concatenate([pairs, pairs[::-1]])
    assert table.intern_batch(twice, 600).tolist() == [*range(300), *range(299, -1, -1)]
    assert len(np.unique(table._table._hashes[:300])) == 1
    (ids,), labels = intern_columns(twice)
    assert ids.tolist() == [*range(300), *range(299, -1, -1)]
    np.testing.assert_array_equal(labels[7], pairs[7])


class SameHash:
    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return 7

    def __eq__(self, other):
        return isinstance(other, SameHash) and self.name == other.name


def test_objects_with_equal_hashes_are_told_apart():
    values = [SameHash(i % 20) for i in range(60)]
    assert make_table().intern_batch(values, 60).tolist() == [i % 20 for i in range(60)]


def test_labels_are_copies_that_cannot_be_changed():
    value = np.array([1.0, 2.0])
    nest = {"a": [value], "b": (value,)}
    for table, given_value in ((make_table(spaces.Box(0, 9, (2,), np.float64)), value), (make_table(), nest)):
        table.intern_one(given_value)
    value[:] = 7
    nest["a"].append(1)
    assert table.labels[0]["a"][0].tolist() == [1.0, 2.0]
    assert len(table.labels[0]["a"]) == 1
    box = make_table(spaces.Box(0, 9, (2,), np.float64))
    box.intern_one(value)
    labels = box.labels
    value[:] = 8
    box.intern_one(value)
    assert len(labels) == 1
    assert labels[0].tolist() == [7.0, 7.0]
    for label in (labels[0], table.labels[0]["b"][0]):
        with pytest.raises(ValueError, match="read-only"):
            label[0] = 1


def test_labels_can_be_sliced_taken_and_iterated():
    table = make_table(spaces.MultiDiscrete([9, 9]))
    table.intern_batch(np.array([[1, 2], [3, 4], [5, 6]]), 3)
    labels = table.labels
    assert [label.tolist() for label in labels] == [[1, 2], [3, 4], [5, 6]]
    assert [label.tolist() for label in labels[1:]] == [[3, 4], [5, 6]]
    assert labels[-1].tolist() == [5, 6]
    taken = labels.take(np.array([2, 0]))
    assert isinstance(taken, ArrayLabels)
    assert [label.tolist() for label in taken] == [[5, 6], [1, 2]]
    with pytest.raises(IndexError):
        labels[3]
    discrete = make_table(spaces.Discrete(5))
    discrete.intern_batch(np.array([4, 2]), 2)
    assert list(discrete.labels) == [4, 2]
    assert type(discrete.labels[0]) is int


@pytest.mark.parametrize("space", [spaces.Discrete(100), None, spaces.Dict(a=spaces.Discrete(100))], ids=str)
def test_compact_keeps_and_renumbers(space):
    values = [{"a": i} if isinstance(space, spaces.Dict) else i for i in (5, 6, 7, 8)]
    table = make_table(space)
    for value in values:
        table.intern_one(value)
    new = table.compact(np.array([3, 1, 3]))
    assert new.dtype == np.int32
    assert new.tolist() == [-1, 1, -1, 0]
    assert list(table.labels) == [values[3], values[1]]
    assert [table.intern_one(value) for value in values] == [2, 1, 3, 0]
    for wrong in ([4], [-1]):
        with pytest.raises(ValueError, match="ids to keep must be from 0 to 3"):
            table.compact(wrong)
    assert len(table) == 4
    assert table.compact([]).tolist() == [-1] * 4
    assert len(table) == 0


def test_compact_releases_memory():
    table = make_table(spaces.Box(0, 1, (1000,), np.float64), fingerprint_above=None)
    table.intern_batch(np.random.default_rng(0).random((500, 1000)), 500)
    before = len(pickle.dumps(table))
    table.compact([499])
    assert before > 500 * 8000
    assert len(pickle.dumps(table)) < 65 * 8000


@pytest.mark.parametrize("space", [spaces.Box(0, 9, (2,)), None], ids=str)
def test_tables_can_be_pickled(space):
    table = make_table(space, round=1)
    values = [np.array([i, i], np.float32) for i in range(200)]
    ids = [table.intern_one(value) for value in values]
    copied = pickle.loads(pickle.dumps(table))
    assert [copied.intern_one(value) for value in values] == ids
    assert copied.intern_one(np.array([0.5, 0.5], np.float32)) == 200
    assert len(table) == 200


@pytest.mark.parametrize("batch", ["ab", {"a": 1, "b": 2}, [1], [1, 2, 3]], ids=repr)
def test_a_batch_must_be_n_values(batch):
    with pytest.raises(ValueError, match="sequence of 2 values"):
        make_table().intern_batch(batch, 2)


def test_empty_batches():
    for space in (None, spaces.Discrete(3), spaces.Box(0, 1, (2, 2))):
        table = make_table(space)
        empty = np.zeros((0, *(space.shape if space else ())), np.int64)
        assert table.intern_batch(empty, 0).tolist() == []
        assert len(table) == 0
