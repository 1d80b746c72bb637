from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordEpisodeStatistics
from stable_baselines3.common.env_checker import check_env as sb3_check_env
from stable_baselines3.common.vec_env import DummyVecEnv

from graphwrap.envs import LevelSet, SokobanEnv, load_levels, solve
from graphwrap.envs.rules import OBSERVATIONS

from .boards import three_levels

UP, DOWN, LEFT, RIGHT = range(4)


@pytest.mark.parametrize("obs", OBSERVATIONS)
@pytest.mark.parametrize("actions", ["push", "all"])
def test_gymnasium_accepts_it(obs: str, actions: str) -> None:
    env = gym.make("graphwrap/Sokoban-v0", obs=obs, actions=actions)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    assert env.spec is not None
    assert json.loads(env.spec.to_json())["kwargs"] == {"obs": obs, "actions": actions}


@pytest.mark.parametrize("obs", ["grid", "codes", "rgb"])
@pytest.mark.parametrize("reward", ["sparse", "dense"])
def test_sb3_accepts_it(obs: str, reward: str) -> None:
    sb3_check_env(SokobanEnv(obs=obs, reward=reward), warn=False)


def test_observations_show_one_board() -> None:
    levels = three_levels()
    seen = {}
    for obs in OBSERVATIONS:
        env = SokobanEnv(levels, obs=obs)
        env.reset(options={"level": 1})
        seen[obs] = env.step(RIGHT)[0]
        assert env.observation_space.contains(seen[obs])
    assert seen["text"] == "#######\n#     #\n#.@$* #\n#     #\n#######"
    board = np.array([["# .*$@+".index(symbol) for symbol in row] for row in seen["text"].split("\n")])
    np.testing.assert_array_equal(seen["codes"], board)
    assert seen["codes"].dtype == np.uint8
    assert seen["grid"].shape == (7, 5, 7)
    assert seen["grid"].dtype == np.float32
    for code in range(7):
        np.testing.assert_array_equal(seen["grid"][code], board == code)
    assert seen["rgb"].shape == (80, 112, 3)
    assert seen["rgb"].dtype == np.uint8
    walls = {
        seen["rgb"][16 * y : 16 * y + 16, 16 * x : 16 * x + 16].tobytes() for y, x in np.argwhere(board == 0)
    }
    assert len(walls) == 1


def test_the_player_covers_and_uncovers_a_target() -> None:
    env = SokobanEnv(three_levels(), obs="text")
    first, _ = env.reset(options={"level": 1})
    assert first.split("\n")[2] == "#+$ * #"
    assert env.step(UP)[0].split("\n")[1:3] == ["#@    #", "#.$ * #"]
    assert env.step(DOWN)[0] == first


def test_rewards_and_end_of_a_win() -> None:
    for reward, expected in (("sparse", [0.0, 10.0]), ("success", [0.0, 10.0]), ("dense", [-0.1, 10.9])):
        env = SokobanEnv(three_levels(), reward=reward)
        _, info = env.reset(options={"level": 2})
        assert info == {"level": 2, "optimal_length": 2}
        steps = [env.step(RIGHT)[1:] for _ in range(2)]
        assert steps[0] == (expected[0], False, False, {})
        assert steps[1] == (expected[1], True, False, {"is_success": True})


def test_an_action_that_changes_nothing() -> None:
    env = SokobanEnv(three_levels(), actions="all", max_steps=4)
    env.reset(options={"level": 0})
    assert [env.step(action)[1] for action in (0, 3, 8)] == [
        -0.1,
        -0.1,
        -0.1,
    ]  # none, into a wall, move into a box
    assert env.step(5)[1:] == (0.0, False, True, {"is_success": False})
    env = SokobanEnv(three_levels(), actions="all", reward="success")
    env.reset(options={"level": 0})
    assert [env.step(action)[1] for action in (0, 3, 8)] == [0.0, 0.0, 0.0]


def test_pushes_and_moves_of_all_nine_actions() -> None:
    env = SokobanEnv(three_levels(), actions="all", obs="text")
    rows = {}
    for action in range(9):
        env.reset(options={"level": 2})
        rows[action] = env.step(action)[0].split("\n")
    still = ["#######", "#     #", "#@$ . #", "#     #", "#######"]
    assert rows[0] == rows[3] == rows[7] == rows[8] == still
    assert rows[1] == rows[5] == ["#######", "#@    #", "# $ . #", "#     #", "#######"]
    assert rows[2] == rows[6] == ["#######", "#     #", "# $ . #", "#@    #", "#######"]
    assert rows[4] == ["#######", "#     #", "# @$. #", "#     #", "#######"]


