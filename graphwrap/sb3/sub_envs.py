"""Attributes and methods of the sub-environments inside a Gymnasium vector environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv, VectorEnv
from gymnasium.vector.async_vector_env import AsyncState
from stable_baselines3.common.env_util import is_wrapped


class SubEnvs:
    """Reaches the sub-environments as far as the vector environment lets others reach them.

    Those of `SyncVectorEnv`, and of anything with a list `envs`, are there; those of `AsyncVectorEnv` are asked in
    their processes; others need `call`, `get_attr` and `set_attr` as `SyncVectorEnv` has them.
    """

    def __init__(self, env: VectorEnv) -> None:
        self._base: Any = env.unwrapped
        self._asks = isinstance(self._base, AsyncVectorEnv)

    def _envs(self, indices: Sequence[int]) -> list[gymnasium.Env] | None:
        """The sub-environments themselves, where they are in this process."""
        envs = getattr(self._base, "envs", None)
        if not isinstance(envs, (list, tuple)) or len(envs) != self._base.num_envs:
            return None
        return [envs[index] for index in indices] if isinstance(envs[0], gymnasium.Env) else None

    def _offered(self, function: str, name: str) -> Any:
        offered = getattr(self._base, function, None)
        if not callable(offered):
            raise AttributeError(
                f"{type(self._base).__name__} keeps its sub-environments to itself, so {name!r} is out of reach; "
                f"take a SyncVectorEnv (vectorization_mode='sync'), or give it a method {function!r}"
            )
        return offered

    def have(self, name: str, indices: Sequence[int]) -> bool:
        """Return whether the sub-environments all have an attribute."""
        envs = self._envs(indices)
        if envs is not None:
            return all(env.has_wrapper_attr(name) for env in envs)
        if self._asks:
            return all(self._ask("_call", [("has_wrapper_attr", (name,), {})] * len(indices), indices))
        try:
            self.get(name, indices)
        except AttributeError:
            return False
        return True

    def get(self, name: str, indices: Sequence[int]) -> list[Any]:
        """Return an attribute of each sub-environment."""
        envs = self._envs(indices)
        if envs is not None:
            return [env.get_wrapper_attr(name) for env in envs]
        if self._asks:
            return self.call(name, indices)
        values = self._offered("get_attr", name)(name)
        return [values[index] for index in indices]

    def set(self, name: str, value: Any, indices: Sequence[int]) -> None:
        """Set an attribute of each sub-environment."""
        envs = self._envs(indices)
        if envs is not None:
            for env in envs:
                env.set_wrapper_attr(name, value)
        elif self._asks:
            self._ask("_setattr", [(name, value)] * len(indices), indices)
        else:
            set_attr = self._offered("set_attr", name)
            values = [value] * self._base.num_envs
            if len(indices) < self._base.num_envs:
                values = list(self._offered("get_attr", name)(name))
                for index in indices:
                    values[index] = value
            set_attr(name, values)

    def call(self, name: str, indices: Sequence[int], *arguments: Any, **named: Any) -> list[Any]:
        """Call a method of each sub-environment."""
        envs = self._envs(indices)
        if envs is not None:
            return [env.get_wrapper_attr(name)(*arguments, **named) for env in envs]
        if self._asks:
            # An error in a worker ends it, so the question comes first.
            if not self.have(name, indices):
                raise AttributeError(f"the sub-environments of {type(self._base).__name__} have no {name!r}")
            return self._ask("_call", [(name, arguments, named)] * len(indices), indices)
        call = self._offered("call", name)
        if len(indices) < self._base.num_envs:
            raise AttributeError(
                f"{type(self._base).__name__} calls {name!r} in every sub-environment or in none; leave indices out"
            )
        return list(call(name, *arguments, **named))

    def are_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: Sequence[int]) -> list[bool]:
        """Return whether each sub-environment is inside a wrapper; False where it cannot be seen."""
        envs = self._envs(indices)
        if envs is None:
            return [False] * len(indices)
        return [is_wrapped(env, wrapper_class) for env in envs]

    def _ask(self, command: str, data: Sequence[Any], indices: Sequence[int]) -> list[Any]:
        """Send a command to some workers, which `AsyncVectorEnv` itself sends to all or none."""
        base = self._base
        base._assert_is_running()
        if base._state is not AsyncState.DEFAULT:
            raise gymnasium.error.AlreadyPendingCallError(
                f"the sub-environments still wait for {base._state.value}", base._state.value
            )
        for index, part in zip(indices, data):
            base.parent_pipes[index].send((command, part))
        succeeded = [True] * base.num_envs
        results = []
        for index in indices:
            result, succeeded[index] = base.parent_pipes[index].recv()
            results.append(result)
        base._raise_if_errors(succeeded)
        return results
