"""One run of a comparison."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from graphwrap.scripts.comparison.settings import Settings, parse_credit
from graphwrap.scripts.comparison.training import HELD_OUT, RunResult, train_run

TINY = Settings(
    updates=2, num_envs=16, batch_size=48, held_out_kwargs={"split": "test"}, eval_episodes=8, eval_every=1
)
CLOCK = ("seconds", "collect_seconds", "credit_seconds")


@pytest.fixture(autouse=True)
def _threads():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def run(credit: str, seed: int = 0, settings: Settings = TINY) -> RunResult:
    return train_run(settings, parse_credit(credit, {"omega": 0.8}), seed)


def without_clock(result: RunResult) -> list[dict[str, float]]:
    return [{name: value for name, value in row.items() if name not in CLOCK} for row in result.rows]


def test_the_same_seed_gives_the_same_curve():
    first, second, other = run("graphgpo"), run("graphgpo"), run("graphgpo", seed=1)
    assert str(without_clock(first)) == str(without_clock(second))  # str: NaN equals NaN
    assert str(without_clock(first)) != str(without_clock(other))
    assert first.facts["held_out"] == first.rows[-1]["held_out"]


def test_evaluation_does_not_change_training():
    often = run("grpo")
    once = run("grpo", settings=Settings(**{**vars(TINY), "eval_every": 0}))
    assert math.isnan(once.rows[0]["held_out"])
    assert not math.isnan(often.rows[0]["held_out"])
    for name in ("success", "approx_kl", "entropy", "value_loss", "held_out"):
        assert often.rows[1][name] == once.rows[1][name]


def test_rows_hold_what_happened():
    updates = []
    result = train_run(TINY, parse_credit("graphgpo", {"omega": 0.8}), 0, updates.append)
    assert updates == result.rows
    assert [row["update"] for row in result.rows] == [1.0, 2.0]
    assert [row["steps"] for row in result.rows] == [240.0, 480.0]
    for row in result.rows:
        assert 0.0 <= row["success"] <= 1.0
        assert row["complete_groups"] >= 2
        assert 0.0 < row["trained_share"] <= 1.0
        assert row["gradient_steps"] in (16.0, 20.0)  # 4 epochs of up to 240 rows by 48
        assert 0.0 < row["credit_seconds"] < row["seconds"]
        assert row["collect_seconds"] + row["credit_seconds"] < row["seconds"]
        assert 0.0 < row["entropy"] <= np.log(4) + 1e-6
        assert np.isfinite([row["approx_kl"], row["value_loss"], row["nodes"]]).all()
        assert {row[name] * 8 % 1 for name in HELD_OUT} == {0.0}
    assert result.facts["steps"] == 480
    assert result.facts["gradient_steps"] == sum(row["gradient_steps"] for row in result.rows)


def test_outcome_trains_on_every_row_and_meets_the_same_levels():
    outcome, grpo = run("outcome"), run("grpo")
    assert [row["trained_share"] for row in outcome.rows] == [1.0, 1.0]
    assert [row["gradient_steps"] for row in outcome.rows] == [20.0, 20.0]
    # Before the first update nothing differs but the credit.
    for name in ("success", "outcome_return", "nodes", "edges"):
        assert outcome.rows[0][name] == grpo.rows[0][name]
    assert outcome.rows[0]["approx_kl"] != grpo.rows[0]["approx_kl"]


def test_other_environments_and_success_by_return():
    settings = Settings(
        env="CartPole-v1",
        updates=1,
        num_envs=4,
        group_size=2,
        n_steps=40,
        batch_size=40,
        eval_episodes=3,
        round=1,
        success_return=10.0,
        member_noise=True,
    )
    result = run("graphgpo", settings=settings)
    assert result.rows[0]["success"] > 0.5  # a random policy balances for some 20 steps
    assert result.facts["held_out_episodes"] == 3


def test_the_ppo_loop_is_a_learner():
    settings = replace(TINY, learner="ppo", updates=3)
    first, second, outcome = (
        run("graphgpo", settings=settings),
        run("graphgpo", settings=settings),
        run("outcome", settings=settings),
    )
    assert str(without_clock(first)) == str(without_clock(second))
    assert first.facts["steps"] == 3 * 240
    for result in (first, outcome):
        for row in result.rows:
            assert row["complete_groups"] >= 2
            assert 0.0 < row["credit_seconds"] < row["seconds"]
            assert 0.0 < row["entropy"] <= np.log(4) + 1e-6
            assert np.isfinite([row["approx_kl"], row["value_loss"], row["held_out"]]).all()
    assert [row["trained_share"] for row in outcome.rows] == [1.0] * 3
    assert 0.0 < first.rows[0]["trained_share"] < 1.0
    # Before the first update nothing differs but the credit, and the levels are those of the other learner.
    for name in ("success", "outcome_return", "nodes", "edges"):
        assert first.rows[0][name] == outcome.rows[0][name]
    with pytest.raises(ValueError, match="learner must be 'sb3' or 'ppo', got 'a2c'"):
        replace(TINY, learner="a2c")
