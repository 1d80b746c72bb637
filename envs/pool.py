"""Many text environments, in this process or in worker processes, that survive each other's crashes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium as gym

from graphwrap.envs.hosts import Crash, Host, MakeEnv, Reply, Reset, Step
from graphwrap.envs.workers import Workers

if TYPE_CHECKING:
    from graphwrap.agents.settings import EnvSettings

__all__ = ["Crash", "EnvPool", "Reset", "Step", "env_maker"]


class EnvPool:
    """`num_envs` text environments.

    An environment that raises, or whose process dies, gives a `Crash` for its running episode, once, and is made anew
    at its next reset. No other episode notices, except those that the dead process held. What the pool gives does not
    depend on `processes`, save that worker processes leave out what cannot be pickled of an info.

    Args:
        make_env: Makes one environment; with worker processes it is pickled (see `env_maker`).
        num_envs: How many.
        processes: Worker processes, started afresh ("spawn"), that share the environments. They end with this process,
            however it ends. 0: the environments are in this process.

    Raises:
        ValueError: A count that is none.
        RuntimeError: An environment cannot be made, or a worker process cannot start.
    """

    def __init__(self, make_env: MakeEnv, num_envs: int, processes: int = 0) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs is at least 1, got {num_envs!r}")
        if processes < 0:
            raise ValueError(f"processes is at least 0 (0: this process), got {processes!r}")
        if processes and multiprocessing.current_process().daemon:
            raise RuntimeError(
                f"a daemonic process cannot start others, got processes={processes!r}: use 0 there"
            )
        self.num_envs = num_envs
        self._running = [False] * num_envs
        self._lost: dict[int, Crash] = {}  # running episodes whose process died while they waited
        self._closed = False
        self._hosting: _Hosting
        if processes:
            self._hosting = Workers(make_env, num_envs, min(processes, num_envs))
        else:
            self._hosting = _Here(make_env, num_envs)

    def reset(
        self,
        envs: Sequence[int],
        seeds: Sequence[int],
        options: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> list[Reset | Crash]:
        """Begin an episode in each of `envs`; one that still runs there is given up.

        Args:
            envs: Environments, each at most once.
            seeds: The task of each one.
            options: What else each one's reset is told; None: nothing.
        """
        envs = self._checked(envs, seeds, "seeds")
        if options is None:
            options = [None] * len(envs)
        self._checked(envs, options, "options")
        for env in envs:
            self._lost.pop(env, None)
            self._running[env] = False
        starts = [(int(seed), option) for seed, option in zip(seeds, options)]
        replies = self._exchange("reset", envs, starts)
        for env, reply in zip(envs, replies):
            self._running[env] = isinstance(reply, Reset)
        self._note_lost()
        return replies

    def step(self, envs: Sequence[int], actions: Sequence[str]) -> list[Step | Crash]:
        """Make one step in each of `envs`, whose episodes run.

        Args:
            envs: Environments, each at most once.
            actions: The action of each one.

        Raises:
            TypeError: An action is no str; no step was made.
            RuntimeError: No episode runs in one of `envs`; no step was made.
        """
        envs = self._checked(envs, actions, "actions")
        strange = [action for action in actions if not isinstance(action, str)]
        if strange:
            raise TypeError(f"an action is a str, got {strange[0]!r}")
        idle = [env for env in envs if not self._running[env]]
        if idle:
            raise RuntimeError(f"a step needs a running episode, env {idle[0]} has none: reset it first")
        lost = {env: self._lost.pop(env) for env in envs if env in self._lost}
        going = [(env, action) for env, action in zip(envs, actions) if env not in lost]
        replies = self._exchange("step", [env for env, _ in going], [action for _, action in going])
        found = lost | dict(zip([env for env, _ in going], replies))
        for env, reply in found.items():
            self._running[env] = isinstance(reply, Step) and not reply.ended
        self._note_lost()
        return [found[env] for env in envs]

    def close(self) -> None:
        """Close the environments and end the worker processes; more than once is fine."""
        if not self._closed:
            self._closed = True
            self._hosting.close()

    def __enter__(self) -> EnvPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _checked(self, envs: Sequence[int], values: Sequence[Any], name: str) -> list[int]:
        if self._closed:
            raise RuntimeError("the pool is closed: make a new one")
        if len(envs) != len(values):
            raise ValueError(f"envs and {name} are of the same length, got {len(envs)} and {len(values)}")
        numbers = [int(env) for env in envs]
        strange = [env for env in numbers if not 0 <= env < self.num_envs]
        if strange:
            raise ValueError(f"envs are 0 to {self.num_envs - 1}, got {strange[0]}")
        if len(set(numbers)) != len(numbers):
            twice = next(env for env in numbers if numbers.count(env) > 1)
            raise ValueError(f"envs are named at most once, got env {twice} twice")
        return numbers

    def _exchange(self, name: str, envs: list[int], values: list[Any]) -> list[Any]:
        try:
            return self._hosting.exchange(name, envs, values)
        except BaseException as error:  # such as KeyboardInterrupt: nobody knows which of the steps were made
            self._note_lost()
            crash = Crash(f"interrupted by {type(error).__name__}")
            self._lost.update((env, crash) for env in envs if self._running[env])
            raise

    def _note_lost(self) -> None:
        self._lost.update((env, crash) for env, crash in self._hosting.bereaved() if self._running[env])


class _Hosting(Protocol):
    def exchange(self, name: str, envs: list[int], values: list[Any]) -> list[Reply]: ...

    def bereaved(self) -> Iterator[tuple[int, Crash]]:
        """Every environment of the processes that died since the last call."""

    def close(self) -> None: ...


class _Here:
    """All environments in this process."""

    def __init__(self, make_env: MakeEnv, num_envs: int) -> None:
        self._host = Host(make_env, num_envs)
        try:
            self._host.make()
        except Exception as error:
            raise RuntimeError(f"an environment cannot be made: {error!r}") from error

    def exchange(self, name: str, envs: list[int], values: list[Any]) -> list[Reply]:
        method = self._host.reset if name == "reset" else self._host.step
        return [method(env, value) for env, value in zip(envs, values)]

    def bereaved(self) -> Iterator[tuple[int, Crash]]:
        return iter(())

    def close(self) -> None:
        self._host.close()


def env_maker(settings: EnvSettings, held_out: bool = False) -> MakeEnv:
    """What makes one environment of `settings`, to be pickled.

    Args:
        settings: `id` may be "module:id", which imports the module first.
        held_out: With `held_out_kwargs` on top of `kwargs`.
    """
    kwargs = {**settings.kwargs, **(settings.held_out_kwargs if held_out else {})}
    return partial(_make, settings.id, kwargs)


def _make(name: str, kwargs: dict[str, Any]) -> gym.Env[Any, Any]:
    return gym.make(name, disable_env_checker=True, **kwargs)
