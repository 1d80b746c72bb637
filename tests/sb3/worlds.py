"""Sub-environments with every kind of observation and info, in vector environments of every kind."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from stable_baselines3.common.vec_env import DummyVecEnv

from tests.helpers import Line

MODES = list(AutoresetMode)
BOX = spaces.Box(-10, 10, (2, 3), np.float32)
OBSERVATIONS = {
    "box": BOX,
    "image": spaces.Box(0, 255, (4, 4, 3), np.uint8),
    "discrete": spaces.Discrete(1000),
    "multidiscrete": spaces.MultiDiscrete([50, 60]),
    "binary": spaces.MultiBinary(5),
    "dict": spaces.Dict({"b": spaces.Discrete(1000), "a": BOX, "bits": spaces.MultiBinary(3)}),
    "tuple": spaces.Tuple([BOX, spaces.Discrete(1000)]),
}


class World(gymnasium.Env):
    """Random observations, rewards, ends and infos, all drawn by the seed."""

    metadata: ClassVar[dict] = {"render_modes": ["rgb_array"], "render_fps": 5}

    def __init__(self, observations: str = "box", ends: float = 0.2, render_mode: str | None = None) -> None:
        self.observation_space = OBSERVATIONS[observations]
        self.action_space = spaces.MultiDiscrete([3, 4]) if observations == "tuple" else spaces.Discrete(3)
        self.ends, self.render_mode = ends, render_mode
        self.total_steps = self.resets = 0
        self.shift = 0

    def _draw(self, space: spaces.Space) -> Any:
        rng = self.np_random
        if isinstance(space, spaces.Box):
            return rng.integers(0, 10, space.shape).astype(space.dtype)
        if isinstance(space, spaces.Discrete):
            return int(rng.integers(space.n))
        if isinstance(space, spaces.MultiDiscrete):
            return rng.integers(space.nvec)
        if isinstance(space, spaces.MultiBinary):
            return rng.integers(0, 2, space.shape).astype(np.int8)
        if isinstance(space, spaces.Dict):
            return {key: self._draw(part) for key, part in space.spaces.items()}
        assert isinstance(space, spaces.Tuple)
        return tuple(self._draw(part) for part in space.spaces)

    def _info(self) -> dict[str, Any]:
        rng = self.np_random
        everything = {
            "count": int(rng.integers(9)),
            "share": float(rng.random()),
            "flag": bool(rng.random() < 0.5),
            "name": f"room {rng.integers(5)}",
            "cells": rng.integers(0, 5, (2, 2)),
            "list": [int(rng.integers(3)), "x"],
            "nested": {"deep": {"value": float(rng.random())}, "word": "yes"},
        }
        return {key: value for key, value in everything.items() if rng.random() < 0.6}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.resets += 1
        self.shift = (options or {}).get("shift", 0)
        return self._draw(self.observation_space), {
            "seed": -1 if seed is None else seed,
            "shift": self.shift,
            **self._info(),
        }

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action)
        self.total_steps += 1
        over, cut = self.np_random.random(2) < self.ends
        reward = float(self.np_random.normal()) + float(np.sum(action)) + self.shift
        return self._draw(self.observation_space), reward, bool(over), bool(cut), self._info()

    def action_masks(self) -> np.ndarray:
        return np.array([True, self.total_steps % 2 == 0, True])

    def add(self, one: int, other: int = 0) -> int:
        return one + other + self.total_steps

    def render(self) -> np.ndarray:
        return np.full((8, 8, 3), self.total_steps, np.uint8)


class Batched(VectorEnv):
    """A vector environment that keeps its sub-environments to itself, reuses its arrays, and leaves out info masks."""

    def __init__(self, num_envs: int, mode: AutoresetMode, **settings: Any) -> None:
        self._inside = SyncVectorEnv(
            [partial(World, **settings) for _ in range(num_envs)], copy=False, autoreset_mode=mode
        )
        self.num_envs = num_envs
        self.metadata = {**World.metadata, "autoreset_mode": mode}
        self.single_observation_space = self._inside.single_observation_space
        self.single_action_space = self._inside.single_action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.render_mode = settings.get("render_mode")

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self._inside.reset(seed=seed, options=options)

    def step(self, actions: Any) -> Any:
        return self._inside.step(actions)

    def render(self) -> Any:
        return np.stack(self._inside.render())

    def close_extras(self, **_: Any) -> None:
        self._inside.close()


def vector(kind: str, num_envs: int, mode: AutoresetMode, make: Any = World, **settings: Any) -> VectorEnv:
    if kind == "batched":
        return Batched(num_envs, mode, **settings)
    if kind == "async":
        return AsyncVectorEnv(
            [partial(make, **settings) for _ in range(num_envs)], context="fork", autoreset_mode=mode
        )
    return SyncVectorEnv(
        [partial(make, **settings) for _ in range(num_envs)], copy=kind == "sync", autoreset_mode=mode
    )


def dummy(num_envs: int, make: Any = World, **settings: Any) -> DummyVecEnv:
    return DummyVecEnv([partial(make, **settings) for _ in range(num_envs)])


def line_vector(
    num_envs: int, mode: AutoresetMode = AutoresetMode.NEXT_STEP, **settings: Any
) -> SyncVectorEnv:
    return SyncVectorEnv([partial(Line, **settings) for _ in range(num_envs)], autoreset_mode=mode)


def assert_same(one: Any, other: Any) -> None:
    """Assert equality of nested containers, arrays with their dtypes; numbers by value."""
    if isinstance(one, dict):
        assert isinstance(other, dict)
        assert set(one) == set(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert isinstance(other, type(one))
        assert len(one) == len(other)
        for pair in zip(one, other):
            assert_same(*pair)
    elif isinstance(one, np.ndarray) and one.ndim:
        assert isinstance(other, np.ndarray)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other
        assert isinstance(one, str) == isinstance(other, str)


def play(venv: Any, steps: int, seed: int) -> list:
    """What a VecEnv hands out, first as it came and then as it is at the end: nobody may have changed it."""
    rng = np.random.default_rng(seed)
    venv.seed(seed)
    observations = venv.reset()
    handed_out: list = [(observations, list(venv.reset_infos))]
    kept = copy.deepcopy(handed_out)
    for _ in range(steps):
        actions = rng.integers(
            0, getattr(venv.action_space, "nvec", 3), (venv.num_envs, *venv.action_space.shape)
        )
        handed_out.append((*venv.step(actions), list(venv.reset_infos)))
        kept.append(copy.deepcopy(handed_out[-1]))
    assert_same(handed_out, kept)
    return kept
