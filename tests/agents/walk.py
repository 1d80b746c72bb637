"""A small text environment; worker processes import it without torch."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium import spaces


class Walk(gym.Env[str, str]):
    """From 0 to `length` (2 or 3, by the seed) in unit steps; "burn", an action where it `burns`, raises."""

    observation_space = spaces.Text(20)
    action_space = spaces.Text(20)
    made = 0

    def __init__(
        self, max_steps: int = 4, says_success: bool = True, alike: bool = True, burns: bool = True
    ) -> None:
        self.max_steps = max_steps
        self.says_success = says_success
        self.alike = alike
        self.burns = burns
        self.number, Walk.made = Walk.made, Walk.made + 1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        assert seed is not None
        self.length = 2 + seed % 2
        self.place = 0 if self.alike else self.number % 2
        self.steps = 0
        return self.seen(), {**self.info(), "task": "walk", "task_type": f"length {self.length}"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action == "burn":
            raise OSError("it burns")
        self.place = min(max(self.place + {"forth": 1, "back": -1}.get(action, 0), 0), self.length)
        self.steps += 1
        there = self.place == self.length
        late = not there and self.steps >= self.max_steps
        info = self.info()
        if self.says_success and (there or late):
            info["is_success"] = there
        return self.seen(), float(there), there, late, info

    def seen(self) -> str:
        return f"at {self.place} of {self.length}"

    def info(self) -> dict[str, Any]:
        actions = ["forth", "back", *(["burn"] if self.burns else [])]
        return {"admissible_actions": actions, "state_key": (self.place, self.length)}


gym.register("Walk-v0", entry_point=Walk)
