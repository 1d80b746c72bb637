"""The environments that one process holds, and what a worker process does with them."""

from __future__ import annotations

import math
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from numbers import Real
from typing import Any

import gymnasium as gym

from graphwrap.data.codec import encode

MakeEnv = Callable[[], gym.Env[Any, Any]]


@dataclass(frozen=True)
class Reset:
    """An episode has begun."""

    observation: str
    info: dict[str, Any]


@dataclass(frozen=True)
class Step:
    """What an action led to."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    @property
    def ended(self) -> bool:
        """Whether it was the episode's last step."""
        return self.terminated or self.truncated


@dataclass(frozen=True)
class Crash:
    """The environment raised or its process died. Its episode is lost; the next reset finds it made anew."""

    error: str  # one line
    details: str = field(default="", compare=False, repr=False)  # the traceback, where there is one


Reply = Reset | Step | Crash


class Host:
    """Environments in this process; an error in one of them is its own."""

    def __init__(self, make_env: MakeEnv, count: int) -> None:
        self._make_env = make_env
        self._envs: list[gym.Env[Any, Any] | None] = [None] * count

    def make(self) -> None:
        """Make all environments now; an error is raised."""
        self._envs = [self._make_env() for _ in self._envs]

    def reset(self, place: int, start: tuple[int, Mapping[str, Any] | None]) -> Reset | Crash:
        """Begin an episode with a seed, and options where there are some."""
        try:
            env = self._envs[place]
            if env is None:
                env = self._envs[place] = self._make_env()
            seed, options = start
            more = {} if options is None else {"options": dict(options)}
            observation, info = env.reset(seed=seed, **more)
            return Reset(_text(observation), _checked_info(info))
        except (Exception, SystemExit) as error:
            return self._crash(place, error)

    def step(self, place: int, action: str) -> Step | Crash:
        """Go on with the running episode."""
        try:
            env = self._envs[place]
            assert env is not None
            observation, reward, terminated, truncated, info = env.step(action)
            if not (isinstance(reward, Real) and math.isfinite(reward)):
                raise TypeError(f"the reward of a step is a finite number, got {reward!r}")
            return Step(
                _text(observation), float(reward), bool(terminated), bool(truncated), _checked_info(info)
            )
        except (Exception, SystemExit) as error:
            return self._crash(place, error)

    def close(self) -> None:
        """Close all environments."""
        for place in range(len(self._envs)):
            self._drop(place)

    def _crash(self, place: int, error: BaseException) -> Crash:
        self._drop(place)
        return crash_of(error)

    def _drop(self, place: int) -> None:
        env, self._envs[place] = self._envs[place], None
        if env is not None:
            with suppress(Exception, SystemExit):
                env.close()


def crash_of(error: BaseException) -> Crash:
    """What is known of an error."""
    line = traceback.format_exception_only(type(error), error)[-1].strip()
    return Crash(line, "".join(traceback.format_exception(type(error), error, error.__traceback__)))


def _text(observation: Any) -> str:
    if not isinstance(observation, str):
        raise TypeError(f"the observation of a text environment is a str, got {observation!r}")
    return observation


def _checked_info(info: Any) -> dict[str, Any]:
    if not isinstance(info, Mapping):
        raise TypeError(f"an info is a dict, got {info!r}")
    for name in ("task", "task_description", "task_type"):
        if not isinstance(info.get(name, ""), str):
            raise TypeError(f"info[{name!r}] of a text environment is a str, got {info[name]!r}")
    actions = info.get("admissible_actions")
    if actions is not None and not (
        isinstance(actions, (list, tuple)) and all(isinstance(action, str) for action in actions)
    ):
        raise TypeError(f"info['admissible_actions'] is a list of str, got {actions!r}")
    if "state_key" in info:
        check_state_key(info["state_key"])
    return dict(info)  # the environment may go on with its own


def check_state_key(key: Any) -> None:
    """Raises TypeError if `key` is no state of a text environment: hashable, and a label that can be saved."""
    hash(key)
    encode(key)


def serve(connection: Connection, make_env: MakeEnv, count: int, make_now: bool) -> None:
    """What a worker process does: take requests until the other side hangs up, and answer their parts in order."""
    # Ctrl-C goes to every process of the terminal; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    host = Host(make_env, count)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            if make_now:
                connection.send(_made(host))
            while True:
                for reply in _answers(host, connection.recv()):
                    connection.send_bytes(_pickled(reply))
        finally:
            host.close()


def _end_with_parent() -> None:
    """A worker that waits for its environment does not see that the other side hung up."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _made(host: Host) -> Crash | None:
    try:
        host.make()
    except (Exception, SystemExit) as error:
        return crash_of(error)
    return None


def _answers(host: Host, request: tuple[str, Sequence[tuple[int, Any]]]) -> Iterator[Reply]:
    name, parts = request
    method = {"reset": host.reset, "step": host.step}[name]
    for place, argument in parts:
        yield method(place, argument)  # type: ignore[operator]


def _pickled(reply: Reply) -> bytes:
    """The bytes of a reply, without what cannot be sent of its info."""
    try:
        return pickle.dumps(reply)
    except Exception:
        assert not isinstance(reply, Crash)
        for name in [name for name, value in reply.info.items() if not _can_be_sent(value)]:
            del reply.info[name]
        return pickle.dumps(reply)


def _can_be_sent(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True
