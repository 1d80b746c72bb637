"""Environments shipped with graphwrap: Sokoban, single and batched, with fixed levels or levels made on the fly."""

from typing import TYPE_CHECKING, Any

from graphwrap.envs.generator import LevelGenerator
from graphwrap.envs.levels import LevelSet, LevelSource, level_sets, load_levels
from graphwrap.envs.sokoban import SokobanEnv
from graphwrap.envs.solver import solve

if TYPE_CHECKING:
    from graphwrap.envs.vector import SokobanVectorEnv

__all__ = [
    "LevelGenerator",
    "LevelSet",
    "LevelSource",
    "SokobanEnv",
    "SokobanVectorEnv",
    "level_sets",
    "load_levels",
    "solve",
]


def __getattr__(name: str) -> Any:
    if name == "SokobanVectorEnv":  # needs Numba, which takes its time to import
        from graphwrap.envs.vector import SokobanVectorEnv

        return SokobanVectorEnv
    raise AttributeError(f"module 'graphwrap.envs' has no attribute {name!r}")
