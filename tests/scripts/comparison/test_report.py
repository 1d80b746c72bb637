"""The numbers of a report, from hand-made runs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from graphwrap.scripts.comparison import report, report_tables
from tests.scripts.comparison.frames import NAN, comparison, run


def test_area_is_the_mean_success_of_all_updates():
    assert report.area(np.array([0.0, 0.1, 0.2, 0.5])) == pytest.approx(0.2)


def test_area_carries_the_last_value_over_updates_without_a_complete_group():
    assert report.area(np.array([NAN, 0.2, NAN, 0.5])) == pytest.approx((0.2 + 0.2 + 0.5) / 3)
    assert math.isnan(report.area(np.array([NAN, NAN])))


def test_smoothing_is_a_trailing_mean():
    smooth = report.smoothed(np.array([1.0, 3.0, NAN, 5.0, 7.0]), window=2)
    np.testing.assert_allclose(smooth, [1.0, 2.0, 3.0, 5.0, 6.0])
    assert math.isnan(report.smoothed(np.array([NAN, 1.0]))[0])


def test_steps_to_a_success_rate_use_the_smoothed_curve():
    steps = 100.0 * np.arange(1, 9)
    success = np.array([0.0, 0.9, 0.0, 0.0, 0.0, 0.3, 0.3, 0.3])
    # Means of five updates in a row: 0.18, 0.24 at update 6.
    assert report.steps_to(steps, success, 0.2) == 600.0
    assert report.steps_to(steps, success, 0.18) == 500.0
    assert report.steps_to(steps, success, 0.5) == math.inf


def test_a_lucky_start_is_no_reaching():
    steps = 100.0 * np.arange(1, 7)
    assert report.steps_to(steps, np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]), 0.5) == math.inf


def test_bootstrap_interval_of_two_values_spans_them():
    assert report.bootstrap([1.0, 3.0]) == (2.0, 1.0, 3.0)
    mean, low, high = report.bootstrap([5.0])
    assert mean == 5.0
    assert math.isnan(low)
    assert math.isnan(high)


def test_bootstrap_is_close_to_the_normal_interval_and_repeatable():
    values = np.random.default_rng(1).normal(size=200)
    mean, low, high = report.bootstrap(values)
    error = values.std() / math.sqrt(len(values))
    assert mean == pytest.approx(values.mean())
    assert low == pytest.approx(mean - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(mean + 1.96 * error, abs=0.15 * error)
    assert report.bootstrap(values[::-1])[1:] == (low, high)  # the order of the seeds does not matter


def test_metrics_of_a_run():
    numbers = report.run_metrics(run("grpo", 0, [0.0] * 5 + [0.5] * 10, held_out=0.25))
    assert numbers == pytest.approx(
        {
            "held_out": 0.25,
            "held_out_greedy": 0.125,
            "auc": 5.0 / 15,
            "final_success": 0.5,
            "seconds": 15.0,
            "credit_share": 0.01,
            "gradient_steps": 150.0,
            "trained_share": 0.9,
        }
    )


def test_means_over_seeds():
    summary = report.summarise(comparison())
    estimate = summary.get("outcome", "auc")
    assert estimate is not None
    assert (estimate.seeds, estimate.mean) == (3, pytest.approx(0.1))
    assert 0.0 <= estimate.low < 0.1 < estimate.high <= 0.2 + 1e-12
    assert list(summary.credits()) == ["outcome", "grpo", "graphgpo"]


def test_differences_are_paired_by_seed():
    summary = report.summarise(comparison())
    against_grpo = summary.get("graphgpo", "auc", "grpo")
    assert against_grpo is not None
    assert against_grpo.mean == pytest.approx((0.1 + 0.1 + 0.3) / 3)
    assert (against_grpo.low, against_grpo.high) == (pytest.approx(0.1), pytest.approx(0.3))
    # Seeds differ by 0.1, their differences do not: the paired interval has no width.
    exact = summary.get("grpo", "auc", "outcome")
    assert exact is not None
    assert (exact.low, exact.mean, exact.high) == pytest.approx((0.1, 0.1, 0.1))
    held_out = summary.get("graphgpo", "held_out", "outcome")
    assert held_out is not None
    assert held_out.mean == pytest.approx(0.3)
    assert summary.get("outcome", "auc", "outcome") is None
    assert summary.get("outcome", "auc", "grpo").mean == pytest.approx(-0.1)


def test_only_common_seeds_are_paired():
    runs = [
        run("grpo", 0, [0.1]),
        run("grpo", 1, [0.2]),
        run("graphgpo", 1, [0.5]),
        run("graphgpo", 2, [0.9]),
    ]
    difference = report.summarise(runs).get("graphgpo", "auc", "grpo")
    assert difference is not None
    assert (difference.seeds, difference.mean) == (1, pytest.approx(0.3))
    assert math.isnan(difference.low)


def test_not_reached_counts_as_later_than_any_reaching():
    runs = [
        run("grpo", 0, [0.0] * 5 + [0.5] * 5),
        run("grpo", 1, [0.0] * 10),
        run("grpo", 2, [0.0] * 10),
        run("graphgpo", 0, [0.5] * 10),
        run("graphgpo", 1, [0.3] * 10),
        run("graphgpo", 2, [0.0] * 10),
    ]
    grpo, graphgpo = report.summarise(runs, target=0.2).reachings
    assert (grpo.reached, grpo.seeds, grpo.median_steps) == (1, 3, math.inf)
    assert (graphgpo.reached, graphgpo.median_steps) == (2, 500.0)
    assert report_tables.reaching_text(grpo) == "not reached (1 of 3)"
    assert report_tables.reaching_text(graphgpo) == "500 (2 of 3)"
    told = report.summary_json(report.summarise(runs))["grpo"]["steps_to_target"]
    assert told == {"target": 0.2, "seeds": 3, "reached": 1, "median": None}


def test_json_and_table_hold_the_same_numbers():
    summary = report.summarise(comparison())
    told = json.loads(json.dumps(report.summary_json(summary), allow_nan=False))
    assert told["graphgpo"]["paired_differences"]["grpo"]["auc"]["mean"] == pytest.approx(0.5 / 3)
    columns = report.summary_columns(summary)
    assert len({len(column) for column in columns.values()}) == 1
    row = list(zip(columns["credit"], columns["metric"], columns["versus"])).index(
        ("graphgpo", "auc", "grpo")
    )
    assert columns["mean"][row] == pytest.approx(0.5 / 3)
    reached = list(zip(columns["credit"], columns["metric"])).index(("graphgpo", "steps_to_target"))
    assert (columns["mean"][reached], columns["reached"][reached]) == (500.0, 1.0)


def test_all_updates_of_all_runs_are_one_table():
    columns = report.comparison_columns([run("grpo", 3, [0.1, 0.2]), run("graphgpo", 4, [0.3])])
    assert columns["credit"] == ["grpo", "grpo", "graphgpo"]
    assert columns["seed"] == [3, 3, 4]
    np.testing.assert_array_equal(columns["success"], [0.1, 0.2, 0.3])


def test_few_seeds_are_called_a_demonstration():
    assert "3 seeds are a demonstration, not evidence" in report_tables.note(report.summarise(comparison()))
    assert "1 seed is a demonstration" in report_tables.note(report.summarise([run("grpo", 0, [0.1])]))
    many = [run(credit, seed, [0.1 * seed]) for credit in ("grpo", "graft") for seed in range(5)]
    assert "demonstration" not in report_tables.note(report.summarise(many))


def test_tables_show_intervals_and_differences():
    summary = report.summarise(comparison())
    success, outcome, grpo, cost = report_tables.tables(summary)
    assert success.rows[2][:2] == ["graphgpo (title)", "3"]
    assert success.rows[2][2].startswith("0.400 [")
    assert success.rows[2][5] == "500 (3 of 3)"
    assert cost.rows[2] == ["graphgpo (title)", "10 s", "1.0%", "100", "90.0%"]
    assert outcome.title == "Difference to outcome at equal seeds"
    assert [row[0] for row in outcome.rows] == ["grpo (title)", "graphgpo (title)"]
    assert success.header.index("held-out success") == 2
    assert outcome.header.index("held-out success") == 2
    assert outcome.rows[1][2].startswith("+0.300 [")
    assert grpo.header.index("area under curve") == 4
    assert grpo.rows[1][4] == "+0.167 [+0.100, +0.300]"
    assert all(
        len(row) == len(table.header) for table in (success, outcome, grpo, cost) for row in table.rows
    )


def test_markdown_says_what_was_run():
    about = {
        "settings": {"env": "graphwrap/Sokoban-v0", "updates": 10, "round": None},
        "versions": {"numpy": "2.0", "scipy": None},
        "machine": "two cores",
        "command": "graphwrap compare --updates 10",
    }
    text = report_tables.to_markdown(report.summarise(comparison()), about)
    assert "# SB3 PPO on graphwrap/Sokoban-v0 under 3 credits" in text
    assert "`graphwrap compare --updates 10`" in text
    assert "Settings: env graphwrap/Sokoban-v0, updates 10." in text
    assert "Versions: numpy 2.0." in text
    assert "demonstration, not evidence" in text
