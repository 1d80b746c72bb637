from __future__ import annotations

import copy
import pickle
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecFrameStack, VecMonitor, VecNormalize

import graphwrap
from graphwrap.sb3 import CreditCallback, as_vec_env
from tests.helpers import Line
from tests.sb3.learners import SMALL, Watch
from tests.sb3.worlds import MODES, OBSERVATIONS, World, assert_same, dummy, line_vector, play, vector


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize(
    ("kind", "observations"),
    [*(("sync", name) for name in OBSERVATIONS), *(("reusing", name) for name in ("box", "dict", "tuple"))]
    + [("batched", name) for name in ("discrete", "dict")],
)
def test_step_for_step_equal_to_dummy_vec_env(kind: str, observations: str, mode: AutoresetMode) -> None:
    expected = play(dummy(4, observations=observations), 40, seed=5)
    assert sum(step[2].sum() for step in expected[1:]) > 10
    assert any(step[2].sum() > 1 for step in expected[1:])
    found = play(as_vec_env(vector(kind, 4, mode, observations=observations)), 40, seed=5)
    assert_same(found, expected)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("observations", ["box", "dict"])
def test_equal_with_processes(observations: str, mode: AutoresetMode) -> None:
    venv = as_vec_env(vector("async", 3, mode, observations=observations))
    assert_same(play(venv, 25, seed=2), play(dummy(3, observations=observations), 25, seed=2))
    venv.close()


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_episode_statistics_of_gymnasium_reach_stable_baselines3(mode: AutoresetMode) -> None:
    venv = as_vec_env(RecordEpisodeStatistics(vector("sync", 4, mode)))
    expected = dummy(4)
    for each in (venv, expected):
        each.seed(3)
        each.reset()
    returns, lengths, episodes = np.zeros(4), np.zeros(4, int), 0
    for _ in range(40):
        _, rewards, dones, infos = venv.step(np.ones(4, int))
        _, own_rewards, own_dones, own_infos = expected.step(np.ones(4, int))
        np.testing.assert_array_equal(rewards, own_rewards)
        np.testing.assert_array_equal(dones, own_dones)
        returns += rewards
        lengths += 1
        for env in range(4):
            episode = infos[env].pop("episode", None)
            assert (episode is not None) == dones[env]
            if episode is not None:
                assert episode["r"] == pytest.approx(returns[env], abs=1e-5)
                assert episode["l"] == lengths[env]
                returns[env] = lengths[env] = 0
                episodes += 1
        assert_same(infos, own_infos)
    assert episodes > 20


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_the_outcome_reward_of_online_shaping_is_there_at_an_episode_s_end_too(mode: AutoresetMode) -> None:
    venv = as_vec_env(graphwrap.wrap(line_vector(2, mode), task="single", online=True))
    venv.reset()
    ends = 0
    for _ in range(20):
        _, _, dones, infos = venv.step(np.ones(2, np.int64))
        ends += np.count_nonzero(dones)
        assert [info["outcome_reward"] for info in infos] == [10.0 if done else -0.1 for done in dones]
    assert ends > 5
    assert all("outcome_reward" not in info for info in venv.reset_infos)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_seeds_and_options_are_used_once(mode: AutoresetMode) -> None:
    for make in (lambda: dummy(3), lambda: as_vec_env(vector("sync", 3, mode))):
        venv = make()
        assert venv.seed(7) == [7, 8, 9]
        venv.set_options([{"shift": 5}, {}, {"shift": 2}])
        venv.reset()
        assert [info["seed"] for info in venv.reset_infos] == [7, 8, 9]
        assert [info["shift"] for info in venv.reset_infos] == [5, 0, 2]
        venv.set_options({"shift": 4})
        venv.reset()
        assert [info["seed"] for info in venv.reset_infos] == [-1, -1, -1]
        assert [info["shift"] for info in venv.reset_infos] == [4, 4, 4]
        venv.reset()
        assert [info["shift"] for info in venv.reset_infos] == [0, 0, 0]


