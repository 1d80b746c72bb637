from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordEpisodeStatistics, RecordVideo, TimeLimit
from stable_baselines3.common.env_checker import check_env as sb3_check_env

import graphwrap
from graphwrap.methods import GraphGPO
from graphwrap.recording.env_wrapper import CreditEnv, SeededReset
from graphwrap.recording.tickets import Tickets
from graphwrap.transitions import Outcome
from tests.helpers import Line


def play(env: Any, actions: list[int], seed: int | None = None) -> list[tuple]:
    """Play one episode of a line, or its beginning; returns the steps."""
    env.reset(seed=seed)
    return [env.step(action) for action in actions]


def to_top(env: Any) -> None:
    """Play on until the line's upper end."""
    terminated = False
    while not terminated:
        terminated = env.step(1)[2]


def test_records_what_the_env_did() -> None:
    env = graphwrap.wrap(Line(observations="discrete"), task="single")
    first, info = env.reset(seed=1)
    place = info["level"]
    assert first == place
    assert env.step(1)[0] == place + 1
    to_top(env)
    window = env.assign_credit()
    t = window.transitions
    labels = [t.state_labels[i] for i in t.state] + [t.state_labels[t.next_state[-1]]]
    assert labels == list(range(place, 7))
    assert [t.action_labels[i] for i in t.action] == [1] * (6 - place)
    assert window.rewards.tolist() == [-0.1] * (5 - place) + [10.0]
    assert window.advantages.shape == (6 - place,)
    assert t.outcome.tolist() == [Outcome.SUCCESS]
    assert list(t.task_labels) == ["single"]


def test_what_is_seen_from_outside_stays_as_it_was() -> None:
    plain, wrapped = Line(slip=0.3), graphwrap.wrap(Line(slip=0.3))
    assert wrapped.observation_space == plain.observation_space
    assert wrapped.action_space == plain.action_space
    assert wrapped.metadata == plain.metadata
    rng = np.random.default_rng(0)
    for episode in range(5):
        seed = 3 if episode == 0 else None
        one, other = plain.reset(seed=seed), wrapped.reset(seed=seed)
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1] == other[1]
        done = False
        while not done:
            action = int(rng.integers(2))
            one, other = plain.step(action), wrapped.step(action)
            np.testing.assert_array_equal(one[0], other[0])
            assert one[1:] == other[1:]
            done = one[2] or one[3]


def test_recorded_values_are_copies() -> None:
    class Reuses(Line):
        buffer = np.zeros(2, np.float32)

        def _observation(self) -> Any:
            self.buffer[0] = self.place
            return self.buffer

    env = graphwrap.wrap(Reuses(actions="multidiscrete"))
    observation, info = env.reset(seed=1)
    action = np.array([1, 2])
    env.step(action)
    action[:] = 0
    observation[:] = -5
    transitions = env.assign_credit("graph").transitions
    assert transitions.state_labels[transitions.state[0]].tolist() == [info["level"], 0]
    assert transitions.state_labels[transitions.next_state[0]].tolist() == [info["level"] + 1, 0]
    assert transitions.action_labels[transitions.action[0]].tolist() == [1, 2]


def test_an_env_that_changes_its_action_is_recorded_as_asked() -> None:
    class Clips(Line):
        def step(self, action: Any) -> Any:
            result = super().step(action)
            action[:] = 0
            return result

    env = graphwrap.wrap(Clips(actions="box"))
    env.reset(seed=1)
    env.step(np.array([0.5], np.float32))
    transitions = env.assign_credit("graph").transitions
    assert transitions.action_labels[transitions.action[0]].tolist() == [0.5]


