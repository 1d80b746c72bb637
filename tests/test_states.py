from __future__ import annotations

import copy
import enum
import json
import os
import pickle
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from graphwrap.data.intern import _FACTOR, _SEED
from graphwrap.data.keys import snapshot
from graphwrap.data.rows import ArrayLabels
from graphwrap.data.tables import ArrayTable, ObjectTable
from graphwrap.states import StateKey, intern_columns, make_table, state_key

Point = namedtuple("Point", "x y")
Other = namedtuple("Other", "x y")


class Move(enum.Enum):
    UP = 0
    DOWN = 1


class Level(enum.IntEnum):
    LOW = 0


def family(value):
    kinds = {
        "bool": (bool, np.bool_),
        "int": (int, np.integer),
        "float": (float, np.floating),
        "complex": (complex, np.complexfloating),
    }
    return next((name for name, types in kinds.items() if isinstance(value, types)), None)


def same(a, b) -> bool:
    """The rule for equal keys, written down a second time: pairwise and slow."""
    if family(a) or family(b):
        return family(a) == family(b) and bool(a == b or (a != a and b != b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
            return False
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return all(same(x, y) for x, y in zip(a.ravel(), b.ravel()))
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return len(a) == len(b) and all(
            any(same(key, other) and same(a[key], b[other]) for other in b) for key in a
        )
    if isinstance(a, frozenset):
        return len(a) == len(b) and all(any(same(x, y) for y in b) for x in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


def first_ids(values) -> list[int]:
    """The id of each value by first appearance, by pairwise comparison."""
    seen: list = []
    ids = []
    for value in values:
        found = next((i for i, other in enumerate(seen) if same(value, other)), None)
        if found is None:
            found = len(seen)
            seen.append(value)
        ids.append(found)
    return ids


@st.composite
def array_spaces(draw):
    kind = draw(st.sampled_from(["box", "discrete", "multi_discrete", "multi_binary"]))
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=0 if kind == "box" else 1, max_size=3)))
    if kind == "discrete":
        return spaces.Discrete(draw(st.integers(1, 3)), start=draw(st.integers(-2, 2)))
    if kind == "multi_binary":
        return spaces.MultiBinary(shape)
    if kind == "multi_discrete":
        return spaces.MultiDiscrete(np.full(shape, 2))
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.uint8, np.int64]))
    return spaces.Box(0, draw(st.sampled_from([1, 2])), shape, dtype)


def nests(children):
    return st.one_of(
        st.lists(children, min_size=1, max_size=3).map(spaces.Tuple),
        st.dictionaries(st.sampled_from("abc"), children, min_size=1, max_size=3).map(spaces.Dict),
    )


def any_nests(children):
    return st.one_of(
        nests(children),
        st.lists(children, min_size=1, max_size=2).map(spaces.OneOf),
        st.builds(spaces.Sequence, children, stack=st.booleans()),
    )


graph_spaces = st.builds(
    spaces.Graph,
    st.sampled_from([spaces.Discrete(2), spaces.Box(0, 1, (2,), np.int8)]),
    st.sampled_from([None, spaces.Discrete(2), spaces.Box(0, 1, (1,), np.int8)]),
)
text_spaces = st.just(spaces.Text(2, charset="ab"))
array_nests = st.recursive(array_spaces(), nests, max_leaves=4)
all_spaces = st.recursive(st.one_of(array_spaces(), graph_spaces, text_spaces), any_nests, max_leaves=4)


def draw_samples(space, seed: int, count: int = 10) -> list:
    space.seed(seed)
    drawn = [space.sample() for _ in range(count)]
    return drawn + [copy.deepcopy(value) for value in drawn[::2]]


@given(all_spaces, st.integers(0, 2**31 - 1))
def test_keys_of_every_space_are_equal_exactly_when_the_values_are(space, seed):
    values = draw_samples(space, seed)
    keys = [state_key(value, space) for value in values]
    for value, key in zip(values, keys):
        for other, other_key in zip(values, keys):
            assert (key == other_key) == same(value, other)
            assert key != other_key or hash(key) == hash(other_key)


