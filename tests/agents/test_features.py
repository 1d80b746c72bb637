from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from graphwrap.agents import GridExtractor
from graphwrap.envs import SokobanEnv


def grids(count: int) -> tuple[torch.Tensor, spaces.Space]:
    env = SokobanEnv()
    observations = [env.reset(seed=seed)[0] for seed in range(count)]
    return torch.as_tensor(np.stack(observations)), env.observation_space


def test_shape_and_sign_of_the_features() -> None:
    batch, space = grids(5)
    extractor = GridExtractor(space)
    features = extractor(batch)
    assert features.shape == (5, 128)
    assert extractor.features_dim == 128
    assert (features >= 0).all()
    assert GridExtractor(space, features_dim=10, channels=(4, 6))(batch).shape == (5, 10)


def test_rows_of_a_batch_are_independent() -> None:
    batch, space = grids(6)
    extractor = GridExtractor(space)
    with torch.no_grad():
        together = extractor(batch)
        apart = torch.cat([extractor(row[None]) for row in batch])
    torch.testing.assert_close(together, apart, rtol=1e-5, atol=1e-6)


def test_every_cell_reaches_the_features() -> None:
    torch.manual_seed(0)
    batch, space = grids(1)
    batch.requires_grad_()
    GridExtractor(space)(batch).sum().backward()
    assert batch.grad is not None
    assert (batch.grad[0].abs().sum(dim=0) > 0).all()


@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_trains_inside_sb3_and_survives_saving(algorithm, tmp_path) -> None:
    venv = DummyVecEnv([SokobanEnv] * 2)
    settings = {"n_steps": 16, "seed": 0, "device": "cpu"} | ({"batch_size": 16} if algorithm is PPO else {})
    policy = {"features_extractor_class": GridExtractor, "features_extractor_kwargs": {"channels": (8, 8)}}
    model = algorithm("MlpPolicy", venv, policy_kwargs=policy, **settings)
    assert isinstance(model.policy.features_extractor, GridExtractor)
    before = model.policy.features_extractor.layers[0].weight.detach().clone()
    model.learn(64)
    assert not torch.equal(before, model.policy.features_extractor.layers[0].weight)
    model.save(tmp_path / "model")
    observation = venv.reset()
    read = algorithm.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(
        read.predict(observation, deterministic=True)[0], model.predict(observation, deterministic=True)[0]
    )


@pytest.mark.parametrize(
    "space",
    [
        SokobanEnv(obs="codes").observation_space,
        SokobanEnv(obs="rgb").observation_space,
        spaces.Discrete(4),
        spaces.Box(0, 1, (36,), np.float32),
        spaces.Box(0, 1, (7, 2, 6), np.float32),
    ],
    ids=str,
)
def test_spaces_that_do_not_fit(space: spaces.Space) -> None:
    with pytest.raises(ValueError, match=r"float Box of shape \(planes, H, W\) with H, W >= 3, got"):
        GridExtractor(space)


def test_missing_sb3_is_named() -> None:
    script = (
        "import sys\n"
        "sys.modules['stable_baselines3'] = None\n"
        "import graphwrap.agents\n"
        "try:\n"
        "    graphwrap.agents.GridExtractor\n"
        "except ImportError as error:\n"
        "    print(error)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'graphwrap[sb3]'" in run.stdout


def test_no_other_attribute() -> None:
    import graphwrap.agents

    with pytest.raises(AttributeError, match="no attribute 'Extractor'"):
        graphwrap.agents.Extractor  # noqa: B018
