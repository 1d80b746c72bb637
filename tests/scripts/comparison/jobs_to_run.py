"""Jobs and an environment for tests of processes; spawned processes import them from here."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np


def count_up(to: int, report: Callable[[Any], None]) -> int:
    """Report 1..to, return to; raise for a negative number, die for 99, warn for 50."""
    if to < 0:
        raise ValueError(f"cannot count to {to}")
    if to == 99:
        os._exit(7)
    if to == 50:
        warnings.warn("fifty is a lot", UserWarning, stacklevel=1)
        return to
    for number in range(1, to + 1):
        report(number)
    return to


def wait_for(path: str, report: Callable[[Any], None]) -> None:
    """Report until the end of time."""
    while True:
        report(os.getpid())


class BreaksForSeed1(gymnasium.Env):
    """One step an episode, won at random; breaks at the first group of a training run with seed 1."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[int, dict]:
        if seed == int(np.random.SeedSequence([1, 0]).generate_state(1)[0]):
            raise RuntimeError("broken on purpose")
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        return 1, float(action), True, False, {"is_success": bool(action)}


gymnasium.register("graphwrap-tests/BreaksForSeed1-v0", BreaksForSeed1, max_episode_steps=5)
