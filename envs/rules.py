"""What the single and the batched Sokoban share: options, rewards, the actions' effects and the spaces."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from graphwrap.envs.cells import NUM_CODES, SYMBOLS
from graphwrap.envs.render import TILE

if TYPE_CHECKING:
    from graphwrap.envs.levels import LevelSource

OBSERVATIONS = ("grid", "codes", "text", "rgb")
REWARDS = ("sparse", "success", "dense")
ACTIONS = {"push": 4, "all": 9}
RENDER_MODES = ("rgb_array", "ansi")
STEP_REWARD, BOX_REWARD, WIN_REWARD = -0.1, 1.0, 10.0

BEFORE_FIRST_RESET = "No episode has begun: call reset() before the first step."
NOTHING_TO_RENDER = "There is no board to render yet: call reset() first."
NO_RENDER_MODE = 'render() shows nothing without a render_mode; pass "rgb_array" or "ansi" to the env.'


def check_options(obs: Any, reward: Any, actions: Any, max_steps: Any, render_mode: Any) -> None:
    """Refuses what no Sokoban environment has.

    Raises:
        ValueError: an option that does not exist; lists those that do.
    """
    _require("obs", obs, OBSERVATIONS)
    _require("reward", reward, REWARDS)
    _require("actions", actions, tuple(ACTIONS))
    _require("render_mode", render_mode, (None, *RENDER_MODES))
    if isinstance(max_steps, bool) or not isinstance(max_steps, (int, np.integer)) or max_steps < 1:
        raise ValueError(f"max_steps is an integer of at least 1, got {max_steps!r}.")


def effects(actions: str, width: int) -> tuple[tuple[int, bool], ...]:
    """Per action: how far the player's next cell is in a row-by-row board, and may the player push.

    Args:
        actions: "push" or "all".
        width: cells per row.
    """
    steps = (-width, width, -1, 1)
    pushes = tuple((step, True) for step in steps)
    return pushes if actions == "push" else ((0, False), *pushes, *((step, False) for step in steps))


def idle_reward(reward: str) -> float:
    """The reward of an action that changes nothing, where `reward` is not "dense"."""
    return STEP_REWARD if reward == "sparse" else 0.0


def observation_space(obs: str, height: int, width: int) -> spaces.Space[Any]:
    """The observation space of one environment."""
    if obs == "grid":
        return spaces.Box(0.0, 1.0, (NUM_CODES, height, width), np.float32)
    if obs == "codes":
        return spaces.Box(0, NUM_CODES - 1, (height, width), np.uint8)
    if obs == "text":
        length = height * (width + 1) - 1
        return spaces.Text(length, min_length=length, charset=SYMBOLS + "\n")
    return spaces.Box(0, 255, (height * TILE, width * TILE, 3), np.uint8)


def check_reset_options(options: dict[str, Any]) -> None:
    """Refuses reset options other than "level".

    Raises:
        ValueError: another option.
    """
    unknown = sorted(set(options) - {"level"}, key=str)
    if unknown:
        raise ValueError(f"The only reset option is 'level', got {unknown[0]!r}.")


def checked_level(levels: LevelSource, given: Any) -> int:
    """The number of a level that there is.

    Raises:
        ValueError: there is no such level.
    """
    try:
        level = index(given)
    except TypeError:
        level = -1
    if not 0 <= level < len(levels):
        raise ValueError(
            f"options['level'] is an integer of 0 to {len(levels) - 1} for {levels.name}, got {given!r}."
        )
    return level


def refused_action(action: Any, count: int) -> ValueError:
    """The error for an action that is none of `count`."""
    return ValueError(f"An action is an integer of 0 to {count - 1}, got {action!r}.")


def _require(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        raise ValueError(f"{name} is one of {', '.join(map(repr, allowed))}; got {value!r}.")
