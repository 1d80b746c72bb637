from __future__ import annotations

import os
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array
from hypothesis import given
from hypothesis import strategies as st

from graphwrap import Transitions
from graphwrap.data.codec import decode, encode
from graphwrap.data.fingerprints import Fingerprint, size_of
from graphwrap.data.hashing import digest_rows
from graphwrap.states import intern_columns, make_table, state_key

from .batches import columns
from .values import Move, Point, all_spaces, anything, array_nests, draw_samples, same

IMAGE = spaces.Box(0, 255, (84, 84, 4), np.uint8)


def key(value, space=None, **options):
    return state_key(value, space, fingerprint_above=0, **options)


def digests(words: np.ndarray, first: int = 1, second: int = 2) -> np.ndarray:
    found = np.empty((len(words), 2), np.uint64)
    digest_rows(np.ascontiguousarray(words, np.uint64), np.uint64(first), np.uint64(second), found)
    return found


def count_different(rows: np.ndarray) -> int:
    return len(np.unique(rows.view("V16")))


# The hash


@pytest.mark.parametrize("fill", [0, 2**64 - 1, 0x0123456789ABCDEF], ids=hex)
def test_every_bit_reaches_every_bit(fill):
    width = 9
    base = np.full((1, width), fill, np.uint64)
    flipped = np.repeat(base, 64 * width, axis=0)
    bits = np.arange(64 * width)
    flipped[bits, bits // 64] ^= np.uint64(1) << (bits % 64).astype(np.uint64)
    changed = np.unpackbits((digests(flipped) ^ digests(base)).view(np.uint8), axis=1)
    assert changed.mean() == pytest.approx(0.5, abs=0.01)
    assert 0.4 < changed.mean(axis=0).min() <= changed.mean(axis=0).max() < 0.6
    assert 36 < changed.sum(axis=1).min() <= changed.sum(axis=1).max() < 92


def test_images_that_differ_in_a_pixel_or_two_have_different_digests():
    rows, width = 300_000, 8
    rng = np.random.default_rng(0)
    words = np.zeros((rows, width), np.uint64)
    pixels = words.view(np.uint8)
    single = np.arange(255 * 64)
    pixels[single, single // 255] = single % 255 + 1
    pairs = np.arange(len(single), rows) - len(single)
    first, second = np.triu_indices(64, 1)
    pixels[len(single) + pairs, first[pairs % 2016]] = 1 + pairs // 2016 % 255
    pixels[len(single) + pairs, second[pairs % 2016]] = 1 + pairs // 2016 // 255
    found = digests(words)
    assert count_different(found) == count_different_rows(words) == rows
    for half in (0, 1):  # each 64-bit half alone is a good hash too
        assert len(np.unique(found[:, half])) == rows
    again = rng.permutation(rows)[:1000]
    assert np.array_equal(digests(words[again]), found[again])


def count_different_rows(words: np.ndarray) -> int:
    return len(np.unique(words.view(f"V{8 * words.shape[1]}")))


def test_length_order_and_seeds_count():
    zeros = [digests(np.zeros((1, width), np.uint64)).tobytes() for width in range(12)]
    assert len(set(zeros)) == 12
    swaps = np.array([[1, 2, 3, 4], [2, 1, 3, 4], [3, 2, 1, 4], [1, 4, 3, 2], [3, 4, 1, 2]], np.uint64)
    assert count_different(digests(swaps)) == 5
    one = np.ones((1, 3), np.uint64)
    assert len({digests(one, a, b).tobytes() for a in (1, 2) for b in (1, 2)}) == 4


def test_digests_never_change():
    """Saved fingerprints must go on matching: these values are for ever."""
    assert digests(np.arange(5, dtype=np.uint64)[None]).tobytes().hex() == ARANGE
    assert key(np.arange(6, dtype=np.int16).reshape(2, 3)).digest.hex() == INT16
    assert key({"a": "text", "b": (np.zeros(2), 3)}).digest.hex() == NEST


ARANGE = "acc71c1abde2063e3fa4aa0ec6ec05ce"
INT16 = "80c09a03d42547da1690b0a90aa969c0"
NEST = "cde33a91ad9dc1e9a22d39ba8d9bf82d"


# The fingerprint of a value


@given(all_spaces, st.integers(0, 2**31 - 1))
def test_fingerprints_are_equal_exactly_when_the_values_are(space, seed):
    values = draw_samples(space, seed)
    keys = [key(value, space) for value in values]
    for value, found in zip(values, keys):
        for other, other_found in zip(values, keys):
            assert (found == other_found) == same(value, other)


@given(anything, anything)
def test_fingerprints_of_values_without_a_space(a, b):
    assert (key(a) == key(b)) == same(a, b)


@given(array_nests, st.integers(0, 2**31 - 1), st.sampled_from([None, 0, 1]))
def test_batches_get_the_fingerprints_of_single_values(space, seed, decimals):
    values = draw_samples(space, seed)
    batch = concatenate(space, values, create_empty_array(space, len(values)))
    table = make_table(space, round=decimals, fingerprint_above=0)
    ids = table.intern_batch(batch, len(values))
    single = make_table(round=decimals, fingerprint_above=0)
    for value, i in zip(values, ids.tolist()):
        label = table.labels[i]
        assert isinstance(label, Fingerprint)
        assert label == key(value, space, round=decimals)
        # Without its space, the label that the table would have kept has the same one.
        kept = make_table(space, round=decimals, fingerprint_above=None)
        kept.intern_one(value)
        again = single.intern_one(kept.labels[0])
        assert single.labels[again] == label
        assert single.labels[again].about == label.about


def test_rounding_zeros_and_nan_come_before_hashing():
    a, b = np.array([0.11, -0.0, np.nan]), np.array([0.14, 0.0, -np.nan])
    assert key(a) != key(b)
    assert key(a, round=1) == key(b, round=1)
    assert key(a[1:]) == key(b[1:])
    assert key({"x": a}, round=1) == key({"x": b}, round=1)


def test_kinds_are_told_apart():
    values = ["a" * 50, b"a" * 50, np.zeros(50, np.uint8), np.zeros(50, np.int8), np.zeros((5, 10), np.uint8)]
    values += [
        ("a" * 50,),
        ["a" * 50],
        {"a": "a" * 50},
        Point("a" * 50, 1),
        ("a" * 50, 1),
        (Move.UP, "a" * 50),
    ]
    values += [
        np.zeros(7, np.uint8),
        np.zeros(8, np.uint8),
        "",
        b"",
        (),
        {},
        None,
        0,
        0.0,
        False,
        np.array(0),
    ]
    found = [key(value) for value in values]
    assert len(set(found)) == len(values)


def test_the_size_of_a_value_decides():
    image = np.zeros((8, 8, 3), np.uint8)
    assert state_key(image, fingerprint_above=192) == state_key(image)
    assert isinstance(state_key(image, fingerprint_above=191), Fingerprint)
    sizes = {"abc": 3, "é": 2, b"abcd": 4, 7: 8, None: 8, (1, "ab"): 10, Move.UP: 8}
    assert {value: size_of(value) for value in sizes} == sizes
    assert size_of({"a": image, "b": [image, 1.0]}) == 192 + 192 + 8
    assert size_of(np.array(["ab", None], object)) == 10


def test_what_it_stands_for():
    fingerprints = [key("a" * 5000), key(b"a" * 6), key(np.zeros((2, 3), np.float32)), key({"a": 1, "b": 2})]
    about = ["text of 5000 characters", "6 bytes", "float32 (2, 3)", "dict of 2"]
    assert [found.about for found in fingerprints] == about
    assert repr(fingerprints[1]) == f"Fingerprint({fingerprints[1].digest.hex()} of 6 bytes)"
    assert len(fingerprints[0].digest) == 16


def test_objects_of_other_classes_keep_their_content():
    value = (Fraction(1, 2), "a" * 5000)
    assert state_key(value, fingerprint_above=10) == state_key(value)
    table = make_table(fingerprint_above=10)
    assert [table.intern_one(one) for one in (value, (Fraction(1, 2), "a" * 5000), value[1])] == [0, 0, 1]
    assert table.labels[0] == value


# Tables


def test_memory_stays_bounded():
    """10,000 images of 84 x 84 x 4 are 282 MB; their table is not."""
    table = make_table(IMAGE)
    rng = np.random.default_rng(0)
    base = rng.integers(0, 256, IMAGE.shape, np.uint8)
    for start in range(0, 10_000, 500):
        batch = np.repeat(base[None], 500, axis=0)
        numbers = np.arange(start, start + 500)
        batch[np.arange(500), 0, 0, 0], batch[np.arange(500), 0, 0, 1] = numbers % 256, numbers // 256
        assert table.intern_batch(batch, 500).tolist() == numbers.tolist()
    assert len(table) == 10_000
    assert len(pickle.dumps(table)) < 2_000_000
    objects = make_table(spaces.Text(10_000))
    for i in range(1000):
        assert objects.intern_one(f"{'long ' * 1800}{i}") == i
    assert len(pickle.dumps(objects)) < 200_000


def test_small_values_are_kept():
    for space, value in ((spaces.Box(0, 9, (512,), np.float64), np.zeros(512)), (None, "a" * 4096)):
        table = make_table(space)
        table.intern_one(value)
        assert np.array_equal(table.labels[0], value)


def test_columns_are_fingerprinted_like_tables():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (6, 40, 40, 3), np.uint8)[[0, 1, 2, 0, 3, 1]]
    texts = [f"{'word ' * 900}{i}" for i in (0, 1, 2, 0, 3, 1)]
    table, objects = make_table(spaces.Box(0, 255, (40, 40, 3), np.uint8)), make_table()
    table.intern_batch(images, 6)
    objects.intern_batch(list(images), 6)
    for column in (images, list(images), images[:, ::-1][:, ::-1]):
        (ids,), labels = intern_columns(column, fingerprint_above=4096)
        assert ids.tolist() == [0, 1, 2, 0, 3, 1]
        assert list(labels) == list(table.labels) == list(objects.labels)
    (ids,), labels = intern_columns([*texts, "short"], fingerprint_above=4096)
    assert ids.tolist() == [0, 1, 2, 0, 3, 1, 4]
    assert [isinstance(label, Fingerprint) for label in labels] == [True] * 4 + [False]
    assert labels[0] == state_key(texts[0], fingerprint_above=4096)
    (_, after), labels = intern_columns(images[:2], [None, images[0]], fingerprint_above=4096)
    assert after.tolist() == [1, 0]
    assert list(labels)[::2] == list(table.labels)[:2]
    (ids,), labels = intern_columns(ArrayLabelsOf(images), fingerprint_above=4096)
    assert list(labels) == list(table.labels)


def ArrayLabelsOf(images):
    table = make_table(spaces.Box(0, 255, images.shape[1:], np.uint8), fingerprint_above=None)
    table.intern_batch(images, len(images))
    return table.labels


def test_tables_with_fingerprints_compact_and_pickle():
    table = make_table(IMAGE)
    images = np.zeros((4, *IMAGE.shape), np.uint8)
    images[:, 0, 0, 0] = range(4)
    table.intern_batch(images, 4)
    labels = list(table.labels)
    assert table.compact([3, 1]).tolist() == [-1, 1, -1, 0]
    assert list(table.labels) == [labels[3], labels[1]]
    copied = pickle.loads(pickle.dumps(table))
    assert copied.intern_batch(images, 4).tolist() == [2, 1, 3, 0]


SCRIPT = """
import numpy as np
from gymnasium import spaces
from graphwrap.states import make_table, state_key
image = np.random.default_rng(3).integers(0, 256, (84, 84, 4), np.uint8)
value = {"image": image, "text": "a long text", "set": frozenset("abcdef"), "nest": (1, None, 0.5)}
table = make_table(spaces.Box(0, 255, image.shape, np.uint8))
table.intern_one(image)
found = [table.labels[0].digest.hex(), state_key(value, fingerprint_above=9).digest.hex()]
"""


def test_equal_images_meet_across_processes():
    here: dict = {}
    exec(SCRIPT, here)
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT + "print(*found)"],
        env={**os.environ, "PYTHONHASHSEED": "4242"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == here["found"]


# Transitions


def long_texts(values):
    return [f"{'word ' * 1000}{value}" for value in values]


def with_texts(**options) -> Transitions:
    given = columns()
    changed = {name: long_texts(given[name]) for name in ("state", "next_state")}
    return Transitions.from_columns(**{**given, **changed}, **options)


def test_labels_of_large_states_are_fingerprints():
    short, long = Transitions.from_columns(**columns()), with_texts()
    assert long.state.tolist() == short.state.tolist()
    assert long.next_state.tolist() == short.next_state.tolist()
    assert list(long.state_labels) == [
        state_key(text, fingerprint_above=4096) for text in long_texts(short.state_labels)
    ]
    assert list(with_texts(fingerprint_above=None).state_labels) == long_texts(short.state_labels)


def test_states_kept_and_states_fingerprinted_are_joined():
    fingerprinted, kept = with_texts(), with_texts(fingerprint_above=None)
    for parts in ((fingerprinted, kept), (kept, fingerprinted), (fingerprinted, fingerprinted)):
        second = Transitions.from_ids(
            **{name: getattr(parts[1], name) for name in ID_COLUMNS},
            episode_labels=["c", "d"],
            task_labels=parts[1].task_labels,
            state_labels=parts[1].state_labels,
            action_labels=parts[1].action_labels,
        )
        both = Transitions.concat([parts[0], second])
        assert both.num_states == 5
        assert both.state[:5].tolist() == both.state[5:].tolist()
        assert list(both.state_labels) == list(fingerprinted.state_labels)


ID_COLUMNS = (
    *("task", "episode", "step", "state", "action", "next_state", "reward"),
    *("terminated", "truncated"),
)


def test_fingerprints_are_saved_and_loaded(tmp_path):
    given = with_texts()
    given.save(tmp_path / "a.parquet")
    loaded = Transitions.load(tmp_path / "a.parquet")
    assert list(loaded.state_labels) == list(given.state_labels)
    assert [label.about for label in loaded.state_labels] == [label.about for label in given.state_labels]
    assert loaded.state.tolist() == given.state.tolist()


def test_codec_of_fingerprints():
    found = key("abc")
    assert decode(encode(found)) == found
    assert decode(encode((found, 1))) == (found, 1)
    for wrong in ('{"fingerprint": ["00", "x"]}', '{"fingerprint": ["zz", "x"]}', '{"fingerprint": 3}'):
        with pytest.raises(ValueError, match=r"text that Transitions\.save wrote"):
            decode(wrong)
    assert state_key(found) == found
