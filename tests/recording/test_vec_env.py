from __future__ import annotations

import itertools
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecCheckNan,
    VecEnv,
    VecExtractDictObs,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
)

import graphwrap
from graphwrap.recording.env_wrapper import SeededReset
from graphwrap.recording.vec_env import CreditVecEnv
from graphwrap.transitions import Outcome, Transitions
from tests.helpers import Line, line_vec, places


def roll(venv: Any, steps: int, seed: int) -> list[tuple]:
    """Reset and play random actions; returns (observations, rewards, dones, infos) of each step."""
    rng = np.random.default_rng(seed)
    venv.seed(seed)
    played: list[tuple] = [(venv.reset(), None, None, None)]
    for _ in range(steps):
        played.append(venv.step(rng.integers(0, 2, venv.num_envs)))
    return played


def assert_same_transitions(one: Transitions, other: Transitions, rtol: float = 0.0) -> None:
    for name in (
        "task",
        "episode",
        "step",
        "state",
        "next_state",
        "action",
        "terminated",
        "truncated",
        "outcome",
    ):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_allclose(one.reward, other.reward, rtol=rtol, atol=0.0)
    for name in ("task_labels", "state_labels", "action_labels"):
        np.testing.assert_array_equal(
            np.array(getattr(one, name)), np.array(getattr(other, name)), err_msg=name
        )


def test_what_the_learner_sees_stays_as_it_was() -> None:
    plain = roll(line_vec(4, flags=True), 40, seed=3)
    wrapped = roll(graphwrap.wrap(line_vec(4, flags=True)), 40, seed=3)
    for one, other in zip(plain, wrapped):
        np.testing.assert_array_equal(one[0], other[0])
        if one[1] is None:
            continue
        np.testing.assert_array_equal(one[1], other[1])
        np.testing.assert_array_equal(one[2], other[2])
        assert one[1].dtype == other[1].dtype
        for info, same in zip(one[3], other[3]):
            info, same = dict(info), dict(same)
            for each in (info, same):
                each.pop("episode", None)  # holds the time
            np.testing.assert_array_equal(
                info.pop("terminal_observation", 0), same.pop("terminal_observation", 0)
            )
            assert info == same


def test_spaces_and_attributes_stay() -> None:
    inner = line_vec(2, render_mode="rgb_array")
    venv = graphwrap.wrap(inner)
    assert isinstance(venv, CreditVecEnv)
    assert venv.observation_space == inner.observation_space
    assert venv.action_space == inner.action_space
    assert venv.render_mode == "rgb_array"
    assert venv.get_attr("limit") == [6, 6]
    assert venv.env_is_wrapped(Monitor) == [True, True]
    venv.reset()
    assert venv.render().shape == (32, 16, 3)
    assert VecMonitor(line_vec(2)).venv is not None
    assert VecNormalize(venv).assign_credit == venv.assign_credit


def test_final_states_come_before_the_reset() -> None:
    venv = graphwrap.wrap(line_vec(3))
    played = roll(venv, 30, seed=0)
    window = venv.assign_credit("graph")
    t = window.transitions
    for step, (before, after) in enumerate(itertools.pairwise(played)):
        observations, rewards, dones, infos = after
        for env in range(3):
            row = window.rows[step, env]
            final = infos[env]["terminal_observation"] if dones[env] else observations[env]
            np.testing.assert_array_equal(t.state_labels[t.state[row]], before[0][env])
            np.testing.assert_array_equal(t.state_labels[t.next_state[row]], final)
            assert window.rewards[step, env] == rewards[env]
            assert t.truncated[row] == infos[env]["TimeLimit.truncated"]
            assert t.terminated[row] == (dones[env] and not infos[env]["TimeLimit.truncated"])
    assert t.terminated.any()
    assert t.truncated.any()
    assert np.count_nonzero(t.terminated | t.truncated) == sum(int(step[2].sum()) for step in played[1:])


