from __future__ import annotations

import json
import subprocess
import sys
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import graphwrap  # noqa: F401  registers the environments
from graphwrap.envs import SokobanEnv
from graphwrap.envs.text import TextSokobanEnv, check_text_env, free_moves, task_text

from ..agents.own_env import KeyAndDoorEnv
from .boards import three_levels

MOVES = ["up", "down", "left", "right"]


def test_gymnasium_accepts_it() -> None:
    env = gym.make("graphwrap/TextSokoban-v0", max_steps=9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    assert env.spec is not None
    assert json.loads(env.spec.to_json())["kwargs"] == {"max_steps": 9}


@pytest.mark.parametrize("reward", ["sparse", "success", "dense"])
def test_it_is_the_same_game_as_sokoban(reward: Any) -> None:
    text, grid = TextSokobanEnv(reward=reward), SokobanEnv(obs="text", reward=reward)
    rng = np.random.default_rng(0)
    for seed in range(20):
        seen, info = text.reset(seed=seed)
        expected, expected_info = grid.reset(seed=seed)
        assert (seen, info["level"], info["optimal_length"]) == (
            expected,
            expected_info["level"],
            expected_info["optimal_length"],
        )
        ended = False
        while not ended:
            action = int(rng.integers(4))
            *result, info = text.step(MOVES[action])
            *expected_result, expected_info = grid.step(action)
            assert result == expected_result
            assert info.get("is_success") == expected_info.get("is_success")
            ended = result[2] or result[3]


def test_infos() -> None:
    env = TextSokobanEnv(three_levels(), max_steps=2)
    _, info = env.reset(options={"level": 1})
    assert info["admissible_actions"] == MOVES
    assert info["task"] == "Push every box onto a target."
    assert info["task_type"] == "2 boxes"
    _, info = env.reset(options={"level": 0})
    assert info["task_type"] == "1 box"
    *_, info = env.step("left")
    assert info == {"admissible_actions": MOVES}
    observation, reward, terminated, truncated, info = env.step("right")
    assert observation == "#######\n#     #\n# @*  #\n#     #\n#######"
    assert (reward, terminated, truncated) == (10.0, True, False)
    assert info == {"admissible_actions": [], "is_success": True}
    with pytest.raises(ResetNeeded):
        env.step("up")


@pytest.mark.parametrize("action", ["", "jump", "UP", " up", "up down", "0", "\ud83d"])
@pytest.mark.parametrize(("reward", "idle"), [("sparse", -0.1), ("success", 0.0), ("dense", -0.1)])
def test_an_unknown_action_is_a_step_that_changes_nothing(action: str, reward: Any, idle: float) -> None:
    env = TextSokobanEnv(three_levels(), reward=reward, max_steps=2)
    before, _ = env.reset(options={"level": 0})
    assert env.step(action)[:4] == (before, idle, False, False)
    assert env.step(action)[:4] == (before, idle, False, True)


def test_an_action_that_is_no_str_is_refused() -> None:
    env = TextSokobanEnv()
    env.reset(seed=0)
    with pytest.raises(TypeError, match=r"An action is a str such as 'up', got 1\."):
        env.step(1)  # type: ignore[arg-type]


def test_it_is_rendered() -> None:
    env = TextSokobanEnv(three_levels(), render_mode="ansi")
    seen, _ = env.reset(options={"level": 2})
    assert env.render() == seen


@pytest.mark.parametrize(
    "make", [TextSokobanEnv, KeyAndDoorEnv, lambda: gym.make("graphwrap/TextSokoban-v0")]
)
def test_sound_environments_pass(make: Any) -> None:
    for seed in range(5):
        check_text_env(make(), seed=seed)


class Sound(gym.Env):
    """Counts up to 3 on "on". A faulty one changes one thing."""

    def __init__(self) -> None:
        self.observation_space: Any = spaces.Text(20)
        self.action_space: Any = spaces.Text(20)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return "at 0", self.info()

    def step(self, action: str) -> Any:
        self.count += action == "on"
        return f"at {self.count}", 0.0, self.count == 3, False, self.info()

    def info(self) -> dict[str, Any]:
        return {"admissible_actions": ["on", "stay"]}


def faulty(**methods: Any) -> gym.Env:
    return type("Faulty", (Sound,), methods)()


def with_info(**values: Any) -> gym.Env:
    return faulty(info=lambda self: {"admissible_actions": ["on", "stay"], **values})


def only_after_reset(self: Sound) -> dict[str, Any]:
    return {"admissible_actions": ["on"]} if not self.count else {}


def number_space(self: Sound) -> None:
    self.observation_space, self.action_space = spaces.Text(20), spaces.Discrete(2)


def refuse(self: Sound, action: str) -> Any:
    if action != "on":
        raise KeyError(action)
    return Sound.step(self, action)


def changed(place: int, value: Any) -> Any:
    def step(self: Sound, action: str) -> Any:
        result = list(Sound.step(self, action))
        result[place] = value
        return tuple(result)

    return step


def any_action_counts(self: Sound, action: str) -> Any:
    return Sound.step(self, "on")


def drawn_anew(self: Sound, *, seed: int | None = None, options: Any = None) -> Any:
    Sound.reset(self)
    return f"at {np.random.default_rng().integers(2**60)}", self.info()


@pytest.mark.parametrize(
    ("env", "rule"),
    [
        (faulty(__init__=number_space), r"action_space is a gymnasium\.spaces\.Text; got Discrete\(2\)"),
        (faulty(reset=lambda self: ("at 0", {})), "reset takes a seed by keyword"),
        (faulty(reset=lambda self, seed: "at 0"), r"reset returns \(observation, info\); got 'at 0'"),
        (faulty(reset=lambda self, seed: (b"at 0", {})), "the observation of reset is a str; got b'at 0'"),
        (faulty(reset=drawn_anew), r"reset\(seed=0\) gives the same start every time"),
        (faulty(step=refuse), "step takes every str, but raised for"),
        (
            faulty(step=lambda self, action: ("at 0", 0.0, True, {})),
            r"step returns \(observation, reward, term",
        ),
        (faulty(step=changed(0, None)), "the observation of step 1 is a str; got None"),
        (faulty(step=changed(1, float("nan"))), "the reward of step 1 is a finite number; got nan"),
        (faulty(step=changed(1, "1")), "the reward of step 1 is a finite number; got '1'"),
        (faulty(step=changed(2, 0)), "terminated is a bool; got 0"),
        (faulty(step=changed(3, None)), "truncated is a bool; got None"),
        (faulty(step=changed(4, None)), "the info of step 1 is a dict; got None"),
        (faulty(step=any_action_counts), "an unknown action changes neither the observation"),
        (faulty(info=only_after_reset), r"info\['admissible_actions'\] is there after every reset and step"),
        (with_info(admissible_actions="on"), r"info\['admissible_actions'\] of reset is a list of str"),
        (with_info(admissible_actions=["on", " "]), "list of str that are not blank"),
        (with_info(admissible_actions=["on", "on "]), "are different, also without their white space"),
        (with_info(admissible_actions=[]), r"an action is admissible after reset; got \[\]"),
        (
            with_info(state_key=[1]),
            r"info\['state_key'\] of reset is a str, a number, bytes or a tuple of such, got",
        ),
        (with_info(state_key=object()), r"info\['state_key'\] of reset is a str, a number, bytes or a tuple"),
        (with_info(task=3), r"info\['task'\] is a str; got 3"),
        (with_info(task_description=3), r"info\['task_description'\] is a str; got 3"),
        (with_info(task_type=None), r"info\['task_type'\] is a str; got None"),
        (with_info(is_success="no"), r"info\['is_success'\] of an episode's last step is a bool; got 'no'"),
    ],
)
def test_a_broken_rule_is_named(env: gym.Env, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        check_text_env(env)


def test_the_sound_one_passes() -> None:
    check_text_env(Sound())
    check_text_env(with_info(state_key=1, task="Go on.", task_type="count", is_success=np.True_))


def test_the_description_is_what_prompts_show() -> None:
    assert task_text({}) == ""
    assert task_text({"task": "game-3"}) == "game-3"
    assert task_text({"task": "game-3", "task_description": "Go on."}) == "Go on."


def test_feedback_needs_a_state_key() -> None:
    def step(self: Sound, action: str) -> Any:
        seen, *rest = Sound.step(self, action)
        return (seen if action in ("on", "stay") else f"{seen} What?"), *rest

    with pytest.raises(ValueError, match="an unknown action changes neither"):
        check_text_env(faulty(step=step))
    check_text_env(
        faulty(step=step, info=lambda self: {"admissible_actions": ["on", "stay"], "state_key": self.count})
    )


def test_it_needs_neither_torch_nor_transformers() -> None:
    code = (
        "import sys, graphwrap.envs.text, graphwrap.envs.pool, graphwrap.agents.prompts;"
        "print([name for name in ('torch', 'transformers', 'jinja2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_admissible_moves_are_those_that_change_the_board():
    env = TextSokobanEnv(levels="6x6-1-easy", max_steps=50, admissible="moves")
    rng = np.random.default_rng(0)
    blocked = 0
    for episode in range(20):
        observation, info = env.reset(seed=episode)
        over = False
        while not over:
            action = ("up", "down", "left", "right")[rng.integers(4)]
            moves = info["admissible_actions"]
            before, (observation, _, terminated, truncated, info) = observation, env.step(action)
            assert (action in moves) == (observation != before)
            blocked += action not in moves
            over = terminated or truncated
    assert blocked > 100
    check_text_env(env)


@pytest.mark.parametrize(
    ("board", "moves"),
    [
        ("#####\n# $@#\n# . #\n#####", ["down", "left"]),
        ("#####\n#$@.#\n# * #\n# $ #\n#####", ["right"]),  # neither into a wall nor two boxes
        ("####\n#+ #\n#$.#\n####", ["right"]),
    ],
)
def test_moves_of_a_board(board, moves):
    assert free_moves(board) == moves


def test_a_player_who_is_shut_in_may_try_anything():
    assert free_moves("###\n#@#\n###") == []


def test_an_unknown_kind_of_admissible_actions_is_refused():
    with pytest.raises(ValueError, match="admissible must be 'all' or 'moves', got 'some'"):
        TextSokobanEnv(admissible="some")
