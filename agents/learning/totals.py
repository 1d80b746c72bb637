"""What is logged about the gradient steps of an update."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphwrap.agents.playing.rows import StepRows


class Totals:
    """Sums over the gradient steps of an update."""

    def __init__(self) -> None:
        self.steps = 0
        self.skipped = 0
        self.explained_variance: float | None = None
        self._sums: dict[str, float] = {}
        self._ratio_max = 0.0
        self._ratios = 0
        self._drift: dict[str, float] = {}

    def add(self, numbers: dict[str, float], num_ratios: int, norm: float) -> None:
        """Add what a step has computed."""
        self.steps += 1
        self._ratios += num_ratios
        self._ratio_max = max(self._ratio_max, numbers.pop("ratio_max"))
        for name, value in {**numbers, "grad_norm": norm}.items():
            self._sums[name] = self._sums.get(name, 0.0) + value

    def drift(self, old: list[Tensor | None], rows: StepRows, chosen: np.ndarray) -> None:
        """Compare the trainer's log-probabilities with the engine's."""
        known = [row for row in chosen.tolist() if old[row] is not None]
        own = torch.cat([values for row in known if (values := old[row]) is not None]).double().cpu().numpy()
        shift = own - np.concatenate([rows.log_probs[row] for row in known]).astype(np.float64)
        with np.errstate(over="ignore"):
            self._drift = {
                "drift_mean": float(np.abs(shift).mean()),
                "drift_max": float(np.abs(shift).max()),
                "engine_ratio": float(np.exp(shift).mean()),
            }

    def metrics(self) -> dict[str, float]:
        """What `PPO.update` returns of it."""
        metrics: dict[str, float] = {}
        if self.steps:
            sums = dict(self._sums)
            metrics["ratio_mean"] = sums.pop("ratio") / self._ratios
            metrics["ratio_max"] = self._ratio_max
            metrics["clip_fraction"] = sums.pop("clipped") / self._ratios
            metrics.update({name: value / self.steps for name, value in sums.items()})
        metrics.update(self._drift)
        if self.explained_variance is not None:
            metrics["explained_variance"] = self.explained_variance
        return {
            **metrics,
            "gradient_steps": float(self.steps),
            "skipped_steps": float(self.skipped),
        }
