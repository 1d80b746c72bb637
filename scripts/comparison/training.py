"""One run of a comparison: unmodified SB3 PPO under one credit and seed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphwrap.scripts.comparison.settings import OUTCOME, CreditSpec, Settings

HELD_OUT = ("held_out", "held_out_greedy")
"""Held-out success with sampled actions and with the likeliest ones."""

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
"""Diagnostics of `CreditCallback` that are kept per update."""


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
        credit: whose credit is learnt from. "outcome" records and groups as the others do, and leaves SB3's
            advantages, their normalisation and the time-limit bootstrap alone.
        seed: of the network, the actions and the order of the tasks.
        on_update: called with each row when its update is done.

    Returns:
        A row per update: `update` (from 1), `steps` (environment steps so far), `success` and `outcome_return` (over
        the groups completed in this rollout, NaN where there is none), `gradient_steps`, `seconds` (rollout, credit and
        training), `collect_seconds`, `credit_seconds`, `approx_kl`, `entropy`, `value_loss`, `trained_share` (of the
        rollout's rows), `DIAGNOSTICS`, and `HELD_OUT` (NaN where there was no evaluation).
    """
    import torch
    from stable_baselines3 import PPO

    from graphwrap.sb3 import CreditCallback
    from graphwrap.scripts.comparison.evaluation import HeldOut
    from graphwrap.scripts.comparison.tracking import Tracker

    torch.set_num_threads(1)
    _compile(settings, credit)
    venv = _recorded(settings, credit, settings.num_envs)
    held_out = HeldOut(settings)
    policy, policy_kwargs = policy_for(venv.observation_space)
    model = PPO(
        policy,
        venv,
        learning_rate=settings.learning_rate,
        n_steps=settings.n_steps,
        batch_size=settings.batch_size,
        n_epochs=settings.epochs,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        ent_coef=settings.entropy,
        policy_kwargs=policy_kwargs,
        seed=seed,
        device="cpu",
    )

    def evaluate() -> dict[str, float]:
        rates = {}
        # Evaluation draws from a stream of its own, so that it does not change what training draws next.
        with torch.random.fork_rng(devices=[]):
            for name, greedy in zip(HELD_OUT, (False, True)):
                torch.manual_seed(seed)
                won = held_out.play(
                    lambda batch, greedy=greedy: model.predict(batch, deterministic=greedy)[0]
                )
                rates[name] = float(won.mean())
        return rates

    applied = credit.name != OUTCOME
    recorder = CreditCallback(apply=applied)
    tracker = Tracker(settings, applied, evaluate, on_update)
    began = time.perf_counter()
    # Never dumped: the tracker takes what was logged.
    never = settings.updates + 1
    model.learn(
        settings.updates * settings.steps_per_update, callback=[tracker, recorder], log_interval=never
    )
    facts = {
        **{name: tracker.rows[-1][name] for name in HELD_OUT},
        "held_out_episodes": len(held_out.starts),
        "steps": int(model.num_timesteps),
        "gradient_steps": int(sum(row["gradient_steps"] for row in tracker.rows)),
        "seconds": sum(row["seconds"] for row in tracker.rows),
        "credit_seconds": sum(row["credit_seconds"] for row in tracker.rows),
        "total_seconds": time.perf_counter() - began,  # with held-out evaluation
        "policy": policy,
        "network_parameters": int(sum(np.prod(part.shape) for part in model.policy.parameters())),
    }
    held_out.close()
    venv.close()
    return RunResult(credit.label, seed, tracker.rows, facts)


def _recorded(settings: Settings, credit: CreditSpec, num_envs: int) -> Any:
    """The environments of a run, wrapped the same way for every credit."""
    from stable_baselines3.common.env_util import make_vec_env

    import graphwrap

    venv = make_vec_env(
        settings.env, num_envs, env_kwargs=settings.env_kwargs, wrapper_class=graphwrap.SeededReset
    )
    return graphwrap.wrap(
        venv,
        credit=credit.make(),
        group_size=settings.group_size,
        member_noise=settings.member_noise,
        state=None if settings.round is None else graphwrap.StateKey(round=settings.round),
        success=None if settings.success_return is None else _success_by_return(settings.success_return),
    )


def _compile(settings: Settings, credit: CreditSpec) -> None:
    """Run everything that Numba compiles once, so that compiling is not measured as credit or rollout."""
    venv = _recorded(settings, credit, settings.group_size)
    venv.seed(0)
    venv.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        venv.step(np.array([venv.action_space.sample() for _ in range(venv.num_envs)]))
        venv.assign_credit()
    venv.close()


def train_job(
    settings: Settings, credit: CreditSpec, seed: int, report: Callable[[dict[str, float]], None]
) -> tuple[list[dict[str, float]], dict[str, Any]]:
    """`train_run` as a job of `graphwrap.scripts.comparison.jobs`: rows and facts."""
    # 1,920 rows make 7.5 minibatches; SB3 warns of that and means no harm.
    warnings.filterwarnings("ignore", message="You have specified a mini-batch size", category=UserWarning)
    result = train_run(settings, credit, seed, report)
    return result.rows, result.facts


def check_spaces(observations: Any, actions: Any) -> None:
    """Check that SB3 PPO can learn with these spaces.

    Raises:
        ValueError: it cannot; says what it can.
    """
    from gymnasium import spaces

    arrays = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
    for what, space in (("observations", observations), ("actions", actions)):
        parts = (
            space.spaces.values() if what == "observations" and isinstance(space, spaces.Dict) else [space]
        )
        for part in parts:
            if not isinstance(part, arrays):
                raise ValueError(
                    f"Stable-Baselines3's PPO takes Box, Discrete, MultiDiscrete and MultiBinary {what}, and a flat "
                    f"Dict of such observations, not {type(part).__name__}; choose other {what} with --env-kwargs "
                    '(Sokoban: {"obs": "grid"})'
                )


def policy_for(space: Any) -> tuple[str, dict[str, Any]]:
    """The SB3 policy for observations of `space`, the same for every credit: its name and `policy_kwargs`."""
    import torch
    from gymnasium import spaces
    from stable_baselines3.common.preprocessing import is_image_space

    from graphwrap.agents.features import GridExtractor
    from graphwrap.envs.cells import NUM_CODES

    if isinstance(space, spaces.Dict):
        return "MultiInputPolicy", {}
    if isinstance(space, spaces.Box):
        if len(space.shape) == 3 and space.shape[0] == NUM_CODES and space.dtype == np.float32:
            # A value loss of returns around 10 would rule the features if policy and critic shared them.
            return "MlpPolicy", {
                "features_extractor_class": GridExtractor,
                "share_features_extractor": False,
                "net_arch": [128],
                "activation_fn": torch.nn.ReLU,
            }
        if is_image_space(space) and min(space.shape[:2]) >= 36:
            return "CnnPolicy", {}
    return "MlpPolicy", {}


def _success_by_return(least: float) -> Callable[..., bool]:
    def success(observation: Any, reward: float, terminated: bool, truncated: bool, info: dict) -> bool:
        return bool(info["episode"]["r"] >= least)  # by the Monitor that make_vec_env adds

    return success
