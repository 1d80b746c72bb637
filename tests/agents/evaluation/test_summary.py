"""Numbers of finished episodes and their intervals."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from graphwrap.agents.evaluation.records import Place, Record, StepRecord
from graphwrap.agents.evaluation.summary import bootstrap_ratio, last_trials, summarise, wilson


def record(place: Place, success: bool, steps: int = 4, invalid: int = 0, kind: str = "", **more) -> Record:
    made = [
        StepRecord(
            "o", "said", "go", "no action" if step < invalid else "", float(success and step == steps - 1)
        )
        for step in range(steps)
    ]
    values = {
        "name": "n",
        "truncated": not success,
        "prompt_tokens": 10 * steps,
        "answer_tokens": 3 * steps,
        **more,
    }
    return Record(
        place, 1, "do", task_type=kind, success=success, last_observation="end", steps=tuple(made), **values
    )


def keyed(*records: Record) -> dict[Place, Record]:
    return {one.place: one for one in records}


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    [  # by the formula, as tables have it
        (5, 10, 0.2366, 0.7634),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (1, 1, 0.2065, 1.0),
        (62, 140, 0.3632, 0.5256),
    ],
)
def test_wilson(successes, count, low, high):
    estimate = wilson(successes, count)
    assert estimate.value == successes / count
    assert (estimate.low, estimate.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert estimate.low <= estimate.value <= estimate.high


def test_wilson_covers_the_true_share_about_as_often_as_it_says():
    drawn = np.random.default_rng(0).binomial(50, 0.3, size=2000)
    inside = [wilson(int(won), 50).low <= 0.3 <= wilson(int(won), 50).high for won in drawn]
    assert 0.93 < np.mean(inside) < 0.97


def test_the_bootstrap_of_a_mean_is_about_two_standard_errors_and_knows_no_order():
    values = np.random.default_rng(1).normal(5, 2, size=200)
    estimate = bootstrap_ratio(values.tolist(), [1.0] * 200)
    error = values.std() / math.sqrt(200)
    assert estimate.value == pytest.approx(values.mean())
    assert estimate.low == pytest.approx(values.mean() - 1.96 * error, abs=0.05)
    assert estimate.high == pytest.approx(values.mean() + 1.96 * error, abs=0.05)
    assert bootstrap_ratio(values[::-1].tolist(), [1.0] * 200) == estimate


def test_a_share_of_steps_is_resampled_by_episode():
    # Half of the episodes are all invalid: as few independent observations as episodes, not as steps.
    by_episode = bootstrap_ratio([10.0, 0.0] * 10, [10.0] * 20)
    assert by_episode.value == 0.5
    assert by_episode.high - by_episode.low > 0.35
    of_steps = wilson(100, 200)
    assert of_steps.high - of_steps.low < 0.15
    # Longer episodes weigh more.
    assert bootstrap_ratio([10.0, 0.0], [10.0, 30.0]).value == 0.25


def test_one_or_no_observation_has_no_interval():
    one, none = bootstrap_ratio([3.0], [1.0]), bootstrap_ratio([], [])
    assert (one.value, one.count) == (3.0, 1)
    assert math.isnan(one.low)
    assert one.text(".1f") == "3.0"
    assert math.isnan(none.value)
    assert none.text() == "–"
    assert math.isnan(wilson(0, 0).value)


def test_success_by_type_steps_and_invalid_share():
    summary = summarise(
        keyed(
            record(Place(0), True, steps=3, kind="look"),
            record(Place(1), False, steps=5, invalid=2, kind="look"),
            record(Place(2), True, steps=4, kind="heat"),
        )
    )
    assert summary.success == wilson(2, 3)
    assert summary.success_by_type == {"heat": wilson(1, 1), "look": wilson(1, 2)}
    assert summary.steps.value == 4
    assert summary.steps_of_successes.value == 3.5
    assert summary.invalid_share.value == pytest.approx(2 / 12)
    assert summary.invalid == {"no action": pytest.approx(2 / 12)}
    assert summary.env_return.value == pytest.approx(2 / 3)
    assert summary.truncated == wilson(1, 3)
    assert (summary.prompt_tokens, summary.answer_tokens) == (10, 3)
    assert (summary.episodes, summary.trials, summary.played_steps) == (3, 3, 12)
    assert summary.success_by_trial == [summary.success]


def test_of_several_trials_the_last_one_counts():
    records = keyed(
        record(Place(0, 0, 0), False, steps=6, invalid=6),
        record(Place(0, 0, 1), True, steps=2),
        record(Place(1, 0, 0), True, steps=3),
        record(Place(2, 0, 0), False),
        record(Place(2, 0, 1), False, steps=7),
        record(Place(3, 0, 0), False),  # its second trial is not there yet
    )
    assert [(place.task, place.trial) for place in last_trials(records, 2)] == [(0, 1), (1, 0), (2, 1)]
    summary = summarise(records, 2)
    assert summary.success == wilson(2, 3)
    assert summary.success_by_trial == [wilson(1, 3), wilson(2, 3)]
    assert summary.steps.value == 4
    assert summary.invalid_share.value == 0
    assert (summary.episodes, summary.trials) == (3, 6)


def test_episodes_of_one_task_are_resampled_together():
    records = keyed(*(record(Place(task, repeat), task < 5) for task in range(10) for repeat in range(8)))
    summary = summarise(records)
    assert summary.success.value == 0.5
    assert summary.success.count == 10
    assert summary.success.high - summary.success.low > 0.5  # 80 independent episodes would have 0.21


def test_nothing_has_no_numbers_and_json_has_no_nan():
    summary = summarise({})
    assert math.isnan(summary.success.value)
    assert summary.episodes == 0
    told = summary.as_json()
    assert told["success"] == {"value": None, "low": None, "high": None, "count": 0}
    json.dumps(told, allow_nan=False)


def test_a_record_survives_json():
    one = record(Place(3, 1, 2), True, invalid=1, kind="k", reflections=("a", "b"))
    assert Record.from_json(json.loads(json.dumps(one.to_json()))) == one
