"""Runs jobs in fresh processes and reports what happens in them; knows nothing of what the jobs do."""

from __future__ import annotations

import multiprocessing
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

Job = tuple[Any, ...]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Event:
    """What happened to a job: "started", "update" (value: what it reported), "warning" (value: text), "done" (value:
    its result) or "failed" (value: a traceback)."""

    kind: str
    job: int  # its place in the list of jobs
    value: Any = None


@dataclass
class Worker:
    """A process that works off one job after the other."""

    process: BaseProcess
    connection: Connection
    job: int | None = None


def run_jobs(function: Function, jobs: Sequence[Job], processes: int) -> Iterator[Event]:
    """Run `function(*job, report)` for every job, each in one of `processes` spawned processes, in this order.

    A job that raises, or whose process dies, fails by itself; the others go on. Leaving the iterator early (also by an
    exception, such as KeyboardInterrupt) ends the processes. When this process is killed, they end at their next
    report.

    Args:
        function: importable from its module. `report(value)` sends an "update".
        jobs: positional arguments, to be pickled.
        processes: at least 1.
    """
    context = multiprocessing.get_context("spawn")
    waiting = list(range(len(jobs)))[::-1]
    workers: list[Worker] = []

    def start() -> None:
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(there, function), daemon=True)
        process.start()
        there.close()
        workers.append(Worker(process, here))

    try:
        for _ in range(min(processes, len(jobs))):
            start()
        while True:
            for worker in [worker for worker in workers if worker.job is None]:
                if not waiting:
                    _end(worker)
                    workers.remove(worker)
                    continue
                worker.job = waiting.pop()
                # If it died before its first job, the loop below reports that.
                with suppress(OSError):
                    worker.connection.send(jobs[worker.job])
                yield Event("started", worker.job)
            if not workers:
                return
            ready = wait([worker.connection for worker in workers])
            for worker in [worker for worker in workers if worker.connection in ready]:
                assert worker.job is not None
                job = worker.job
                try:
                    kind, value = worker.connection.recv()
                except (EOFError, OSError):
                    _end(worker)
                    workers.remove(worker)
                    yield Event("failed", job, f"its process died with exit code {worker.process.exitcode}")
                    if waiting:
                        start()
                    continue
                if kind in ("done", "failed"):
                    worker.job = None
                yield Event(kind, job, value)
    finally:
        for worker in workers:
            worker.process.terminate()
            _end(worker)


def _end(worker: Worker) -> None:
    worker.connection.close()
    worker.process.join()


def _work(connection: Connection, function: Function) -> None:
    """Receive jobs until the other side hangs up."""
    # Ctrl-C goes to every process of the terminal; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def show_warning(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        connection.send(("warning", f"{category.__name__}: {message}"))

    warnings.showwarning = show_warning
    try:
        while True:
            job = connection.recv()
            try:
                result = function(*job, lambda value: connection.send(("update", value)))
                connection.send(("done", result))
            except BrokenPipeError:
                raise
            except Exception:
                connection.send(("failed", traceback.format_exc()))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
