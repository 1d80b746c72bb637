from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gymnasium.spaces import GraphInstance
from hypothesis import given
from hypothesis import strategies as st

from graphwrap import Outcome, Transitions
from graphwrap.data.codec import decode, encode
from graphwrap.states import state_key

from ..builders import COLUMNS, transitions, walks
from .values import Move, Point, anything, family

LABELS = [
    None,
    True,
    0,
    -(2**80),
    2**5000,
    0.1,
    -0.0,
    1e300,
    5e-324,
    float("nan"),
    float("inf"),
    -float("inf"),
    1 + 2j,
    complex("nan+1j"),
    "",
    "a\n\"'\u00e9\U0001f600\x00",
    "\ud800",
    b"",
    bytes(range(256)),
    [],
    [1, [2.0, None]],
    (),
    (1, (2.0, [True])),
    {},
    {"b": 1, "a": {1: None, (1, 2): b"x", None: float("nan")}},
    {"tuple": [1]},
    {1, 2.5, "x"},
    frozenset({(1, 2), None}),
    np.float32(0.1),
    np.int8(-3),
    np.bool_(True),
    np.complex64(1j),
    np.longdouble(1) / 3,
    np.datetime64("2020-01-02T03"),
    np.timedelta64("NaT"),
    np.array(3),
    np.array([1.5, -0.0], np.float16),
    np.array([np.nan, np.inf]),
    np.array([[True, False]]),
    np.arange(1000, dtype=np.uint8).reshape(10, 100),
    np.random.default_rng(0).random((20, 20), np.float32),
    np.zeros((0, 3)),
    np.array([2**63], np.uint64),
    np.array([1, 2], ">i4"),
    np.array([1j]),
    np.array(["a", "bc"]),
    np.array([b"a", b"bc"]),
    np.array(["2020"], "M8[D]"),
    np.array([None, 1, (2, "x"), np.zeros(2)], object),
    np.array([(1.0, "x", [1, 2])], [("a", np.float64), ("b", "U3"), ("c", np.int8, (2,))]),
    np.zeros(2, np.dtype([("a", np.int8), ("b", [("c", np.float64)])], align=True)),
    np.array([1, 2], np.longdouble) / 3,
    GraphInstance(np.zeros((2, 3), np.float32), None, None),
    GraphInstance(np.array([1, 2]), np.ones((1, 1)), np.array([[0, 1]], np.int32)),
]


# Named by type: the text of a set is in another order in every process, and parallel workers must agree on names.
@pytest.mark.parametrize("label", LABELS, ids=lambda label: type(label).__name__)
def test_labels_survive_as_text(label):
    text = encode(label)
    text.encode("utf-8")
    back = decode(text)
    assert state_key(back) == state_key(label)
    assert encode(back) == text
    if family(label) is None:
        assert type(back) is type(label)


@given(anything)
def test_any_label_survives_as_text(label):
    assert state_key(decode(encode(label))) == state_key(label)


@pytest.mark.parametrize(
    "label", [Move.UP, Fraction(1, 2), Point(1, 2), (1, {"a": object}), np.ma.array([1], mask=[1])], ids=repr
)
def test_labels_without_a_text_are_refused(label):
    with pytest.raises(TypeError, match="labels can be saved if they are numbers, text"):
        encode(label)


@pytest.mark.parametrize("text", ["{", '{"what": 1}', '{"a": 1, "b": 2}', '{"tuple": 3}', '{"bytes": 1}'])
def test_foreign_text_is_refused(text):
    with pytest.raises(ValueError, match=r"a label must be text that Transitions\.save wrote"):
        decode(text)


def assert_equal(a: Transitions, b: Transitions) -> None:
    for name, value in vars(a).items():
        other = getattr(b, name)
        if name.endswith("_labels"):
            assert [state_key(x) for x in value] == [state_key(x) for x in other]
        else:
            np.testing.assert_array_equal(value, other)
            assert value.dtype == other.dtype


def with_labels(labels) -> Transitions:
    """One-step episodes whose task, episode, state and action are the labels in turn."""
    n = len(labels)
    return Transitions.from_columns(
        task=labels,
        episode=labels[::-1],
        step=np.zeros(n, np.int64),
        state=labels,
        action=labels[::-1],
        next_state=labels[1:] + labels[:1],
        reward=np.linspace(-1, 1, n),
        terminated=np.arange(n) % 2 == 0,
        truncated=np.arange(n) % 3 == 0,
        cost=np.linspace(0.1, 7, n),
    )


def test_round_trip_of_all_labels(tmp_path):
    full = with_labels(LABELS)
    full.save(tmp_path / "all.parquet")
    assert_equal(Transitions.load(tmp_path / "all.parquet"), full)


