from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwrap import Outcome, Transitions
from graphwrap.data import intern, ordering

from .builders import walks
from .data.batches import IDS, VALUES, assert_equal, columns, label


def test_columns_become_arrays():
    got = Transitions.from_columns(**columns())
    expected = {
        "task": [0, 0, 0, 0, 0],
        "episode": [0, 0, 0, 1, 1],
        "step": [0, 1, 2, 0, 1],
        "state": [0, 1, 2, 0, 2],
        "next_state": [1, 2, 3, 2, 4],
        "action": [0, 1, 0, 1, 1],
        "reward": [0.0, 0.0, 1.0, 0.0, 0.0],
        "cost": [1.0] * 5,
        "terminated": [False, False, True, False, False],
        "truncated": [False, False, False, False, True],
        "outcome": [Outcome.SUCCESS, Outcome.FAILURE],
        "episode_task": [0, 0],
        "order": [0, 1, 2, 3, 4],
        "episode_offsets": [0, 3, 5],
    }
    dtypes = dict.fromkeys(VALUES, np.float64) | dict.fromkeys(("terminated", "truncated"), np.bool_)
    dtypes |= {"outcome": np.int8, "episode_offsets": np.int64}
    for name, values in expected.items():
        array = getattr(got, name)
        assert array.tolist() == values
        assert array.dtype == dtypes.get(name, np.int32)
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    assert list(got.state_labels) == ["s", "u", "v", "w", "x"]
    assert (list(got.task_labels), list(got.episode_labels), list(got.action_labels)) == (
        ["t"],
        ["a", "b"],
        [0, 1],
    )
    assert (len(got), got.num_rows, got.num_tasks, got.num_episodes) == (5, 5, 1, 2)
    assert (got.num_states, got.num_actions) == (5, 2)
    assert repr(got) == "Transitions(5 steps, 2 episodes, 1 tasks, 5 states, 2 actions)"


def test_goldens_keep_their_columns(golden):
    given_columns = golden["transitions"]
    got = Transitions.from_columns(**given_columns)
    for name in ("task", "episode", "state", "next_state", "action"):
        assert label(got, name) == given_columns[name]
    for name in ("step", *VALUES):
        assert getattr(got, name).tolist() == given_columns[name]
    outcomes = {True: Outcome.SUCCESS, False: Outcome.FAILURE}
    for row, success in enumerate(given_columns["success"]):
        if success is not None:
            assert got.outcome[got.episode[row]] == outcomes[success]
    assert got.num_episodes == len(set(zip(given_columns["task"], given_columns["episode"])))


@given(st.integers(0, 2**32 - 1))
def test_rows_may_come_in_any_order(seed):
    rng = np.random.default_rng(seed)
    given_columns = walks(rng, tasks=3, costs=True)
    order = rng.permutation(len(given_columns["step"]))
    shuffled = {name: [column[i] for i in order] for name, column in given_columns.items()}
    got = Transitions.from_columns(**shuffled)
    for name in IDS:
        assert label(got, name) == shuffled[name]
        table = (got.state, got.next_state) if "state" in name else (getattr(got, name),)
        flat = np.stack(table, axis=1).reshape(-1)
        assert list(dict.fromkeys(flat.tolist())) == list(range(flat.max() + 1))
    for name in ("step", *VALUES):
        assert getattr(got, name).tolist() == shuffled[name]
    for e in range(got.num_episodes):
        rows = got.order[got.episode_offsets[e] : got.episode_offsets[e + 1]]
        assert (got.episode[rows] == e).all()
        assert got.step[rows].tolist() == list(range(len(rows)))
        assert (got.task[rows] == got.episode_task[e]).all()
    assert sorted(got.order.tolist()) == list(range(len(got)))