@pytest.mark.parametrize("observations", ["box", "discrete", "dict", "text", "image"])
@pytest.mark.parametrize("actions", ["discrete", "multidiscrete", "binary", "box"])
def test_every_kind_of_space(observations: str, actions: str) -> None:
    env = graphwrap.wrap(Line(observations=observations, actions=actions))
    up = {"discrete": 1, "multidiscrete": [1, 0], "binary": [1, 0], "box": [0.5]}[actions]
    down = {"discrete": 0, "multidiscrete": [0, 0], "binary": [0, 0], "box": [-0.5]}[actions]
    place = env.reset(seed=1)[1]["level"]
    for action in (up, down, up):
        env.step(action if actions == "discrete" else np.array(action, env.action_space.dtype))
    transitions = env.assign_credit("graph").transitions
    assert transitions.state.tolist() == [0, 1, 0]
    assert transitions.next_state.tolist() == [1, 0, 1]
    assert transitions.action.tolist() == [0, 1, 0]
    label = transitions.state_labels[1]
    seen = {
        "box": lambda: label[0],
        "discrete": lambda: label,
        "dict": lambda: label["place"],
        "text": lambda: int(label.split()[1]),
        "image": lambda: label[0, 0, 0],
    }[observations]()
    assert seen == place + 1


@pytest.mark.parametrize("group_size", [None, 3])
def test_gymnasium_check_env(group_size: int | None) -> None:
    env = graphwrap.wrap("CartPole-v1", group_size=group_size)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version.*")
        warnings.filterwarnings("ignore", message=".*infinity.*")
        check_env(env, skip_render_check=True)
        check_env(graphwrap.wrap(Line(), group_size=group_size, member_noise=group_size is not None))


def test_stable_baselines3_check_env() -> None:
    sb3_check_env(graphwrap.wrap("FrozenLake-v1"), warn=False)


@pytest.mark.parametrize(
    "options",
    [
        {"credit": "gigpo", "task": "single"},
        {"credit": GraphGPO(omega=0.8), "group_size": 4, "member_noise": True},
        {"success": "won", "state": graphwrap.StateKey(round=2)},
    ],
)
def test_spec_round_trip(options: dict) -> None:
    env = graphwrap.wrap("FrozenLake-v1", **options)
    again = gymnasium.make(env.spec)
    assert again.spec == env.spec
    assert isinstance(again, CreditEnv)
    assert again._saved_kwargs == env._saved_kwargs
    assert again.recorder.method == env.recorder.method
    assert again.recorder.group_size == options.get("group_size")


def test_a_spec_with_plain_options_goes_through_json() -> None:
    env = graphwrap.wrap("FrozenLake-v1", "grpo", group_size=2)
    spec = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert gymnasium.make(spec).recorder.group_size == 2


def test_statistics_and_attributes_outside() -> None:
    env = RecordEpisodeStatistics(graphwrap.wrap(Line(flags=True)))
    level = env.reset(seed=1)[1]["level"]
    for _ in range(6 - level):
        *_, info = env.step(1)
    assert info["episode"]["l"] == 6 - level
    window = env.get_wrapper_attr("assign_credit")()
    assert window.rewards.sum() == pytest.approx(info["episode"]["r"])


def test_video_outside(tmp_path: Any) -> None:
    env = RecordVideo(
        graphwrap.wrap(Line(render_mode="rgb_array")), str(tmp_path), episode_trigger=lambda k: k == 0
    )
    env.reset(seed=1)
    to_top(env)
    env.reset()
    env.close()
    assert len(list(tmp_path.glob("*.mp4"))) == 1


def test_closing_in_mid_episode_keeps_the_recording() -> None:
    env = graphwrap.wrap(Line())
    play(env, [1, 0], seed=1)
    env.close()
    window = env.assign_credit()
    assert window.mask.tolist() == [False, False]
    assert window.transitions.outcome.tolist() == [Outcome.UNFINISHED]


def test_pickle_goes_on_alike() -> None:
    env = graphwrap.wrap(Line(slip=0.5), group_size=2, state=graphwrap.StateKey(round=1))
    play(env, [1, 0], seed=4)
    twin = pickle.loads(pickle.dumps(env))
    for each in (env, twin):
        each.step(1)
        play(each, [1, 1])
    one, other = env.assign_credit("graph"), twin.assign_credit("graph")
    np.testing.assert_array_equal(one.advantages, other.advantages)
    np.testing.assert_array_equal(one.transitions.state, other.transitions.state)
    assert list(map(int, one.transitions.task_labels)) == list(map(int, other.transitions.task_labels)) == [0]


