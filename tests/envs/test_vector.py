"""SokobanVectorEnv against Gymnasium's SyncVectorEnv of SokobanEnv, step by step."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import Error, ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwrap.envs import LevelGenerator, LevelSet, SokobanEnv, SokobanVectorEnv, load_levels
from graphwrap.envs.rules import ACTIONS, OBSERVATIONS, REWARDS

from .boards import three_levels

UP, DOWN, LEFT, RIGHT = range(4)
MODES = tuple(AutoresetMode)


def pair(num_envs: int, mode: AutoresetMode, **options: Any) -> tuple[SokobanVectorEnv, SyncVectorEnv]:
    sync = SyncVectorEnv([lambda: SokobanEnv(**options)] * num_envs, autoreset_mode=mode)
    return SokobanVectorEnv(num_envs, autoreset_mode=mode, **options), sync


def assert_same(ours: Any, theirs: Any) -> None:
    """Equal in type, dtype, shape and value, all the way down."""
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert set(ours) == set(theirs)
        for key in ours:
            assert_same(ours[key], theirs[key])
    elif isinstance(ours, tuple) or (isinstance(ours, np.ndarray) and ours.dtype == object):
        assert len(ours) == len(theirs)
        for one, two in zip(ours, theirs):
            assert_same(one, two)
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs, strict=True)
    else:
        assert ours == theirs


def same_answer(call: Callable[[Any], Any], ours: Any, theirs: Any) -> Any:
    answers = call(ours), call(theirs)
    assert_same(*answers)
    return answers[0]


def assert_same_streams(ours: SokobanVectorEnv, theirs: SyncVectorEnv) -> None:
    assert ours.np_random_seed == theirs.np_random_seed
    for one, two in zip(ours.np_random, theirs.np_random):
        assert one.bit_generator.state == two.bit_generator.state


LEVELS = st.sampled_from([three_levels(), "6x6-1", three_levels().select([0])])


@given(
    mode=st.sampled_from(MODES),
    levels=LEVELS,
    obs=st.sampled_from(OBSERVATIONS),
    reward=st.sampled_from(REWARDS),
    actions=st.sampled_from(tuple(ACTIONS)),
    max_steps=st.integers(1, 12),
    num_envs=st.integers(1, 5),
    seed=st.integers(0, 1000),
    listed=st.booleans(),
)
@settings(max_examples=120)
def test_equal_step_by_step(
    mode: AutoresetMode,
    levels: Any,
    obs: str,
    reward: str,
    actions: str,
    max_steps: int,
    num_envs: int,
    seed: int,
    listed: bool,
) -> None:
    ours, theirs = pair(
        num_envs, mode, levels=levels, obs=obs, reward=reward, actions=actions, max_steps=max_steps
    )
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.metadata == theirs.metadata
    rng = np.random.default_rng(seed)
    seeds: Any = rng.integers(0, 100, num_envs).tolist() if listed else seed
    same_answer(lambda env: env.reset(seed=seeds), ours, theirs)
    over = np.zeros(num_envs, np.bool_)
    for _ in range(30):
        mask = over if mode == AutoresetMode.DISABLED else rng.random(num_envs) < 0.05
        if mask.any():
            some = [int(rng.integers(100)) if rng.random() < 0.5 else None for _ in range(num_envs)]
            level = {"level": int(rng.integers(len(ours.levels)))} if rng.random() < 0.3 else {}
            observations, _ = same_answer(
                lambda env, seeds=some, options={"reset_mask": mask, **level}: env.reset(
                    seed=seeds, options=dict(options)
                ),
                ours,
                theirs,
            )
            assert observations in ours.observation_space
        chosen = rng.integers(0, ACTIONS[actions], num_envs)
        observations, _, terminated, truncated, _ = same_answer(
            lambda env, chosen=chosen: env.step(chosen), ours, theirs
        )
        over = terminated | truncated
    assert_same_streams(ours, theirs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("compiled", [True, False])
def test_equal_over_many_autoresets(
    mode: AutoresetMode, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With compiled streams, and with NumPy's generators where a release of NumPy draws otherwise."""
    monkeypatch.setattr("graphwrap.envs.draws.streams_are_numpys", lambda: compiled)
    ours, theirs = pair(3, mode, levels=three_levels(), obs="text", max_steps=2)
    same_answer(lambda env: env.reset(seed=[4, 4, 2**200]), ours, theirs)
    actions = np.random.default_rng(0).integers(0, 4, (300, 3))
    for chosen in actions:
        *_, terminated, truncated, _ = same_answer(lambda env, chosen=chosen: env.step(chosen), ours, theirs)
        over = terminated | truncated
        if mode == AutoresetMode.DISABLED and over.any():
            same_answer(lambda env, over=over: env.reset(options={"reset_mask": over}), ours, theirs)
    assert_same_streams(ours, theirs)


