"""Sokoban on fixed levels, with gym-sokoban's rules."""

from __future__ import annotations

from operator import index
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from graphwrap.envs.cells import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    NUM_CODES,
    PLAYER,
    PLAYER_ON_TARGET,
    SYMBOLS,
    TARGET,
    cells_to_text,
)
from graphwrap.envs.levels import LevelSet, load_levels
from graphwrap.envs.render import TILE, board_to_rgb
from graphwrap.envs.xsb import UNKNOWN

OBSERVATIONS = ("grid", "codes", "text", "rgb")
REWARDS = ("sparse", "success", "dense")
ACTIONS = {"push": 4, "all": 9}
STEP_REWARD, BOX_REWARD, WIN_REWARD = -0.1, 1.0, 10.0

_FREE = (FLOOR, TARGET)
_PUSHABLE = (BOX, BOX_ON_TARGET)
_PLANES = np.eye(NUM_CODES, dtype=np.float32)  # _PLANES[plane, code]
_PLANES.setflags(write=False)


class SokobanEnv(gym.Env[Any, Any]):
    """Push every box onto a target.

    Cells are 0 wall, 1 floor, 2 target, 3 box on target, 4 box, 5 player, 6 player on target. Rules, dense
    rewards and ends are those of gym-sokoban 0.0.6; the sparse reward is the usual one of agent papers.

    Args:
        levels: name of a shipped set, path of a level file, or a LevelSet.
        split: "train" or "test" of a shipped set.
        obs: "grid", float32 (7, H, W), plane k is 1 where the cell code is k; "codes", uint8 (H, W);
            "text", a str of H rows in XSB characters; "rgb", uint8 (16 H, 16 W, 3).
        reward: "sparse", 10 for the action that puts the last box in place, -0.1 for one that changes nothing,
            else 0; "success", only the 10; "dense", -0.1 each step, +1 / -1 when the number of boxes on targets
            rises / falls, +10 at the end.
        actions: "push", 0 up, 1 down, 2 left, 3 right, which push a box that is in the way; "all", gym-sokoban's
            nine: 0 none, 1 to 4 the same pushes, 5 to 8 moves that do not push.
        max_steps: an episode is truncated at this many steps, unless that step wins.
        render_mode: None, "rgb_array" or "ansi".

    ``reset(seed=s)`` chooses the level by s alone, the same one in every process; ``options={"level": k}`` takes
    level k. Its info has ``level`` and, where known, ``optimal_length`` (actions of a shortest solution).
    The info of an episode's last step has ``is_success``.

    Raises:
        ValueError: an argument, level or action that does not exist; lists what does.
        ResetNeeded: a step before the first reset or after the end of the episode.

    >>> env = SokobanEnv(obs="text", render_mode="ansi")
    >>> _, info = env.reset(options={"level": 0})
    >>> info["level"]
    0
    """

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        levels: str | Path | LevelSet = "6x6-1",
        split: str = "train",
        obs: Literal["grid", "codes", "text", "rgb"] = "grid",
        reward: Literal["sparse", "success", "dense"] = "sparse",
        actions: Literal["push", "all"] = "push",
        max_steps: int = 15,
        render_mode: str | None = None,
    ):
        _require("obs", obs, OBSERVATIONS)
        _require("reward", reward, REWARDS)
        _require("actions", actions, tuple(ACTIONS))
        _require("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        if isinstance(max_steps, bool) or not isinstance(max_steps, (int, np.integer)) or max_steps < 1:
            raise ValueError(f"max_steps is an integer of at least 1, got {max_steps!r}.")
        self.levels = load_levels(levels, split)
        self.max_steps = int(max_steps)
        self.render_mode = render_mode
        self._obs = obs
        self._dense = reward == "dense"
        self._idle_reward = STEP_REWARD if reward == "sparse" else 0.0

        height, width = self._shape = self.levels.boards.shape[1:]
        steps = (-width, width, -1, 1)
        # One (offset of the player's next cell, may it push) per action; offset 0 is the player's own cell.
        self._effects = tuple((step, True) for step in steps)
        if actions == "all":
            self._effects = ((0, False), *self._effects, *((step, False) for step in steps))
        self.action_space = spaces.Discrete(ACTIONS[actions])
        self.observation_space = _observation_space(obs, height, width)

        self._cells = bytearray()  # codes, row by row
        self._player = 0  # position in _cells
        self._uncovered = 0  # targets without a box
        self._counted = 0  # boxes on targets as of the last reward; gym-sokoban starts it at 0 on every level
        self._boxes = 0
        self._steps = 0
        self._running = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode on the level of ``seed``, of ``options["level"]``, or of the generator's next draw."""
        level = None if not options else self._level_option(options)
        super().reset(seed=seed)
        if level is None:
            level = int(self.np_random.integers(len(self.levels)))

        cells = self._cells = bytearray(self.levels.boards[level])
        self._player = max(cells.find(PLAYER), cells.find(PLAYER_ON_TARGET))
        self._boxes = cells.count(BOX) + cells.count(BOX_ON_TARGET)
        self._uncovered = cells.count(BOX)
        self._counted = self._steps = 0
        self._running = True

        info = {"level": level}
        length = int(self.levels.optimal[level])
        if length != UNKNOWN:
            info["optimal_length"] = length
        return self._observation(), info

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One action of the player."""
        if not self._running:
            raise ResetNeeded(
                "The episode has ended: call reset() before the next step."
                if self._cells
                else "No episode has begun: call reset() before the first step."
            )
        try:
            number = index(action)
            offset, pushes = self._effects[number if number >= 0 else len(self._effects)]
        except (TypeError, IndexError):
            raise ValueError(
                f"An action is an integer of 0 to {len(self._effects) - 1}, got {action!r}."
            ) from None

        cells = self._cells
        here = self._player
        there = here + offset
        code = cells[there]
        changed = False
        if code in _FREE:
            changed = True
        elif pushes and code in _PUSHABLE:
            beyond = cells[there + offset]
            if beyond in _FREE:
                changed = True
                if beyond == FLOOR:
                    cells[there + offset] = BOX
                else:
                    cells[there + offset] = BOX_ON_TARGET
                    self._uncovered -= 1
                if code == BOX:
                    code = FLOOR
                else:
                    code = TARGET
                    self._uncovered += 1
        if changed:
            cells[there] = PLAYER if code == FLOOR else PLAYER_ON_TARGET
            cells[here] = FLOOR if cells[here] == PLAYER else TARGET
            self._player = there

        self._steps += 1
        won = self._uncovered == 0
        truncated = not won and self._steps >= self.max_steps
        if self._dense:
            reward = self._dense_reward(won)
        else:
            reward = WIN_REWARD if won else 0.0 if changed else self._idle_reward
        info: dict[str, Any] = {}
        if won or truncated:
            self._running = False
            info["is_success"] = won
        return self._observation(), reward, won, truncated, info

    def render(self) -> np.ndarray | str | None:
        """The picture, uint8 (16 H, 16 W, 3), or the text of the board, by ``render_mode``."""
        if self.render_mode is None:
            gym.logger.warn(
                'render() shows nothing without a render_mode; pass "rgb_array" or "ansi" to the env.'
            )
            return None
        if not self._cells:
            raise ResetNeeded("There is no board to render yet: call reset() first.")
        if self.render_mode == "ansi":
            return cells_to_text(self._cells, self._shape[1])
        return board_to_rgb(self._board())

    def _dense_reward(self, won: bool) -> float:
        on_targets = self._boxes - self._uncovered
        reward = STEP_REWARD
        if on_targets > self._counted:
            reward += BOX_REWARD
        elif on_targets < self._counted:
            reward -= BOX_REWARD
        self._counted = on_targets
        return reward + WIN_REWARD if won else reward

    def _board(self) -> np.ndarray:
        """A new array of the codes, uint8 (H, W)."""
        return np.ndarray(self._shape, np.uint8, bytearray(self._cells))

    def _observation(self) -> Any:
        if self._obs == "grid":
            return _PLANES.take(self._board(), axis=1)
        if self._obs == "codes":
            return self._board()
        if self._obs == "text":
            return cells_to_text(self._cells, self._shape[1])
        return board_to_rgb(self._board())

    def _level_option(self, options: dict[str, Any]) -> int:
        unknown = sorted(set(options) - {"level"}, key=str)
        if unknown:
            raise ValueError(f"The only reset option is 'level', got {unknown[0]!r}.")
        try:
            level = index(options["level"])
        except TypeError:
            level = -1
        if not 0 <= level < len(self.levels):
            raise ValueError(
                f"options['level'] is an integer of 0 to {len(self.levels) - 1} for {self.levels.name}, "
                f"got {options['level']!r}."
            )
        return level


def _observation_space(obs: str, height: int, width: int) -> spaces.Space[Any]:
    if obs == "grid":
        return spaces.Box(0.0, 1.0, (NUM_CODES, height, width), np.float32)
    if obs == "codes":
        return spaces.Box(0, NUM_CODES - 1, (height, width), np.uint8)
    if obs == "text":
        length = height * (width + 1) - 1
        return spaces.Text(length, min_length=length, charset=SYMBOLS + "\n")
    return spaces.Box(0, 255, (height * TILE, width * TILE, 3), np.uint8)


def _require(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        raise ValueError(f"{name} is one of {', '.join(map(repr, allowed))}; got {value!r}.")
