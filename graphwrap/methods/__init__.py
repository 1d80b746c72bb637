"""The credit methods, one file each, and the registry that knows them by name."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

from graphwrap.credit import Credit, CreditMethod
from graphwrap.methods.gigpo import GiGPO
from graphwrap.methods.graft import GRAFT
from graphwrap.methods.graphgpo import GraphGPO
from graphwrap.methods.grpo import GRPO
from graphwrap.methods.rewardflow import RewardFlow
from graphwrap.methods.rloo import RLOO
from graphwrap.methods.rtmc import RTMC
from graphwrap.methods.salt import SALT

METHODS: dict[str, type[CreditMethod]] = {
    "grpo": GRPO,
    "rloo": RLOO,
    "gigpo": GiGPO,
    "graphgpo": GraphGPO,
    "graft": GRAFT,
    "salt": SALT,
    "rtmc": RTMC,
    "rewardflow": RewardFlow,
}
"""Method classes by name."""

PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "graphgpo-reference": ("graphgpo", {"exponent": "next", "episode_statistics": "step", "eps": 1e-6}),
    "gigpo-reference": ("gigpo", {"std": False, "episode_statistics": "step", "eps": 1e-6}),
}
"""Settings that reproduce public implementations: preset name -> method name and parameters."""

__all__ = [
    "GRAFT",
    "GRPO",
    "METHODS",
    "PRESETS",
    "RLOO",
    "RTMC",
    "SALT",
    "Credit",
    "CreditMethod",
    "GiGPO",
    "GraphGPO",
    "RewardFlow",
    "credit_names",
    "make_credit",
]


def credit_names() -> list[str]:
    """Every name that `make_credit` knows: the methods, then the presets."""
    return [*METHODS, *PRESETS]


def make_credit(credit: str | CreditMethod, **parameters: Any) -> CreditMethod:
    """Make a credit method.

    Args:
        credit: a name from `credit_names()`, or a method, which is returned as it is or with `parameters` replaced.
        parameters: hyperparameters of the method.

    Raises:
        ValueError: the name is unknown or a value is out of range.
        TypeError: the method has no such parameter, a value has the wrong type, or `credit` is something else.

    Example:
        >>> make_credit("graphgpo", omega=0.8).omega
        0.8
    """
    if isinstance(credit, CreditMethod):
        _check_parameters(type(credit), parameters)
        return dataclasses.replace(credit, **parameters) if parameters else credit
    if not isinstance(credit, str):
        raise TypeError(f"credit must be a name or a credit method such as GraphGPO(), got {credit!r}")
    name, preset = PRESETS.get(credit, (credit, {}))
    if name not in METHODS:
        near = difflib.get_close_matches(credit.lower(), credit_names(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown credit {credit!r}: the names are {', '.join(credit_names())}{hint}")
    _check_parameters(METHODS[name], parameters)
    return METHODS[name](**{**preset, **parameters})


def _check_parameters(method: type[CreditMethod], parameters: dict[str, Any]) -> None:
    allowed = [field.name for field in dataclasses.fields(method)]
    for name in parameters:
        if name not in allowed:
            raise TypeError(
                f"{method.__name__} has no parameter {name!r}: "
                + (f"its parameters are {', '.join(allowed)}" if allowed else "it has none")
            )
