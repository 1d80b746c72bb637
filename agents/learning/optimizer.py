"""AdamW with a learning-rate schedule over updates, and steps that a broken gradient does not take."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from graphwrap.agents.distributed import World
from graphwrap.agents.models.sharding import (
    gathered,
    gathered_moments,
    is_sharded,
    scattered_moments,
)
from graphwrap.agents.settings import PPOSettings

SCHEDULES = ("constant", "linear", "cosine")


def rate_factor(settings: PPOSettings, update: int, updates: int) -> float:
    """What the learning rate is multiplied by in update `update` (from 0) of `updates`.

    It rises evenly over the first `warmup` updates, none of which has rate 0, and then stays at 1 or falls, evenly or
    as half a cosine, to reach 0 after the last update.
    """
    if update < settings.warmup:
        return (update + 1) / (settings.warmup + 1)
    done = min(1.0, (update - settings.warmup) / max(1, updates - settings.warmup))
    if settings.schedule == "linear":
        return 1.0 - done
    return 0.5 * (1.0 + math.cos(math.pi * done)) if settings.schedule == "cosine" else 1.0


class Optimizer:
    """AdamW.

    Args:
        parameters: The trainable ones.
        settings: Rate, schedule, weight decay and the bound of the gradient's norm.
        updates: Length of the run, for the schedule.
        world: The processes, each of which has the gradient of its rows; sharded parameters have that of all rows.

    Raises:
        ValueError: There is nothing to train, a weight has less than 32 bits, or the schedule does not exist.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        settings: PPOSettings,
        updates: int,
        world: World | None = None,
    ) -> None:
        self.parameters = list(parameters)
        if not self.parameters:
            raise ValueError("a policy needs parameters with requires_grad=True to be trained, got none")
        for weight in self.parameters:
            if torch.finfo(weight.dtype).bits < 32:
                raise ValueError(
                    f"trained weights must be float32, got {weight.dtype}, in which a step at a rate of "
                    f"{settings.learning_rate:g} is rounded away: load them as float32, as Policy.load does"
                )
        if settings.schedule not in SCHEDULES:
            raise ValueError(f"ppo.schedule must be one of {', '.join(SCHEDULES)}, got {settings.schedule!r}")
        self.settings = settings
        self.updates = updates
        self.world = world or World()
        self.sharded = any(map(is_sharded, self.parameters))
        self._adamw = torch.optim.AdamW(
            self.parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay
        )

    def begin(self, update: int) -> float:
        """Set the learning rate of an update, and return it."""
        rate = self.settings.learning_rate * rate_factor(self.settings, update, self.updates)
        for group in self._adamw.param_groups:
            group["lr"] = rate
        return rate

    def step(self) -> float:
        """Clip the summed gradient and take a step; forget the gradient.

        Returns:
            The gradient's norm before it was clipped. If it is not finite, no step was taken.
        """
        if not self.sharded:
            self.world.sum_gradients(self.parameters)
        gradients = [weight.grad for weight in self.parameters if weight.grad is not None]
        total = gathered(nn.utils.get_total_norm(gradients))
        nn.utils.clip_grads_with_norm_(self.parameters, self.settings.max_grad_norm, total)
        norm = float(total)
        if math.isfinite(norm):
            self._adamw.step()
        self.forget()
        return norm

    def forget(self) -> None:
        """Drop the summed gradient."""
        self._adamw.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs beside the policy's weights, in any number of processes; all must call this."""
        state = self._adamw.state_dict()
        return gathered_moments(state) if self.sharded else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`.

        Raises:
            ValueError: It is of other parameters.
        """
        if self.sharded:
            state = scattered_moments(state, self.parameters)
        self._adamw.load_state_dict(state)
