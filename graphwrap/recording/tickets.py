"""Which seed the next episode of a group gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Ticket:
    """The right to play one episode: member `member` of group `group`, from `seed`."""

    group: int
    member: int
    seed: int
    noise: tuple[int, ...]  # entropy of the member's own generator

    def generator(self) -> np.random.Generator:
        """The member's own random generator."""
        return np.random.default_rng(self.noise)


class Tickets:
    """Gives out tickets: `group_size` members of one group, then the next group.

    The seed of the k-th group after `seed(base)` is `SeedSequence([base, k])`. Groups are numbered on from one base
    seed to the next, so that no two groups share a number.
    """

    def __init__(self, group_size: int) -> None:
        self.group_size = group_size
        self._base: int | None = None
        self._group = 0
        self._member = 0
        self._first_group = 0  # of this base seed
        self._group_seed = 0

    def seed(self, base: int | None) -> int:
        """Set the base seed (None: draw one) and go on with a new group. Returns the base seed.

        Raises:
            TypeError: `base` is not a whole number.
            ValueError: `base` is negative.
        """
        self._base = check_seed(base)
        self.next_group()
        self._first_group = self._group
        return self._base

    def next_group(self) -> None:
        """Give no more tickets of a group that was begun."""
        if self._member:
            self._group, self._member = self._group + 1, 0

    def take(self) -> Ticket:
        """Return the next ticket."""
        if self._base is None:
            self.seed(None)
        assert self._base is not None
        place = self._group - self._first_group
        if not self._member:
            self._group_seed = int(np.random.SeedSequence([self._base, place]).generate_state(1)[0])
        ticket = Ticket(self._group, self._member, self._group_seed, (self._base, place, self._member))
        self._member += 1
        if self._member == self.group_size:
            self.next_group()
        return ticket


def check_seed(seed: Any) -> int:
    """Return a base seed: `seed`, or for None one drawn from the system's entropy.

    Raises:
        TypeError: `seed` is not a whole number.
        ValueError: `seed` is negative.
    """
    if seed is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(
            f"the seed must be one whole number, since every group's seed is made from it, got {seed!r}"
        )
    if seed < 0:
        raise ValueError(f"the seed must not be negative, got {seed}")
    return int(seed)
