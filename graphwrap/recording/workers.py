"""A clear error where a worker process of a vector environment has died."""

from __future__ import annotations

from typing import Any


def raise_if_worker_died(error: BaseException, env: Any) -> None:
    """Raise an error that names the dead worker processes of `env`, if `error` is the broken pipe of one.

    Raises:
        RuntimeError: A worker has died.
    """
    if not isinstance(error, (EOFError, ConnectionError)):
        return
    dead = [
        f"{number} (exit code {process.exitcode})"
        for number, process in enumerate(getattr(env, "processes", ()))
        if not process.is_alive()
    ]
    raise RuntimeError(
        f"a worker process of {type(env).__name__} has died: {', '.join(dead) or 'which one is not known'}. What was "
        "recorded stays, assign_credit() credits it, and the running episodes are unfinished; close this environment "
        "and make a new one to go on"
    ) from error
