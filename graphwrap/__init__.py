"""Step-level credit for reinforcement learning from the graph of a group's episodes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import gymnasium

__version__ = "0.1.0"

# Public names and where they live. They are imported on first use: `import graphwrap` needs neither Numba nor torch.
_EXPORTS = {
    "Credit": "graphwrap.credit",
    "CreditMethod": "graphwrap.credit",
    "GRAFT": "graphwrap.methods",
    "GRPO": "graphwrap.methods",
    "GiGPO": "graphwrap.methods",
    "GraphGPO": "graphwrap.methods",
    "Outcome": "graphwrap.transitions",
    "PersistentGraph": "graphwrap.persistent",
    "RLOO": "graphwrap.methods",
    "RTMC": "graphwrap.methods",
    "RewardFlow": "graphwrap.methods",
    "SALT": "graphwrap.methods",
    "SeededReset": "graphwrap.recording.env_wrapper",
    "StateKey": "graphwrap.states",
    "TransitionGraph": "graphwrap.graph",
    "Transitions": "graphwrap.transitions",
    "WindowCredit": "graphwrap.recording.recorder",
    "credit_names": "graphwrap.methods",
    "make_credit": "graphwrap.methods",
    "wrap": "graphwrap.wrapping",
}

__all__ = ["__version__", *sorted(_EXPORTS)]

if TYPE_CHECKING:
    from graphwrap import sb3 as sb3
    from graphwrap.credit import Credit as Credit
    from graphwrap.credit import CreditMethod as CreditMethod
    from graphwrap.graph import TransitionGraph as TransitionGraph
    from graphwrap.methods import GRAFT as GRAFT
    from graphwrap.methods import GRPO as GRPO
    from graphwrap.methods import RLOO as RLOO
    from graphwrap.methods import RTMC as RTMC
    from graphwrap.methods import SALT as SALT
    from graphwrap.methods import GiGPO as GiGPO
    from graphwrap.methods import GraphGPO as GraphGPO
    from graphwrap.methods import RewardFlow as RewardFlow
    from graphwrap.methods import credit_names as credit_names
    from graphwrap.methods import make_credit as make_credit
    from graphwrap.persistent import PersistentGraph as PersistentGraph
    from graphwrap.recording.env_wrapper import SeededReset as SeededReset
    from graphwrap.recording.recorder import WindowCredit as WindowCredit
    from graphwrap.states import StateKey as StateKey
    from graphwrap.transitions import Outcome as Outcome
    from graphwrap.transitions import Transitions as Transitions
    from graphwrap.wrapping import wrap as wrap


def __getattr__(name: str) -> Any:
    if name == "sb3":
        return importlib.import_module("graphwrap.sb3")
    if name not in _EXPORTS:
        raise AttributeError(f"module 'graphwrap' has no attribute {name!r}")
    value = getattr(importlib.import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


gymnasium.register(
    "graphwrap/Sokoban-v0",
    entry_point="graphwrap.envs.sokoban:SokobanEnv",
    vector_entry_point="graphwrap.envs.vector:SokobanVectorEnv",
)

gymnasium.register("graphwrap/TextSokoban-v0", entry_point="graphwrap.envs.text:TextSokobanEnv")

gymnasium.register("graphwrap/ALFWorld-v0", entry_point="graphwrap.envs.alfworld:ALFWorldEnv")
