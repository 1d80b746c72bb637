"""One run of a comparison: a learner under one credit and seed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphwrap.scripts.comparison.settings import CreditSpec, Settings

HELD_OUT = ("held_out", "held_out_greedy")
"""Held-out success with sampled actions and with the likeliest ones."""

ROW = (
    "success",
    "outcome_return",
    "gradient_steps",
    "seconds",
    "collect_seconds",
    "credit_seconds",
    "approx_kl",
    "entropy",
    "value_loss",
    "trained_share",
)
"""Numbers of an update that a learner gives, see `train_run`."""

DIAGNOSTICS = (
    "complete_groups",
    "nodes",
    "edges",
    "reachable_share",
    "node_group_size",
    "single_step_share",
    "zero_credit_fraction",
    "no_success_share",
    "only_success_share",
    "progress_in_failures",
    "progress_in_successes",
)
"""Diagnostics of `WindowCredit` that are kept per update."""


@dataclass(frozen=True)
class RunResult:
    """What one run leaves: a row per update, and plain facts about the whole."""

    credit: str
    seed: int
    rows: list[dict[str, float]]  # see `train_run`
    facts: dict[str, Any]


def train_run(
    settings: Settings,
    credit: CreditSpec,
    seed: int,
    on_update: Callable[[dict[str, float]], None] | None = None,
) -> RunResult:
    """Train and evaluate one run. Deterministic on a CPU: the same arguments give the same curve.

    Args:
        settings: of the comparison.
        credit: whose credit is learnt from. "outcome" records and groups as the others do, and learns from the
            learner's own advantages, with their normalisation and the time-limit bootstrap.
        seed: of the network, the actions and the order of the tasks.
        on_update: called with each row when its update is done.

    Returns:
        A row per update: `update` (from 1), `steps` (of the environments so far, those included that only reset one),
        `success` and `outcome_return` (over the groups completed in this rollout, NaN where there is none),
        `gradient_steps`, `seconds` (rollout, credit and training), `collect_seconds`, `credit_seconds`, `approx_kl`,
        `entropy`, `value_loss`, `trained_share` (of the rollout's rows), `DIAGNOSTICS`, and `HELD_OUT` (NaN where there
        was no evaluation).
    """
    import torch

    from graphwrap.scripts.comparison.environments import compile_kernels, recorded
    from graphwrap.scripts.comparison.evaluation import HeldOut
    from graphwrap.scripts.comparison.learners import LEARNERS

    torch.set_num_threads(1)
    compile_kernels(settings, credit)
    env = recorded(settings, credit, settings.num_envs)
    held_out = HeldOut(settings)

    def evaluate(act: Callable[[Any, bool], Any]) -> dict[str, float]:
        rates = {}
        # Evaluation draws from a stream of its own, so that it does not change what training draws next.
        with torch.random.fork_rng(devices=[]):
            for name, greedy in zip(HELD_OUT, (False, True)):
                torch.manual_seed(seed)
                rates[name] = float(held_out.play(lambda batch, greedy=greedy: act(batch, greedy)).mean())
        return rates

    began = time.perf_counter()
    rows, facts = LEARNERS[settings.learner](settings, credit, seed, env, evaluate, on_update)
    facts = {
        **{name: rows[-1][name] for name in HELD_OUT},
        "held_out_episodes": len(held_out.starts),
        "gradient_steps": int(sum(row["gradient_steps"] for row in rows)),
        "seconds": sum(row["seconds"] for row in rows),
        "credit_seconds": sum(row["credit_seconds"] for row in rows),
        "total_seconds": time.perf_counter() - began,  # with held-out evaluation
        **facts,
    }
    held_out.close()
    env.close()
    return RunResult(credit.label, seed, rows, facts)


def make_row(
    settings: Settings, update: int, numbers: dict[str, float], rates: dict[str, float] | None
) -> dict[str, float]:
    """The row of one update.

    Args:
        settings: of the comparison.
        update: from 1.
        numbers: what the learner knows of it; what is missing is NaN.
        rates: held-out success by name; None: there was no evaluation.
    """
    row = {
        "update": update,
        "steps": update * settings.steps_per_update,
        **{name: numbers.get(name, float("nan")) for name in (*ROW, *DIAGNOSTICS)},
        **(rates or dict.fromkeys(HELD_OUT, float("nan"))),
    }
    return {name: float(value) for name, value in row.items()}


def is_evaluated(settings: Settings, update: int) -> bool:
    """Whether held-out episodes are played after this update."""
    every = settings.eval_every
    return update == settings.updates or (every > 0 and update % every == 0)
