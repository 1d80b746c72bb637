"""Jobs in processes of their own."""

from __future__ import annotations

import multiprocessing
from contextlib import closing

from graphwrap.scripts.comparison.jobs import run_jobs
from tests.scripts.comparison.jobs_to_run import count_up, wait_for


def test_jobs_report_and_return():
    events = list(run_jobs(count_up, [(2,), (0,), (1,)], processes=2))
    for job, result in ((0, 2), (1, 0), (2, 1)):
        mine = [event for event in events if event.job == job]
        assert [event.kind for event in mine] == ["started", *["update"] * result, "done"]
        assert [event.value for event in mine[1:]] == [*range(1, result + 1), result]


def test_a_job_that_raises_or_dies_fails_alone():
    events = list(run_jobs(count_up, [(-1,), (99,), (1,), (50,)], processes=1))
    last = {event.job: event for event in events if event.kind in ("done", "failed")}
    assert [last[job].kind for job in range(4)] == ["failed", "failed", "done", "done"]
    assert "ValueError: cannot count to -1" in last[0].value
    assert "count_up" in last[0].value  # a traceback
    assert "exit code 7" in last[1].value
    assert [event.value for event in events if event.kind == "warning"] == ["UserWarning: fifty is a lot"]


def test_no_jobs():
    assert list(run_jobs(count_up, [], processes=3)) == []


def test_leaving_early_ends_the_processes():
    with closing(run_jobs(wait_for, [("",), ("",)], processes=2)) as events:
        for event in events:
            if event.kind == "update":
                break
    assert multiprocessing.active_children() == []
