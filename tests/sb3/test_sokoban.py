"""The batched Sokoban in Stable-Baselines3."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from stable_baselines3 import PPO

import graphwrap
from graphwrap.envs import SokobanEnv, SokobanVectorEnv
from graphwrap.sb3 import CreditCallback, as_vec_env
from tests.sb3.learners import SMALL, Watch
from tests.sb3.worlds import MODES, assert_same, dummy


def play_sokoban(venv: Any, steps: int) -> list:
    rng = np.random.default_rng(0)
    venv.seed(5)
    venv.set_options([{"level": level} for level in range(venv.num_envs)])
    seen = [(venv.reset(), list(venv.reset_infos))]
    for _ in range(steps):
        seen.append((*venv.step(rng.integers(0, 4, venv.num_envs)), list(venv.reset_infos)))
    return seen


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("obs", ["grid", "codes", "rgb"])
def test_the_batch_is_equal_to_a_dummy_vec_env(obs: str, mode: AutoresetMode) -> None:
    settings = {"obs": obs, "reward": "dense", "max_steps": 7}
    batch = as_vec_env(SokobanVectorEnv(6, autoreset_mode=mode, **settings))
    assert_same(play_sokoban(batch, 30), play_sokoban(dummy(6, make=SokobanEnv, **settings), 30))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("credit_mode", ["advantage", "reward"])
def test_ppo_on_groups_is_the_same_bit_for_bit(credit_mode: str, mode: AutoresetMode) -> None:
    runs = []
    for venv in (as_vec_env(SokobanVectorEnv(8, autoreset_mode=mode)), dummy(8, make=SokobanEnv)):
        wrapped = graphwrap.wrap(venv, "graphgpo", group_size=4, member_noise=True)
        model = PPO("MlpPolicy", wrapped, n_steps=20, batch_size=40, n_epochs=1, **SMALL)
        watch = Watch()
        model.learn(160 * 2, callback=[CreditCallback(mode=credit_mode), watch])
        runs.append((model, watch))
    for one, other in zip(*(model.policy.parameters() for model, _ in runs), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(*(watch.buffers for _, watch in runs), strict=True):
        assert_same(one, other)