def test_options_with_arrays() -> None:
    venv = as_vec_env(vector("sync", 2, AutoresetMode.NEXT_STEP))
    venv.set_options([{"shift": 1, "board": np.zeros(3)}, {"shift": 2, "board": np.zeros(3)}])
    venv.reset()
    assert [info["shift"] for info in venv.reset_infos] == [1, 2]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("kind", ["sync", "batched"])
@pytest.mark.parametrize("observations", ["box", "dict", "tuple", "discrete"])
def test_resets_of_single_sub_environments(observations: str, kind: str, mode: AutoresetMode) -> None:
    runs = []
    for venv in (
        as_vec_env(vector(kind, 4, mode, observations=observations)),
        dummy(4, observations=observations),
    ):
        handed_out = [play(venv, 5, seed=1)]
        handed_out.append(venv.env_method("reset", seed=11, indices=[2, 0]))
        handed_out.append(venv.env_method("reset", seed=12, options={"shift": 3}, indices=-1))
        if hasattr(venv, "reset_envs"):
            handed_out.append(venv.reset_envs([3, 1], [5, 6]))
        else:
            found = [venv.env_method("reset", seed=seed, indices=[env])[0] for env, seed in ((3, 5), (1, 6))]
            handed_out.append(tuple(map(list, zip(*found))))
        for _ in range(20):
            action = np.ones((4, *venv.action_space.shape), int)
            handed_out.append(venv.step(action))
        runs.append(handed_out)
    assert_same(*runs)


def test_reset_envs_checks_what_it_is_asked() -> None:
    venv = as_vec_env(vector("sync", 3, AutoresetMode.NEXT_STEP))
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        venv.reset_envs([1], [0])
    observations, infos = venv.reset_envs([0, 1, 2], [4, 4, 4])
    np.testing.assert_array_equal(observations[0], observations[2])
    assert [info["seed"] for info in infos] == [4, 4, 4]
    with pytest.raises(ValueError, match=r"indices must name each sub-environment once, got \[1, -2\]"):
        venv.reset_envs([1, -2], [0, 0])
    with pytest.raises(ValueError, match="seeds must be as many as indices, got 1 and 2"):
        venv.reset_envs([0, 1], [0])
    with pytest.raises(IndexError):
        venv.reset_envs([3], [0])
    assert venv.reset_envs([], []) == ([], [])


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_attributes_and_methods_of_sub_environments(kind: str) -> None:
    venv = as_vec_env(vector(kind, 3, AutoresetMode.NEXT_STEP, ends=0.0, render_mode="rgb_array"))
    venv.seed(0)
    venv.reset()
    venv.step(np.zeros(3, int))
    assert venv.get_attr("total_steps") == [1, 1, 1]
    assert venv.env_method("add", 5, other=2, indices=[1]) == [8]
    assert venv.env_method("add", 5) == [6, 6, 6]
    venv.set_attr("total_steps", 10, indices=[0, 2])
    assert venv.get_attr("total_steps") == [10, 1, 10]
    assert venv.get_attr("total_steps", indices=1) == [1]
    assert [masks.tolist() for masks in venv.env_method("action_masks")] == [
        [True, True, True],
        [True, False, True],
        [True, True, True],
    ]
    assert venv.has_attr("action_masks")
    assert not venv.has_attr("no_such_thing")
    with pytest.raises(AttributeError, match="no_such_thing"):
        venv.get_attr("no_such_thing")
    with pytest.raises(AttributeError, match="no_such_thing"):
        venv.env_method("no_such_thing")
    assert [image[0, 0, 0] for image in venv.get_images()] == [10, 1, 10]
    assert venv.render_mode == "rgb_array"
    assert venv.render().shape == (16, 16, 3)
    assert venv.metadata["render_fps"] == 5
    venv.step(np.zeros(3, int))  # the workers live
    assert venv.get_attr("total_steps") == [11, 2, 11]
    venv.close()


