"""Environments that misbehave on request, importable by worker processes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium import spaces

LENGTH = 4


class Unsendable(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(threading.Lock())


class Mischief(gym.Env):
    """Ends after four steps; what it does by then is what its actions say."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = spaces.Text(40), spaces.Text(40)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed == 13:
            raise ValueError("seed 13")
        if seed == 99:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seed, self.count = seed, 0
        return self.text(), {"task": f"task {seed}"}

    def step(self, action: str) -> Any:
        name, _, argument = action.partition(" ")
        if name == "raise":
            raise KeyError(argument)
        if name == "unsendable":
            raise Unsendable("a", "b")
        if name == "exit":
            sys.exit(2)
        if name == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if name == "sleep":
            time.sleep(float(argument))
        self.count += 1
        ended = self.count == LENGTH or name == "win"
        info: dict[str, Any] = (
            {"pid": os.getpid()} if name == "pid" else {"state_key": (self.seed, self.count)}
        )
        if name == "lock":
            info["lock"] = threading.Lock()
        seen: Any = {"none": None, "long": "x" * 300_000}.get(name, self.text())
        reward = float("nan") if name == "nan" else self.np_random.random()
        return seen, reward, ended and name == "win", ended and name != "win", info

    def text(self) -> str:
        return f"seed {self.seed} at {self.count}"


def never() -> gym.Env:
    raise FileNotFoundError("no game file")


def dies_when_made() -> gym.Env:
    os._exit(7)


class MadeUpTo:
    """Makes as many environments as a file has bytes left, then fails."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self) -> gym.Env:
        left = self.path.read_bytes()
        if not left:
            raise OSError("no more environments")
        self.path.write_bytes(left[1:])
        return Mischief()
