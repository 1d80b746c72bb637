"""When two states are the same, and the ids that stand for them."""

from __future__ import annotations

from dataclasses import dataclass

from graphwrap.data.columns import intern_columns
from graphwrap.data.keys import check_round, state_key
from graphwrap.data.tables import KeyTable, make_table

__all__ = ["KeyTable", "StateKey", "intern_columns", "make_table", "state_key"]


@dataclass(frozen=True)
class StateKey:
    """How observations become states.

    Attributes:
        round: Decimals that every float is rounded to, also inside arrays and nests. None: not rounded.

    Raises:
        TypeError: `round` is neither an int nor None.
    """

    round: int | None = None

    def __post_init__(self) -> None:
        check_round(self.round)
