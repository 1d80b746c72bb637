"""A vLLM session in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import traceback
import weakref
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from graphwrap.agents.engines.base import Generation, Sampling
from graphwrap.agents.engines.vllm_session import Session, Start

GRACE = 10.0  # seconds for an orderly end
LAUNCHER = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "GROUP_RANK",
)
"""What launchers of distributed training tell their processes, of which the engine is none."""


class RemoteSession:
    """`Session` in a process of its own, which ends with this one."""

    def __init__(self, start: Start) -> None:
        ours, theirs = Pipe()
        environment = {name: value for name, value in os.environ.items() if name not in LAUNCHER}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        environment.setdefault("HF_HUB_OFFLINE", "1")  # the model is a local folder
        if start.device and start.tensor_parallel == 1:
            visible = environment.get("CUDA_VISIBLE_DEVICES", "")
            environment["CUDA_VISIBLE_DEVICES"] = (
                visible.split(",")[start.device] if visible else str(start.device)
            )
        with theirs:
            # Not multiprocessing's: that runs the trainer's main module again, and its daemons may have no children,
            # which tensor parallelism needs. In a group of its own, so that an interrupt reaches the trainer only.
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._connection = ours
        self._calls = 0
        self._finalizer = weakref.finalize(self, _end, self._process, ours)
        try:
            self._call("start", start)
        except BaseException:
            self.close()
            raise

    def generate(self, prompts: list[list[int]], sampling: Sampling) -> list[Generation]:
        """As in `Session`."""
        return self._call("generate", prompts, sampling)

    def load_files(self, paths: list[str]) -> None:
        """As in `Session`."""
        self._call("load_files", paths)

    def swap(self, folder: str, number: int) -> None:
        """As in `Session`."""
        self._call("swap", folder, number)

    def sleep(self) -> None:
        """As in `Session`."""
        self._call("sleep")

    def wake(self) -> None:
        """As in `Session`."""
        self._call("wake")

    def close(self) -> None:
        """End the process."""
        self._finalizer()

    def _call(self, name: str, *arguments: Any) -> Any:
        self._calls += 1
        try:
            self._connection.send((self._calls, name, arguments))
            # Replies to calls that were interrupted here come first.
            number, result, failure = self._receive()
            while number != self._calls:
                number, result, failure = self._receive()
        except (EOFError, ConnectionError) as error:
            raise RuntimeError(self._ended()) from error
        if failure:
            raise RuntimeError(f"{name} failed in the engine's process:\n{failure}")
        return result

    def _receive(self) -> tuple[int, Any, str]:
        while not self._connection.poll(1.0):
            # The pipe stays open where the process left workers behind.
            if self._process.poll() is not None and not self._connection.poll(0):
                raise EOFError
        return self._connection.recv()

    def _ended(self) -> str:
        try:
            code = self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            return "the engine's process closed its connection: make a new engine"
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        hint = (
            " (if nobody killed it, the machine may have run out of memory: lower engine.memory_gb or "
            "engine.max_batch)"
            if code == -signal.SIGKILL
            else ", its output says why"
        )
        return f"the engine's process {how}{hint}: make a new engine"


def _end(process: subprocess.Popen[bytes], connection: Connection) -> None:
    connection.close()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        pass
    finally:
        # Its workers too, also where it has ended without them.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> None:
    """Serve one session on the connection whose file descriptor is the argument, until it is closed."""
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    connection = Connection(descriptor)
    session: Session | None = None
    while True:
        try:
            number, name, arguments = connection.recv()
        except EOFError:
            break
        result, failure = None, ""
        try:
            if name == "start":
                session = Session(*arguments)
            else:
                result = getattr(session, name)(*arguments)
        except Exception:
            failure = traceback.format_exc()
        try:
            connection.send((number, result, failure))
        except ConnectionError:
            break
    if session is not None:
        session.close()


if __name__ == "__main__":
    main()
