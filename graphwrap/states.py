"""When two states are the same, and the ids that stand for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphwrap.data.columns import intern_columns
from graphwrap.data.fingerprints import FINGERPRINT_ABOVE, Fingerprint, check_fingerprint_above
from graphwrap.data.keys import check_round, state_key
from graphwrap.data.tables import KeyTable, make_table

__all__ = [
    "FINGERPRINT_ABOVE",
    "Fingerprint",
    "KeyTable",
    "StateKey",
    "intern_columns",
    "make_table",
    "state_key",
]


@dataclass(frozen=True)
class StateKey:
    """How observations become states.

    Attributes:
        round: Decimals that every float is rounded to, also inside arrays and nests. None: not rounded.
        history: k: two states are the same if the k observations before them in their episodes are the same too
            (fewer at an episode's start). 0: the observation alone counts.
        fingerprint_above: Bytes per observation above which a 128-bit `Fingerprint` is kept instead of the observation,
            so that memory stays bounded. None: never. See `state_key` for how bytes are counted.

    Raises:
        TypeError: `round` is neither an int nor None, `history` is no int, or `fingerprint_above` is neither.
        ValueError: `history` or `fingerprint_above` is below 0.
    """

    round: int | None = None
    history: int = 0
    fingerprint_above: int | None = FINGERPRINT_ABOVE

    def __post_init__(self) -> None:
        check_round(self.round)
        if isinstance(self.history, bool) or not isinstance(self.history, (int, np.integer)):
            raise TypeError(f"history must be a number of observations (an int), got {self.history!r}")
        if self.history < 0:
            raise ValueError(f"history must be 0 observations or more, got {self.history}")
        check_fingerprint_above(self.fingerprint_above)
