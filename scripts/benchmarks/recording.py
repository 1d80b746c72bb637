"""What recording adds to a vector step, against what Gymnasium's RecordEpisodeStatistics adds."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from graphwrap.scripts.benchmarks import Settings
from graphwrap.scripts.benchmarks.ratio import Measured, Ratio, seconds

NUM_ENVS = (8, 64, 256)
WINDOW = 128  # steps of a window
MEAN_LENGTH = 22.0  # of CartPole's episodes under a random policy


class CheapVectorEnv(VectorEnv):
    """Observations of CartPole's size and episodes of its length, at next to no cost.

    Everything is drawn beforehand; an observation is a view into it.
    """

    def __init__(self, num_envs: int, mode: AutoresetMode, steps: int = 4096) -> None:
        rng = np.random.default_rng(0)
        self.num_envs = num_envs
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self.metadata = {"autoreset_mode": mode}
        self.mode = mode
        self._observations = rng.standard_normal((steps, num_envs, 4)).astype(np.float32)
        self._ends = rng.random((steps, num_envs)) < 1 / MEAN_LENGTH
        if mode is AutoresetMode.NEXT_STEP:  # the step after an end resets
            for t in range(1, steps):
                self._ends[t] &= ~self._ends[t - 1]
        self._never = np.zeros(num_envs, np.bool_)
        self._rewards = np.ones(num_envs)
        self._t = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict]:
        """Begin anew."""
        self._t = 0
        return self._observations[0], {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict]:
        """Go on to the next row of what was drawn."""
        self._t = t = (self._t + 1) % len(self._ends)
        ended = self._ends[t]
        infos: dict[str, Any] = {}
        if self.mode is AutoresetMode.SAME_STEP and ended.any():
            final = np.full(self.num_envs, None, object)
            for env in np.flatnonzero(ended):
                final[env] = self._observations[t - 1, env]
            infos = {"final_obs": final, "_final_obs": ended, "final_info": {}, "_final_info": ended}
        return self._observations[t], self._rewards, ended, self._never, infos


def measure(settings: Settings) -> list[Measured]:
    """Both autoreset modes, by number of environments."""
    modes = (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP)
    sizes = NUM_ENVS[:1] if settings.quick else NUM_ENVS
    return [against_statistics(num_envs, mode, settings) for mode in modes for num_envs in sizes]


def against_statistics(num_envs: int, mode: AutoresetMode, settings: Settings) -> Ratio:
    """Time of a step of each wrapper minus that of the bare environment, all three measured in turn.

    Recording writes steps down; which episode a row belongs to and which states are equal is worked out when a window
    is closed, and counted as credit. What that takes per vector step is a detail of the result.
    """
    import graphwrap

    steps = settings.sized(20, 2)

    def run(env: Any) -> tuple[float, float]:
        """Microseconds per step, and to close windows per step."""
        actions = np.zeros(num_envs, np.int64)
        closings: list[float] = []

        def walk() -> None:
            for _ in range(steps):
                for _ in range(WINDOW):
                    env.step(actions)
                if env is wrapped:
                    began = time.perf_counter()
                    env.recorder.drop_window()
                    closings.append(time.perf_counter() - began)

        env.reset(seed=0)
        took, closing = seconds(walk), sum(closings)
        return (took - closing) / steps / WINDOW * 1e6, closing / steps / WINDOW * 1e6

    bare = CheapVectorEnv(num_envs, mode)
    wrapped = graphwrap.wrap(CheapVectorEnv(num_envs, mode))
    statistics = gymnasium.wrappers.vector.RecordEpisodeStatistics(CheapVectorEnv(num_envs, mode))
    run(wrapped)
    ours: list[float] = []
    other: list[float] = []
    base: list[float] = []
    closings: list[float] = []
    for pair in range(settings.pairs):
        for env in (wrapped, statistics) if pair % 2 == 0 else (statistics, wrapped):
            without, _ = run(bare)
            took, closing = run(env)
            (ours if env is wrapped else other).append(took - without)
            base.append(without)
            if env is wrapped:
                closings.append(closing)
        settings.on_pair()
    return Ratio(
        f"recording, {mode.name}, {num_envs} envs",
        f"{num_envs} environments with observations float32 (4,) and episodes of {MEAN_LENGTH:.0f} steps, {mode.name}",
        "graphwrap.wrap: time above the bare step",
        "us/step",
        ours,
        1.0,
        True,
        "RecordEpisodeStatistics: time above the bare step",
        other,
        details={
            "us of a bare step": float(np.median(base)),
            "us per step to close windows": float(np.median(closings)),
        },
    )
