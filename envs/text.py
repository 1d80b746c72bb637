"""Text environments: what one has to do, a check of it, and Sokoban as one.

A text environment is a Gymnasium environment whose observations and actions are str. Its infos may have

- ``admissible_actions``: list of str, after every reset and step except an episode's last. Without it any action is
  admissible.
- ``state_key``: what two observations of the same state have in common: a str, a number, bytes or a tuple of such.
  Without it the observation is the state; give it where the observation has feedback or a clock in it.
- ``task``: str, from reset: which task this is. Prompts show it, unless there is
- ``task_description``: str, from reset: the same for people and prompts.
- ``task_type``: str, from reset; success is logged by it.
- ``walkthrough``: list of str, from reset: admissible actions that lead to success; for a warm start that wants some.
- ``is_success`` (or ``success``, or ``won``): bool, with an episode's last step. Without it an episode that terminated
  with a positive return succeeded.

``step`` takes every str: an unknown action changes nothing, and is a step. Every episode ends, if need be by a time
limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from graphwrap.envs.hosts import check_state_key
from graphwrap.envs.levels import LevelSource
from graphwrap.envs.rules import RENDER_MODES
from graphwrap.envs.sokoban import SokobanEnv
from graphwrap.recording.success import SUCCESS_KEYS

_ACTIONS = {"up": 1, "down": 2, "left": 3, "right": 4}  # SokobanEnv(actions="all"), whose 0 does nothing
_OFFSETS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
_NOTHING = 0
_NO_ACTION = "an action that no environment knows"
_CHECKED_STEPS = 200  # per episode


class TextSokobanEnv(gym.Env[str, str]):
    """Sokoban as rows of XSB characters, played with "up", "down", "left" and "right".

    Levels, seeds, rewards and ends are those of `SokobanEnv`. Any other str is a step that changes nothing, rewarded
    like a move into a wall. The info of a reset has ``task`` and ``task_type``, the number of boxes.

    Args:
        levels: As in `SokobanEnv`.
        split: As in `SokobanEnv`.
        reward: As in `SokobanEnv`.
        max_steps: As in `SokobanEnv`.
        admissible: "all", every direction; "moves", those in which the player is not blocked.
        render_mode: None, "rgb_array" or "ansi".

    Raises:
        ValueError: An argument or level that does not exist; lists what does.
        TypeError: An action that is no str.
        ResetNeeded: A step before the first reset or after the end of the episode.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        levels: str | Path | LevelSource = "6x6-1",
        split: str = "train",
        reward: Literal["sparse", "success", "dense"] = "sparse",
        max_steps: int = 15,
        admissible: Literal["all", "moves"] = "all",
        render_mode: str | None = None,
    ):
        if admissible not in ("all", "moves"):
            raise ValueError(f"admissible must be 'all' or 'moves', got {admissible!r}.")
        self._moves_only = admissible == "moves"
        self._env = SokobanEnv(levels, split, "text", reward, "all", max_steps, render_mode)
        self.levels = self._env.levels
        self.max_steps = self._env.max_steps
        self.render_mode = render_mode
        self.observation_space = self._env.observation_space
        self.action_space = spaces.Text(
            max(map(len, _ACTIONS)),
            min_length=min(map(len, _ACTIONS)),
            charset="".join(sorted(set("".join(_ACTIONS)))),
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode on the level of ``seed``, of ``options["level"]``, or of the generator's next draw."""
        super().reset(seed=seed)
        observation, info = self._env.reset(seed=seed, options=options)
        boxes = observation.count("$") + observation.count("*")
        info["admissible_actions"] = self._admissible(observation)
        info["task"] = "Push every box onto a target."
        info["task_type"] = f"{boxes} box" if boxes == 1 else f"{boxes} boxes"
        return observation, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """One action of the player."""
        if not isinstance(action, str):
            raise TypeError(f"An action is a str such as {next(iter(_ACTIONS))!r}, got {action!r}.")
        observation, reward, terminated, truncated, info = self._env.step(_ACTIONS.get(action, _NOTHING))
        info["admissible_actions"] = [] if terminated or truncated else self._admissible(observation)
        return observation, reward, terminated, truncated, info

    def render(self) -> np.ndarray | str | None:  # type: ignore[override]
        """The picture, uint8 (16 H, 16 W, 3), or the text of the board, by ``render_mode``."""
        return self._env.render()

    def _admissible(self, observation: str) -> list[str]:
        moves = free_moves(observation) if self._moves_only else []
        return moves or list(_ACTIONS)  # also of a player who is shut in


def task_text(info: Mapping[str, Any]) -> str:
    """The task as prompts show it.

    Args:
        info: Of a reset.
    """
    return info.get("task_description", info.get("task", ""))


def free_moves(board: str) -> list[str]:
    """The directions in which the player of a board in XSB characters is not blocked."""
    rows = board.split("\n")
    row, column = next((y, x) for y, cells in enumerate(rows) for x, cell in enumerate(cells) if cell in "@+")
    found = []
    for name, (down, right) in _OFFSETS.items():
        cell = rows[row + down][column + right]
        beyond = rows[row + 2 * down][column + 2 * right] if cell in "$*" else cell
        if beyond in " .":
            found.append(name)
    return found


def check_text_env(env: gym.Env[Any, Any], seed: int = 0, episodes: int = 3) -> None:
    """Play a few episodes and see that `env` does what a text environment has to do (see this module).

    Half of the actions are admissible ones, drawn at random; the others are unknown. `env` is left open.

    Raises:
        ValueError: It breaks a rule; says which, and what was seen.
    """
    for name, space in (("observation_space", env.observation_space), ("action_space", env.action_space)):
        _rule(isinstance(space, spaces.Text), f"{name} is a gymnasium.spaces.Text", space)
    rng = np.random.default_rng(seed)
    for episode in range(seed, seed + episodes):
        start = _checked_start(env, episode)
        _check_episode(env, start, rng)
        again = _checked_start(env, episode)
        first, second = ({"observation": seen, **_of_contract(info)} for seen, info in (start, again))
        _rule(first == second, f"reset(seed={episode}) gives the same start every time", (first, second))


def _check_episode(
    env: gym.Env[Any, Any], start: tuple[str, dict[str, Any]], rng: np.random.Generator
) -> None:
    observation, info = start
    for step in range(1, _CHECKED_STEPS + 1):
        admissible = info.get("admissible_actions", [])
        unknown = not admissible or rng.random() < 0.5
        action = _NO_ACTION if unknown else admissible[rng.integers(len(admissible))]
        try:
            result = env.step(action)
        except Exception as error:
            raise ValueError(f"step takes every str, but raised for {action!r}: {error!r}") from error
        _rule(
            isinstance(result, tuple) and len(result) == 5,
            "step returns (observation, reward, terminated, truncated, info)",
            result,
        )
        seen, reward, terminated, truncated, news = result
        _check_observation(seen, f"step {step}")
        _rule(
            isinstance(reward, Real) and math.isfinite(reward),
            f"the reward of step {step} is a finite number",
            reward,
        )
        for name, value in (("terminated", terminated), ("truncated", truncated)):
            _rule(isinstance(value, (bool, np.bool_)), f"{name} is a bool", value)
        _check_info(news, f"step {step}")
        if unknown and admissible:
            before, after = info.get("state_key", observation), news.get("state_key", seen)
            _rule(
                before == after,
                f"an unknown action changes neither the observation nor, where there is one, info['state_key']; "
                f"{action!r} did",
                (before, after),
            )
        if terminated or truncated:
            for name in SUCCESS_KEYS:
                _rule(
                    isinstance(news.get(name, False), (bool, np.bool_)),
                    f"info[{name!r}] of an episode's last step is a bool",
                    news.get(name),
                )
            return
        for name in ("admissible_actions", "state_key"):
            _rule(
                (name in news) == (name in info),
                f"info[{name!r}] is there after every reset and step before the end, or never; "
                f"it {'is' if name in news else 'is not'} after step {step}",
                sorted(news, key=str),
            )
        if "admissible_actions" in news:
            _rule(len(news["admissible_actions"]), f"an action is admissible after step {step}", [])
        observation, info = seen, news


def _checked_start(env: gym.Env[Any, Any], seed: int) -> tuple[str, dict[str, Any]]:
    try:
        result = env.reset(seed=seed)
    except TypeError as error:
        raise ValueError(
            f"reset takes a seed by keyword, but reset(seed={seed}) raised: {error!r}"
        ) from error
    _rule(isinstance(result, tuple) and len(result) == 2, "reset returns (observation, info)", result)
    observation, info = result
    _check_observation(observation, "reset")
    _check_info(info, "reset")
    if "admissible_actions" in info:
        _rule(len(info["admissible_actions"]), "an action is admissible after reset", [])
    for name in ("task", "task_description", "task_type"):
        _rule(isinstance(info.get(name, ""), str), f"info[{name!r}] is a str", info.get(name))
    return observation, dict(info)


def _check_observation(observation: Any, where: str) -> None:
    _rule(isinstance(observation, str), f"the observation of {where} is a str", observation)


def _check_info(info: Any, where: str) -> None:
    _rule(isinstance(info, Mapping), f"the info of {where} is a dict", info)
    actions = info.get("admissible_actions", [])
    _rule(
        isinstance(actions, (list, tuple))
        and all(isinstance(action, str) and action.strip() for action in actions),
        f"info['admissible_actions'] of {where} is a list of str that are not blank",
        actions,
    )
    plain = [" ".join(action.split()) for action in actions]
    _rule(
        len(set(plain)) == len(plain),
        f"info['admissible_actions'] of {where} are different, also without their white space",
        actions,
    )
    if "state_key" in info:
        key = info["state_key"]
        try:
            check_state_key(key)
        except TypeError as error:
            raise ValueError(
                f"info['state_key'] of {where} is a str, a number, bytes or a tuple of such, got {key!r}: {error}"
            ) from error


def _of_contract(info: Mapping[str, Any]) -> dict[str, Any]:
    names = ("admissible_actions", "state_key", "task", "task_description", "task_type")
    return {name: info[name] for name in names if name in info}


def _rule(holds: Any, rule: str, seen: Any) -> None:
    if not holds:
        raise ValueError(f"A text environment: {rule}; got {seen!r}.")