def test_lists_arrays_and_tuples_give_the_same():
    expected = Transitions.from_columns(**columns())
    assert_equal(Transitions.from_columns(**{k: tuple(v) for k, v in columns().items()}), expected)
    arrays = {k: np.array(v) for k, v in columns().items()}
    assert_equal(Transitions.from_columns(**arrays), expected)
    objects = {k: np.array(v, object) for k, v in columns().items()}
    assert_equal(Transitions.from_columns(**objects), expected)
    backwards = {k: np.array(v[::-1])[::-1] for k, v in columns().items()}
    assert_equal(Transitions.from_columns(**backwards), expected)


def test_the_callers_arrays_are_neither_kept_nor_frozen():
    given_arrays = {
        "task": np.zeros(2, np.int64),
        "episode": np.arange(2),
        "step": np.zeros(2, np.int64),
        "state": np.zeros((2, 3)),
        "action": np.zeros(2, np.int64),
        "next_state": np.ones((2, 3)),
        "reward": np.ones(2),
        "cost": np.ones(2),
        "terminated": np.ones(2, np.bool_),
        "truncated": np.zeros(2, np.bool_),
        "success": np.ones(2, np.bool_),
    }
    for make, names in (
        (Transitions.from_columns, set()),
        (Transitions.from_ids, {"state", "next_state", "success"}),
    ):
        arrays = {k: v for k, v in given_arrays.items() if k not in names}
        if names:
            arrays |= {"state": np.zeros(2, np.int32), "next_state": np.ones(2, np.int32)}
        arrays = copy.deepcopy(arrays)
        got = make(**arrays)
        before = copy.deepcopy(got)
        for array in arrays.values():
            array[...] = 0
        assert_equal_values(got, before)