def test_a_win_on_the_last_step_and_after_it() -> None:
    for reach, ends in ((0, (True, False)), (1, (True, False)), (-1, (False, True))):
        env = SokobanVectorEnv(2, three_levels(), max_steps=2 + reach, obs="text")
        env.reset(options={"level": 2})
        steps = [env.step([RIGHT, LEFT]) for _ in range(2)]
        last = steps[1 + min(reach, 0)]
        assert (last[2][0], last[3][0]) == ends
        assert last[4]["is_success"].tolist() == [ends[0], False]
        assert last[4]["_is_success"].tolist() == [True, reach < 1]


def test_the_three_modes_by_hand() -> None:
    options: dict[str, Any] = {"levels": three_levels().select([0]), "obs": "text", "max_steps": 3}
    start = "#######\n#     #\n#@$.  #\n#     #\n#######"
    won = start.replace("@$.", " @*")

    env = SokobanVectorEnv(2, autoreset_mode="NextStep", **options)
    assert env.reset(seed=0)[0] == (start, start)
    observations, rewards, terminated, truncated, infos = env.step([RIGHT, LEFT])
    assert observations == (won, start)
    assert rewards.tolist() == [10.0, -0.1]
    assert (terminated.tolist(), truncated.tolist()) == ([True, False], [False, False])
    assert {key: value.tolist() for key, value in infos.items()} == {
        "is_success": [True, False],
        "_is_success": [True, False],
    }
    observations, rewards, terminated, _, infos = env.step([99, LEFT])  # the action of a reset row is ignored
    assert observations == (start, start)
    assert rewards.tolist() == [0.0, -0.1]
    assert not terminated.any()
    assert {key: value.tolist() for key, value in infos.items()} == {
        "level": [0, 0],
        "_level": [True, False],
        "optimal_length": [1, 0],
        "_optimal_length": [True, False],
    }

    env = SokobanVectorEnv(2, autoreset_mode="SameStep", **options)
    env.reset(seed=0)
    observations, rewards, terminated, _, infos = env.step([RIGHT, LEFT])
    assert observations == (start, start)
    assert rewards.tolist() == [10.0, -0.1]
    assert terminated.tolist() == [True, False]
    assert infos["final_obs"].tolist() == [won, None]
    assert infos["_final_obs"].tolist() == [True, False]
    assert infos["final_info"]["is_success"].tolist() == [True, False]
    assert infos["_level"].tolist() == [True, False]

    env = SokobanVectorEnv(2, autoreset_mode="Disabled", **options)
    env.reset(seed=0)
    _, _, terminated, truncated, _ = env.step([RIGHT, LEFT])
    with pytest.raises(ResetNeeded, match=r"sub-environments \[0\] have ended"):
        env.step([RIGHT, LEFT])
    env.reset(options={"reset_mask": terminated | truncated})
    assert env.step([UP, LEFT])[1].tolist() == [0.0, -0.1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("split", ["train", "test"])
def test_equal_on_levels_made_on_the_fly(mode: AutoresetMode, split: str) -> None:
    ours, theirs = pair(3, mode, levels="generate:5x5-1:1-9", split=split, obs="codes", max_steps=4)
    same_answer(lambda env: env.reset(seed=[3, 3, 1]), ours, theirs)
    rng = np.random.default_rng(0)
    for chosen in rng.integers(0, 4, (12, 3)):
        observations, _, terminated, truncated, infos = same_answer(
            lambda env, chosen=chosen: env.step(chosen), ours, theirs
        )
        over = terminated | truncated
        if "level" in infos:
            row = np.flatnonzero(infos["_level"])[0]
            np.testing.assert_array_equal(observations[row], ours.levels.board(infos["level"][row]))
        if mode == AutoresetMode.DISABLED and over.any():
            same_answer(lambda env, over=over: env.reset(options={"reset_mask": over}), ours, theirs)
    assert_same_streams(ours, theirs)


def test_a_level_that_cannot_be_made_leaves_the_batch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    env = SokobanVectorEnv(2, "generate:5x5-1", obs="codes", max_steps=1)
    env.reset(seed=0)
    before = env.step([UP, DOWN])[0]
    monkeypatch.setattr("graphwrap.envs.generator.ROOMS_PER_LEVEL", 0)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"Level \d+ of generate:5x5-1, split train, is none of"):
            env.step([UP, DOWN])
    monkeypatch.undo()
    observations, *_, infos = env.step([UP, DOWN])
    assert infos["_level"].all()
    assert not np.array_equal(observations, before)
    for board, level in zip(observations, infos["level"]):
        np.testing.assert_array_equal(board, env.levels.board(level))