def test_a_group_shares_a_seed_and_the_next_one_has_another() -> None:
    env = graphwrap.wrap(Line(length=1000), group_size=3)
    levels = [env.reset(seed=11 if k == 0 else None)[1]["level"] for k in range(9)]
    assert levels[0] == levels[1] == levels[2]
    assert levels[3] == levels[4] == levels[5]
    assert len(set(levels)) == 3
    seeds = [int(np.random.SeedSequence([11, k]).generate_state(1)[0]) for k in range(3)]
    assert levels[::3] == [Line(length=1000).reset(seed=seed)[1]["level"] for seed in seeds]
    assert [env.reset(seed=11 if k == 0 else None)[1]["level"] for k in range(9)] == levels


def test_groups_of_two_base_seeds_do_not_merge() -> None:
    env = graphwrap.wrap(Line(), group_size=2)
    for _ in range(2):
        play(env, [1], seed=5)
    assert env.assign_credit("graph").transitions.num_tasks == 2


def test_without_a_seed_groups_still_form() -> None:
    one, other = (graphwrap.wrap(Line(length=10**6), group_size=2) for _ in range(2))
    levels = [[env.reset()[1]["level"] for _ in range(2)] for env in (one, other)]
    assert levels[0][0] == levels[0][1]
    assert levels[1][0] == levels[1][1]
    assert levels[0] != levels[1]


@pytest.mark.parametrize(("member_noise", "same"), [(False, True), (True, False)])
def test_member_noise(member_noise: bool, same: bool) -> None:
    walks = []
    for _ in range(2):
        env = graphwrap.wrap(Line(length=400, limit=100, slip=0.5), group_size=4, member_noise=member_noise)
        walk = []
        for k in range(4):
            steps = play(env, [1] * 30, seed=9 if k == 0 else None)
            walk.append(tuple(step[4]["place"] for step in steps))
        walks.append(walk)
    assert walks[0] == walks[1]  # the noise follows from the base seed
    assert (len(set(walks[0])) == 1) is same
    assert same or len(set(walks[0])) == 4


def test_abandon_groups_begins_a_new_group() -> None:
    env = graphwrap.wrap(Line(length=1000), group_size=3)
    first = env.reset(seed=1)[1]["level"]
    env.abandon_groups()
    second = env.reset()[1]["level"]
    assert second != first
    assert env.reset()[1]["level"] == second


def test_a_start_that_is_not_the_seed_s_is_refused() -> None:
    class Counts(Line):
        def reset(self, **kwargs: Any) -> Any:
            _observation, info = super().reset(**kwargs)
            self.place = 3 + self.resets
            return self._observation(), info

    env = graphwrap.wrap(Counts(length=30, observations="discrete"), group_size=2)
    env.reset(seed=0)
    with pytest.raises(
        ValueError, match=r"of group 0 member 0 \(env 0\) starts in 4 and member 1 \(env 0\) in 5"
    ):
        env.reset()
    with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
        env.step(1)