@pytest.mark.parametrize("options", [{}, {"group_size": 4}, {"group_size": 2, "member_noise": True}])
def test_dummy_and_subproc_record_the_same(options: dict) -> None:
    settings = {"slip": 0.3, "flags": True, "length": 9, "limit": 5}
    credits = []
    for kind in (DummyVecEnv, SubprocVecEnv):
        venv = graphwrap.wrap(line_vec(4, vec_env_cls=kind, **settings), **options)
        played = roll(venv, 40, seed=5)
        credits.append((venv.assign_credit(), np.stack([step[0] for step in played])))
        venv.close()
    (one, seen), (other, same) = credits
    np.testing.assert_array_equal(seen, same)
    assert_same_transitions(one.transitions, other.transitions)
    np.testing.assert_array_equal(one.advantages, other.advantages)
    np.testing.assert_array_equal(one.mask, other.mask)
    np.testing.assert_array_equal(one.group_complete, other.group_complete)


def test_a_single_env_equals_a_vec_env_of_one() -> None:
    settings = {"length": 9, "limit": 5}
    venv = graphwrap.wrap(line_vec(1, **settings))
    rng = np.random.default_rng(1)
    actions = rng.integers(0, 2, 40)
    venv.seed(6)
    venv.reset()
    for action in actions:
        venv.step(np.array([action]))
    env = graphwrap.wrap(Line(**settings))
    env.reset(seed=6)
    for action in actions:
        if (step := env.step(int(action)))[2] or step[3]:
            env.reset()
    one, other = env.assign_credit(), venv.assign_credit()
    assert_same_transitions(one.transitions, other.transitions, rtol=1e-7)
    np.testing.assert_allclose(one.advantages, other.advantages[:, 0], atol=1e-6)
    np.testing.assert_array_equal(one.mask, other.mask[:, 0])


def test_dict_observations() -> None:
    venv = graphwrap.wrap(line_vec(4, observations="dict"), group_size=2)
    played = roll(venv, 25, seed=2)
    window = venv.assign_credit("graph")
    t = window.transitions
    for step, (before, after) in enumerate(itertools.pairwise(played)):
        for env in range(4):
            row = window.rows[step, env]
            final = after[3][env]["terminal_observation"] if after[2][env] else None
            label, reached = t.state_labels[t.state[row]], t.state_labels[t.next_state[row]]
            assert label["place"] == before[0]["place"][env]
            np.testing.assert_array_equal(label["pair"], before[0]["pair"][env])
            place = after[0]["place"][env] if final is None else final["place"]
            assert reached["place"] == place


@pytest.mark.parametrize("kind", [DummyVecEnv, SubprocVecEnv])
@pytest.mark.parametrize("wrapper_class", [None, SeededReset])
def test_tickets_give_groups_their_starts(kind: Any, wrapper_class: Any) -> None:
    venv = graphwrap.wrap(
        line_vec(4, length=400, limit=3, vec_env_cls=kind, wrapper_class=wrapper_class), group_size=2
    )
    played = roll(venv, 9, seed=8)
    resets = venv.get_attr("resets")
    levels = [
        Line(length=400).reset(seed=int(np.random.SeedSequence([8, group]).generate_state(1)[0]))[1]["level"]
        for group in range(8)
    ]
    for round_, step in enumerate((0, 3, 6, 9)):
        expected = [levels[2 * round_], levels[2 * round_], levels[2 * round_ + 1], levels[2 * round_ + 1]]
        assert places(played[step][0]).tolist() == expected
    assert [info["level"] for info in venv.reset_infos] == levels[6:7] * 2 + levels[7:8] * 2
    window = venv.assign_credit()
    t = window.transitions
    assert list(map(int, t.task_labels)) == [0, 1, 2, 3, 4, 5]
    assert window.group_complete.all()
    for row in np.flatnonzero(t.step == 0):
        assert t.state_labels[t.state[row]][0] == levels[int(t.task_labels[t.task[row]])]
    assert resets == [4 if wrapper_class else 7] * 4
    venv.close()


