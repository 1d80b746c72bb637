"""Environments shipped with graphwrap: Sokoban with fixed level sets."""

from graphwrap.envs.levels import LevelSet, level_sets, load_levels
from graphwrap.envs.sokoban import SokobanEnv
from graphwrap.envs.solver import solve

__all__ = ["LevelSet", "SokobanEnv", "level_sets", "load_levels", "solve"]