@pytest.mark.parametrize(
    "labels",
    [
        [3, 1, 2],
        [0.5, float("nan"), -1.0],
        [True, False],
        ["b", "a"],
        [np.array([1, 2]), np.array([3, 4])],
        [np.zeros((2, 2), np.float32)],
    ],
    ids=repr,
)
def test_labels_come_back_in_the_form_they_had(labels, tmp_path):
    full = with_labels(labels)
    full.save(tmp_path / "x.parquet")
    back = Transitions.load(tmp_path / "x.parquet")
    assert_equal(back, full)
    assert type(back.state_labels) is type(full.state_labels)
    if isinstance(back.state_labels, np.ndarray):
        assert back.state_labels.dtype == full.state_labels.dtype


@given(transitions(tasks=3, costs=True, rewards=True, slip=0.3))
def test_round_trip_of_walks(tmp_path_factory, full):
    path = tmp_path_factory.mktemp("walks") / "x.parquet"
    full.save(str(path))
    assert_equal(Transitions.load(str(path)), full)


def test_round_trip_of_goldens(golden_transitions, tmp_path):
    golden_transitions.save(tmp_path / "x.parquet")
    assert_equal(Transitions.load(tmp_path / "x.parquet"), golden_transitions)


def test_round_trip_of_nothing(tmp_path):
    empty = Transitions.from_columns(**{name: [] for name in COLUMNS})
    empty.save(tmp_path / "x.parquet")
    assert_equal(Transitions.load(tmp_path / "x.parquet"), empty)


def small(**changes) -> Transitions:
    values = {
        "task": [0, 0, 1, 1],
        "episode": [0, 0, 1, 2],
        "step": [1, 0, 0, 0],
        "state": [1, 0, 0, 0],
        "action": [0, 0, 0, 0],
        "next_state": [2, 1, 2, 1],
        "reward": [1.0, 0.0, 0.0, np.nan],
        "terminated": [True, False, False, False],
        "truncated": [False, False, True, False],
        "outcome": [Outcome.SUCCESS, Outcome.UNFINISHED, Outcome.UNSCORED],
        "episode_labels": ["e", "e", (1, None)],
        "state_labels": ["s", 5, None],
    }
    return Transitions.from_ids(**values | changes)


def test_outcomes_and_repeated_episode_labels_survive(tmp_path):
    full = small()
    full.save(tmp_path / "x.parquet")
    back = Transitions.load(tmp_path / "x.parquet")
    assert_equal(back, full)
    assert list(back.episode_labels) == ["e", "e", (1, None)]
    assert back.outcome.tolist() == [Outcome.SUCCESS, Outcome.UNFINISHED, Outcome.UNSCORED]


def test_pandas_reads_the_columns(tmp_path):
    small().save(tmp_path / "x.parquet")
    frame = pd.read_parquet(tmp_path / "x.parquet")
    assert frame["state"].tolist() == ["5", '"s"', '"s"', '"s"']
    assert frame["next_state"].tolist() == ["null", "5", "null", "5"]
    assert frame["episode"].tolist() == ['"e"', '"e"', '"e"', '{"tuple": [1, null]}']
    assert frame["task"].tolist() == ["0", "0", "1", "1"]
    assert frame["outcome"].tolist() == ["SUCCESS", "SUCCESS", "UNFINISHED", "UNSCORED"]
    assert frame["step"].tolist() == [1, 0, 0, 0]
    assert frame["terminated"].tolist() == [True, False, False, False]
    assert frame["cost"].tolist() == [1.0] * 4
    for name in ("task", "episode", "state", "next_state", "action", "outcome"):
        assert isinstance(frame[name].dtype, pd.CategoricalDtype)
    assert list(frame.columns) == (
        [
            "task",
            "episode",
            "step",
            "state",
            "next_state",
            "action",
            "reward",
            "cost",
            "terminated",
            "truncated",
            "outcome",
        ]
    )


def test_files_with_plain_text_columns_and_several_row_groups_load(tmp_path):
    full = with_labels(list(range(50)))
    full.save(tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet")
    pq.write_table(table, tmp_path / "groups.parquet", row_group_size=7)
    assert_equal(Transitions.load(tmp_path / "groups.parquet"), full)
    text = {name: table[name].cast(pa.string()) for name in ("task", "state", "outcome")}
    for name, column in text.items():
        table = table.set_column(table.column_names.index(name), name, column)
    pq.write_table(table, tmp_path / "plain.parquet", row_group_size=7, use_dictionary=False)
    assert_equal(Transitions.load(tmp_path / "plain.parquet"), full)


def test_foreign_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        Transitions.load(tmp_path / "missing.parquet")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match=r"must be a Parquet file written by Transitions\.save"):
        Transitions.load(tmp_path / "text")
    pq.write_table(pa.table({"task": ["1"], "step": [0]}), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match=r"lacks \['episode', 'state', 'next_state', .*'outcome'\]"):
        Transitions.load(tmp_path / "other.parquet")


