from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from graphwrap.methods import GRPO, GraphGPO
from graphwrap.recording.recorder import Recorder
from graphwrap.states import make_table
from graphwrap.transitions import Outcome, Transitions


def make_recorder(num_envs: int, method: Any = None, **settings: Any) -> Recorder:
    return Recorder(
        num_envs,
        make_table(spaces.Discrete(1000)),
        make_table(spaces.Discrete(10)),
        method or GRPO(),
        **settings,
    )


def begin(recorder: Recorder, envs: list[int], states: list[int], labels: list | None = None) -> None:
    recorder.begin(envs, np.array(states), labels)


def record(
    recorder: Recorder,
    actions: list[int],
    next_states: list[int],
    rewards: list[float],
    terminated: list[int] | None = None,
    truncated: list[int] | None = None,
    successes: dict[int, bool] | None = None,
) -> None:
    n = recorder.num_envs
    flags = np.zeros((2, n), bool)
    flags[0, terminated or []] = True
    flags[1, truncated or []] = True
    ended = np.flatnonzero(flags.any(axis=0)).tolist()
    recorder.record(
        np.array(actions),
        np.array(next_states),
        np.array(rewards),
        *flags,
        ended,
        [(successes or {}).get(env) for env in ended],
    )


def columns(transitions: Transitions) -> list[tuple]:
    """Rows with their labels."""
    t = transitions
    return [
        (
            t.task_labels[t.task[i]],
            t.episode_labels[t.episode[i]],
            int(t.step[i]),
            t.state_labels[t.state[i]],
            t.action_labels[t.action[i]],
            t.state_labels[t.next_state[i]],
            float(t.reward[i]),
            bool(t.terminated[i]),
            bool(t.truncated[i]),
        )
        for i in range(len(t))
    ]


def test_rows_are_what_was_recorded() -> None:
    recorder = make_recorder(2)
    begin(recorder, [0, 1], [5, 7])
    record(recorder, [1, 2], [6, 8], [0.0, 0.5])
    record(recorder, [3, 4], [9, 11], [1.0, -0.5], terminated=[0], truncated=[1])
    begin(recorder, [0, 1], [5, 20])
    record(recorder, [1, 1], [6, 21], [0.0, 0.0])
    window = recorder.assign_credit()
    assert columns(window.transitions) == [
        (5, 0, 0, 5, 1, 6, 0.0, False, False),
        (7, 1, 0, 7, 2, 8, 0.5, False, False),
        (5, 0, 1, 6, 3, 9, 1.0, True, False),
        (7, 1, 1, 8, 4, 11, -0.5, False, True),
        (5, 2, 0, 5, 1, 6, 0.0, False, False),
        (20, 3, 0, 20, 1, 21, 0.0, False, False),
    ]
    assert window.transitions.outcome.tolist() == [
        Outcome.SUCCESS,
        Outcome.FAILURE,
        Outcome.UNFINISHED,
        Outcome.UNFINISHED,
    ]
    np.testing.assert_array_equal(window.rewards, [[0.0, 0.5], [1.0, -0.5], [0.0, 0.0]])
    np.testing.assert_array_equal(window.mask, [[True, True], [True, True], [False, False]])
    np.testing.assert_array_equal(window.episode_finished, window.mask)
    np.testing.assert_array_equal(window.group_complete, [[False, True], [False, True], [False, False]])
    np.testing.assert_array_equal(window.is_step, np.ones((3, 2), bool))
    np.testing.assert_array_equal(window.rows, [[0, 1], [2, 3], [4, 5]])
    np.testing.assert_array_equal(window.advantages, window.credit.advantages[window.rows])


def test_unfinished_graph_keeps_all_rows_trainable() -> None:
    recorder = make_recorder(1)
    begin(recorder, [0], [1])
    record(recorder, [0], [2], [0.0])
    window = recorder.assign_credit(unfinished="graph")
    assert window.mask.tolist() == [[True]]
    assert window.episode_finished.tolist() == [[False]]