def test_one_seed_one_level() -> None:
    env, other = SokobanEnv(), SokobanEnv(obs="codes", reward="dense", max_steps=3)
    levels = [env.reset(seed=seed)[1]["level"] for seed in range(40)]
    other.reset(seed=99)
    assert [other.reset(seed=seed)[1]["level"] for seed in range(40)] == levels
    assert len(set(levels)) > 35
    script = (
        "from graphwrap.envs import SokobanEnv\n"
        "env = SokobanEnv()\n"
        "print([env.reset(seed=seed)[1]['level'] for seed in range(40)])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == levels


def test_resets_without_a_seed_go_on_from_the_last_seed() -> None:
    def draws() -> list[int]:
        env = SokobanEnv()
        return [env.reset(seed=5)[1]["level"], *(env.reset()[1]["level"] for _ in range(10))]

    assert draws() == draws()
    assert len(set(draws())) > 5


def test_the_level_option_wins_over_the_seed() -> None:
    env = SokobanEnv(split="test", obs="codes")
    for level in (0, 7, np.int64(399)):
        observation, info = env.reset(seed=1, options={"level": level})
        assert info["level"] == level
        assert info["optimal_length"] == env.levels.optimal[level]
        np.testing.assert_array_equal(observation, env.levels.boards[level])


def test_optimal_length_is_absent_where_unknown() -> None:
    assert SokobanEnv(three_levels()).reset(options={"level": 1})[1] == {"level": 1}


def test_two_environments_share_nothing_mutable() -> None:
    one, two = SokobanEnv(obs="codes"), SokobanEnv(obs="codes")
    first, _ = one.reset(options={"level": 3})
    second, _ = two.reset(options={"level": 3})
    first[:] = 0
    one.step(UP), one.step(LEFT)
    np.testing.assert_array_equal(second, two.levels.boards[3])
    np.testing.assert_array_equal(two.step(DOWN)[0], _after(two.levels, 3, [DOWN]))
    with pytest.raises(ValueError, match="read-only"):
        one.levels.boards[0, 0, 0] = 1


def test_observations_are_not_changed_by_later_steps() -> None:
    for obs in ("grid", "codes", "rgb"):
        env = SokobanEnv(obs=obs)
        first, _ = env.reset(options={"level": 0})
        kept = first.copy()
        second = env.step(RIGHT)[0]
        assert first.flags.writeable
        assert not np.array_equal(first, second)
        np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_continues_alike_and_apart(clone) -> None:
    env = SokobanEnv(obs="grid", reward="dense", actions="all")
    env.reset(seed=3)
    env.step(4)
    twin = clone(env)
    actions = np.random.default_rng(0).integers(0, 9, 10).tolist()
    ours = [env.step(action) for action in actions]
    theirs = [twin.step(action) for action in actions]
    for one, two in zip(ours, theirs):
        np.testing.assert_array_equal(one[0], two[0])
        assert one[1:] == two[1:]
    assert env.reset()[1] == twin.reset()[1]
    assert twin.levels.boards.flags.writeable is False


def test_every_shipped_level_is_won_by_its_shortest_solution() -> None:
    for split in ("train", "test"):
        env = SokobanEnv(split=split, obs="codes")
        for level in range(0, len(env.levels), 10):
            _, info = env.reset(options={"level": level})
            solution = solve(env.levels.boards[level])
            assert solution is not None
            assert len(solution) == info["optimal_length"]
            ends = [env.step(action)[2] for action in solution]
            assert ends == [False] * (len(solution) - 1) + [True]


def test_rendering() -> None:
    env = SokobanEnv(three_levels(), render_mode="ansi")
    with pytest.raises(ResetNeeded, match="no board"):
        env.render()
    env.reset(options={"level": 0})
    assert env.render() == "#######\n#     #\n#@$.  #\n#     #\n#######"
    picture = SokobanEnv(three_levels(), obs="rgb", render_mode="rgb_array")
    observation, _ = picture.reset(options={"level": 0})
    np.testing.assert_array_equal(picture.render(), observation)
    silent = SokobanEnv(three_levels())
    silent.reset()
    with pytest.warns(UserWarning, match="render_mode"):
        assert silent.render() is None


def test_in_an_sb3_vec_env() -> None:
    venv = DummyVecEnv([lambda: SokobanEnv(three_levels(), max_steps=2, obs="codes")] * 3)
    venv.env_method("reset", options={"level": 0}, indices=[0])
    venv.env_method("reset", options={"level": 2}, indices=[1])
    venv.env_method("reset", options={"level": 1}, indices=[2])
    _, rewards, dones, infos = venv.step(np.array([RIGHT, RIGHT, LEFT]))
    assert rewards.tolist() == pytest.approx([10, 0, -0.1])
    assert dones.tolist() == [True, False, False]
    assert infos[0]["is_success"] is True
    assert infos[0]["TimeLimit.truncated"] is False
    np.testing.assert_array_equal(infos[0]["terminal_observation"], _after(three_levels(), 0, [RIGHT]))
    _, rewards, dones, infos = venv.step(np.array([UP, RIGHT, LEFT]))
    assert dones.tolist() == [False, True, True]
    assert [info.get("is_success") for info in infos] == [None, True, False]
    assert infos[2]["TimeLimit.truncated"] is True


def test_episode_statistics_outside() -> None:
    env = RecordEpisodeStatistics(gym.make("graphwrap/Sokoban-v0", levels=three_levels()))
    env.reset(options={"level": 2})
    env.step(LEFT), env.step(RIGHT)
    info = env.step(RIGHT)[4]
    assert info["episode"]["r"] == pytest.approx(9.9)
    assert info["episode"]["l"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"obs": "image"}, "obs is one of 'grid', 'codes', 'text', 'rgb'; got 'image'"),
        ({"reward": "shaped"}, "reward is one of 'sparse', 'success', 'dense'; got 'shaped'"),
        ({"actions": 4}, "actions is one of 'push', 'all'; got 4"),
        ({"render_mode": "human"}, "render_mode is one of None, 'rgb_array', 'ansi'; got 'human'"),
        ({"max_steps": 0}, "max_steps is an integer of at least 1, got 0"),
        ({"max_steps": 2.5}, "max_steps is an integer of at least 1, got 2.5"),
        ({"split": "valid"}, "splits of 6x6-1 are test, train; got split='valid'"),
        ({"levels": "9x9-9"}, r"shipped set \(6x6-1, 6x6-1-easy, 7x7-1, 7x7-2\).*got '9x9-9'"),
    ],
)
def test_wrong_arguments(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SokobanEnv(**arguments)


@pytest.mark.parametrize("action", [4, -1, 1.0, "up", None, np.array([1])])
def test_wrong_actions_change_nothing(action) -> None:
    env = SokobanEnv(obs="text", max_steps=1)
    before, _ = env.reset(seed=0)
    with pytest.raises(ValueError, match="An action is an integer of 0 to 3, got"):
        env.step(action)
    assert SokobanEnv.step(env, UP)[3] is True
    assert env.reset(seed=0)[0] == before


@pytest.mark.parametrize("action", [1, np.int64(1), np.int32(1), np.array(1)])
def test_integers_of_every_kind_are_actions(action) -> None:
    env = SokobanEnv(three_levels(), obs="text")
    env.reset(options={"level": 0})
    assert env.step(action)[0].split("\n")[2:4] == ["# $.  #", "#@    #"]


@pytest.mark.parametrize("level", [3, -1, 0.0, "0", None])
def test_wrong_levels(level) -> None:
    env = SokobanEnv(three_levels())
    with pytest.raises(ValueError, match=r"options\['level'\] is an integer of 0 to 2 for three, got"):
        env.reset(options={"level": level})


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="The only reset option is 'level', got 'room'"):
        SokobanEnv().reset(options={"room": 1})


def test_steps_outside_an_episode() -> None:
    env = SokobanEnv(three_levels(), max_steps=1)
    with pytest.raises(ResetNeeded, match="No episode has begun"):
        env.step(UP)
    env.reset(options={"level": 0})
    env.step(RIGHT)
    with pytest.raises(ResetNeeded, match="The episode has ended"):
        env.step(UP)


def test_import_needs_neither_learner_nor_generator() -> None:
    script = (
        "import sys, gymnasium, graphwrap\n"
        "env = gymnasium.make('graphwrap/Sokoban-v0')\n"
        "env.reset(seed=0)\n"
        "names = ('torch', 'stable_baselines3', 'gym_sokoban', 'gym', 'numba', 'matplotlib')\n"
        "print([name for name in names if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
    assert run.stderr == ""


def _after(levels: LevelSet, level: int, actions: list[int]) -> np.ndarray:
    env = SokobanEnv(levels, obs="codes")
    observation, _ = env.reset(options={"level": level})
    for action in actions:
        observation = env.step(action)[0]
    return observation


def test_the_default_set_is_loaded_once() -> None:
    assert SokobanEnv().levels is SokobanEnv(max_steps=3).levels is load_levels("6x6-1", "train")