def test_wrappers_of_sub_environments() -> None:
    venv = as_vec_env(vector("sync", 2, AutoresetMode.NEXT_STEP, make=lambda: Monitor(World())))
    assert venv.env_is_wrapped(Monitor) == [True, True]
    assert venv.env_is_wrapped(Monitor, indices=1) == [True]
    assert venv.env_is_wrapped(TimeLimit) == [False, False]
    assert as_vec_env(vector("batched", 2, AutoresetMode.NEXT_STEP)).env_is_wrapped(Monitor) == [False, False]


def test_sub_environments_out_of_reach() -> None:
    env = vector("batched", 2, AutoresetMode.NEXT_STEP, render_mode="rgb_array")
    venv = as_vec_env(env)
    venv.reset()
    for ask in (
        lambda: venv.get_attr("ends"),
        lambda: venv.set_attr("ends", 0.5),
        lambda: venv.env_method("add", 1),
    ):
        with pytest.raises(
            AttributeError, match=r"Batched keeps its sub-environments to itself, so '(ends|add)' is out"
        ):
            ask()
    assert not venv.has_attr("ends")
    assert venv.get_attr("render_mode") == ["rgb_array"] * 2
    assert [image.shape for image in venv.get_images()] == [(8, 8, 3)] * 2
    env.call, env.get_attr, env.set_attr = env._inside.call, env._inside.get_attr, env._inside.set_attr
    venv.set_attr("ends", 0.5, indices=[1])
    assert venv.get_attr("ends") == [0.2, 0.5]
    assert venv.env_method("add", 1) == [1, 1]
    with pytest.raises(AttributeError, match="calls 'add' in every sub-environment or in none"):
        venv.env_method("add", 1, indices=[0])


@pytest.mark.parametrize("wrapped", [False, True])
def test_vector_environments_that_ignore_the_mask_are_refused_before_they_step(wrapped: bool) -> None:
    env: Any = gymnasium.make_vec("CartPole-v1", num_envs=3)
    env = RecordEpisodeStatistics(env) if wrapped else env
    venv = as_vec_env(env)
    for reset in (venv.reset, lambda: venv.reset_envs([0, 1, 2], [1, 1, 1])):
        with pytest.raises(ValueError, match=r"CartPoleVectorEnv ignores .*vectorization_mode='sync'"):
            reset()
    assert "reset" not in vars(env.unwrapped)


def test_one_sub_environment_needs_no_mask() -> None:
    venv = as_vec_env(gymnasium.make_vec("CartPole-v1", num_envs=1))
    venv.seed(0)
    venv.reset()
    dones = [venv.step(np.ones(1, int))[2][0] for _ in range(40)]
    lengths = np.diff(np.flatnonzero(dones))
    assert len(lengths) > 2
    assert set(lengths.tolist()) <= {8, 9, 10, 11}


class SameStepCartPole(CartPoleVectorEnv):
    """Resets what has ended at once; does not know of masks."""

    metadata: ClassVar[dict] = {**CartPoleVectorEnv.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}

    def step(self, action: Any) -> Any:
        observations, rewards, terminated, truncated, _ = super().step(action)
        done, infos = terminated | truncated, {}
        if done.any():
            infos = {"final_obs": observations.copy()}  # of everybody, without a mask
            self.state[:, done] = self.np_random.uniform(self.low, self.high, (4, done.sum()))
            self.steps[done] = 0
            self.prev_done[:] = False
            observations = self.state.T.astype(np.float32)
        return observations, rewards, terminated, truncated, infos