def test_make_vec_makes_the_batch_and_sync_still_works() -> None:
    batch = gym.make_vec("graphwrap/Sokoban-v0", num_envs=3, obs="codes", levels="6x6-1", split="test")
    sync = gym.make_vec(
        "graphwrap/Sokoban-v0", num_envs=3, obs="codes", split="test", vectorization_mode="sync"
    )
    assert isinstance(batch, SokobanVectorEnv)
    assert isinstance(sync, SyncVectorEnv)
    same_answer(lambda env: env.reset(seed=5), batch, sync)
    same_answer(lambda env: env.step(np.array([0, 1, 2])), batch, sync)
    assert batch.spec is not None
    assert json.loads(batch.spec.to_json())["kwargs"]["split"] == "test"
    again = gym.make_vec(batch.spec)
    assert again.num_envs == 3
    same_answer(lambda env: env.reset(seed=5), again, batch)


def test_group_members_with_one_seed_get_one_level() -> None:
    for levels in ("6x6-1", "generate:6x6-1"):
        env = SokobanVectorEnv(4, levels, obs="codes")
        observations, infos = env.reset(seed=[8, 8, 8, 9])
        assert len(set(infos["level"].tolist())) == 2
        assert (observations[:3] == observations[0]).all()


def test_the_caller_keeps_what_is_returned_and_passed() -> None:
    for obs in ("grid", "codes", "rgb"):
        env = SokobanVectorEnv(2, three_levels(), obs=obs, max_steps=2)
        options = {"level": 0, "reset_mask": np.ones(2, np.bool_)}
        first, infos = env.reset(options=options)
        assert set(options) == {"level", "reset_mask"}
        kept = copy.deepcopy((first, infos))
        actions = np.array([RIGHT, DOWN])
        second = env.step(actions)
        kept_second = copy.deepcopy(second)
        for array in (first, *infos.values(), *second[:4], *second[4].values()):
            assert array.flags.writeable
        env.step(actions)
        assert_same((first, infos), kept)
        assert_same(second, kept_second)
        first[:] = 0
        assert env.step(actions)[0].any()
        assert actions.tolist() == [RIGHT, DOWN]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_continues_alike_and_apart(clone: Callable) -> None:
    env = SokobanVectorEnv(3, max_steps=2)
    env.reset(seed=1)
    for _ in range(9):
        env.step([0, 1, 2])
    twin = clone(env)
    for _ in range(9):
        same_answer(lambda one: one.step([3, 2, 1]), env, twin)