def test_the_next_free_env_takes_the_next_ticket() -> None:
    venv = graphwrap.wrap(line_vec(4, length=5, limit=9), group_size=4)  # all start at 2
    venv.seed(0)
    venv.reset()
    venv.step(np.array([1, 1, 0, 1]))
    _, _, dones, _ = venv.step(np.array([0, 1, 1, 1]))
    assert dones.tolist() == [False, True, False, True]
    window = venv.assign_credit("graph")
    venv.step(np.array([1, 1, 1, 1]))
    later = venv.assign_credit("graph")
    assert len(window.transitions.task_labels) == 1
    groups = [int(later.transitions.task_labels[later.transitions.task[row]]) for row in later.rows[0]]
    assert groups == [0, 1, 0, 1]


def test_reset_abandons_open_groups() -> None:
    venv = graphwrap.wrap(line_vec(4, length=400, limit=3), group_size=4)
    venv.seed(1)
    starts = [places(venv.reset())]
    venv.step(np.ones(4, int))
    starts.append(places(venv.reset()))
    for _ in range(3):
        observations = venv.step(np.ones(4, int))[0]
    starts.append(places(observations))
    window = venv.assign_credit()
    assert [int(label) for label in window.transitions.task_labels] == [0, 1]
    assert window.mask.tolist() == [[False] * 4] + [[True] * 4] * 3
    assert window.group_complete.tolist() == window.mask.tolist()
    assert all(len(set(start.tolist())) == 1 for start in starts)
    assert len({int(start[0]) for start in starts}) == 3
    assert window.diagnostics["complete_groups"] == 1


def test_reset_leaves_no_group_waiting() -> None:
    venv = graphwrap.wrap(line_vec(4, length=5, limit=9), group_size=4)  # all start at 2
    venv.seed(0)
    venv.reset()
    venv.step(np.array([1, 0, 0, 1]))
    venv.step(np.array([1, 1, 1, 0]))
    venv.assign_credit()
    assert sorted(venv.recorder.ledger.labels) == [0, 1]
    assert venv.recorder.num_context_steps == 8
    venv.reset()
    assert venv.recorder.num_context_steps == 0
    assert venv.recorder.ledger.labels == [2]


