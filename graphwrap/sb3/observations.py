"""Batches of observations in the layout and dtypes of `DummyVecEnv`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from graphwrap.data.keys import ARRAY_SPACES


def check_spaces(observations: spaces.Space, actions: spaces.Space) -> None:
    """Check the spaces of one sub-environment.

    Raises:
        ValueError: Stable-Baselines3 has no use for one of them.
    """
    parts: Sequence[spaces.Space] = [observations]
    if isinstance(observations, spaces.Dict):
        parts = list(observations.spaces.values())
    elif isinstance(observations, spaces.Tuple):
        parts = observations.spaces
    for what, space, of in [
        *(("observation", part, observations) for part in parts),
        ("action", actions, actions),
    ]:
        if not isinstance(space, ARRAY_SPACES):
            raise ValueError(
                f"Stable-Baselines3 takes Box, Discrete, MultiDiscrete and MultiBinary {what} spaces"
                + (", and Dict and Tuple of these" if what == "observation" else "")
                + f", got {of}; turn it into one of them with a wrapper inside the vector environment"
            )


def batch_of(space: spaces.Space, observations: Any, num_envs: int) -> Any:
    """Return a copy of a vector environment's observations, of `num_envs` times `space`."""
    if isinstance(space, spaces.Dict):
        return {key: batch_of(part, observations[key], num_envs) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(batch_of(part, batch, num_envs) for part, batch in zip(space.spaces, observations))
    assert space.shape is not None
    return np.array(observations, space.dtype).reshape(num_envs, *space.shape)


def put_rows(space: spaces.Space, batch: Any, envs: Sequence[int], other: Any) -> None:
    """Write the rows `envs` of another batch into `batch`."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            put_rows(part, batch[key], envs, other[key])
    elif isinstance(space, spaces.Tuple):
        for part, ours, theirs in zip(space.spaces, batch, other):
            put_rows(part, ours, envs, theirs)
    else:
        batch[envs] = np.asarray(other)[envs]
