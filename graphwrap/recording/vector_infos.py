"""The infos of a Gymnasium vector environment, a dict of arrays, as infos of single environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphwrap.recording.ledger import Envs
from graphwrap.vector_envs import info_rows


class InfoRows(Sequence):
    """The infos of `num_envs` environments, each made when it is asked for.

    Args:
        infos: What a `VectorEnv` returned. Masks (`_key`) may be missing.
        num_envs: Number of environments.
        instead: Infos by environment that take the place of those.
    """

    def __init__(
        self, infos: dict[str, Any], num_envs: int, instead: Mapping[int, dict[str, Any]] | None = None
    ) -> None:
        self._infos = infos
        self._num_envs = num_envs
        self._instead = instead or {}

    def __len__(self) -> int:
        return self._num_envs

    def __getitem__(self, env: Any) -> Any:
        if env in self._instead:
            return self._instead[env]
        return info_rows(self._infos, [env], self._num_envs)[0]


def gathered(infos: Sequence[Any], envs: Envs) -> dict[str, Any]:
    """Return the infos of some environments, each a dict, as a dict of lists with masks."""
    found: dict[str, Any] = {}
    for env in envs:
        for key, value in (infos[env] or {}).items():
            if key not in found:
                found[key] = [None] * len(infos)
                found[f"_{key}"] = np.zeros(len(infos), np.bool_)
            found[key][env] = value
            found[f"_{key}"][env] = True
    return found


def put_info_rows(
    infos: Mapping[str, Any], others: Mapping[str, Any], envs: np.ndarray, num_envs: int
) -> dict[str, Any]:
    """Return `infos` with the entries of some environments that `others` has, taken from there; neither is changed.

    Args:
        infos: Infos of `num_envs` environments.
        others: The same, for `envs` at least.
        envs: bool (num_envs,).
        num_envs: Number of environments.
    """
    merged = dict(infos)
    for key, new in others.items():
        if key.startswith("_") and key[1:] in others:
            continue
        old = infos.get(key)
        theirs = _mask(others, key, num_envs) & envs
        mask = (_mask(infos, key, num_envs) & ~envs) | theirs
        if isinstance(new, Mapping):
            new = put_info_rows(old if isinstance(old, Mapping) else {}, new, envs, num_envs)
        elif _by_env(new, num_envs) and _by_env(old, num_envs):
            new = _choose(np.asarray(old), np.asarray(new), envs)
        merged[key], merged[f"_{key}"] = new, mask
    return merged


def _mask(infos: Mapping[str, Any], key: str, num_envs: int) -> np.ndarray:
    if key not in infos:
        return np.zeros(num_envs, np.bool_)
    return np.asarray(infos.get(f"_{key}", np.ones(num_envs, np.bool_)), np.bool_)


def _by_env(values: Any, num_envs: int) -> bool:
    return hasattr(values, "__len__") and not isinstance(values, str) and len(values) == num_envs


def _choose(old: np.ndarray, new: np.ndarray, envs: np.ndarray) -> np.ndarray:
    """Rows of `new` where `envs`, else of `old`, in a dtype that holds both."""
    if old.shape != new.shape or old.dtype != new.dtype:
        old, new = (np.array([*values, None], object)[:-1] for values in (old, new))
    chosen = old.copy()
    chosen[envs] = new[envs]
    return chosen
