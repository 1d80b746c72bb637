"""Small environments whose every value can be worked out by hand."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv


class Line(gymnasium.Env):
    """Walk along 0 .. length - 1: success is 10 at the upper end, failure -1 at the lower, -0.1 for each step.

    The start is drawn by the seed. Action 1 goes up and 0 down; with probability `slip` it is the other way round.
    """

    metadata: ClassVar[dict] = {"render_modes": ["rgb_array"], "render_fps": 5}

    def __init__(
        self,
        length: int = 7,
        limit: int = 6,
        observations: str = "box",
        actions: str = "discrete",
        slip: float = 0.0,
        flags: bool = False,
        fails_at: int = -1,
        render_mode: str | None = None,
    ) -> None:
        self.length, self.limit, self.slip, self.flags, self.fails_at = length, limit, slip, flags, fails_at
        self.render_mode = render_mode
        self.total_steps = 0
        self.resets = 0
        box = spaces.Box(0, length, (2,), np.float32)
        self.kind = observations
        self.observation_space = {
            "box": box,
            "discrete": spaces.Discrete(length),
            "dict": spaces.Dict({"place": spaces.Discrete(length), "pair": box}),
            "text": spaces.Text(20),
            "image": spaces.Box(0, 255, (36, 36, 3), np.uint8),
        }[observations]
        self.action_space = {
            "discrete": spaces.Discrete(2),
            "multidiscrete": spaces.MultiDiscrete([2, 3]),
            "binary": spaces.MultiBinary(2),
            "box": spaces.Box(-1, 1, (1,), np.float32),
        }[actions]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.resets += 1
        self.place = int(self.np_random.integers(2, self.length - 2))
        self.count = 0
        return self._observation(), {"level": self.place}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        if self.total_steps == self.fails_at:
            raise RuntimeError("the simulator crashed")
        self.total_steps += 1
        self.count += 1
        up = bool(np.asarray(action).reshape(-1)[0] > 0)
        if self.slip and self.np_random.random() < self.slip:
            up = not up
        self.place += 1 if up else -1
        won, lost = self.place == self.length - 1, self.place == 0
        reward = 10.0 if won else -1.0 if lost else -0.1
        truncated = self.count >= self.limit and not (won or lost)
        info: dict[str, Any] = {"place": self.place}
        if self.flags and (won or lost or truncated):
            info["is_success"] = won
        return self._observation(), reward, won or lost, truncated, info

    def _observation(self) -> Any:
        pair = np.array([self.place, 0], np.float32)
        if self.kind == "dict":
            return {"place": self.place, "pair": pair}
        if self.kind == "image":
            return np.full((36, 36, 3), self.place, np.uint8)
        return {"box": pair, "discrete": self.place, "text": f"at {self.place}"}[self.kind]

    def render(self) -> np.ndarray:
        return np.full((16, 16, 3), 10 * self.place, np.uint8)


def make_line(**settings: Any) -> Line:
    return Line(**settings)


def line_vec(n_envs: int, *, vec_env_cls: Any = None, wrapper_class: Any = None, **settings: Any) -> Any:
    """A VecEnv of lines; processes are forked, which starts them in no time."""
    return make_vec_env(
        partial(make_line, **settings),
        n_envs=n_envs,
        vec_env_cls=vec_env_cls,
        vec_env_kwargs={"start_method": "fork"} if vec_env_cls is SubprocVecEnv else None,
        wrapper_class=wrapper_class,
    )


def places(values: Any) -> np.ndarray:
    """The places in a batch of box observations (n, 2)."""
    return np.asarray(values)[:, 0].astype(int)
