"""Hand-made runs for the tests of reports."""

from __future__ import annotations

import numpy as np

from graphwrap.scripts.comparison.results import Run

NAN = float("nan")


def run(credit: str, seed: int, success: list[float], held_out: float = 0.0, **columns: float) -> Run:
    """A run of 100 steps, one second and ten gradient steps per update."""
    updates = len(success)
    numbers = {
        "seconds": 1.0,
        "credit_seconds": 0.01,
        "gradient_steps": 10.0,
        "trained_share": 0.9,
        **columns,
    }
    curve = {
        "update": np.arange(1.0, updates + 1),
        "steps": 100.0 * np.arange(1, updates + 1),
        "success": np.array(success),
        **{name: np.full(updates, value) for name, value in numbers.items()},
    }
    return Run(
        credit, f"{credit} (title)", seed, curve, {"held_out": held_out, "held_out_greedy": held_out / 2}
    )


def comparison() -> list[Run]:
    """Three credits, three seeds, ten updates: the graph is 0.1 better on every seed but the last one, 0.4."""
    runs = []
    for seed, base in enumerate([0.0, 0.1, 0.2]):
        runs.append(run("outcome", seed, [base] * 10, held_out=base))
        runs.append(run("grpo", seed, [base + 0.1] * 10, held_out=base))
        runs.append(run("graphgpo", seed, [base + (0.4 if seed == 2 else 0.2)] * 10, held_out=base + 0.3))
    return runs
