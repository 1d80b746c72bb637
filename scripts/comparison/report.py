"""What a comparison found: numbers per run, their means and intervals over seeds, and paired differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from graphwrap.scripts.comparison.results import Run

TARGET = 0.2
"""Training success whose first reaching is reported."""

SMOOTHING = 5
"""Updates in the trailing mean of curves and of the first reaching."""

LAST = 10
"""Updates at the end whose mean success is reported."""

BASELINES = ("outcome", "ppo", "grpo")
PAIRED = ("held_out", "held_out_greedy", "auc", "final_success")
RESAMPLES = 10_000
FEW_SEEDS = 5
"""With fewer seeds than this a report calls itself a demonstration."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, or over differences at equal seeds, with a 95% bootstrap interval."""

    credit: str  # label
    title: str
    metric: str
    versus: str  # label of the credit that was subtracted, "" where none was
    seeds: int
    mean: float
    low: float  # NaN with one seed
    high: float


@dataclass(frozen=True)
class Reaching:
    """When the runs of a credit first reached a training success of `target`."""

    credit: str
    title: str
    target: float
    seeds: int
    reached: int  # runs that did
    median_steps: float  # over all seeds, a run that did not counts as inf


@dataclass(frozen=True)
class Summary:
    """A comparison in numbers."""

    estimates: list[Estimate]
    reachings: list[Reaching]

    def get(self, credit: str, metric: str, versus: str = "") -> Estimate | None:
        """The estimate of a credit's metric, or of its difference to `versus`; None where there is none."""
        wanted = (credit, metric, versus)
        return next((e for e in self.estimates if (e.credit, e.metric, e.versus) == wanted), None)

    def credits(self) -> dict[str, str]:
        """Titles by label, in order."""
        return {estimate.credit: estimate.title for estimate in self.estimates}


def carried(success: np.ndarray) -> np.ndarray:
    """A curve without NaN: an update without a complete group keeps the value before; those before any are left out."""
    known = ~np.isnan(success)
    if not known.any():
        return success[:0]
    place = np.maximum.accumulate(np.where(known, np.arange(len(success)), -1))
    return success[place[place >= 0]]


def area(success: np.ndarray) -> float:
    """Area under a training curve, in [0, 1]: the mean success over the updates (NaN for none)."""
    values = carried(success)
    return float(values.mean()) if len(values) else math.nan


def smoothed(values: np.ndarray, window: int = SMOOTHING) -> np.ndarray:
    """Mean of each value and the up to `window` - 1 before it, NaN left out."""
    known = ~np.isnan(values)
    sums = np.cumsum(np.concatenate([[0.0], np.where(known, values, 0.0)]))
    counts = np.cumsum(np.concatenate([[0], known]))
    first = np.maximum(np.arange(len(values)) + 1 - window, 0)
    last = np.arange(len(values)) + 1
    with np.errstate(invalid="ignore"):
        return (sums[last] - sums[first]) / (counts[last] - counts[first])


def steps_to(steps: np.ndarray, success: np.ndarray, target: float, window: int = SMOOTHING) -> float:
    """Environment steps at the first update whose smoothed success is at least `target`, inf where none is.

    A mean over fewer than `window` updates does not count.
    """
    values = smoothed(success, window)
    values[: min(window, len(values)) - 1] = math.nan
    reached = np.flatnonzero(values >= target)
    return float(steps[reached[0]]) if len(reached) else math.inf


def run_metrics(run: Run) -> dict[str, float]:
    """The numbers of one run that are averaged over seeds."""
    success = carried(run.curve["success"])
    seconds = float(run.curve["seconds"].sum())
    return {
        "held_out": float(run.facts["held_out"]),
        "held_out_greedy": float(run.facts["held_out_greedy"]),
        "auc": area(run.curve["success"]),
        "final_success": float(success[-LAST:].mean()) if len(success) else math.nan,
        "seconds": seconds,
        "credit_share": float(run.curve["credit_seconds"].sum()) / seconds,
        "gradient_steps": float(run.curve["gradient_steps"].sum()),
        "trained_share": float(run.curve["trained_share"].mean()),
    }


