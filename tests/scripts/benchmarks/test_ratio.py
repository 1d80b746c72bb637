from __future__ import annotations

import gc

import pytest

from graphwrap.scripts.benchmarks.ratio import Amount, Ratio, interleaved, seconds
from graphwrap.scripts.benchmarks.report import HEADER, cells, number, to_markdown


def ratio(ours, other, limit, at_most, **options) -> Ratio:
    return Ratio("graphs", "something", "ours", "s", ours, limit, at_most, "theirs", other, **options)


def test_pairs_alternate():
    calls: list[str] = []

    def measure(name: str, value: float):
        return lambda: calls.append(name) or value

    ours, other = interleaved(measure("ours", 1.0), measure("other", 2.0), 3)
    assert calls == ["ours", "other", "other", "ours", "ours", "other"]
    assert (ours, other) == ([1.0] * 3, [2.0] * 3)


def test_the_figure_is_the_median_of_the_pairs():
    measured = ratio([1.0, 1.0, 8.0], [2.0, 1.0, 2.0], 1.0, True)
    assert measured.ratios == [0.5, 1.0, 4.0]
    assert (measured.figure, measured.holds) == (1.0, True)
    assert not ratio([1.1], [1.0], 1.0, True).holds
    assert ratio([0.96], [1.0], 0.95, False).holds
    assert not ratio([0.94], [1.0], 0.95, False).holds


def test_times_faster_is_the_other_way_round():
    measured = ratio([1.0, 2.0, 1.0], [8.0, 8.0, 10.0], 8.0, False, inverse=True)
    assert measured.ratios == [8.0, 4.0, 10.0]
    assert (measured.figure, measured.holds) == (8.0, True)


def test_an_amount_is_held_against_its_limit():
    amount = Amount("first use", "something", "time", "s", [3.0, 1.0, 2.0], 2.0, True)
    assert (amount.figure, amount.holds, amount.bar) == (2.0, True, "at most 2")
    assert not Amount("first use", "something", "time", "s", [2.1], 2.0, True).holds


def test_rows_of_the_table():
    row = cells(ratio([1.0, 1.0, 8.0], [2.0, 1.0, 2.0], 0.5, True))
    assert row == ["graphs", "1x (0.5 to 4)", "at most 0.5x", "NO", "1 s", "2 s"]
    amount = Amount("memory", "something", "bytes", "bytes", [90.0], 100.0, True)
    assert cells(amount) == ["memory", "90 bytes (90 to 90)", "at most 100 bytes", "yes", "90 bytes", ""]
    assert len(row) == len(HEADER)
    assert [number(value, "s") for value in (0.00012345, 12345.6, 1.5)] == ["0.000123 s", "12,346 s", "1.5 s"]


def test_markdown_names_what_failed():
    text = to_markdown(
        [ratio([1.0], [2.0], 1.0, True, details={"seconds for half": 0.5})],
        {"sokoban": "needs what is not installed: pip install gym-sokoban"},
        {"pairs": 7},
        {"triad GB/s": 9.0},
    )
    assert "| graphs | 0.5x (0.5 to 0.5) | at most 1x | yes | 1 s | 2 s |" in text
    assert "Seconds for half: 0.5." in text
    assert "memory on one core: triad GB/s 9.0" in text
    assert "- **sokoban** was not measured: needs what is not installed: pip install gym-sokoban" in text


def test_the_garbage_collector_is_held_back_and_comes_back():
    found = []
    seconds(lambda: found.append(gc.isenabled()))
    assert (found, gc.isenabled()) == ([False], True)
    with pytest.raises(ZeroDivisionError):
        seconds(lambda: 1 / 0)
    assert gc.isenabled()