@given(all_spaces, st.integers(0, 2**31 - 1))
def test_tables_of_every_space_group_like_the_keys(space, seed):
    values = draw_samples(space, seed)
    table = make_table(space)
    ids = [table.intern_one(value) for value in values]
    assert ids == first_ids(values)
    assert len(table) == max(ids) + 1 == len(table.labels)
    for value, i in zip(values, ids):
        assert state_key(table.labels[i]) == state_key(value, space)


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


numbers = st.one_of(
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, float("nan"), float("inf"), 0.5, 1 + 0j, complex("nan")]),
    st.sampled_from(
        [np.int8(1), np.int64(1), np.uint8(2), np.bool_(True), np.float32(0.5), np.float64("nan")]
    ),
)
arrays = st.one_of(
    hnp.arrays(
        st.sampled_from([np.bool_, np.int8, np.int64, np.float32, np.float64, np.complex64]),
        hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=2),
        elements=st.sampled_from([0, 1]),
    ),
    hnp.arrays(np.float64, 2, elements=st.sampled_from([0.0, -0.0, float("nan")])),
    hnp.arrays(object, 2, elements=st.one_of(st.none(), numbers)),
)
leaves = st.one_of(st.none(), numbers, st.sampled_from(["", "a", "1", b"", b"a"]), arrays)
hashables = st.one_of(st.none(), st.booleans(), st.integers(-1, 1), st.sampled_from(["a", b"a", 0.0, 1.0]))
anything = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.lists(inner, max_size=2).map(tuple),
        st.dictionaries(hashables, inner, max_size=2),
        st.frozensets(hashables, max_size=2),
    ),
    max_leaves=4,
)


@given(anything, anything)
def test_keys_of_values_without_a_space(a, b):
    assert (state_key(a) == state_key(b)) == same(a, b)
    assert state_key(a) == state_key(copy.deepcopy(a)) == state_key(snapshot(a))


@given(st.lists(anything, max_size=8))
def test_object_table_groups_like_pairwise_comparison(values):
    values += copy.deepcopy(values)
    table = make_table()
    assert isinstance(table, ObjectTable)
    assert table.intern_batch(values, len(values)).tolist() == first_ids(values)
    assert [table.intern_one(value) for value in values] == first_ids(values)


EQUAL = [
    (3, np.int64(3)),
    (3, np.uint8(3)),
    (1.0, np.float64(1)),
    (1.0, np.float32(1)),
    (True, np.bool_(True)),
    (-0.0, 0.0),
    (float("nan"), np.float32("nan")),
    (float("nan"), -float("nan")),
    ("a", np.str_("a")),
    (b"a", np.bytes_(b"a")),
    ({"x": 1, 2: None, None: 3.0}, {None: 3.0, "x": 1, 2: None}),
    ({1, 2}, {2, 1}),
    (Fraction(1, 2), Fraction(2, 4)),
    (np.array([0.0, np.nan]), np.array([-0.0, -np.nan])),
    (np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3))),
    (np.arange(6)[::2], np.array([0, 2, 4])),
    (np.array([{"a": np.array([1])}, None], object), np.array([{"a": np.array([1])}, None], object)),
    (np.datetime64("NaT"), np.datetime64("NaT")),
    (np.longdouble(1), 1.0),
    (np.array([1, np.nan], np.longdouble), np.array([1, np.nan], np.longdouble)),
    (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 3], mask=[0, 1])),
    (Move.UP, Move(0)),
]
DIFFERENT = [
    (True, 1),
    (1, 1.0),
    (1, "1"),
    ("a", b"a"),
    (None, "None"),
    (None, float("nan")),
    (1.0, 1 + 0j),
    ((1, 2), [1, 2]),
    ((1,), ((1,),)),
    ((), None),
    ({}, []),
    ({1}, frozenset({1})),
    ({"a": 1}, {"a": 1.0}),
    ({True: 1}, {1: 1}),
    (Point(1, 2), (1, 2)),
    (Point(1, 2), Other(1, 2)),
    (np.zeros((2, 3)), np.zeros((3, 2))),
    (np.zeros(2), np.zeros(2, np.float32)),
    (np.zeros(2, np.int32), np.zeros(2, np.uint32)),
    (np.array(3), 3),
    (np.array([1, 2]), [1, 2]),
    (np.array(["a"]), np.array([b"a"])),
    (np.ma.array([1, 2], mask=[0, 1]), np.array([1, 2])),
    (np.datetime64(1, "s"), np.datetime64(1, "ms")),
    (np.timedelta64(1, "s"), 1),
    (np.timedelta64(1, "s"), np.timedelta64(1, "m")),
    (Move.UP, Move.DOWN),
    (Move.UP, 0),
    (Level.LOW, 0),
    (Fraction(1), 1),
    (np.longdouble(1) + np.finfo(np.longdouble).eps, 1.0),
    (("int", 3), 3),
    (("float", "nan"), float("nan")),
]


