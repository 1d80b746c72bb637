from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from graphwrap import Outcome, Transitions
from graphwrap.states import make_table

from ..builders import walks
from .batches import IDS, VALUES, assert_equal, columns, ids, label


def test_select_takes_whole_episodes():
    given_columns = columns(cost=[1.0, 2.0, 3.0, 4.0, 5.0])
    full = Transitions.from_columns(**given_columns)
    second = Transitions.from_columns(**{k: v[3:] for k, v in given_columns.items()})
    assert_equal(full.select(full.episode == 1), second)
    assert_equal(full.select([3, 4]), second)
    turned = full.select(np.array([4, 0, 3, 1, 2]))
    assert label(turned, "state") == ["v", "s", "s", "u", "v"]
    assert turned.cost.tolist() == [5.0, 1.0, 4.0, 2.0, 3.0]
    assert turned.outcome.tolist() == [Outcome.FAILURE, Outcome.SUCCESS]
    assert_equal(full.select(np.ones(5, np.bool_)), full)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_select_and_concat_keep_outcomes(outcome):
    full = Transitions.from_ids(**ids(outcome=[outcome]))
    assert full.select([0, 1]).outcome.tolist() == [outcome]
    assert Transitions.concat([full]).outcome.tolist() == [outcome]


def test_select_refuses_cut_episodes_and_wrong_rows():
    full = Transitions.from_columns(**columns())
    with pytest.raises(ValueError, match=r"episode 'a' of task 't' has 3 steps and 2 of them were chosen"):
        full.select([0, 1, 3, 4])
    with pytest.raises(ValueError, match="row 3 2 times"):
        full.select([3, 4, 3])
    with pytest.raises(IndexError, match="row numbers must be from 0 to 4, got 3 to 5"):
        full.select([3, 5])
    with pytest.raises(IndexError, match="one entry per row, 5, got 4"):
        full.select(np.ones(4, np.bool_))
    for wrong in ([0.0], [[0]], ["a"]):
        with pytest.raises(TypeError, match="rows must be a boolean mask or row numbers"):
            full.select(wrong)


def test_concat_joins_equal_labels():
    a = Transitions.from_columns(**columns())
    b = Transitions.from_columns(
        task=["u", "t"],
        episode=["a", "c"],
        step=[0, 0],
        state=["x", "s"],
        action=[1, 2],
        next_state=["s", None],
        reward=[0.0, 1.0],
        terminated=[False, True],
        truncated=[False, False],
        cost=[2.0, 3.0],
    )
    both = Transitions.concat([a, b])
    assert label(both, "state") == ["s", "u", "v", "s", "v", "x", "s"]
    assert label(both, "next_state") == ["u", "v", "w", "v", "x", "s", None]
    assert label(both, "task") == ["t"] * 5 + ["u", "t"]
    assert label(both, "episode") == ["a", "a", "a", "b", "b", "a", "c"]
    assert label(both, "action") == [0, 1, 0, 1, 1, 1, 2]
    assert both.episode.tolist() == [0, 0, 0, 1, 1, 2, 3]
    assert both.cost.tolist() == [1.0] * 5 + [2.0, 3.0]
    assert both.outcome.tolist() == [0, 1, Outcome.UNFINISHED, 0]


def test_concat_refuses_what_is_no_transitions():
    part = Transitions.from_ids(**ids())
    with pytest.raises(TypeError, match="got one; put it in a list"):
        Transitions.concat(part)
    with pytest.raises(TypeError, match="concat needs Transitions, got None of type NoneType"):
        Transitions.concat([part, None])


def test_concat_refuses_an_episode_in_two_parts():
    a = Transitions.from_columns(**columns())
    b = Transitions.from_columns(**{k: v[3:] for k, v in columns().items()})
    with pytest.raises(
        ValueError, match=r"episode 'b' of task 't' is in two; give episodes labels of their own"
    ):
        Transitions.concat([a, b])
    with pytest.raises(ValueError, match="at least one Transitions, got none"):
        Transitions.concat([])


@pytest.mark.parametrize("form", ["int", "float", "str", "array", "arrays of two kinds", "mixed"])
def test_concat_undoes_select(form):
    forms = {
        "int": lambda i: i,
        "float": lambda i: i / 2,
        "str": str,
        "array": lambda i: np.array([i, 1]),
        "arrays of two kinds": lambda i: np.array([i], np.int8 if i % 2 else np.float32),
        "mixed": lambda i: (i, None) if i % 2 else i,
    }
    given_columns = walks(np.random.default_rng(5), tasks=3)
    for name in ("state", "next_state"):
        given_columns[name] = [forms[form](i) for i in given_columns[name]]
    full = Transitions.from_columns(**given_columns)
    parts = [full.select(full.task == task) for task in range(3)]
    joined = Transitions.concat(parts)
    for name in (*IDS, "step", *VALUES, "outcome", "order", "episode_offsets"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(full, name))
    for a, b in zip(joined.state_labels, full.state_labels):
        np.testing.assert_equal(a, b)


def test_concat_joins_labels_of_different_forms():
    table = make_table(spaces.Box(0, 9, (1,), np.int64))
    table.intern_batch(np.array([[4], [5]]), 2)
    a = Transitions.from_ids(**ids(state_labels=table.labels, episode=[1, 1]))
    b = Transitions.from_ids(**ids(state_labels=[np.array([5]), "end"]))
    both = Transitions.concat([a, b])
    assert both.state.tolist() == [0, 1, 1, 2]
    assert both.num_states == 3