def assert_equal_values(a: Transitions, b: Transitions) -> None:
    for name in (*IDS, "step", *VALUES, "outcome"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert [np.ravel(x).tolist() for x in a.state_labels] == [np.ravel(x).tolist() for x in b.state_labels]


def test_zero_rows():
    empty = Transitions.from_columns(**{name: [] for name in columns()})
    assert (len(empty), empty.num_tasks, empty.num_episodes, empty.num_states, empty.num_actions) == (0,) * 5
    assert empty.returns().shape == empty.discounted_returns(0.9).shape == (0,)
    full = Transitions.from_columns(**columns())
    assert_equal(Transitions.concat([empty, full, empty]), full)
    assert len(full.select([])) == 0
    assert len(full.select(np.zeros(5, np.bool_))) == 0


def test_equal_labels_in_two_tasks_are_two_episodes():
    got = Transitions.from_columns(**columns(task=["t", "t", "t", "u", "u"], episode=["e"] * 5))
    assert got.episode.tolist() == [0, 0, 0, 1, 1]
    assert got.episode_task.tolist() == [0, 1]
    assert list(got.episode_labels) == ["e", "e"]
    interleaved = [3, 0, 4, 1, 2]
    mixed = columns(task=["t", "t", "t", "u", "u"], episode=["e"] * 5)
    again = Transitions.from_columns(**{k: [v[i] for i in interleaved] for k, v in mixed.items()})
    assert again.episode.tolist() == [0, 1, 0, 1, 1]
    assert again.order.tolist() == [0, 2, 1, 3, 4]


def test_array_states_and_rounding():
    state = np.array([[0.0, 1.0], [0.1, 1.0]])
    after = np.array([[0.1, 1.0], [0.2, np.nan]])
    given_columns = columns()
    for name, values in given_columns.items():
        given_columns[name] = values[:2]
    got = Transitions.from_columns(**given_columns | {"state": state, "next_state": after})
    assert got.state.tolist() == [0, 1]
    assert got.next_state.tolist() == [1, 2]
    np.testing.assert_array_equal(got.state_labels[2], after[1])
    drift = np.array([[0.001, 1.0], [0.1, 1.0]])
    with pytest.raises(ValueError, match="next_state must equal the state of the step after it"):
        Transitions.from_columns(**given_columns | {"state": drift + 0.001, "next_state": after})
    got = Transitions.from_columns(**given_columns | {"state": drift + 0.001, "next_state": after}, round=1)
    assert got.next_state.tolist() == [1, 2]


OUTCOMES = [
    # terminated, truncated, success, rewards, expected
    (True, False, None, (0.0, 1.0), Outcome.SUCCESS),
    (True, False, None, (0.0, 0.0), Outcome.FAILURE),
    (True, False, None, (0.0, -1.0), Outcome.FAILURE),
    (False, True, None, (0.0, 1.0), Outcome.FAILURE),
    (False, False, None, (0.0, 1.0), Outcome.UNFINISHED),
    (True, True, None, (0.0, 1.0), Outcome.SUCCESS),
    (True, True, None, (0.0, 0.0), Outcome.FAILURE),
    (True, False, False, (0.0, 1.0), Outcome.FAILURE),
    (True, False, True, (0.0, 0.0), Outcome.SUCCESS),
    (False, True, True, (0.0, 0.0), Outcome.SUCCESS),
    (True, True, False, (0.0, 1.0), Outcome.FAILURE),
    (False, False, True, (0.0, 0.0), Outcome.SUCCESS),
    (False, False, False, (0.0, 1.0), Outcome.FAILURE),
    (True, False, True, (0.0, np.nan), Outcome.UNSCORED),
    (False, False, None, (np.nan, 0.0), Outcome.UNSCORED),
]


@pytest.mark.parametrize(("terminated", "truncated", "success", "reward", "outcome"), OUTCOMES)
def test_outcomes(terminated, truncated, success, reward, outcome):
    got = Transitions.from_columns(
        task=[0, 0],
        episode=[0, 0],
        step=[0, 1],
        state=[0, 1],
        action=[0, 0],
        next_state=[1, 2],
        reward=reward,
        terminated=[False, terminated],
        truncated=[False, truncated],
        success=[success, success],
    )
    assert got.outcome.tolist() == [outcome]
    if outcome == Outcome.UNSCORED:
        assert np.isnan(got.returns()).all()
        assert np.isnan(got.discounted_returns(0.5)).all()
    else:
        assert got.returns().tolist() == [sum(reward)]


def test_success_may_be_given_for_some_episodes_only():
    success = np.array([None, None, None, True, True])
    got = Transitions.from_columns(**columns(success=success))
    assert got.outcome.tolist() == [Outcome.SUCCESS, Outcome.SUCCESS]
    got = Transitions.from_columns(**columns(success=np.array([False, False, False, True, True])))
    assert got.outcome.tolist() == [Outcome.FAILURE, Outcome.SUCCESS]


def test_one_warning_where_reward_may_not_be_success():
    with pytest.warns(UserWarning, match="success=") as caught:
        Transitions.from_columns(**columns(reward=[1.0, 1.0, 1.0, 0.0, 0.0]))
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"success": [True] * 5, "reward": [1.0] * 5},
        {"reward": [1.0] * 5, "terminated": [False] * 5},
        {"reward": [1.0, np.nan, 1.0, 0.0, 0.0]},
    ],
)
def test_no_warning_where_nothing_misleads(changes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Transitions.from_columns(**columns(**changes))


FAULTS = [
    (
        {"step": [0, 1, 3, 0, 1]},
        r"step .* in episode 'a' of task 't' step 2 is missing \(the next one is step 3\)",
    ),
    ({"step": [1, 2, 3, 0, 1]}, r"step .* in episode 'a' of task 't' step 0 is missing"),
    ({"step": [0, 1, 2, 0, 0]}, r"step .* in episode 'b' of task 't' step 0 is there more than once"),
    ({"step": [0, 1, 2, -1, 0]}, r"step .* in episode 'b' of task 't' got step -1"),
    ({"episode": ["a"] * 5}, r"step .* in episode 'a' of task 't' step 0 is there more than once"),
    (
        {"next_state": ["u", "s", "w", "v", "x"]},
        r"next_state .* in episode 'a' of task 't', step 1, next_state is 's' and the state of step 2 is 'v'",
    ),
    (
        {"terminated": [False, True, True, False, False]},
        r"terminated must be True on an episode's last step only, but episode 'a' of task 't', step 1",
    ),
    (
        {"truncated": [False, False, False, True, True]},
        r"truncated must be True on an episode's last step only, but episode 'b' of task 't', step 0",
    ),
    (
        {"success": [True, True, False, True, True]},
        r"success .* episode 'a' of task 't' changes it at step 2",
    ),
    (
        {"success": [True, True, True, None, True]},
        r"success .* episode 'b' of task 't' changes it at step 1",
    ),
    ({"cost": [1.0, 0.0, 1.0, 1.0, 1.0]}, r"cost .* in episode 'a' of task 't', step 1, it is 0\.0"),
    ({"cost": [1.0, 1.0, 1.0, -2.0, 1.0]}, r"cost .* in episode 'b' of task 't', step 0, it is -2\.0"),
    ({"cost": [1.0, 1.0, np.nan, 1.0, 1.0]}, r"cost .* in episode 'a' of task 't', step 2, it is nan"),
    ({"cost": [np.inf, 1.0, 1.0, 1.0, 1.0]}, r"cost .* in episode 'a' of task 't', step 0, it is inf"),
    ({"reward": [0.0, 0.0, np.inf, 0.0, 0.0]}, r"reward .* in episode 'a' of task 't', step 2, it is inf"),
    ({"reward": [0.0, 0.0, 0.0, 0.0, -np.inf]}, r"reward .* in episode 'b' of task 't', step 1, it is -inf"),
]


@pytest.mark.parametrize(("changes", "message"), FAULTS)
def test_faults_name_column_episode_and_step(changes, message):
    with pytest.raises(ValueError, match=message):
        Transitions.from_columns(**columns(**changes))
    backwards = {name: column[::-1] for name, column in columns(**changes).items()}
    with pytest.raises(ValueError, match=message):
        Transitions.from_columns(**backwards)


def test_unequal_lengths_name_each_column():
    message = r"equal lengths, got task 5, .*state 5, .*next_state 4, .*step 5, .*cost 3"
    with pytest.raises(ValueError, match=message):
        Transitions.from_columns(**columns(next_state=["u"] * 4, cost=[1.0] * 3))
    with pytest.raises(ValueError, match="success 4"):
        Transitions.from_columns(**columns(success=[True] * 4))


KINDS = [
    ({"step": [0, 1, 2.0, 0, 1]}, r"step must hold integers, got 2\.0 of type float in row 2"),
    ({"step": [0, 1, None, 0, 1]}, r"step must hold integers, got None of type NoneType in row 2"),
    (
        {"step": [[0], [1], [2], [0], [1]]},
        r"step must hold one integer per row, got an array of shape \(5, 1\)",
    ),
    ({"step": np.array([0, 1, 2, 0, 2**63], np.uint64)}, "step must hold integers, got 9223372036854775808"),
    ({"step": [0, 1, 2, 0, 2**80]}, "step must hold integers, got 1208925819614629174706176 .* in row 4"),
    ({"reward": [0, 0, -(10**30), 0, 0]}, "reward must hold numbers, got -10{30} of type int in row 2"),
    ({"reward": ["0"] * 5}, "reward must hold numbers, got '0' of type str in row 0"),
    ({"reward": [0, None, 1, 0, 0]}, "reward must hold numbers, got None of type NoneType in row 1"),
    ({"reward": np.zeros((5, 1))}, "reward must hold one number per row"),
    ({"cost": [1.0, 1.0, [2.0], 1.0, 1.0]}, "cost must hold"),
    ({"terminated": [0, 0, 1, 0, 0]}, "terminated must hold True or False, got 0 of type int in row 0"),
    ({"truncated": [False] * 4 + [1]}, "truncated must hold True or False, got 1 of type int in row 4"),
    ({"truncated": np.zeros(5)}, r"truncated must hold True or False, got 0\.0 of type float"),
    ({"success": [1, 1, 1, 0, 0]}, "success must hold True, False or None, got 1 of type int in row 0"),
    ({"success": np.ones(5)}, "success must hold True, False or None, got 1.0 of type float in row 0"),
    ({"state": "suvsv"}, "state must be a sequence with one value per row, got 'suvsv'"),
    ({"task": "t"}, "task must be a sequence with one value per row, got 't'"),
    ({"reward": 1.0}, "reward must be a sequence with one value per row, got 1.0"),
    ({"reward": np.array(1.0)}, "reward must be a sequence with one value per row"),
    ({"action": [0, 1, bytearray(b"x"), 1, 1]}, "of type bytearray, which has no hash"),
]


@pytest.mark.parametrize(("changes", "message"), KINDS)
def test_wrong_kinds_are_refused(changes, message):
    with pytest.raises(TypeError, match=message):
        Transitions.from_columns(**columns(**changes))


def test_returns():
    got = Transitions.from_columns(**columns(reward=[1.0, 2.0, 4.0, 8.0, 16.0], success=[True] * 5))
    assert got.returns().tolist() == [7.0, 24.0]
    assert got.discounted_returns(0.5).tolist() == [3.0, 4.0, 4.0, 16.0, 16.0]
    assert got.discounted_returns(0).tolist() == got.reward.tolist()
    assert got.discounted_returns(1).tolist() == [7.0, 6.0, 4.0, 24.0, 16.0]
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="gamma must be from 0 to 1"):
            got.discounted_returns(wrong)


