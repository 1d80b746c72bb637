"""Environments shipped with graphwrap: Sokoban, single, batched and as text, with fixed levels or made on the fly."""

from typing import TYPE_CHECKING, Any

from graphwrap.envs.generator import LevelGenerator
from graphwrap.envs.levels import LevelSet, LevelSource, level_sets, load_levels
from graphwrap.envs.sokoban import SokobanEnv
from graphwrap.envs.solver import solve
from graphwrap.envs.text import TextSokobanEnv, check_text_env

if TYPE_CHECKING:
    from graphwrap.envs.vector import SokobanVectorEnv

__all__ = [
    "LevelGenerator",
    "LevelSet",
    "LevelSource",
    "SokobanEnv",
    "SokobanVectorEnv",
    "TextSokobanEnv",
    "check_text_env",
    "level_sets",
    "load_levels",
    "solve",
]


def __getattr__(name: str) -> Any:
    if name == "SokobanVectorEnv":  # needs Numba, which takes its time to import
        from graphwrap.envs.vector import SokobanVectorEnv

        return SokobanVectorEnv
    raise AttributeError(f"module 'graphwrap.envs' has no attribute {name!r}")
