"""The interface of engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from graphwrap.agents.policy import Policy


@dataclass(frozen=True)
class Sampling:
    """How answers are drawn. There is no top-p or top-k: the importance ratio of what they draw is biased."""

    temperature: float = 1.0  # above 0; 0: the likeliest token, for evaluation only
    max_tokens: int = 512
    seed: int = 0
    first: int = 0  # the first prompt's place: as if so many came before it, in other processes
    # Of each prompt, so that its place does not matter; `seed` then does not either.
    seeds: tuple[int, ...] | None = None

    def check_seeds(self, prompts: int) -> None:
        """Raises ValueError if there are `seeds`, but not one for each of so many prompts."""
        if self.seeds is not None and len(self.seeds) != prompts:
            raise ValueError(f"there is a seed per prompt, {prompts}, got {len(self.seeds)} seeds")


@dataclass(frozen=True, eq=False)
class Generation:
    """One answer."""

    token_ids: tuple[int, ...]  # as sampled, the end-of-sequence token included
    log_probs: (
        np.ndarray
    )  # float32 (len(token_ids),), of the distribution they were drawn from (logits / temperature)
    finished: bool  # False: cut by max_tokens


class Engine(ABC):
    """Generates answers with the policy's weights as of the last `update`."""

    @abstractmethod
    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Generation]:
        """Answer every prompt, in this order.

        Args:
            prompts: Token ids, special tokens included.
            sampling: How.
        """

    @abstractmethod
    def update(self, policy: Policy) -> None:
        """Take over the policy's weights, and forget every cache that was made with others."""

    def sleep(self) -> None:  # noqa: B027
        """Give the accelerator's memory back until `wake`."""

    def wake(self) -> None:  # noqa: B027
        """Be ready to generate again."""

    def close(self) -> None:  # noqa: B027
        """Free what the engine holds."""
