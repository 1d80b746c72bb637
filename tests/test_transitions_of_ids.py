from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from graphwrap import Outcome, Transitions
from graphwrap.states import make_table

from .data.batches import ids


def test_ids_are_counted_anew_and_unused_labels_dropped():
    got = Transitions.from_ids(
        task=[4, 4, 4],
        episode=[2, 2, 0],
        step=[0, 1, 0],
        state=[9, 3, 9],
        action=[1, 1, 0],
        next_state=[3, 7, 3],
        reward=[0.0, 1.0, 0.0],
        terminated=[False, True, False],
        truncated=[False, False, False],
        outcome=[Outcome.UNFINISHED, Outcome.UNSCORED, Outcome.FAILURE],
        task_labels=list("abcde"),
        state_labels=np.arange(10) * 1.5,
        action_labels=["left", "right"],
    )
    assert got.task.tolist() == [0, 0, 0]
    assert list(got.task_labels) == ["e"]
    assert got.episode.tolist() == [0, 0, 1]
    assert list(got.episode_labels) == [2, 0]
    assert got.state.tolist() == [0, 1, 0]
    assert got.next_state.tolist() == [1, 2, 1]
    assert list(got.state_labels) == [13.5, 4.5, 10.5]
    assert list(got.action_labels) == ["right", "left"]
    assert got.outcome.tolist() == [Outcome.FAILURE, Outcome.UNFINISHED]


def test_outcomes_of_ids():
    assert Transitions.from_ids(**ids()).outcome.tolist() == [Outcome.SUCCESS]
    assert Transitions.from_ids(**ids(outcome=[-1])).outcome.tolist() == [Outcome.SUCCESS]
    assert Transitions.from_ids(**ids(outcome=np.array([2], np.int8))).outcome.tolist() == [
        Outcome.UNFINISHED
    ]
    unscored = Transitions.from_ids(**ids(outcome=[Outcome.UNSCORED]))
    assert np.isnan(unscored.returns()).all()
    assert np.isnan(unscored.discounted_returns(1.0)).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": [0, 1]}, r"task must be the same on all steps of an episode, but episode 0 .* at step 1"),
        ({"state": [0, -1]}, "state must hold ids 0 or more, got -1 in row 1"),
        (
            {"state_labels": ["x"]},
            "state must hold ids from 0 to 0, the entries of state_labels, got 1 in row 1",
        ),
        ({"next_state": [1, 2], "state_labels": ["x", "y"]}, "next_state must hold ids from 0 to 1"),
        ({"episode": [1, 1], "outcome": [0]}, "episode must hold ids from 0 to 0, the entries of outcome"),
        ({"outcome": [4]}, "outcome must hold Outcome values or -1, got 4"),
        (
            {"state_labels": ["x", "x"]},
            "state_labels must differ from each other, but ids 0 and 1 are both 'x'",
        ),
        ({"task_labels": [1.0, 2, np.float32(1)]}, "task_labels must differ .* ids 0 and 2 are both 1.0"),
        ({"next_state": [0, 0]}, "next_state must equal the state of the step after it"),
        ({"cost": [1.0, 0.0]}, "cost must be above 0 and finite"),
        ({"reward": [0.0]}, "equal lengths"),
    ],
)
def test_faults_of_ids(changes, message):
    with pytest.raises(ValueError, match=message):
        Transitions.from_ids(**ids(**changes))


def test_ids_from_a_table_keep_its_labels_packed():
    table = make_table(spaces.Box(0, 9, (2,), np.int64))
    states = table.intern_batch(np.array([[1, 1], [2, 2], [3, 3]]), 3)
    got = Transitions.from_ids(
        **ids(state=states[[1, 2]], next_state=states[[2, 1]], state_labels=table.labels)
    )
    table.compact([])
    table.intern_one(np.array([7, 7]))
    assert [value.tolist() for value in got.state_labels] == [[2, 2], [3, 3]]