@pytest.mark.parametrize(("a", "b"), EQUAL, ids=repr)
def test_equal(a, b):
    assert state_key(a) == state_key(b)
    assert hash(state_key(a)) == hash(state_key(b))


@pytest.mark.parametrize(("a", "b"), DIFFERENT, ids=repr)
def test_different(a, b):
    assert state_key(a) != state_key(b)


def test_structured_arrays_count_by_field():
    dtype = np.dtype([("x", np.float64), ("name", "U2"), ("inner", [("y", np.int8, (2,))])], align=True)
    a, b, c = np.zeros(2, dtype), np.zeros(2, dtype), np.zeros(2, dtype)
    a["x"], b["x"], c["x"] = [0.0, np.nan], [-0.0, np.nan], [1.0, np.nan]
    assert state_key(a) == state_key(b) != state_key(c)
    assert state_key(a[0]) == state_key(b[0]) != state_key(c[0])
    renamed = np.zeros(2, [("z", np.float64)])
    assert state_key(renamed) != state_key(np.zeros(2, [("x", np.float64)]))


def test_bfloat16_tensors_count_as_float32():
    tensor = torch.tensor([1.5, 2.0])
    assert state_key(tensor.bfloat16()) == state_key(tensor)


def test_torch_tensors_count_as_arrays():
    tensor = torch.tensor([1.0, float("nan")], requires_grad=True)
    assert state_key(tensor) == state_key(np.array([1.0, np.nan], np.float32))
    table = make_table()
    assert table.intern_batch([tensor, tensor.clone(), tensor + 1], 3).tolist() == [0, 0, 1]
    assert isinstance(table.labels[0], np.ndarray)


@dataclass
class Mutable:
    x: int = 0


@pytest.mark.parametrize("value", [Mutable(), (1, [Mutable()]), {"a": Mutable()}, bytearray(b"a")], ids=repr)
def test_values_without_a_hash_are_refused_by_name(value):
    with pytest.raises(TypeError, match=r"(Mutable|bytearray).*has no hash.*state="):
        state_key(value)


def test_a_failed_batch_leaves_the_table_as_it_was():
    table = make_table()
    table.intern_one("a")
    with pytest.raises(TypeError):
        table.intern_batch(["b", Mutable()], 2)
    assert list(table.labels) == ["a"]
    assert table.intern_one("c") == 1


def test_rounding_reaches_every_float():
    a = {"x": (0.1234, np.array([1.001, np.nan])), "n": 12345, "c": 1.001 + 2j}
    b = {"x": (0.12, np.array([1.004, np.nan])), "n": 12345, "c": 0.999 + 2.001j}
    assert state_key(a) != state_key(b)
    assert state_key(a, round=2) == state_key(b, round=2)
    assert state_key(a, round=3) != state_key(b, round=3)
    assert state_key(12345, round=-2) == state_key(12345)
    assert state_key(149.0, round=-2) == state_key(100.0)
    assert state_key(-0.001, round=2) == state_key(0.0)