def test_one_level_per_sub_environment() -> None:
    env = SokobanVectorEnv(3, obs="codes", split="test")
    observations, infos = env.reset(options={"level": np.array([5, 0, 399])})
    assert infos["level"].tolist() == [5, 0, 399]
    np.testing.assert_array_equal(observations, env.levels.boards[[5, 0, 399]])
    _, infos = env.reset(options={"level": [1, 2, 3], "reset_mask": np.array([False, True, True])})
    assert infos["level"].tolist() == [0, 2, 3]
    with pytest.raises(ValueError, match="one per sub-environment, 3, got 2"):
        env.reset(options={"level": [1, 2]})


def test_generators_of_the_sub_environments() -> None:
    """A generator that is handed out, or given, is drawn from like a single environment's own."""
    ours, theirs = pair(2, AutoresetMode.NEXT_STEP, max_steps=1)
    same_answer(lambda env: env.reset(seed=3), ours, theirs)
    for step in range(40):
        if step == 20:  # draws from outside shift both streams alike
            assert_same_streams(ours, theirs)
            assert [env.np_random[1].integers(1000) for env in (ours, theirs)] in (
                [k, k] for k in range(1000)
            )
        same_answer(lambda env: env.step(np.array([0, 1])), ours, theirs)
    for env in (ours, theirs):
        env.set_attr("np_random", [np.random.default_rng(7), np.random.Generator(np.random.MT19937(8))])
    for _ in range(20):
        same_answer(lambda env: env.step(np.array([0, 1])), ours, theirs)
    assert ours.np_random_seed == theirs.np_random_seed == (-1, -1)
    assert ours.get_attr("np_random")[0] is ours.np_random[0]
    unseeded = SokobanVectorEnv(2)
    unseeded.reset()
    assert len(set(unseeded.np_random_seed)) == 2


def test_attributes() -> None:
    ours, theirs = pair(2, AutoresetMode.NEXT_STEP, levels=three_levels(), render_mode="ansi", max_steps=4)
    ours.reset(seed=0), theirs.reset(seed=0)
    for name in ("levels", "max_steps", "render_mode", "metadata", "action_space", "observation_space"):
        assert ours.get_attr(name) == theirs.get_attr(name)
    assert ours.call("render") == theirs.call("render") == ours.render()
    with pytest.raises(AttributeError, match=r"rows of one batch .* got 'goal'"):
        ours.get_attr("goal")
    with pytest.raises(AttributeError, match="np_random can be set"):
        ours.set_attr("max_steps", 3)
    with pytest.raises(ValueError, match="one entry per sub-environment, 2, got 1"):
        ours.set_attr("np_random", [np.random.default_rng()])
    with pytest.raises(TypeError, match=r"is a numpy.random.Generator, got 3"):
        ours.set_attr("np_random", 3)


def test_rendering() -> None:
    env = SokobanVectorEnv(2, three_levels(), obs="rgb", render_mode="rgb_array")
    with pytest.raises(ResetNeeded, match="no board"):
        env.render()
    observations, _ = env.reset(options={"level": [0, 1]})
    frames = env.render()
    assert len(frames) == 2
    np.testing.assert_array_equal(np.stack(frames), observations)
    silent = SokobanVectorEnv(2, three_levels())
    silent.reset()
    with pytest.warns(UserWarning, match="render_mode"):
        assert silent.render() == (None, None)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 4], "An action is an integer of 0 to 3, got (np.int64\\()?4"),
        ([-1, 0], "An action is an integer of 0 to 3, got (np.int64\\()?-1"),
        ([0.0, 1.0], "An action is an integer of 0 to 3, got (np.float64\\()?0.0"),
        ([0], r"shape \(2,\), got shape \(1,\)"),
        ([[0], [1]], r"shape \(2,\), got shape \(2, 1\)"),
        (0, r"shape \(2,\), got shape \(\)"),
    ],
)
def test_wrong_actions_change_nothing(actions: Any, message: str) -> None:
    env = SokobanVectorEnv(2, three_levels(), obs="codes", max_steps=2)
    before, _ = env.reset(options={"level": 0})
    with pytest.raises(ValueError, match=message):
        env.step(actions)
    after, _, _, truncated, _ = env.step([LEFT, LEFT])
    np.testing.assert_array_equal(after, before)
    assert not truncated.any()


