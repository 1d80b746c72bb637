"""What is measured against which bar: one module per subject, each with one function that measures.

`BENCHMARKS` knows them by name and imports nothing. A function takes `Settings` and returns a list of `Measured`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from graphwrap.scripts.benchmarks.ratio import Amount, Measured, Ratio

__all__ = ["BENCHMARKS", "FEWEST_PAIRS", "Amount", "Benchmark", "Measured", "Ratio", "Settings"]

FEWEST_PAIRS = 7
"""Fewer interleaved pairs than this say little."""


@dataclass(frozen=True)
class Settings:
    """How to measure."""

    pairs: int = FEWEST_PAIRS
    quick: bool = False  # small sizes, to see that everything runs: the numbers mean nothing
    on_pair: Callable[[], None] = field(default=lambda: None, compare=False)  # called after each pair

    def sized(self, usual: int, quick: int) -> int:
        """A size: `usual`, or `quick` where numbers do not matter."""
        return quick if self.quick else usual


@dataclass(frozen=True)
class Benchmark:
    """One subject, measured by `measure` of a module of this package."""

    name: str
    what: str
    function: str  # "module:function" of this package
    series: int = 1  # how many times `pairs` pairs are measured
    needs: tuple[tuple[str, str], ...] = ()  # modules beyond the core, and what pip installs for each

    def missing(self) -> list[str]:
        """What to install for it: arguments of pip, none where everything is there."""
        from importlib.util import find_spec

        return [package for module, package in self.needs if find_spec(module) is None]

    def measure(self, settings: Settings) -> list[Measured]:
        """Measure it."""
        module, function = self.function.split(":")
        measure: Any = getattr(importlib.import_module(f"{__name__}.{module}"), function)
        return measure(settings)


_SCIPY = ("scipy", "scipy")
_NETWORKX = ("networkx", "'graphwrap[io]'")
_SB3 = ("stable_baselines3", "'graphwrap[sb3]'")
_ALFWORLD = ("textworld", "'graphwrap[alfworld]'")
_GYM_SOKOBAN = ("gym_sokoban", "--no-deps gym-sokoban==0.0.6")

BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "text",
            "paper-size batch against networkx, from text and from ids",
            "text:measure",
            2,
            (_NETWORKX,),
        ),
        Benchmark(
            "graphs", "a million transitions against SciPy's shortest paths", "graphs:measure", 2, (_SCIPY,)
        ),
        Benchmark(
            "bellman",
            "Bellman values against a sparse solve and against sweeps",
            "bellman:measure",
            2,
            (_SCIPY,),
        ),
        Benchmark("gae", "Graph GAE against its own Bellman solve", "gae:measure", 2),
        Benchmark(
            "memory", "ten million transitions: time, memory, bytes per transition", "memory:measure", 3
        ),
        Benchmark(
            "recording", "recording a vector step against RecordEpisodeStatistics", "recording:measure", 6
        ),
        Benchmark("load", "memory over two million steps of PPO with credit", "load:measure", 1, (_SB3,)),
        Benchmark("training", "PPO with credit against PPO without", "training:measure", 1, (_SB3,)),
        Benchmark("sokoban", "batched Sokoban against gym-sokoban", "sokoban:measure", 1, (_GYM_SOKOBAN,)),
        Benchmark(
            "alfworld", "ALFWorld's engine against TextWorld's own code", "alfworld:measure", 4, (_ALFWORLD,)
        ),
        Benchmark("first_use", "import, and the first credit of a process", "first_use:measure", 3),
    )
}
"""Everything that can be measured, by name."""
