"""The recording behind a learner, and whether it saw the learner's rollout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnvWrapper

from graphwrap.recording.env_wrapper import CreditEnv, find_credit_env
from graphwrap.recording.recorder import Recorder
from graphwrap.recording.vec_env import CreditVecEnv
from graphwrap.recording.vector_env import find_credit_vector_env
from graphwrap.sb3.vector_adapter import VectorEnvAdapter


def find_recording(env: Any) -> CreditEnv | CreditVecEnv:
    """Return what `graphwrap.wrap` made, somewhere inside a learner's VecEnv.

    Raises:
        ValueError: There is none, one for each of several sub-environments, or one in another place.
    """
    inner = env
    while isinstance(inner, VecEnvWrapper):
        if isinstance(inner, CreditVecEnv):
            return inner
        inner = inner.venv
    if isinstance(inner, VectorEnvAdapter) and find_credit_vector_env(inner.vector_env) is not None:
        raise ValueError(
            "graphwrap.wrap inside as_vec_env records, but not what Stable-Baselines3 sees; wrap last: "
            "graphwrap.wrap(as_vec_env(venv), ...)"
        )
    found = [find_credit_env(sub) for sub in inner.envs] if isinstance(inner, DummyVecEnv) else [None]
    if found == [None] * len(found):
        raise ValueError(
            "CreditCallback found no recorded environment: make the learner with one, "
            "PPO('MlpPolicy', graphwrap.wrap(venv, ...))"
        )
    if len(found) > 1:
        raise ValueError(
            f"each of the {len(found)} sub-environments records on its own, so groups cannot form: wrap the VecEnv "
            "instead, graphwrap.wrap(make_vec_env(...))"
        )
    assert found[0] is not None
    return found[0]


def check_rollout(recorder: Recorder, buffer: Any, model: Any) -> None:
    """Check that the recorder saw exactly the steps that are in the buffer.

    Raises:
        RuntimeError: It did not. The first difference is named; nothing has changed.
    """
    shape = (buffer.buffer_size, buffer.n_envs)
    recorded = (recorder.num_steps, recorder.num_envs)
    advice = (
        "Only the learner may step the recorded environment: give EvalCallback and other users one of their own, and "
        "put wrappers that skip or repeat steps inside graphwrap.wrap"
    )
    if not recorder.num_steps:
        raise RuntimeError(
            "the rollout's steps were credited before this CreditCallback came to them: give learn() one "
            "CreditCallback, and leave assign_credit() to it"
        )
    if shape != recorded:
        raise RuntimeError(
            f"the rollout has {shape[0]} steps of {shape[1]} environments, but {recorded[0]} of {recorded[1]} were "
            f"recorded. {advice}"
        )
    _check_equal(recorder.episode_starts, buffer.episode_starts > 0.5, "starts of episodes", advice)
    actions = _sent_actions(buffer.actions, model).reshape(-1, *model.action_space.shape)
    ids = recorder.actions.intern_batch(actions, len(actions)).reshape(shape)
    _check_equal(recorder.action_ids, ids, "actions", advice)


def _check_equal(recorded: np.ndarray, expected: np.ndarray, what: str, advice: str) -> None:
    if not np.array_equal(recorded, expected):
        t, env = np.argwhere(recorded != expected)[0].tolist()
        raise RuntimeError(
            f"the recorded {what} differ from the rollout buffer's, first at step {t} of environment {env}. {advice}"
        )


def _sent_actions(actions: np.ndarray, model: Any) -> np.ndarray:
    """Return what the learner sent to the environment for the actions in its buffer, as it computes that itself."""
    space = model.action_space
    if not isinstance(space, spaces.Box):
        return actions
    actions = actions.astype(np.float32).reshape(-1, *space.shape)
    if model.policy.squash_output:
        unscale: Callable[[np.ndarray], np.ndarray] = model.policy.unscale_action
        return unscale(actions)
    return np.clip(actions, space.low, space.high)