def bootstrap(values: Sequence[float], seed: int = 0) -> tuple[float, float, float]:
    """Mean and 95% percentile bootstrap interval, (mean, low, high).

    The interval depends on the values alone, not on what was computed before; with one value it is NaN.
    """
    sample = np.asarray(values, np.float64)
    mean = float(sample.mean())
    if len(sample) < 2:
        return mean, math.nan, math.nan
    rng = np.random.default_rng(seed)
    means = np.sort(sample)[rng.integers(len(sample), size=(RESAMPLES, len(sample)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return mean, float(low), float(high)


def summarise(runs: Sequence[Run], target: float = TARGET) -> Summary:
    """Means over seeds and paired differences of finished runs.

    Differences are between runs of equal seed, to each of `BASELINES` that is there. A seed whose metric is NaN is
    left out.
    """
    titles = {run.credit: run.title for run in runs}
    metrics: dict[str, dict[int, dict[str, float]]] = {label: {} for label in titles}
    for run in runs:
        metrics[run.credit][run.seed] = run_metrics(run)
    estimates = []
    for label, title in titles.items():
        by_seed = metrics[label]
        for metric in next(iter(by_seed.values())):
            values = [numbers[metric] for numbers in by_seed.values() if not math.isnan(numbers[metric])]
            if values:
                estimates.append(Estimate(label, title, metric, "", len(values), *bootstrap(values)))
        for base in BASELINES:
            if base == label or base not in metrics:
                continue
            for metric in PAIRED:
                values = [
                    numbers[metric] - metrics[base][seed][metric]
                    for seed, numbers in by_seed.items()
                    if seed in metrics[base]
                ]
                values = [value for value in values if not math.isnan(value)]
                if values:
                    estimates.append(Estimate(label, title, metric, base, len(values), *bootstrap(values)))
    reachings = []
    for label, title in titles.items():
        steps = [
            steps_to(run.curve["steps"], run.curve["success"], target) for run in runs if run.credit == label
        ]
        reached = int(np.isfinite(steps).sum())
        reachings.append(Reaching(label, title, target, len(steps), reached, float(np.median(steps))))
    return Summary(estimates, reachings)


def comparison_columns(runs: Sequence[Run]) -> dict[str, Any]:
    """All updates of all runs as one table: `credit`, `seed` and the columns of the curves."""
    columns: dict[str, Any] = {
        "credit": [run.credit for run in runs for _ in run.curve["update"]],
        "seed": [run.seed for run in runs for _ in run.curve["update"]],
    }
    for name in runs[0].curve:
        columns[name] = np.concatenate([run.curve[name] for run in runs])
    return columns


def summary_columns(summary: Summary) -> dict[str, Any]:
    """The estimates as a table, one row each; first reachings are the metric `steps_to_target`.

    There `mean` is the median over seeds (inf where most runs did not reach it) and `reached` the share that did.
    """
    rows: list[dict[str, Any]] = [{**asdict(e), "reached": math.nan} for e in summary.estimates]
    for r in summary.reachings:
        rows.append(
            {
                "credit": r.credit,
                "title": r.title,
                "metric": "steps_to_target",
                "versus": "",
                "seeds": r.seeds,
                "mean": r.median_steps,
                "low": math.nan,
                "high": math.nan,
                "reached": r.reached / r.seeds,
            }
        )
    return {name: [row[name] for row in rows] for name in rows[0]}


def summary_json(summary: Summary) -> dict[str, Any]:
    """The summary as nested plain values; None stands for NaN and for "not reached"."""

    def plain(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        label: {
            "title": title,
            "metrics": {
                e.metric: {
                    "seeds": e.seeds,
                    "mean": plain(e.mean),
                    "low": plain(e.low),
                    "high": plain(e.high),
                }
                for e in summary.estimates
                if (e.credit, e.versus) == (label, "")
            },
            "steps_to_target": next(
                {
                    "target": r.target,
                    "seeds": r.seeds,
                    "reached": r.reached,
                    "median": plain(r.median_steps),
                }
                for r in summary.reachings
                if r.credit == label
            ),
            "paired_differences": {
                base: {
                    e.metric: {
                        "seeds": e.seeds,
                        "mean": plain(e.mean),
                        "low": plain(e.low),
                        "high": plain(e.high),
                    }
                    for e in summary.estimates
                    if (e.credit, e.versus) == (label, base)
                }
                for base in BASELINES
                if any((e.credit, e.versus) == (label, base) for e in summary.estimates)
            },
        }
        for label, title in summary.credits().items()
    }


def interval_text(estimate: Estimate | None, form: Callable[[float], str]) -> str:
    """Such as "0.12 [0.10, 0.15]"; a dash where there is no estimate."""
    if estimate is None:
        return "–"
    if math.isnan(estimate.low):
        return form(estimate.mean)
    return f"{form(estimate.mean)} [{form(estimate.low)}, {form(estimate.high)}]"