def test_seed_begins_the_same_groups_again() -> None:
    venv = graphwrap.wrap(line_vec(4, length=400, limit=3), group_size=2)
    first, second = (np.stack([step[0] for step in roll(venv, 12, seed=4)]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other = np.stack([step[0] for step in roll(venv, 12, seed=5)])
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("member_noise", [False, True])
def test_member_noise(member_noise: bool) -> None:
    walks = []
    for _ in range(2):
        venv = graphwrap.wrap(
            line_vec(4, length=400, limit=30, slip=0.5), group_size=2, member_noise=member_noise
        )
        venv.seed(2)
        walk = [venv.reset()] + [venv.step(np.ones(4, int))[0] for _ in range(55)]
        walks.append(np.stack([places(step) for step in walk]))
    np.testing.assert_array_equal(walks[0], walks[1])
    first, second = (
        walks[0][:30],
        walks[0][30:],
    )  # all end at the limit, so the second half is of the next tickets
    for part in (first, second):
        assert (part[0, 0], part[0, 2]) == (part[0, 1], part[0, 3])
        assert np.array_equal(part[:, 0], part[:, 1]) is not member_noise
        assert np.array_equal(part[:, 2], part[:, 3]) is not member_noise


def test_slippery_frozen_lake_members_share_their_noise_unless_told() -> None:
    for member_noise in (False, True):
        venv = graphwrap.wrap(
            make_vec_env("FrozenLake-v1", n_envs=4), group_size=4, member_noise=member_noise
        )
        venv.seed(0)
        venv.reset()
        walk = np.stack([venv.step(np.full(4, 2))[0] for _ in range(4)])
        assert (len(set(map(tuple, walk.T))) == 1) is not member_noise


def test_members_that_start_differently_are_named() -> None:
    class Own(Line):
        made = 0

        def __init__(self) -> None:
            super().__init__(length=50)
            Own.made += 1
            self.number = Own.made

        def reset(self, **kwargs: Any) -> Any:
            super().reset(**kwargs)
            self.place = 10 + (self.number > 3)
            return self._observation(), {}

    venv = graphwrap.wrap(DummyVecEnv([Own] * 4), group_size=2)
    with pytest.raises(
        ValueError, match=r"of group 1 member 0 \(env 2\) starts in array.*10.* and member 1 \(env 3\)"
    ):
        venv.reset()
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        venv.step(np.ones(4, int))


def test_an_error_in_step_loses_nothing() -> None:
    venv = graphwrap.wrap(line_vec(3, fails_at=2))
    venv.seed(0)
    venv.reset()
    for _ in range(2):
        venv.step(np.array([1, 0, 1]))
    with pytest.raises(RuntimeError, match="the simulator crashed"):
        venv.step(np.ones(3, int))
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        venv.step(np.ones(3, int))
    for env in venv.unwrapped.envs:
        env.unwrapped.fails_at = -1
    venv.reset()
    venv.step(np.ones(3, int))
    window = venv.assign_credit("graph")
    assert window.rewards.shape == (3, 3)
    assert window.transitions.num_episodes == 6
    assert (window.transitions.outcome == Outcome.UNFINISHED).any()


def test_tasks_from_reset_infos() -> None:
    venv = graphwrap.wrap(line_vec(3, limit=2), task="level")
    played = roll(venv, 6, seed=1)
    window = venv.assign_credit()
    t = window.transitions
    for step in (0, 2, 4):
        levels = places(played[step][0])
        assert [t.task_labels[t.task[row]] for row in window.rows[step]] == levels.tolist()


def test_task_and_state_functions() -> None:
    asked: list[tuple] = []

    def state(observation: Any, info: dict) -> Any:
        asked.append((int(observation[0]), sorted(set(info) & {"level", "place"})))
        return int(observation[0])

    venv = graphwrap.wrap(
        line_vec(2, limit=1), task=lambda obs, info: (int(obs[0]), info["level"]), state=state
    )
    venv.seed(0)
    start = places(venv.reset())
    after = places(venv.step(np.array([1, 0]))[0])
    t = venv.assign_credit().transitions
    assert list(t.task_labels) == [(level, level) for level in dict.fromkeys(start.tolist())]
    assert [t.state_labels[i] for i in t.state] == start.tolist()
    assert [t.state_labels[i] for i in t.next_state] == [start[0] + 1, start[1] - 1]
    first = [(int(place), ["level"]) for place in start]
    then = [(int(place), ["level"]) for place in after]
    final = [(int(start[0]) + 1, ["place"]), (int(start[1]) - 1, ["place"])]
    assert asked == first + final + then


def test_functions_cannot_change_what_the_learner_sees() -> None:
    def spoils(observation: Any, info: dict) -> int:
        value = int(observation[0])
        observation[:] = -1
        return value

    venv = graphwrap.wrap(line_vec(2), state=spoils, task=spoils)
    assert (venv.reset() >= 0).all()
    assert (venv.step(np.array([1, 1]))[0] >= 0).all()


def test_actions_are_recorded_as_they_were_sent() -> None:
    venv = graphwrap.wrap(line_vec(2, actions="multidiscrete"))
    venv.reset()
    actions = np.array([[1, 2], [0, 1]])
    venv.step_async(actions)
    actions[:] = 0
    venv.step_wait()
    t = venv.assign_credit("graph").transitions
    assert [t.action_labels[i].tolist() for i in t.action] == [[1, 2], [0, 1]]


@pytest.mark.parametrize(
    ("actions", "sent"),
    [("discrete", [1, 0, 1]), ("binary", [[1, 0], [0, 0], [1, 0]]), ("box", [[0.5], [-0.5], [0.5]])],
)
def test_action_spaces(actions: str, sent: list) -> None:
    venv = graphwrap.wrap(line_vec(3, actions=actions))
    venv.reset()
    venv.step(np.array(sent))
    assert venv.assign_credit("graph").transitions.action.tolist() == [0, 1, 0]


def test_monitors_inside_and_wrappers_outside() -> None:
    inner = VecMonitor(
        VecCheckNan(
            DummyVecEnv([lambda: Line(limit=3, length=50)] * 1 + [lambda: Line(limit=3, length=50)] * 3)
        )
    )
    venv = VecFrameStack(VecNormalize(graphwrap.wrap(inner, group_size=2)), 2)
    venv.seed(0)
    venv.reset()
    for _ in range(3):
        _, _, dones, infos = venv.step(np.ones(4, int))
    assert dones.all()
    assert [info["episode"]["l"] for info in infos] == [3] * 4
    window = venv.assign_credit()
    t = window.transitions
    np.testing.assert_allclose(window.rewards, -0.1, atol=1e-7)  # raw, though normalised outside
    assert t.state_labels[0].shape == (2,)


def test_frame_stack_inside_without_groups() -> None:
    venv = graphwrap.wrap(VecFrameStack(line_vec(2, limit=2), 2))
    venv.reset()
    for _ in range(4):
        venv.step(np.ones(2, int))
    t = venv.assign_credit("graph").transitions
    assert t.state_labels[0].shape == (4,)
    assert t.num_episodes == 6 - 2


def test_image_transpose_inside_without_groups() -> None:
    venv = graphwrap.wrap(VecTransposeImage(line_vec(2, observations="image", limit=2)))
    roll(venv, 4, seed=0)
    assert venv.assign_credit("graph").transitions.state_labels[0].shape == (3, 36, 36)


def stack(venv: Any) -> Any:
    return VecFrameStack(venv, 2)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: VecNormalize(line_vec(4)), {}, r"VecNormalize\(graphwrap.wrap\(venv, ...\)\)"),
        (
            lambda: VecMonitor(VecNormalize(line_vec(4))),
            {},
            "VecNormalize inside graphwrap.wrap lets equal states",
        ),
        (
            lambda: stack(line_vec(4)),
            {"group_size": 2},
            r"wrap first, then add it: VecFrameStack\(graphwrap.wrap\(venv, group_size=2\), ...\)",
        ),
        (
            lambda: VecTransposeImage(line_vec(4, observations="image")),
            {"group_size": 2},
            "VecTransposeImage inside graphwrap.wrap",
        ),
        (
            lambda: VecExtractDictObs(line_vec(4, observations="dict"), "pair"),
            {"group_size": 2},
            "VecExtractDictObs inside graphwrap.wrap",
        ),
        (
            lambda: line_vec(6),
            {"group_size": 4},
            r"num_envs must be a multiple of group_size.* got 6 and 4; take 4 or 8 environments",
        ),
        (lambda: line_vec(2), {"group_size": 8}, "got 2 and 8; take 8 environments"),
        (lambda: graphwrap.wrap(line_vec(2)), {}, "wrapped by graphwrap.wrap already"),
        (
            lambda: DummyVecEnv([lambda: Monitor(Line(), allow_early_resets=False) for _ in range(2)]),
            {"group_size": 2},
            r"Monitor\(allow_early_resets=False\) refuses the second reset",
        ),
        (lambda: line_vec(2), {"group_size": 2, "task": "level"}, "the task of an episode is its group"),
        (lambda: line_vec(2), {"credit": "nothing"}, "nothing"),
    ],
)
def test_what_is_refused(make: Any, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        graphwrap.wrap(make(), **options)


@pytest.mark.parametrize("group_size", [None, 2])
def test_seed_takes_one_number(group_size: int | None) -> None:
    venv = graphwrap.wrap(line_vec(2), group_size=group_size)
    with pytest.raises(TypeError, match=r"seed must be one whole number .* got \[1, 2\]"):
        venv.seed([1, 2])
    assert list(venv.seed(5)) == ([5, 6] if group_size is None else [5, 5])
    assert len(list(venv.seed())) == 2


def test_early_resets_without_groups_are_not_needed() -> None:
    venv = graphwrap.wrap(DummyVecEnv([lambda: Monitor(Line(limit=2), allow_early_resets=False)]))
    venv.reset()
    for _ in range(4):
        venv.step(np.ones(1, int))
    assert venv.assign_credit().transitions.num_episodes >= 2


def test_another_kind_of_vec_env() -> None:
    class Sliced(DummyVecEnv):
        """Hands on its buffers, as a VecEnv of one's own may."""

        def _obs_from_buf(self) -> Any:
            return self.buf_obs[None]

    venv = graphwrap.wrap(Sliced([lambda: Line(limit=2, length=400) for _ in range(2)]), group_size=2)
    played = [np.array(step[0]) for step in roll(venv, 4, seed=1)]
    window = venv.assign_credit()
    t = window.transitions
    assert [t.state_labels[t.state[row]][0] for row in window.rows[2]] == places(played[2]).tolist()
    assert len(set(places(played[2]).tolist())) == 1


class Relay(VecEnv):
    """A VecEnv that is neither Dummy nor Subproc, and knows no seeds."""

    def __init__(self, inner: VecEnv) -> None:
        self.inner = inner
        super().__init__(inner.num_envs, inner.observation_space, inner.action_space)

    def reset(self) -> Any:
        observations = self.inner.reset()
        self.reset_infos = self.inner.reset_infos
        return observations

    def step_async(self, actions: Any) -> None:
        self.inner.step_async(actions)

    def step_wait(self) -> Any:
        return self.inner.step_wait()

    def close(self) -> None:
        self.inner.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list:
        return self.inner.get_attr(attr_name, indices)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        self.inner.set_attr(attr_name, value, indices)

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **named: Any) -> list:
        return self.inner.env_method(method_name, *arguments, indices=indices, **named)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return self.inner.env_is_wrapped(wrapper_class, indices)