def test_same_step_needs_no_mask_until_single_resets_are_asked_for() -> None:
    venv = as_vec_env(SameStepCartPole(num_envs=3))
    venv.seed(0)
    venv.reset()
    ended = 0
    for _ in range(30):
        observations, _, dones, infos = venv.step(np.ones(3, int))
        for env in np.flatnonzero(dones):
            assert np.abs(infos[env]["terminal_observation"][2]) > 0.2
            assert np.abs(observations[env]).max() <= 0.05
            ended += 1
    assert ended > 6
    with pytest.raises(ValueError, match="SameStepCartPole ignores"):
        venv.env_method("reset", seed=1, indices=[0])


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("sometimes", "must be a gymnasium.vector.AutoresetMode, and Batched has 'sometimes'"),
        (None, "has None"),
    ],
)
def test_unknown_modes(mode: Any, message: str) -> None:
    env = vector("batched", 2, AutoresetMode.NEXT_STEP)
    env.metadata["autoreset_mode"] = mode
    with pytest.raises(ValueError, match=message):
        as_vec_env(env)


@pytest.mark.parametrize(
    ("does", "says", "message"),
    [
        (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, "gives final_obs, as in SAME_STEP mode, but its"),
        (
            AutoresetMode.NEXT_STEP,
            AutoresetMode.SAME_STEP,
            "is in SAME_STEP mode, so its infos need final_obs",
        ),
    ],
)
def test_modes_that_are_not_kept(does: AutoresetMode, says: AutoresetMode, message: str) -> None:
    env = vector("batched", 2, does, ends=0.5)
    env.metadata["autoreset_mode"] = says
    venv = as_vec_env(env)
    venv.reset()

    def go_on() -> None:
        for _ in range(20):
            venv.step(np.zeros(2, int))

    with pytest.raises(ValueError, match=message):
        go_on()


def test_gymnasium_s_default_mode() -> None:
    env = vector("batched", 3, AutoresetMode.NEXT_STEP)
    del env.metadata["autoreset_mode"]
    assert_same(play(as_vec_env(env), 20, seed=2), play(dummy(3), 20, seed=2))


def test_an_async_vector_env_that_would_reset_twice_is_refused() -> None:
    env = AsyncVectorEnv([World], shared_memory=False, context="fork")
    with pytest.raises(
        ValueError, match=r"AsyncVectorEnv\(shared_memory=False\) in NEXT_STEP mode resets .* twice"
    ):
        as_vec_env(env)
    env.close()
    env = AsyncVectorEnv(
        [World, World], shared_memory=False, context="fork", autoreset_mode=AutoresetMode.DISABLED
    )
    venv = as_vec_env(env)
    assert_same(play(venv, 15, seed=3), play(dummy(2), 15, seed=3))
    venv.close()


class Odd(World):
    def __init__(self, observation_space: Any, action_space: Any) -> None:
        super().__init__()
        self.observation_space, self.action_space = observation_space, action_space


DISCRETE = spaces.Discrete(2)


@pytest.mark.parametrize(
    ("observations", "actions", "message"),
    [
        (spaces.Text(5), DISCRETE, "observation spaces, and Dict and Tuple of these, got Text"),
        (spaces.Dict({"a": spaces.Dict({"b": DISCRETE})}), DISCRETE, "observation spaces.* got Dict"),
        (spaces.Tuple([DISCRETE, spaces.Text(3)]), DISCRETE, "observation spaces.* got Tuple"),
        (DISCRETE, spaces.Dict({"a": DISCRETE}), "MultiBinary action spaces, got Dict"),
    ],
)
def test_spaces_that_stable_baselines3_cannot_take(observations: Any, actions: Any, message: str) -> None:
    env = SyncVectorEnv([lambda: Odd(observations, actions)])
    with pytest.raises(ValueError, match=message):
        as_vec_env(env)


def test_what_is_no_vector_environment() -> None:
    with pytest.raises(TypeError, match=r"takes a gymnasium.vector.VectorEnv, got .*DummyVecEnv; for single"):
        as_vec_env(dummy(2))  # type: ignore[arg-type]


