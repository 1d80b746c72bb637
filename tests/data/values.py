"""Values of every kind, spaces to draw them from, and the rule for equality written a second time."""

from __future__ import annotations

import copy
import enum
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
from gymnasium import spaces
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

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


@dataclass
class Mutable:
    x: int = 0