@pytest.mark.parametrize(
    ("task", "labels"),
    [
        ("start", [(2, 0), (4, 0)]),
        ("single", ["single"]),
        ("level", [2, 4]),
        (lambda observation, info: ("half", float(observation[0]) // 2), [("half", 1.0), ("half", 2.0)]),
    ],
)
def test_tasks(task: Any, labels: list) -> None:
    env = graphwrap.wrap(Line(), task=task)
    seeds = [0, 0, 0]
    found = {Line().reset(seed=seed)[1]["level"]: seed for seed in range(40)}
    seeds = [found[2], found[4], found[2]]
    for seed in seeds:
        play(env, [1], seed=seed)
    transitions = env.assign_credit("graph").transitions
    seen = [
        tuple(label.tolist()) if isinstance(label, np.ndarray) else label for label in transitions.task_labels
    ]
    assert seen == labels
    assert transitions.task.tolist() == [0, min(1, len(labels) - 1), 0]


def test_a_missing_task_entry_is_named() -> None:
    env = graphwrap.wrap(Line(), task="map")
    with pytest.raises(
        ValueError, match=r"task='map' is to be an entry of the info of reset, which has \['level'\]"
    ):
        env.reset()


@pytest.mark.parametrize(
    ("success", "info", "outcome"),
    [
        (None, {}, Outcome.FAILURE),
        (None, {"is_success": True, "won": False}, Outcome.SUCCESS),
        (None, {"success": np.bool_(True)}, Outcome.SUCCESS),
        (None, {"won": 1.0}, Outcome.SUCCESS),
        (None, {"is_success": None, "won": np.array([1])}, Outcome.SUCCESS),
        ("goal", {"goal": True, "is_success": False}, Outcome.SUCCESS),
        ("goal", {"is_success": True}, Outcome.FAILURE),
        (lambda *step: step[1] < 0 and step[2] and not step[3], {}, Outcome.SUCCESS),
        (lambda *step: None, {"is_success": True}, Outcome.FAILURE),
    ],
)
def test_success(success: Any, info: dict, outcome: Outcome) -> None:
    class Says(Line):
        def step(self, action: Any) -> Any:
            *step, _ = super().step(action)
            return (*step, dict(info))

    env = graphwrap.wrap(Says(), success=success)
    env.reset(seed=1)
    terminated = False
    while not terminated:
        terminated = env.step(0)[2]
    assert env.assign_credit().transitions.outcome.tolist() == [outcome]


def test_a_success_that_is_no_flag_is_refused() -> None:
    env = graphwrap.wrap(Line(limit=1), success="place")
    place = env.reset(seed=1)[1]["level"]
    with pytest.raises(
        ValueError, match=rf"success must be True, False or None, but info\['place'\].* is {place + 1}"
    ):
        env.step(1)


def test_state_function_and_rounding() -> None:
    class Noisy(Line):
        def _observation(self) -> Any:
            return super()._observation() + np.array([0.001 * self.count, 0], np.float32)

    seen: list[tuple] = []

    def key(observation: Any, info: dict) -> Any:
        seen.append((observation.copy(), info))
        return ("place", round(float(observation[0])))

    expected = [0, 1, 0]
    for state in (key, graphwrap.StateKey(round=1)):
        env = graphwrap.wrap(Noisy(), state=state)
        play(env, [1, 0, 1], seed=2)
        assert env.assign_credit("graph").transitions.state.tolist() == expected
    env = graphwrap.wrap(Noisy())
    play(env, [1, 0, 1], seed=2)
    assert env.assign_credit("graph").transitions.state.tolist() == [0, 1, 2]
    assert [set(info) for _, info in seen] == [{"level"}, {"place"}, {"place"}, {"place"}]


def test_an_error_in_step_loses_nothing() -> None:
    env = graphwrap.wrap(Line(fails_at=2))
    env.reset(seed=1)
    env.step(1)
    env.step(0)
    with pytest.raises(RuntimeError, match="the simulator crashed"):
        env.step(1)
    window = env.assign_credit()
    assert window.rewards.tolist() == [-0.1, -0.1]
    assert window.mask.tolist() == [False, False]
    env.env.fails_at = -1
    env.step(1)  # a step that was refused is no step
    window = env.assign_credit("graph")
    assert window.transitions.step.tolist() == [0, 1, 2]
    assert window.rewards.tolist() == [-0.1]


def test_an_interrupted_step_ends_the_recording_of_its_episode() -> None:
    class Interrupted(Line):
        def step(self, action: Any) -> Any:
            if action == 0:
                raise KeyboardInterrupt
            return super().step(action)

    env = graphwrap.wrap(Interrupted())
    env.reset(seed=1)
    env.step(1)
    with pytest.raises(KeyboardInterrupt):
        env.step(0)
    with pytest.raises(ResetNeeded):
        env.step(1)
    assert env.assign_credit().transitions.outcome.tolist() == [Outcome.UNFINISHED]


def test_a_step_needs_an_episode() -> None:
    env = graphwrap.wrap(Line(limit=1))
    with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
        env.step(1)
    env.reset(seed=1)
    env.step(1)
    with pytest.raises(ResetNeeded, match="also after an episode's end"):
        env.step(1)


def test_time_limit_inside_is_truncation() -> None:
    env = graphwrap.wrap(TimeLimit(Line(limit=100, length=50), 3))
    play(env, [1, 0, 1], seed=1)
    window = env.assign_credit()
    assert window.transitions.truncated.tolist() == [False, False, True]
    assert window.transitions.outcome.tolist() == [Outcome.FAILURE]
    assert window.mask.tolist() == [True] * 3


def test_both_ends_at_once_follow_the_inference() -> None:
    class Both(Line):
        def step(self, action: Any) -> Any:
            observation, reward, terminated, _, info = super().step(action)
            return observation, reward, terminated, terminated, info

    env = graphwrap.wrap(Both())
    env.reset(seed=1)
    to_top(env)
    window = env.assign_credit()
    assert window.transitions.outcome.tolist() == [Outcome.SUCCESS]
    assert window.diagnostics["success_rate"] == 1.0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"task": 3}, TypeError, "task must be 'start', 'single', the name of an info entry, or a function"),
        ({"success": 1}, TypeError, "success must be None, the name of an info entry, or a function"),
        ({"state": "round"}, TypeError, r"state must be None, a StateKey\(...\), or a function"),
        ({"member_noise": 1}, TypeError, "member_noise must be True or False, got 1"),
        (
            {"member_noise": True},
            ValueError,
            "member_noise=True is for the members of a group; give group_size",
        ),
        ({"group_size": 2.0}, TypeError, "group_size must be a whole number or None, got 2.0"),
        ({"group_size": True}, TypeError, "group_size must be a whole number or None, got True"),
        ({"group_size": 1}, ValueError, "group_size must be at least 2"),
        (
            {"group_size": 2, "task": "single"},
            ValueError,
            "the task of an episode is its group, so task='single'",
        ),
        ({"credit": "graphgop"}, ValueError, "graphgpo"),
    ],
)
def test_bad_options(options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        graphwrap.wrap(Line(), **options)


@pytest.mark.parametrize("seed", [[1, 2], 1.5, "x"])
def test_bad_seeds(seed: Any) -> None:
    env = graphwrap.wrap(Line(), group_size=2)
    with pytest.raises(TypeError, match="the seed must be one whole number"):
        env.reset(seed=seed)
    with pytest.raises(ValueError, match="the seed must not be negative, got -1"):
        env.reset(seed=-1)


def test_wrap_says_what_it_takes() -> None:
    with pytest.raises(
        TypeError,
        match=r"an environment id \(str\), a Gymnasium Env or VectorEnv, or a .* VecEnv, got builtins.dict",
    ):
        graphwrap.wrap({})


def test_wrapping_a_single_env_imports_neither_torch_nor_sb3() -> None:
    code = (
        "import sys, graphwrap; e = graphwrap.wrap('CartPole-v1', 'grpo'); e.reset(seed=1); e.step(0);"
        "e.assign_credit();"
        "print([m for m in ('torch', 'stable_baselines3') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


class TestSeededReset:
    def test_swallows_the_reset_after_the_end_only(self) -> None:
        env = SeededReset(Line(limit=2))
        env.reset(seed=1)
        env.reset()
        assert env.env.resets == 2
        env.step(1)
        final = env.step(0)[0]
        observation, info = env.reset()
        assert env.env.resets == 2
        assert observation is final
        assert info == {}
        level = env.reset(seed=3)[1]["level"]
        assert env.env.resets == 3
        assert level == Line().reset(seed=3)[1]["level"]
        env.step(1)
        env.reset()
        assert env.env.resets == 4

    def test_a_seeded_reset_after_the_end_is_real(self) -> None:
        env = SeededReset(Line(limit=1))
        env.reset(seed=1)
        env.step(1)
        assert env.reset(seed=5)[1] == Line().reset(seed=5)[1]
        env.step(1)
        assert "level" in env.reset(options={"x": 1})[1]

    def test_stepping_without_the_seeded_reset(self) -> None:
        env = SeededReset(Line(limit=1))
        env.reset(seed=1)
        env.step(1)
        env.reset()
        with pytest.raises(RuntimeError, match=r"only graphwrap.wrap\(venv, group_size=...\) makes"):
            env.step(1)
        assert env.reset()[1]["level"] in range(2, 5)
        env.step(1)

    def test_spec(self) -> None:
        env = SeededReset(gymnasium.make("FrozenLake-v1"))
        assert gymnasium.make(env.spec).spec == env.spec


def test_tickets_in_order() -> None:
    tickets = Tickets(2)
    tickets.seed(7)
    taken = [tickets.take() for _ in range(5)]
    assert [(ticket.group, ticket.member) for ticket in taken] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    tickets.next_group()
    assert tickets.take().group == 3
    tickets.seed(7)
    again = [tickets.take() for _ in range(4)]
    assert [ticket.group for ticket in again] == [4, 4, 5, 5]
    assert [ticket.seed for ticket in again] == [ticket.seed for ticket in taken[:4]]
    assert all(type(ticket.seed) is int for ticket in again)
    draws = [ticket.generator().random() for ticket in again]
    assert len(set(draws)) == 4
    assert draws == [ticket.generator().random() for ticket in taken[:4]]


def test_a_space_of_any_kind_of_value() -> None:
    class Words(gymnasium.Env):
        observation_space = spaces.Sequence(spaces.Discrete(9))
        action_space = spaces.Tuple((spaces.Discrete(2), spaces.Text(5)))

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.said: tuple = ()
            return self.said, {}

        def step(self, action: Any) -> Any:
            self.said = (*self.said, int(action[0]))
            return self.said, float(len(self.said) == 2), len(self.said) == 2, False, {}

    env = graphwrap.wrap(Words())
    for _ in range(2):
        play(env, [(0, "go"), (1, "stop")])
    transitions = env.assign_credit().transitions
    assert transitions.state.tolist() == [0, 1, 0, 1]
    assert transitions.next_state.tolist() == [1, 2, 1, 2]
    assert transitions.action.tolist() == [0, 1, 0, 1]
    assert transitions.num_tasks == 1


def test_a_task_function_may_return_what_the_env_reuses() -> None:
    class Reuses(Line):
        seen = np.zeros(2, np.float32)

        def _observation(self) -> Any:
            self.seen[:] = super()._observation()
            return self.seen

    env = graphwrap.wrap(Reuses(), task=lambda observation, info: observation)
    start = env.reset(seed=1)[0].copy()
    env.step(1)
    (label,) = env.assign_credit("graph").transitions.task_labels
    np.testing.assert_array_equal(label, start)


def test_an_env_is_wrapped_once() -> None:
    with pytest.raises(ValueError, match=r"wrapped by graphwrap\.wrap already"):
        graphwrap.wrap(TimeLimit(graphwrap.wrap(Line()), 3))


def test_a_step_that_cannot_be_recorded_ends_the_recording_of_its_episode() -> None:
    def state(observation: Any, info: dict) -> Any:
        return info["level"] if "level" in info else info["no such entry"]

    env = graphwrap.wrap(Line(), state=state)
    env.reset(seed=1)
    with pytest.raises(KeyError):
        env.step(1)
    with pytest.raises(ResetNeeded):
        env.step(1)


def test_a_group_that_lost_a_member_is_left() -> None:
    class Fails(Line):
        def reset(self, **options: Any) -> Any:
            if self.resets == 1 and not self.total_steps < 1:
                self.resets += 1
                raise OSError("the simulator is away")
            return super().reset(**options)

    env = graphwrap.wrap(Fails(limit=1), group_size=2)
    env.reset(seed=1)
    env.step(1)
    with pytest.raises(OSError, match="is away"):
        env.reset()
    for _ in range(2):
        env.reset()
        env.step(1)
    window = env.assign_credit()
    assert window.group_complete.tolist() == [False, True, True]
    assert not len(env.recorder.ledger.tasks)


def test_a_missing_success_entry_is_named_once() -> None:
    env = graphwrap.wrap(Line(limit=1), success="goal")
    with pytest.warns(UserWarning, match=r"success='goal' is no entry of the info .* has \['place'\]"):
        play(env, [1], seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        play(env, [1], seed=1)


def test_a_window_before_the_first_reset_is_empty() -> None:
    env = graphwrap.wrap(Line())
    assert env.assign_credit().advantages.shape == (0,)
    play(env, [1], seed=1)
    assert env.assign_credit("graph").advantages.shape == (1,)