@pytest.mark.parametrize("value", [1e300, np.array([1e300, 2.0]), np.array([60000, 2], np.float16)], ids=repr)
def test_rounding_never_turns_a_large_float_into_another(value):
    assert state_key(value, round=20) == state_key(value)


def test_round_must_be_an_int():
    assert StateKey(round=2).round == 2
    for wrong in (True, 1.5, "2"):
        with pytest.raises(TypeError, match=r"round must be a number of decimals \(an int\) or None"):
            StateKey(round=wrong)
        with pytest.raises(TypeError, match="round"):
            make_table(round=wrong)


def test_values_are_cast_to_the_dtype_of_their_space():
    box = spaces.Box(0, 1, (2,), np.float32)
    assert state_key([0.1, 0.2], box) == state_key(np.array([0.1, 0.2], np.float32))
    assert state_key(np.array([0.1, 0.2]), box) == state_key(np.array([0.1, 0.2], np.float32))
    assert (
        state_key(np.array(2), spaces.Discrete(4))
        == state_key(np.array([2]), spaces.Discrete(4))
        == state_key(2)
    )
    nest = spaces.Dict(a=box, b=spaces.Tuple([spaces.Discrete(3)]))
    assert state_key({"b": [np.int8(1)], "a": [0, 1]}, nest) == state_key(
        {"a": np.array([0, 1], np.float32), "b": (1,)}
    )
    table = make_table(nest)
    assert table.intern_batch({"a": [[0, 1], [0, 1.0]], "b": (np.array([[1], [2]]),)}, 2).tolist() == [0, 1]
    np.testing.assert_array_equal(table.labels[1]["a"], np.array([0, 1], np.float32))
    assert table.labels[1]["b"] == (2,)


@pytest.mark.parametrize(
    ("value", "space", "message"),
    [
        (np.zeros((3, 2)), spaces.Box(0, 1, (2, 3)), r"shape \(2, 3\), got shape \(3, 2\)"),
        (np.zeros(4), spaces.Box(0, 1, (2, 2)), r"shape \(2, 2\), got shape \(4,\)"),
        ([0.5, 1.0], spaces.Box(0, 9, (2,), np.uint8), "must fit that dtype"),
        ([300, 1], spaces.Box(0, 255, (2,), np.uint8), "must fit that dtype"),
        (0.7, spaces.Discrete(2), "must fit that dtype"),
        (float("nan"), spaces.Discrete(2), "must fit that dtype"),
        (
            (1,),
            spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]),
            r"Tuple space must have 2 parts, got \(1,\)",
        ),
        (
            {"a": 1},
            spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(2)),
            "must have the parts a, b, got {'a': 1}",
        ),
        ([1, 2], spaces.Dict(a=spaces.Discrete(2)), r"must have the parts a, got \[1, 2\]"),
        ({0: 1}, spaces.Tuple([spaces.Discrete(2)]), "must have 1 parts, got {0: 1}"),
        (None, spaces.Tuple([spaces.Discrete(2)]), "must have 1 parts, got None"),
    ],
)
def test_values_that_do_not_fit_their_space_are_refused(value, space, message):
    with pytest.raises(ValueError, match=message):
        state_key(value, space)
    with pytest.raises(ValueError, match=r"must"):
        make_table(space).intern_one(value)


def test_text_and_none_do_not_fit_a_box():
    for value in (None, "a"):
        with pytest.raises(TypeError, match=r"must be numeric.*state="):
            state_key(value, spaces.Box(0, 1, ()))
        with pytest.raises(TypeError, match=r"must be numeric.*state="):
            make_table(spaces.Box(0, 1, ())).intern_one(value)


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
    table = make_table(spaces.Box(0, 1, (1000,), np.float64))
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