def test_copies_and_pickles() -> None:
    venv = as_vec_env(vector("sync", 3, AutoresetMode.NEXT_STEP))
    venv.seed(1)
    venv.reset()
    twins = [copy.deepcopy(venv), pickle.loads(pickle.dumps(venv))]
    expected = [venv.step(np.ones(3, int)) for _ in range(10)]
    for twin in twins:
        assert_same([twin.step(np.ones(3, int)) for _ in range(10)], expected)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize(
    "outside",
    [
        VecMonitor,
        VecNormalize,
        lambda venv: VecFrameStack(venv, 3),
        lambda venv: VecMonitor(VecNormalize(venv)),
    ],
)
def test_wrappers_of_stable_baselines3(outside: Any, mode: AutoresetMode) -> None:
    found, expected = (
        play(outside(venv), 30, seed=4) for venv in (as_vec_env(line_vector(4, mode)), dummy(4, make=Line))
    )
    for step in (*found[1:], *expected[1:]):
        for info in step[3]:
            info.get("episode", {}).pop("t", None)
    assert_same(found, expected)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("group_size", [None, 4])
def test_ppo_with_graph_credit_is_the_same_bit_for_bit(group_size: int | None, mode: AutoresetMode) -> None:
    runs = []
    for venv in (as_vec_env(line_vector(8, mode)), dummy(8, make=Line)):
        wrapped = graphwrap.wrap(venv, "graphgpo", group_size=group_size)
        model = PPO("MlpPolicy", wrapped, n_steps=8, batch_size=16, n_epochs=2, **SMALL)
        watch = Watch()
        model.learn(64 * 3, callback=[CreditCallback(), watch])
        runs.append((model, watch))
    for one, other in zip(*(model.policy.parameters() for model, _ in runs), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(*(watch.buffers for _, watch in runs), strict=True):
        assert_same(one, other)


def test_members_of_groups_in_processes_have_noise_of_their_own() -> None:
    runs = []
    for venv in (
        as_vec_env(vector("async", 4, AutoresetMode.SAME_STEP, make=Line, slip=0.4)),
        dummy(4, make=Line, slip=0.4),
    ):
        wrapped = graphwrap.wrap(venv, "graphgpo", group_size=2, member_noise=True)
        runs.append(play(wrapped, 30, seed=8))
        wrapped.close()
    assert_same(*runs)


def test_a_dead_worker_is_named_and_its_recorded_steps_stay() -> None:
    venv = graphwrap.wrap(
        as_vec_env(vector("async", 2, AutoresetMode.NEXT_STEP, make=Line, length=40)), "grpo"
    )
    venv.reset()
    venv.step(np.ones(2, int))
    process = venv.venv.processes[1]
    process.kill()
    process.join()
    with pytest.raises(RuntimeError, match=r"has died: 1 \(exit code -9\)"):
        venv.step(np.ones(2, int))
    assert venv.assign_credit("graph").rewards.shape == (1, 2)
    venv.venv.vector_env.close(terminate=True)


def test_evaluate_policy() -> None:
    results = []
    for venv in (as_vec_env(line_vector(3)), dummy(3, make=Line)):
        model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, **SMALL)
        venv.seed(3)
        with pytest.warns(UserWarning, match="not wrapped with a ``Monitor``"):
            results.append(evaluate_policy(model, venv, n_eval_episodes=9, return_episode_rewards=True))
    assert results[0] == results[1]


def test_bare_ppo_is_the_same_bit_for_bit() -> None:
    models = []
    for venv in (as_vec_env(line_vector(4, observations="dict")), dummy(4, make=Line, observations="dict")):
        model = PPO("MultiInputPolicy", venv, n_steps=16, batch_size=16, n_epochs=2, **SMALL)
        models.append(model.learn(64 * 3))
    for one, other in zip(*(model.policy.parameters() for model in models), strict=True):
        assert torch.equal(one, other)