@pytest.mark.parametrize("observations", ["box", "dict"])
def test_any_vec_env_gets_the_same_groups(observations: str) -> None:
    settings = {"length": 30, "limit": 4, "slip": 0.2, "observations": observations}
    credits = []
    for relay in (False, True):
        inner = line_vec(4, **settings)
        venv = graphwrap.wrap(Relay(inner) if relay else inner, group_size=2, member_noise=True)
        roll(venv, 20, seed=3)
        credits.append(venv.assign_credit())
    one, other = credits
    np.testing.assert_array_equal(one.advantages, other.advantages)
    np.testing.assert_array_equal(one.transitions.state, other.transitions.state)
    np.testing.assert_array_equal(one.transitions.next_state, other.transitions.next_state)


@pytest.mark.parametrize("wrapper_class", [None, SeededReset])
def test_a_window_known_to_end_in_a_reset_saves_its_last_seeded_resets(wrapper_class: Any) -> None:
    venv = graphwrap.wrap(line_vec(2, length=400, limit=3, wrapper_class=wrapper_class), group_size=2)
    venv.seed(1)
    venv.reset()
    venv.resets_after = 6
    for _ in range(6):
        venv.step(np.ones(2, int))
    auto = 0 if wrapper_class else 2
    assert venv.get_attr("resets") == [2 + auto] * 2
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        venv.step(np.ones(2, int))
    window = venv.assign_credit()
    assert window.mask.all()
    assert window.group_complete.all()
    assert window.transitions.num_tasks == 2
    assert len(set(places(venv.reset()).tolist())) == 1
    for _ in range(7):
        venv.step(np.ones(2, int))
    assert venv.get_attr("resets") == [3 + auto + 2 * (1 if wrapper_class else 2)] * 2


def test_stepping_before_reset() -> None:
    venv = graphwrap.wrap(gymnasium_vec())
    venv.venv.reset()
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        venv.step(np.zeros(2, int))


def gymnasium_vec() -> Any:
    return DummyVecEnv([lambda: gymnasium.make("CartPole-v1") for _ in range(2)])


def test_pickle_goes_on_alike() -> None:
    venv = graphwrap.wrap(DummyVecEnv([Line] * 2), group_size=2)
    venv.seed(3)
    venv.reset()
    venv.step(np.array([1, 0]))
    twin = pickle.loads(pickle.dumps(venv))
    for _ in range(4):
        np.testing.assert_array_equal(twin.step(np.array([1, 0]))[0], venv.step(np.array([1, 0]))[0])
    assert_same_transitions(twin.assign_credit().transitions, venv.assign_credit().transitions)


def test_wrapped_sub_environments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sub-environments are wrapped by graphwrap\.wrap already"):
        graphwrap.wrap(make_vec_env(Line, 2, wrapper_class=graphwrap.wrap))
