"""A Stable-Baselines3 callback that keeps a row of numbers per update."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from graphwrap.scripts.comparison.settings import Settings
from graphwrap.scripts.comparison.training import DIAGNOSTICS, is_evaluated, make_row

NAN = float("nan")
WINDOW = ("success_rate", "outcome_return", "seconds", "trainable_share")


class Tracker(BaseCallback):
    """Keeps the rows that `train_run` returns. It stands before the `CreditCallback` in the list of callbacks.

    An update ends where the next rollout starts, or with training: only then has `train()` logged its numbers.

    Args:
        settings: of the comparison.
        masks: whether the learner trains on the rows with credit only.
        evaluate: held-out success by name; its time counts as no update's.
        on_update: called with each row.
    """

    def __init__(
        self,
        settings: Settings,
        masks: bool,
        evaluate: Callable[[], dict[str, float]],
        on_update: Callable[[dict[str, float]], None] | None = None,
    ) -> None:
        super().__init__()
        self.rows: list[dict[str, float]] = []
        self._settings = settings
        self._masks = masks
        self._evaluate = evaluate
        self._on_update = on_update
        self._began = 0.0
        self._collected: float | None = None  # None: no rollout has ended since the last row
        self._gradient_steps = 0

    def _on_training_start(self) -> None:
        self._hook = self.model.policy.optimizer.register_step_post_hook(self._count)
        self._began = time.perf_counter()

    def _count(self, *_: Any) -> None:
        self._gradient_steps += 1

    def _on_rollout_start(self) -> None:
        if self._collected is not None:
            self._keep_row()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self._collected = time.perf_counter()

    def _on_training_end(self) -> None:
        if self._collected is not None:
            self._keep_row()
        self._hook.remove()

    def _keep_row(self) -> None:
        assert self._collected is not None
        ended = time.perf_counter()
        update = len(self.rows) + 1
        # Taken out, not read: what an update does not log must not look like the last one's.
        logged: dict[str, Any] = self.logger.name_to_value
        numbers = {name: logged.pop(f"credit/{name}", NAN) for name in (*WINDOW, *DIAGNOSTICS)}
        numbers |= {
            "success": numbers["success_rate"],
            "gradient_steps": self._gradient_steps,
            "collect_seconds": self._collected - self._began,
            "credit_seconds": numbers["seconds"],
            "seconds": ended - self._began,
            "approx_kl": logged.pop("train/approx_kl", NAN),
            "entropy": -logged.pop("train/entropy_loss", NAN),
            "value_loss": logged.pop("train/value_loss", NAN),
            "trained_share": numbers["trainable_share"] if self._masks else 1.0,
        }
        rates = self._evaluate() if is_evaluated(self._settings, update) else None
        self.rows.append(make_row(self._settings, update, numbers, rates))
        if self._on_update is not None:
            self._on_update(self.rows[-1])
        self._gradient_steps = 0
        self._collected = None
        self._began = time.perf_counter()
