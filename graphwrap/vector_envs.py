"""What Gymnasium vector environments do at the end of an episode, and what their infos say."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv

from graphwrap._attributes import replaced

_PLAIN = tuple(np.dtype(kind) for kind in (np.int64, np.float64, np.bool_))  # those of Python's own numbers
_IMMUTABLE = (str, bytes, int, float, bool, type(None))


def autoreset_mode(env: VectorEnv) -> AutoresetMode:
    """Return when `env` resets a sub-environment whose episode has ended; where it does not say, Gymnasium's default.

    Raises:
        ValueError: Its metadata name something else.
    """
    mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise ValueError(
            f"metadata['autoreset_mode'] of a vector environment must be a gymnasium.vector.AutoresetMode, and "
            f"{type(env.unwrapped).__name__} has {mode!r}; set it to what the environment does"
        ) from None


def as_seed(seeds: Sequence[int | None] | None) -> Any:
    """Return the seeds of all sub-environments as `VectorEnv.reset` takes them; one number where that says the same."""
    if seeds is None or all(seed is None for seed in seeds):
        return None
    first = seeds[0]
    if first is not None and list(seeds) == [first + env for env in range(len(seeds))]:
        return first
    return list(seeds)


class _Options(dict):
    """Reset options that remember whether somebody asked for the mask, or took a copy that may serve to ask."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.asked = False

    def _note(self, key: Any) -> None:
        self.asked = self.asked or key == "reset_mask"

    def __contains__(self, key: Any) -> bool:
        self._note(key)
        return super().__contains__(key)

    def __getitem__(self, key: Any) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self._note(key)
        return super().get(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        self._note(key)
        return super().pop(key, *default)

    def __iter__(self) -> Any:  # dict(options), {**options}, loops
        self.asked = True
        return super().__iter__()

    def keys(self) -> Any:
        self.asked = True
        return super().keys()

    def items(self) -> Any:
        self.asked = True
        return super().items()

    def copy(self) -> dict[str, Any]:
        self.asked = True
        return super().copy()

    def __reduce_ex__(self, protocol: Any) -> Any:  # copies and pickles are plain dicts
        self.asked = True
        return dict, (super().copy(),)


class MaskedReset:
    """Resets some sub-environments of a vector environment by `options["reset_mask"]`.

    Args:
        env: A vector environment. Wrappers around it see the mask too: each is handed options of its own, since vector
            environments take the mask out of the options that they get.

    Raises:
        ValueError: `env` is an `AsyncVectorEnv` that would reset once more with the next step.
    """

    def __init__(self, env: VectorEnv) -> None:
        base = env.unwrapped
        if (
            isinstance(base, AsyncVectorEnv)
            and not base.shared_memory
            and autoreset_mode(env) is AutoresetMode.NEXT_STEP
        ):
            # Its workers forget the reset that is due only where they also write to shared memory.
            raise ValueError(
                "AsyncVectorEnv(shared_memory=False) in NEXT_STEP mode resets a sub-environment twice when it is reset "
                "by mask; make it with shared_memory=True, or with another autoreset_mode"
            )
        self._env = env

    def __call__(
        self,
        mask: np.ndarray,
        seeds: Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the sub-environments of the mask.

        Args:
            mask: bool (num_envs,), at least one True.
            seeds: A seed for every sub-environment, those outside the mask are not used. None: no seeds.
            options: Further options of the reset.

        Returns:
            A batch of observations, of which the rows of the mask count, and the infos.

        Raises:
            ValueError: The vector environment ignores the mask. It has then reset every sub-environment.
        """
        base: Any = self._env.unwrapped
        reset = base.reset
        given: list[_Options] = []

        def reset_base(*arguments: Any, **named: Any) -> Any:
            if isinstance(named.get("options"), dict) and "reset_mask" in named["options"]:
                given.append(_Options(named["options"]))
                named["options"] = given[-1]
            return reset(*arguments, **named)

        options = {**copy.deepcopy(options or {}), "reset_mask": mask.copy()}
        seed = as_seed(seeds)
        refused: Exception | None = None
        try:
            with replaced(base, "reset", reset_base):
                result = self._env.reset(seed=seed, options=options)
        except (TypeError, ValueError, gymnasium.error.Error) as error:
            # Who looks at no mask often takes no list of seeds either.
            if not isinstance(seed, list) or type(error) not in (
                TypeError,
                ValueError,
                gymnasium.error.Error,
            ):
                raise
            refused = error
        if len(mask) > 1 and given and not any(options.asked for options in given):
            raise ValueError(
                f"{type(base).__name__} ignores options['reset_mask'] and resets every sub-environment; take one that "
                "can reset them one by one: gymnasium.make_vec(id, num_envs, vectorization_mode='sync'), or, to reset "
                "only at the ends of episodes, one in AutoresetMode.SAME_STEP"
            ) from refused
        if refused is not None:
            raise refused
        return result


def info_rows(infos: dict[str, Any], envs: Sequence[int], num_envs: int) -> list[dict[str, Any]]:
    """Return the infos of single sub-environments, out of those of a vector environment.

    Args:
        infos: The vector environment's infos. `infos["_key"]`, bool (num_envs,), says who has `key`; where that is not
            there, everybody has it.
        envs: The sub-environments that are asked for.
        num_envs: Number of sub-environments.

    Returns:
        An info for each of `envs`, which shares nothing with `infos`.
    """
    rows: list[dict[str, Any]] = [{} for _ in envs]
    if not infos:
        return rows
    masks = {f"_{key}" for key in infos}
    chosen = np.asarray(envs, np.intp)
    for key, value in infos.items():
        if key in masks:
            continue
        mask = infos.get(f"_{key}")
        having, places = chosen, range(len(rows))
        if mask is not None:
            has = np.asarray(mask, np.bool_)[chosen]
            having, places = chosen[has], np.flatnonzero(has).tolist()
        for place, part in zip(places, _parts(value, having, num_envs)):
            rows[place][key] = part
    return rows


def _parts(value: Any, envs: np.ndarray, num_envs: int) -> Sequence[Any]:
    """Return the part of each of `envs` in one entry of the infos."""
    if isinstance(value, dict):
        return info_rows(value, envs.tolist(), num_envs) if len(envs) else []
    if isinstance(value, np.ndarray) and value.ndim and len(value) == num_envs:
        if value.dtype == object:
            return [own(part) for part in value[envs]]
        taken = value[envs]
        return taken.tolist() if taken.ndim == 1 and taken.dtype in _PLAIN else list(taken)
    if isinstance(value, (list, tuple)) and len(value) == num_envs:
        return [own(value[env]) for env in envs]
    return [own(value) for _ in envs]


def own(value: Any) -> Any:
    """Return `value`, or a copy if it could be changed."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.copy()
    return value if isinstance(value, _IMMUTABLE) else copy.deepcopy(value)