def rewritten(tmp_path, **changes):
    small().save(tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet")
    for name, values in changes.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    pq.write_table(table, tmp_path / "y.parquet")
    return tmp_path / "y.parquet"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"outcome": ["SUCCESS", "FAILURE", "FAILURE", "UNSCORED"]},
            "same on all rows of an episode, row 0 differs",
        ),
        ({"outcome": ["WON"] * 4}, "must be one of SUCCESS, FAILURE, UNFINISHED, UNSCORED, got 'WON'"),
        ({"step": [2, 0, 0, 0]}, "step 1 is missing"),
        ({"step": [0.0, 1.0, 0.0, 1.0]}, "its column step is of type double"),
        ({"terminated": [0, 1, 0, 1]}, "its column terminated is of type int64"),
        ({"state": [1, 2, 3, 4]}, "its column state is of type int64"),
        ({"reward": [0.0, None, 0.0, 0.0]}, "its column reward has no value in 1 rows"),
        ({"state": ["5", None, "1", "2"]}, "its column state has no value in 1 rows"),
        ({"reward": [np.inf, 0.0, 0.0, 0.0]}, "reward must be finite"),
    ],
)
def test_files_that_break_a_rule_are_refused(changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        Transitions.load(rewritten(tmp_path, **changes))


def test_newer_formats_are_refused(tmp_path):
    small().save(tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet").replace_schema_metadata({"graphwrap": '{"format": 99}'})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="is of format 99, which this version cannot read"):
        Transitions.load(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    "about", ["[]", "{", "3", '{"format": "x"}', '{"format": null}', "[" * 5000], ids=len
)
def test_other_metadata_are_refused(about, tmp_path):
    small().save(tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet").replace_schema_metadata({"graphwrap": about})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"written by Transitions\.save, but (its metadata|it is of format)"):
        Transitions.load(tmp_path / "x.parquet")


def test_a_label_without_text_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.parquet"
    small().save(path)
    before = path.read_bytes()
    with pytest.raises(TypeError, match="labels can be saved"):
        small(state_labels=["s", Move.UP, None]).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.parquet"]


FULL_DISK = """
import resource, sys
import numpy as np
from graphwrap import Transitions
n = 50_000
rng = np.random.default_rng(0)
big = Transitions.from_columns(
    task=np.zeros(n, int), episode=np.arange(n), step=np.zeros(n, int), state=rng.random(n), action=np.zeros(n, int),
    next_state=rng.random(n), reward=np.zeros(n), terminated=np.ones(n, bool), truncated=np.zeros(n, bool))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    big.save(sys.argv[1])
except OSError:
    print("refused")
"""


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.parquet"
    small().save(path)
    before = path.read_bytes()
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True
    )
    assert run.stdout == "refused\n"
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.parquet"]


ENDLESS = """
import sys
import numpy as np
from graphwrap import Transitions
n = 20_000
columns = dict(task=np.zeros(n, int), episode=np.arange(n), step=np.zeros(n, int), state=np.arange(n),
    action=np.zeros(n, int), next_state=np.arange(n), reward=np.zeros(n), terminated=np.ones(n, bool),
    truncated=np.zeros(n, bool))
full = Transitions.from_columns(**columns)
full.save(sys.argv[1])
print("saved", flush=True)
while True:
    full.save(sys.argv[1])
"""


def test_a_killed_process_leaves_a_whole_file(tmp_path):
    path = tmp_path / "x.parquet"
    with subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"saved\n"
        time.sleep(0.15)
        process.send_signal(signal.SIGKILL)
    assert len(Transitions.load(path)) == 20_000


NO_PYARROW = """
import sys
sys.modules["pyarrow"] = None
from graphwrap import Transitions
names = "task episode step state action next_state reward terminated truncated".split()
empty = Transitions.from_columns(**{name: [] for name in names})
for call in (empty.save, Transitions.load):
    try:
        call("x.parquet")
    except ImportError as error:
        print(error)
"""


def test_a_missing_pyarrow_is_named_with_its_extra(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", NO_PYARROW], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert run.stdout.count("pip install 'graphwrap[io]'") == 2
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        small().save(tmp_path / "no" / "x.parquet")


@given(st.lists(anything, min_size=1, max_size=5))
def test_round_trip_of_any_label(tmp_path_factory, labels):
    path = tmp_path_factory.mktemp("labels") / "x.parquet"
    full = (
        with_labels(labels)
        if len(labels) < 2
        else with_labels([(i, label) for i, label in enumerate(labels)])
    )
    full.save(path)
    assert_equal(Transitions.load(path), full)


def test_no_python_file_reaches_the_threads_of_arrow(tmp_path, monkeypatch):
    # They let go of what they read from when they like; one that does while the interpreter ends aborts the process.
    read, sources = pq.read_table, []
    monkeypatch.setattr(pq, "read_table", lambda source: sources.append(source) or read(source))
    written = Transitions.from_columns(**walks(np.random.default_rng(0)))
    written.save(tmp_path / "batch.parquet")
    assert_equal(Transitions.load(tmp_path / "batch.parquet"), written)
    assert [type(source) for source in sources] == [pa.OSFile]