def test_steps_before_a_reset() -> None:
    env = SokobanVectorEnv(2)
    with pytest.raises(ResetNeeded, match="No episode has begun"):
        env.step([0, 0])
    with pytest.raises(ResetNeeded, match="first reset is of all"):
        env.reset(options={"reset_mask": np.array([True, False])})
    env.reset()
    env.step([0, 0])


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"seed": [1, 2, 3]}, ValueError, "one per sub-environment, 2, got 3"),
        ({"seed": [1, -2]}, Error, "at least 0, got -2"),
        ({"seed": [1, 2.0]}, Error, "got 2.0 of type float"),
        ({"seed": -1}, Error, "at least 0, got -1"),
        ({"seed": 1.5}, Error, "got 1.5"),
        ({"seed": [np.int64(1), 2]}, Error, "of type int64"),
        ({"options": {"reset_mask": [True, False]}}, TypeError, "array of bool, got list"),
        ({"options": {"reset_mask": np.array([1, 0])}}, TypeError, "array of bool, got dtype int"),
        ({"options": {"reset_mask": np.array([True])}}, ValueError, r"shape \(2,\) and at least one True"),
        ({"options": {"reset_mask": np.zeros(2, np.bool_)}}, ValueError, "at least one True"),
        ({"options": {"level": 3}}, ValueError, "integer of 0 to 2 for three, got 3"),
        ({"options": {"level": [0, 7]}}, ValueError, "integer of 0 to 2 for three, got 7"),
        ({"options": {"room": 3}}, ValueError, "The only reset option is 'level', got 'room'"),
    ],
)
def test_wrong_resets_change_nothing(arguments: dict, kind: type[Exception], message: str) -> None:
    env, twin = (SokobanVectorEnv(2, three_levels(), max_steps=2) for _ in range(2))
    for one in (env, twin):
        one.reset(seed=0)
        one.step([0, 0])
    with pytest.raises(kind, match=message):
        env.reset(**arguments)
    for _ in range(3):
        same_answer(lambda one: one.step([1, 2]), env, twin)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs is an integer of at least 1, got 0"),
        ({"num_envs": 2.0}, "num_envs is an integer of at least 1, got 2.0"),
        ({"obs": "image"}, "obs is one of 'grid', 'codes', 'text', 'rgb'; got 'image'"),
        ({"max_steps": 0}, "max_steps is an integer of at least 1"),
        ({"split": "valid"}, "splits of 6x6-1 are"),
        ({"autoreset_mode": "never"}, "never"),
    ],
)
def test_wrong_arguments(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SokobanVectorEnv(**arguments)


def test_a_large_batch_agrees_with_a_small_one() -> None:
    """Sub-environment i of a batch plays as the i-th of any other: nothing leaks between rows."""
    levels = load_levels("6x6-1", "test")
    large, small = (SokobanVectorEnv(count, levels, obs="codes", actions="all") for count in (64, 3))
    seeds = list(range(64))
    large.reset(seed=seeds), small.reset(seed=seeds[:3])
    for chosen in np.random.default_rng(2).integers(0, 9, (60, 64)):
        big, little = large.step(chosen), small.step(chosen[:3])
        for one, two in zip(big[:4], little[:4]):
            np.testing.assert_array_equal(one[:3], two)


def test_a_set_and_a_generator_are_taken_as_they_are() -> None:
    generator = LevelGenerator((5, 5))
    for levels in (three_levels(), generator):
        env = SokobanVectorEnv(1, levels)
        assert env.levels is levels
        assert isinstance(env.levels, LevelSet) == (levels is not generator)
