"""Environments in worker processes."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from graphwrap.envs.hosts import Crash, MakeEnv, Reply, crash_of, serve

_PATIENCE = 5.0  # seconds that workers have for closing their environments


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection


class Workers:
    """Environment e is number e // P of worker e % P, so that the members of a group are spread."""

    def __init__(self, make_env: MakeEnv, num_envs: int, processes: int) -> None:
        self._make_env = make_env
        self._num_envs = num_envs
        self._context = multiprocessing.get_context("spawn")
        self._dead: list[tuple[int, Crash]] = []
        self._workers: list[_Worker] = []
        try:
            for number in range(processes):
                self._workers.append(self._start(number, processes, make_now=True))
            for worker in self._workers:
                self._await_start(worker)
        except BaseException:
            self._end(kill=True)
            raise

    def exchange(self, name: str, envs: list[int], values: list[Any]) -> list[Reply]:
        """Send each of `envs` a "reset" with its seed or a "step" with its action; what each replied, in this order."""
        count = len(self._workers)
        pending: dict[int, list[int]] = {}  # worker: indices into `envs`, in the order of the replies
        for index, env in enumerate(envs):
            pending.setdefault(env % count, []).append(index)
        replies: dict[int, Reply] = {}
        try:
            for number, indices in pending.items():
                with suppress(OSError):  # it died: its connection says so below
                    parts = [(envs[index] // count, values[index]) for index in indices]
                    self._workers[number].connection.send((name, parts))
            while any(pending.values()):
                connections = {
                    self._workers[number].connection: number for number, left in pending.items() if left
                }
                for connection in wait(list(connections)):
                    number = connections[connection]  # type: ignore[index]
                    try:
                        data = self._workers[number].connection.recv_bytes()
                    except (EOFError, OSError):
                        crash = self._replace(number)
                        replies.update((index, crash) for index in pending[number])
                        pending[number] = []
                    else:
                        replies[pending[number].pop(0)] = _unpickled(data)
        except BaseException:
            # What the others still answer would be taken for the answer to the next request.
            for number, left in pending.items():
                if left:
                    self._workers[number].process.kill()
                    self._replace(number)
            raise
        return [replies[index] for index in range(len(envs))]

    def bereaved(self) -> Iterator[tuple[int, Crash]]:
        """Every environment of the processes that died since the last call."""
        dead, self._dead = self._dead, []
        for number, crash in dead:
            for env in range(number, self._num_envs, len(self._workers)):
                yield env, crash

    def close(self) -> None:
        """End the processes."""
        self._end(kill=False)

    def _start(self, number: int, processes: int, make_now: bool) -> _Worker:
        count = len(range(number, self._num_envs, processes))
        here, there = self._context.Pipe()
        process = self._context.Process(
            target=serve, args=(there, self._make_env, count, make_now), daemon=True, name=f"envs-{number}"
        )
        try:
            process.start()
        except BaseException:
            here.close()
            raise
        finally:
            there.close()
        return _Worker(process, here)

    def _await_start(self, worker: _Worker) -> None:
        try:
            failure = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join()
            raise RuntimeError(
                f"a worker process ended with exit code {worker.process.exitcode} before its environments were made; "
                "what it wrote above says why. It imports the main module and what make_env needs: a script guards "
                "its own code by `if __name__ == '__main__':`"
            ) from None
        if failure is not None:
            raise RuntimeError(f"an environment cannot be made: {failure.error}\n{failure.details}")

    def _replace(self, number: int) -> Crash:
        """Start another worker in the place of a dead or unusable one."""
        old = self._workers[number]
        old.connection.close()
        old.process.join(_PATIENCE)  # it may still be dying
        if old.process.is_alive():
            old.process.kill()
            old.process.join()
        crash = Crash(f"its process ended with exit code {old.process.exitcode}")
        self._dead.append((number, crash))
        self._workers[number] = self._start(number, len(self._workers), make_now=False)
        return crash

    def _end(self, kill: bool) -> None:
        for worker in self._workers:
            worker.connection.close()
            if kill:
                worker.process.kill()
        deadline = time.monotonic() + _PATIENCE
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


def _unpickled(data: bytes) -> Reply:
    try:
        reply: Reply = pickle.loads(data)
    except Exception as error:
        return crash_of(error)
    return reply
