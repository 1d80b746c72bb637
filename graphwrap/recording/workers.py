"""A clear error where a worker process of a vector environment has died."""

from __future__ import annotations

from typing import Any


def raise_if_worker_died(error: BaseException, env: Any) -> None:
    """Raise an error that names the dead worker processes of `env`, if `error` comes from the lack of one.

    Raises:
        RuntimeError: A worker has died.
    """
    # AsyncVectorEnv has None in the place of a worker that an error ended before.
    gone = isinstance(error, AttributeError) and error.obj is None and error.name in ("send", "recv")
    if not (gone or isinstance(error, (EOFError, ConnectionError))):
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
