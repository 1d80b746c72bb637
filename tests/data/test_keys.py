from __future__ import annotations

import copy
from fractions import Fraction

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.data.keys import snapshot
from graphwrap.states import make_table, state_key

from .values import (
    Level,
    Move,
    Mutable,
    Other,
    Point,
    all_spaces,
    anything,
    draw_samples,
    same,
)


@given(all_spaces, st.integers(0, 2**31 - 1))
def test_keys_of_every_space_are_equal_exactly_when_the_values_are(space, seed):
    values = draw_samples(space, seed)
    keys = [state_key(value, space) for value in values]
    for value, key in zip(values, keys):
        for other, other_key in zip(values, keys):
            assert (key == other_key) == same(value, other)
            assert key != other_key or hash(key) == hash(other_key)


@given(anything, anything)
def test_keys_of_values_without_a_space(a, b):
    assert (state_key(a) == state_key(b)) == same(a, b)
    assert state_key(a) == state_key(copy.deepcopy(a)) == state_key(snapshot(a))


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


@pytest.mark.parametrize("value", [Mutable(), (1, [Mutable()]), {"a": Mutable()}, bytearray(b"a")], ids=repr)
def test_values_without_a_hash_are_refused_by_name(value):
    with pytest.raises(TypeError, match=r"(Mutable|bytearray).*has no hash.*state="):
        state_key(value)


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


def test_masked_values_do_not_fit_a_space():
    box, whole = spaces.Box(0, 9, (2,), np.int64), np.ma.array([1, 2], mask=[0, 0])
    assert state_key(whole, box) == state_key(np.array([1, 2]), box)
    for space, value in ((box, np.ma.array([1, 2], mask=[0, 1])), (spaces.Discrete(3), np.ma.masked)):
        with pytest.raises(TypeError, match="must have all its entries"):
            state_key(value, space)
    with pytest.raises(TypeError, match="a masked value cannot be part of an array"):
        state_key([1, np.ma.array(2, mask=True)], box)


@pytest.mark.parametrize("value", [(2, 0), (-1, 0), (float("inf"), 0), (0.0, 0)], ids=repr)
def test_oneof_values_name_one_of_its_spaces(value):
    with pytest.raises(ValueError, match=r"OneOf space must be \(number, value\), the number from 0 to 1"):
        state_key(value, spaces.OneOf([spaces.Discrete(2), spaces.Discrete(3)]))


def test_endless_and_very_deep_values_are_refused():
    endless: list = []
    endless.append(endless)
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    table = make_table()
    refusing = (state_key, table.intern_one, lambda value: table.intern_batch(["a", value], 2))
    for value in (endless, deep, {"a": endless}):
        for refuse in refusing:
            with pytest.raises(ValueError, match="must not hold itself, nor be nested hundreds of levels"):
                refuse(value)
    assert len(table) == 0


def test_text_and_none_do_not_fit_a_box():
    for value in (None, "a"):
        with pytest.raises(TypeError, match=r"must be numeric.*state="):
            state_key(value, spaces.Box(0, 1, ()))
        with pytest.raises(TypeError, match=r"must be numeric.*state="):
            make_table(spaces.Box(0, 1, ())).intern_one(value)
