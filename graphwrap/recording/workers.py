"""A clear error where a worker process of a vector environment has died."""

from __future__ import annotations

from multiprocessing import connection
from typing import Any


def await_answers(env: Any) -> None:
    """Wait until every worker process of a `SubprocVecEnv` has answered, or one of them has died.

    Forked workers hold each other's pipes open, so reading from a dead one's would wait for ever.

    Raises:
        EOFError: A worker died and left no answer.
    """
    waiting = dict(zip(env.remotes, env.processes))
    sentinels = {process.sentinel: remote for remote, process in waiting.items()}
    while waiting:
        for ready in connection.wait([*waiting, *sentinels]):
            if ready in sentinels:
                if not sentinels[ready].poll():  # type: ignore[index]
                    raise EOFError("a worker process has died")
                del sentinels[ready]  # type: ignore[arg-type]
            else:
                waiting.pop(ready, None)


def check_alive(env: Any) -> None:
    """Check that every worker process of a `SubprocVecEnv` lives.

    Raises:
        EOFError: One has died.
    """
    if not all(process.is_alive() for process in env.processes):
        raise EOFError("a worker process has died")


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