@pytest.mark.parametrize(
    ("flag", "reward", "success", "outcome"),
    [
        ("terminated", 1.0, None, Outcome.SUCCESS),
        ("terminated", 0.0, None, Outcome.FAILURE),
        ("truncated", 1.0, None, Outcome.FAILURE),
        ("truncated", 0.0, True, Outcome.SUCCESS),
        ("terminated", 1.0, False, Outcome.FAILURE),
        ("terminated", float("nan"), True, Outcome.UNSCORED),
    ],
)
def test_outcomes(flag: str, reward: float, success: bool | None, outcome: Outcome) -> None:
    recorder = make_recorder(1)
    begin(recorder, [0], [1])
    record(recorder, [0], [2], [reward], successes={} if success is None else {0: success}, **{flag: [0]})
    assert recorder.assign_credit().transitions.outcome.tolist() == [outcome]


def test_aborted_episode_is_unfinished_and_masked() -> None:
    recorder = make_recorder(1)
    begin(recorder, [0], [1])
    record(recorder, [0], [2], [5.0])
    recorder.abort()
    begin(recorder, [0], [1])
    record(recorder, [0], [3], [1.0], terminated=[0])
    window = recorder.assign_credit()
    assert window.transitions.outcome.tolist() == [Outcome.UNFINISHED, Outcome.SUCCESS]
    assert window.mask[:, 0].tolist() == [False, True]
    assert window.group_complete[:, 0].tolist() == [False, False]