@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_discounted_returns_equal_their_sum(seed, gamma):
    rng = np.random.default_rng(seed)
    given_columns = walks(rng, rewards=True)
    order = rng.permutation(len(given_columns["step"]))
    got = Transitions.from_columns(**{k: [v[i] for i in order] for k, v in given_columns.items()})
    for row, value in enumerate(got.discounted_returns(gamma)):
        rest = (got.episode == got.episode[row]) & (got.step >= got.step[row])
        expected = (got.reward[rest] * gamma ** (got.step[rest] - got.step[row]).astype(float)).sum()
        assert value == pytest.approx(expected, abs=1e-9)


def test_pickled_transitions_stay_read_only():
    full = Transitions.from_columns(**columns())
    copied = pickle.loads(pickle.dumps(full))
    assert_equal(copied, full)
    with pytest.raises(ValueError, match="read-only"):
        copied.reward[0] = 1


def test_kernels_compile_once_whatever_the_memory_layout():
    n = 40
    backing = np.zeros(n * 8 + 1, np.uint8)[1:]
    unaligned = backing.view(np.int64)
    unaligned[:] = np.arange(n)
    frozen = np.arange(n)
    frozen.flags.writeable = False
    sources = {
        "strided": np.arange(2 * n)[::2] // 2,
        "reversed": np.arange(n)[::-1][::-1],
        "unaligned": unaligned,
        "frozen": frozen,
        "narrow": np.arange(n, dtype=np.uint8),
        "swapped": np.arange(n, dtype=">i8"),
    }
    results = []
    for source in sources.values():
        flags = np.broadcast_to(True, n)
        shared = {
            "reward": np.broadcast_to(1.0, n),
            "terminated": flags,
            "truncated": ~flags,
            "success": flags,
        }
        shared |= {
            "task": source * 0,
            "episode": source,
            "step": source * 0,
            "action": source,
            "cost": source + 1,
        }
        got = Transitions.from_columns(**shared, state=source, next_state=np.arange(n) * 2**40)
        for states in (np.stack([source, source], axis=1), source * 0.5):
            Transitions.from_columns(**shared, state=states, next_state=states[::-1])
        again = Transitions.concat([got.select(got.episode < 9), got.select(got.episode >= 9)])
        assert_equal(pickle.loads(pickle.dumps(again)), got)
        assert got.discounted_returns(0.5).tolist() == [1.0] * n
        assert got.returns().tolist() == [1.0] * n
        results.append(got)
    for got in results:
        assert_equal(got, results[0])
    kernels = [intern.intern_rows, intern.refill_slots, intern.intern_dense, ordering._place_steps]
    kernels += [ordering._judge_episodes, ordering.episode_returns, ordering.returns_to_go]
    assert [len(kernel.signatures) for kernel in kernels] == [1] * len(kernels)
