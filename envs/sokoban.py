"""One Sokoban environment, with gym-sokoban's rules."""

from __future__ import annotations

from operator import index
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from graphwrap.envs import rules
from graphwrap.envs.cells import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    NUM_CODES,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    cells_to_text,
)
from graphwrap.envs.generator import level_source
from graphwrap.envs.levels import LevelSource
from graphwrap.envs.render import board_to_rgb
from graphwrap.envs.rules import ACTIONS, BOX_REWARD, STEP_REWARD, WIN_REWARD
from graphwrap.envs.xsb import UNKNOWN

_FREE = (FLOOR, TARGET)
_PUSHABLE = (BOX, BOX_ON_TARGET)
_PLANES = np.eye(NUM_CODES, dtype=np.float32)  # _PLANES[plane, code]
_PLANES.setflags(write=False)


class SokobanEnv(gym.Env[Any, Any]):
    """Push every box onto a target.

    Cells are 0 wall, 1 floor, 2 target, 3 box on target, 4 box, 5 player, 6 player on target. Rules, dense
    rewards and ends are those of gym-sokoban 0.0.6; the sparse reward is the usual one of agent papers.

    Args:
        levels: name of a shipped set, path of a level file, "generate:HxW-BOXES" (levels made on the fly, see
            LevelGenerator), a LevelSet or a LevelGenerator.
        split: "train" or "test" of a shipped set or of levels made on the fly.
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

    metadata = {"render_modes": list(rules.RENDER_MODES), "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        levels: str | Path | LevelSource = "6x6-1",
        split: str = "train",
        obs: Literal["grid", "codes", "text", "rgb"] = "grid",
        reward: Literal["sparse", "success", "dense"] = "sparse",
        actions: Literal["push", "all"] = "push",
        max_steps: int = 15,
        render_mode: str | None = None,
    ):
        rules.check_options(obs, reward, actions, max_steps, render_mode)
        self.levels = level_source(levels, split)
        self.max_steps = int(max_steps)
        self.render_mode = render_mode
        self._obs = obs
        self._dense = reward == "dense"
        self._idle_reward = rules.idle_reward(reward)

        height, width = self._shape = self.levels.shape
        self._effects = rules.effects(actions, width)
        self.action_space = spaces.Discrete(ACTIONS[actions])
        self.observation_space = rules.observation_space(obs, height, width)

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
        level = None
        if options:
            rules.check_reset_options(options)
            level = rules.checked_level(self.levels, options["level"])
        super().reset(seed=seed)
        if level is None:
            level = int(self.np_random.integers(len(self.levels)))

        cells = self._cells = bytearray(self.levels.board(level))
        self._player = max(cells.find(PLAYER), cells.find(PLAYER_ON_TARGET))
        self._boxes = cells.count(BOX) + cells.count(BOX_ON_TARGET)
        self._uncovered = cells.count(BOX)
        self._counted = self._steps = 0
        self._running = True

        info = {"level": level}
        length = self.levels.optimal_length(level)
        if length != UNKNOWN:
            info["optimal_length"] = length
        return self._observation(), info

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One action of the player."""
        if not self._running:
            raise ResetNeeded(
                "The episode has ended: call reset() before the next step."
                if self._cells
                else rules.BEFORE_FIRST_RESET
            )
        try:
            number = index(action)
            offset, pushes = self._effects[number if number >= 0 else len(self._effects)]
        except (TypeError, IndexError):
            raise rules.refused_action(action, len(self._effects)) from None

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
            gym.logger.warn(rules.NO_RENDER_MODE)
            return None
        if not self._cells:
            raise ResetNeeded(rules.NOTHING_TO_RENDER)
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