def play_groups(recorders: list[Recorder], seed: int, steps: int, close_every: int, group_size: int) -> list:
    """Play the same random group episodes in every recorder; the last one closes windows as it goes.

    Returns the last recorder's windows.
    """
    rng = np.random.default_rng(seed)
    num_envs = recorders[0].num_envs
    tickets = iter(range(10**6))
    windows = []

    def start(envs: list[int]) -> None:
        groups = [next(tickets) // group_size for _ in envs]
        for env, group in zip(envs, groups):
            place[env] = 100 * group
        for recorder in recorders:
            begin(recorder, envs, [place[env] for env in envs], groups)

    place = [0] * num_envs
    start(list(range(num_envs)))
    for t in range(steps):
        moves = rng.integers(1, 4, num_envs)
        ends = rng.random(num_envs) < 0.3
        rewards = np.where(ends, rng.integers(0, 2, num_envs), 0).astype(float)
        reached = [place[env] + int(moves[env]) for env in range(num_envs)]
        for recorder in recorders:
            record(
                recorder, moves.tolist(), reached, rewards.tolist(), terminated=np.flatnonzero(ends).tolist()
            )
        place[:] = reached
        if ends.any():
            start(np.flatnonzero(ends).tolist())
        if (t + 1) % close_every == 0:
            windows.append(recorders[-1].assign_credit())
    return windows


@pytest.mark.parametrize("method", [GRPO(), GraphGPO(omega=0.8)])
def test_context_gives_late_members_the_credit_of_one_big_window(method: Any) -> None:
    whole = make_recorder(4, method, group_size=4)
    cut = make_recorder(4, method, group_size=4, max_context_windows=100)
    windows = play_groups([whole, cut], seed=3, steps=60, close_every=4, group_size=4)
    everything = whole.assign_credit()
    compared = 0
    start = 0
    for window in windows:
        stop = start + len(window.advantages)
        late = window.group_complete
        np.testing.assert_allclose(
            window.advantages[late], everything.advantages[start:stop][late], atol=1e-12
        )
        np.testing.assert_array_equal(window.rewards, everything.rewards[start:stop])
        compared += np.count_nonzero(everything.advantages[start:stop][late])
        start = stop
    assert start == 60
    assert compared > 40
    assert (
        sum(window.diagnostics["complete_groups"] for window in windows)
        == everything.diagnostics["complete_groups"]
    )


def test_context_rows_are_never_returned_again() -> None:
    recorder = make_recorder(4, group_size=4)
    windows = play_groups([recorder], seed=5, steps=40, close_every=5, group_size=4)
    context = 0
    for window in windows:
        assert window.advantages.shape == (5, 4)
        assert len(window.transitions) == window.diagnostics["context_steps"] + 20
        assert window.rows.min() == window.diagnostics["context_steps"]
        context += window.diagnostics["context_steps"]
    assert context > 0


def test_memory_is_flat_over_windows() -> None:
    recorder = make_recorder(4, group_size=4)
    sizes = []
    for seed in range(40):
        recorder.abort()
        recorder.abandon_groups()
        offset = 10**6 * seed  # every window has states and groups of its own
        states = [offset, offset, offset, offset]
        labels = [seed] * 4
        recorder.begin(range(4), np.array(states) % 1000, labels)
        for t in range(6):
            reached = [(7 * seed + 4 * t + env) % 1000 for env in range(4)]
            record(recorder, [1, 2, 3, 4], reached, [0.0] * 4)
        recorder.assign_credit()
        sizes.append(
            (
                len(recorder.states),
                len(recorder.actions),
                recorder.num_context_steps,
                len(recorder.ledger.episodes),
                len(recorder.ledger.tasks),
                len(pickle.dumps(recorder)),
            )
        )
    assert max(size[:5] for size in sizes[5:]) == min(size[:5] for size in sizes[5:])
    assert max(size[5] for size in sizes[5:]) < 1.05 * min(size[5] for size in sizes[5:])


def test_an_episode_longer_than_the_bound_loses_its_oldest_rows() -> None:
    recorder = make_recorder(1, max_context_windows=2)
    begin(recorder, [0], [0])
    for window in range(5):
        for t in range(3):
            record(recorder, [1], [3 * window + t + 1], [1.0])
        starts = recorder.episode_starts[:, 0].tolist()
        assert starts == [window == 0, False, False]
        credit = recorder.assign_credit(unfinished="graph")
        kept = min(window, 2) * 3 + 3
        assert credit.transitions.step.tolist() == list(range(kept))
        assert credit.transitions.state_labels[credit.transitions.state[0]] == 3 * window + 3 - kept
    record(recorder, [1], [16], [-20.0], terminated=[0])
    last = recorder.assign_credit()
    assert last.transitions.outcome.tolist() == [Outcome.FAILURE]


def test_inference_counts_the_rows_that_were_dropped() -> None:
    recorder = make_recorder(1, max_context_windows=1)
    begin(recorder, [0], [0])
    for window in range(4):
        record(recorder, [1], [window + 1], [5.0 if window == 0 else 0.0])
        recorder.assign_credit()
    record(recorder, [1], [9], [0.0], terminated=[0])
    last = recorder.assign_credit()
    assert last.transitions.reward.tolist() == [0.0, 0.0]
    assert last.transitions.outcome.tolist() == [Outcome.SUCCESS]
    assert last.diagnostics["success_rate"] == 1.0
    assert last.diagnostics["outcome_return"] == 5.0


def test_a_finished_episode_of_an_open_task_leaves_the_context_as_a_whole() -> None:
    recorder = make_recorder(2, max_context_windows=2)
    begin(recorder, [0, 1], [0, 0], ["task", "task"])
    record(recorder, [1, 1], [1, 101], [0.0, 0.0])
    recorder.assign_credit()
    record(recorder, [1, 1], [2, 102], [1.0, 0.0], terminated=[0])
    begin(recorder, [0], [50], ["other"])
    recorder.assign_credit()
    episodes = []
    for t in range(3):
        record(recorder, [1, 1], [51 + t, 103 + t], [0.0, 0.0])
        transitions = recorder.assign_credit().transitions
        episodes.append(sorted(set(np.asarray(transitions.episode_labels).tolist())))
    assert episodes == [[0, 1, 2], [1, 2], [1, 2]]


def test_success_rate_is_over_complete_groups() -> None:
    recorder = make_recorder(2, group_size=2)
    begin(recorder, [0, 1], [0, 0], [0, 0])
    record(recorder, [1, 1], [1, 2], [1.0, 0.0], terminated=[0])
    begin(recorder, [0], [5], [1])
    window = recorder.assign_credit()
    assert np.isnan(window.diagnostics["success_rate"])
    assert np.isnan(window.diagnostics["outcome_return"])
    record(recorder, [1, 1], [6, 3], [0.0, -2.0], terminated=[1])
    begin(recorder, [1], [5], [1])
    window = recorder.assign_credit()
    assert window.diagnostics["complete_groups"] == 1
    assert window.diagnostics["success_rate"] == 0.5
    assert window.diagnostics["outcome_return"] == -0.5


def test_unscored_episodes_complete_a_group_but_count_in_no_rate() -> None:
    recorder = make_recorder(2, group_size=2)
    begin(recorder, [0, 1], [0, 0], [0, 0])
    record(recorder, [1, 1], [1, 2], [1.0, np.nan], terminated=[0, 1])
    window = recorder.assign_credit()
    assert window.group_complete.all()
    assert window.diagnostics["success_rate"] == 1.0


def test_abandoned_groups_leave_the_context() -> None:
    recorder = make_recorder(2, group_size=4)
    begin(recorder, [0, 1], [0, 0], [0, 0])
    record(recorder, [1, 1], [1, 2], [1.0, 0.0])
    recorder.assign_credit()
    assert recorder.num_context_steps == 2
    recorder.abort()
    recorder.abandon_groups()
    begin(recorder, [0, 1], [7, 7], [1, 1])
    record(recorder, [1, 1], [8, 9], [1.0, 0.0])
    window = recorder.assign_credit()
    assert window.diagnostics["context_steps"] == 0
    assert recorder.num_context_steps == 2


def test_an_open_group_without_a_step_in_the_window_stays_in_the_context() -> None:
    recorder = make_recorder(1, group_size=2)
    begin(recorder, [0], [0], ["waits"])
    record(recorder, [1], [1], [1.0], terminated=[0])
    recorder.assign_credit()
    begin(recorder, [0], [5], ["other"])
    record(recorder, [1], [6], [0.0], terminated=[0])
    assert recorder.assign_credit().diagnostics["context_steps"] == 0
    begin(recorder, [0], [0], ["waits"])
    record(recorder, [1], [2], [0.0], terminated=[0])
    window = recorder.assign_credit()
    assert window.diagnostics["context_steps"] == 1
    assert window.group_complete.tolist() == [[True]]
    np.testing.assert_allclose(window.advantages, [[-np.sqrt(0.5)]])


def test_nothing_is_lost_when_the_method_fails() -> None:
    calls = []

    def fails(transitions: Transitions) -> Any:
        calls.append(len(transitions))
        if len(calls) == 1:
            raise ArithmeticError("no credit today")
        return GRPO()(transitions)

    recorder = make_recorder(2, fails, group_size=2)
    twin = make_recorder(2, group_size=2)
    for each in (recorder, twin):
        begin(each, [0, 1], [0, 0], [0, 0])
        record(each, [1, 2], [1, 2], [1.0, 0.0], terminated=[0, 1])
    with pytest.raises(ArithmeticError, match="no credit today"):
        recorder.assign_credit()
    for each in (recorder, twin):
        begin(each, [0, 1], [0, 0], [1, 1])
        record(each, [1, 2], [1, 2], [1.0, 0.0])
    expected = twin.assign_credit()
    window = recorder.assign_credit()
    assert calls == [2, 4]
    np.testing.assert_array_equal(window.advantages, expected.advantages)
    np.testing.assert_array_equal(window.mask, expected.mask)
    assert columns(window.transitions) == columns(expected.transitions)


def test_bad_arguments_change_nothing() -> None:
    with pytest.raises(ValueError, match="max_context_windows must be at least 1, got 0"):
        make_recorder(1, max_context_windows=0)
    recorder = make_recorder(1)
    begin(recorder, [0], [0])
    record(recorder, [1], [1], [1.0], terminated=[0])
    with pytest.raises(ValueError, match="unfinished must be 'mask' or 'graph', got 'drop'"):
        recorder.assign_credit("drop")
    assert recorder.assign_credit().rewards.tolist() == [[1.0]]


def test_a_step_needs_a_running_episode_in_every_environment() -> None:
    recorder = make_recorder(2)
    begin(recorder, [0], [0])
    with pytest.raises(RuntimeError, match="env 1 has none: reset first"):
        record(recorder, [1, 1], [1, 1], [0.0, 0.0])
    assert recorder.num_steps == 0
    assert not recorder.is_recording


def test_members_that_start_differently_are_named() -> None:
    recorder = make_recorder(4, group_size=2)
    with pytest.raises(
        ValueError, match=r"of group 'b' member 0 \(env 2\) starts in 3 and member 1 \(env 3\) in 4"
    ):
        begin(recorder, [0, 1, 2, 3], [1, 1, 3, 4], ["a", "a", "b", "b"])
    assert not len(recorder.ledger.episodes)
    begin(recorder, [0], [1], ["a"])
    with pytest.raises(
        ValueError, match=r"group 'a' member 0 \(env 0\) starts in 1 and member 1 \(env 1\) in 2"
    ):
        begin(recorder, [1], [2], ["a"])


def test_start_states_are_remembered_over_windows() -> None:
    recorder = make_recorder(2, group_size=2)
    begin(recorder, [0, 1], [0, 1], ["x", "y"])
    for window in range(3):
        record(recorder, [1, 1], [10 + window, 20 + window], [0.0, 0.0])
        recorder.assign_credit()
    record(recorder, [1, 1], [30, 40], [1.0, 0.0], terminated=[0])
    begin(recorder, [0], [1], ["y"])
    record(recorder, [1, 1], [31, 41], [1.0, 0.0], terminated=[0])
    with pytest.raises(
        ValueError, match=r"group 'x' member 0 \(env 0\) starts in 0 and member 1 \(env 0\) in 9"
    ):
        begin(recorder, [0], [9], ["x"])


def test_a_reset_between_windows_closes_the_tasks_it_breaks_off() -> None:
    recorder = make_recorder(1)
    begin(recorder, [0], [7])
    record(recorder, [1], [8], [0.0])
    recorder.assign_credit()
    recorder.abort()
    begin(recorder, [0], [7])
    record(recorder, [1], [9], [1.0], terminated=[0])
    window = recorder.assign_credit()
    assert window.diagnostics["context_steps"] == 0
    assert window.group_complete.tolist() == [[True]]
    assert len(window.transitions) == 1


def test_tasks_by_start_state_survive_windows() -> None:
    recorder = make_recorder(2)
    begin(recorder, [0, 1], [7, 3])
    record(recorder, [1, 1], [8, 4], [0.0, 0.0])
    recorder.assign_credit()
    record(recorder, [1, 1], [9, 5], [1.0, 0.0], terminated=[0])
    begin(recorder, [0], [3])  # joins the task of env 1
    record(recorder, [2, 1], [6, 6], [0.0, 1.0], terminated=[0, 1])
    window = recorder.assign_credit()
    assert np.unique(window.transitions.task).size == 2
    assert {(row[0], row[1]) for row in columns(window.transitions)} == {(7, 0), (3, 1), (3, 2)}
    assert window.diagnostics["complete_groups"] == 2
    assert window.diagnostics["success_rate"] == pytest.approx(2 / 3)


def test_drop_window_forgets_steps_but_no_running_episode() -> None:
    recorder = make_recorder(1)
    begin(recorder, [0], [0])
    record(recorder, [1], [1], [1.0], terminated=[0])
    begin(recorder, [0], [5])
    record(recorder, [1], [6], [0.0])
    recorder.drop_window()
    assert recorder.num_steps == 0
    record(recorder, [1], [7], [2.0], terminated=[0])
    window = recorder.assign_credit()
    assert columns(window.transitions) == [
        (5, 1, 0, 5, 1, 6, 0.0, False, False),
        (5, 1, 1, 6, 1, 7, 2.0, True, False),
    ]
    assert window.rewards.tolist() == [[2.0]]


def test_an_empty_window() -> None:
    recorder = make_recorder(3)
    begin(recorder, [0, 1, 2], [0, 0, 0])
    window = recorder.assign_credit()
    assert window.advantages.shape == window.mask.shape == (0, 3)
    record(recorder, [1, 1, 1], [1, 2, 3], [0.0] * 3)
    assert recorder.assign_credit().advantages.shape == (1, 3)


def test_empty_windows_age_nothing() -> None:
    recorder = make_recorder(1, max_context_windows=1)
    begin(recorder, [0], [0])
    record(recorder, [1], [1], [0.0])
    for _ in range(3):
        recorder.assign_credit()
    record(recorder, [1], [2], [1.0], terminated=[0])
    window = recorder.assign_credit()
    assert window.transitions.step.tolist() == [0, 1]
    assert recorder.num_context_steps == 0


def test_many_steps_grow_the_columns() -> None:
    recorder = make_recorder(2)
    begin(recorder, [0, 1], [0, 500])
    for t in range(300):
        record(recorder, [t % 10, 1], [t + 1, 501 + t % 400], [float(t), 0.0])
    window = recorder.assign_credit("graph")
    np.testing.assert_array_equal(window.rewards[:, 0], np.arange(300.0))
    first = window.transitions
    assert [first.state_labels[i] for i in first.next_state[window.rows[:, 0]]] == list(range(1, 301))


def test_results_are_read_only_copies() -> None:
    recorder = make_recorder(1)
    begin(recorder, [0], [0])
    rewards, flags = np.array([1.0]), np.array([True])
    recorder.record(
        np.array([1]),
        np.array([2]),
        rewards,
        flags,
        np.array([False]),
        [0],
        [None],
    )
    rewards[:], flags[:] = 99.0, False
    window = recorder.assign_credit()
    assert window.rewards.tolist() == [[1.0]]
    assert window.transitions.terminated.tolist() == [True]
    begin(recorder, [0], [0])
    record(recorder, [1], [3], [7.0])
    assert window.rewards.tolist() == [[1.0]]
    for name in ("advantages", "rewards", "mask", "is_step", "episode_finished", "group_complete", "rows"):
        assert not getattr(window, name).flags.writeable
    with pytest.raises(AttributeError):
        window.mask = None  # type: ignore[misc]


def test_a_pickled_recorder_goes_on_alike() -> None:
    recorder = make_recorder(4, group_size=4)
    play_groups([recorder], seed=1, steps=7, close_every=3, group_size=4)
    twin = pickle.loads(pickle.dumps(recorder))
    for each in (recorder, twin):
        record(each, [1, 2, 3, 4], [901, 902, 903, 904], [0.0, 1.0, 0.0, 1.0], terminated=[0, 1, 2, 3])
    one, other = recorder.assign_credit(), twin.assign_credit()
    assert columns(one.transitions) == columns(other.transitions)
    np.testing.assert_array_equal(one.advantages, other.advantages)


def test_any_callable_can_be_the_method() -> None:
    def by_reward(transitions: Transitions) -> Any:
        return SimpleNamespace(advantages=2 * transitions.reward, diagnostics={"mine": 1.0}, seconds=0.0)

    recorder = make_recorder(2, by_reward)
    begin(recorder, [0, 1], [0, 1])
    record(recorder, [1, 1], [2, 3], [0.25, -1.0])
    window = recorder.assign_credit()
    assert window.advantages.tolist() == [[0.5, -2.0]]
    assert window.diagnostics["mine"] == 1.0
    assert window.diagnostics["trainable_share"] == 0.0


def test_a_task_that_stays_open_takes_no_more_memory() -> None:
    recorder = make_recorder(2)
    begin(recorder, [0, 1], [0, 0], ["single", "single"])
    sizes = []
    for _ in range(30):
        for _ in range(20):
            record(recorder, [1, 1], [1, 1], [1.0, 0.0], terminated=[0])
            begin(recorder, [0], [0], ["single"])
        recorder.assign_credit()
        sizes.append(len(pickle.dumps(recorder.ledger)))
    assert max(sizes[20:]) < 1.05 * min(sizes[20:])


def test_a_window_that_nobody_closes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphwrap.recording.steps.MANY_ROWS", 128)
    recorder = make_recorder(2)
    begin(recorder, [0, 1], [0, 0])
    for _ in range(64):
        record(recorder, [1, 1], [1, 1], [0.0, 0.0])
    with pytest.warns(UserWarning, match=r"128 steps wait for assign_credit\(\)"):
        record(recorder, [1, 1], [1, 1], [0.0, 0.0])
