"""What a learner trains on."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
)

import graphwrap
from graphwrap import make_credit
from graphwrap.sb3 import CreditCallback
from tests.helpers import Line, line_vec
from tests.sb3.learners import SMALL, Watch, keep_windows, rows_of


@pytest.mark.parametrize("unfinished", ["mask", "graph"])
@pytest.mark.parametrize(
    ("algorithm", "settings", "epochs"),
    [
        (PPO, {"n_steps": 10, "batch_size": 16, "n_epochs": 3}, 3),
        (PPO, {"n_steps": 10, "batch_size": 13, "n_epochs": 2, "target_kl": 1e9}, 2),
        (A2C, {"n_steps": 10}, 1),
    ],
)
def test_train_reads_the_credit_of_the_valid_rows(
    algorithm: Any, settings: dict, epochs: int, unfinished: str
) -> None:
    venv = graphwrap.wrap(line_vec(8, length=9, limit=6), "graphgpo", group_size=4)
    watch = Watch()
    model = algorithm("MlpPolicy", venv, **settings, **SMALL)
    model.learn(8 * 10 * 3, callback=[CreditCallback(unfinished=unfinished), watch])
    assert len(watch.buffers) == 3
    trained = 0
    for rollout in range(3):
        transitions, finished = watch.transitions(rollout, group_size=4)
        credit = make_credit("graphgpo")(transitions).advantages.reshape(finished.shape)
        valid = finished if unfinished == "mask" else np.ones_like(finished)
        assert 0 < np.count_nonzero(finished) < finished.size
        buffer = watch.buffers[rollout]
        np.testing.assert_allclose(buffer["advantages"], credit, atol=1e-6)
        expected = rows_of(
            {
                "actions": buffer["actions"][valid],
                "values": buffer["values"][valid],
                "log_probs": buffer["log_probs"][valid],
                "advantages": credit.astype(np.float32)[valid],
                "returns": buffer["returns"][valid],
            }
        )
        read = watch.read[rollout]
        sizes = [len(batch["advantages"]) for batch in read]
        assert sum(sizes) == epochs * len(expected)
        start = 0
        for _ in range(epochs):
            stop = start
            while sum(sizes[start:stop]) < len(expected):
                stop += 1
            epoch = {name: np.concatenate([batch[name] for batch in read[start:stop]]) for name in read[0]}
            np.testing.assert_allclose(rows_of(epoch), expected, atol=1e-6)
            start = stop
        trained += np.count_nonzero(credit[valid])
    assert trained > 30
    assert not any(watch.normalized)
    assert len(watch.normalized) == sum(len(read) for read in watch.read)


def test_returns_stay_those_of_sb3() -> None:
    runs = []
    for callbacks in ([], [CreditCallback(reset=False)]):
        watch = Watch()
        venv = graphwrap.wrap(line_vec(4, limit=5))
        model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, learning_rate=0.0, **SMALL)
        model.learn(64, callback=[*callbacks, watch])
        runs.append(watch)
    for one, other in zip(runs[0].buffers, runs[1].buffers):
        for name in ("actions", "returns", "values", "rewards", "episode_starts"):
            np.testing.assert_array_equal(one[name], other[name])
        assert not np.array_equal(one["advantages"], other["advantages"])
    truncated = [info["TimeLimit.truncated"] for step in runs[1].steps[0] for info in step[4]]
    assert any(truncated)


def test_without_apply_training_is_sb3_s_own() -> None:
    runs = []
    for callbacks in ([], [CreditCallback(apply=False, reset=False)]):
        watch = Watch()
        venv = graphwrap.wrap(line_vec(4, limit=5))
        model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=2, normalize_advantage=True, **SMALL)
        model.learn(96, callback=[*callbacks, watch])
        runs.append((watch, model))
    (plain, plain_model), (watched, model) = runs
    assert plain.normalized == watched.normalized == [True] * len(watched.normalized)
    for one, other in zip(plain.read, watched.read, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a["advantages"], b["advantages"])
    for one, other in zip(plain_model.policy.parameters(), model.policy.parameters(), strict=True):
        assert torch.equal(one, other)


def test_unscored_rewards_are_not_trained_on() -> None:
    class Broken(Line):
        def step(self, action: Any) -> Any:
            observation, reward, *rest = super().step(action)
            return observation, float("nan") if self.place == self.length - 1 else reward, *rest

    watch = Watch()
    venv = graphwrap.wrap(DummyVecEnv([Broken] * 4), group_size=2)
    model = PPO("MlpPolicy", venv, n_steps=12, batch_size=16, n_epochs=1, **SMALL)
    model.learn(96, callback=[CreditCallback(), watch])
    assert any(np.isnan(buffer["returns"]).any() for buffer in watch.buffers)
    read = [batch for rollout in watch.read for batch in rollout]
    assert read
    assert all(
        np.isfinite(batch["returns"]).all() and np.isfinite(batch["advantages"]).all() for batch in read
    )
    assert all(torch.isfinite(parameter).all() for parameter in model.policy.parameters())


def test_a_rollout_without_a_valid_row_trains_nothing() -> None:
    venv = graphwrap.wrap(line_vec(4, length=400, limit=40), group_size=2)
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, **SMALL)
    before = [parameter.clone() for parameter in model.policy.parameters()]
    with pytest.warns(UserWarning, match="a rollout of n_steps=8 had no row to train on") as warned:
        model.learn(96, callback=CreditCallback())
    assert len([each for each in warned if "n_steps=8" in str(each.message)]) == 1
    assert all(torch.equal(one, other) for one, other in zip(before, model.policy.parameters()))
    assert model._n_updates == 0
    assert "train" not in vars(model)


@pytest.mark.parametrize("algorithm", [PPO, A2C])
@pytest.mark.parametrize(
    ("observations", "actions", "settings"),
    [
        ("dict", "discrete", {}),
        ("discrete", "multidiscrete", {}),
        ("box", "binary", {}),
        ("box", "box", {}),
        ("box", "box", {"use_sde": True, "policy_kwargs": {"net_arch": [8], "squash_output": True}}),
        ("image", "discrete", {}),
    ],
)
def test_spaces(algorithm: Any, observations: str, actions: str, settings: dict) -> None:
    venv = graphwrap.wrap(line_vec(4, observations=observations, actions=actions, limit=4), group_size=2)
    policy = {"dict": "MultiInputPolicy", "image": "CnnPolicy"}.get(observations, "MlpPolicy")
    if observations == "image":
        settings = {"policy_kwargs": {"features_extractor_kwargs": {"features_dim": 8}}}
    model = algorithm(policy, venv, n_steps=8, **{**SMALL, **settings})
    windows = keep_windows(venv.recorder)
    watch = Watch()
    model.learn(64, callback=[CreditCallback(), watch])
    assert len(windows) == len(watch.read) == 2
    for window, read in zip(windows, watch.read):
        expected = np.tile(window.advantages[window.mask], getattr(model, "n_epochs", 1)).astype(np.float32)
        values = np.concatenate([batch["advantages"] for batch in read])
        assert len(expected) > 0
        np.testing.assert_array_equal(np.sort(values), np.sort(expected))


def test_subprocesses() -> None:
    runs = []
    for kind in (DummyVecEnv, SubprocVecEnv):
        venv = graphwrap.wrap(line_vec(4, vec_env_cls=kind), group_size=2)
        watch = Watch()
        model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, **SMALL)
        model.learn(64, callback=[CreditCallback(), watch])
        runs.append(watch)
        venv.close()
    for one, other in zip(runs[0].buffers, runs[1].buffers):
        np.testing.assert_array_equal(one["actions"], other["actions"])
        np.testing.assert_array_equal(one["advantages"], other["advantages"])


def test_target_kl_stops_early() -> None:
    venv = graphwrap.wrap(line_vec(8, limit=4), group_size=4)
    model = PPO(
        "MlpPolicy", venv, n_steps=8, batch_size=16, n_epochs=50, target_kl=1e-4, learning_rate=0.1, **SMALL
    )
    watch = Watch()
    model.learn(128, callback=[CreditCallback(), watch])
    assert all(0 < len(read) < 4 * 50 for read in watch.read)
    assert "get" not in vars(model.rollout_buffer)


def test_a_single_wrapped_env_is_found() -> None:
    env = graphwrap.wrap(Line(limit=4), "grpo", group_size=2)
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=8, n_epochs=1, **SMALL)
    watch = Watch()
    callback = CreditCallback()
    model.learn(48, callback=[callback, watch])
    assert callback.recorder is env.recorder
    for rollout in range(3):
        transitions, finished = watch.transitions(rollout, group_size=2)
        credit = make_credit("grpo")(transitions).advantages.reshape(finished.shape)
        np.testing.assert_allclose(watch.buffers[rollout]["advantages"], credit, atol=1e-5)
        assert sum(len(batch["returns"]) for batch in watch.read[rollout]) == np.count_nonzero(finished)


@pytest.mark.parametrize(
    "outside",
    [
        VecNormalize,
        lambda venv: VecFrameStack(venv, 3),
        lambda venv: VecMonitor(VecFrameStack(VecNormalize(venv), 2)),
    ],
)
def test_wrappers_outside(outside: Any) -> None:
    inner = graphwrap.wrap(line_vec(8, limit=6), group_size=4)
    venv = outside(inner)
    windows = keep_windows(inner.recorder)
    watch = Watch()
    model = PPO("MlpPolicy", venv, n_steps=6, batch_size=16, n_epochs=1, **SMALL)
    model.learn(48 * 3, callback=[CreditCallback(), watch])
    for window, buffer, read in zip(windows, watch.buffers, watch.read):
        np.testing.assert_array_equal(buffer["advantages"], window.advantages.astype(np.float32))
        labels = np.array([window.transitions.state_labels[i] for i in window.transitions.state])
        assert set(labels[:, 0].tolist()) <= set(range(1, 6))  # raw, whatever is outside
        assert set(np.round(window.rewards, 6).ravel().tolist()) <= {-0.1, -1.0, 10.0}
        assert sum(len(batch["advantages"]) for batch in read) == np.count_nonzero(window.mask)


def test_clipped_box_actions_are_compared_as_sent() -> None:
    class Far(gymnasium.Env):
        observation_space = spaces.Box(-1, 1, (1,), np.float32)
        action_space = spaces.Box(np.array([-0.01, 0.0], np.float32), np.array([0.01, 0.5], np.float32))

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return np.zeros(1, np.float32), {}

        def step(self, action: Any) -> Any:
            sent.append(np.array(action))
            return np.zeros(1, np.float32), 1.0, True, False, {}

    sent: list[np.ndarray] = []
    venv = graphwrap.wrap(DummyVecEnv([Far] * 2), "grpo", group_size=2)
    model = PPO("MlpPolicy", venv, n_steps=16, batch_size=8, n_epochs=1, **SMALL)
    model.learn(64, callback=CreditCallback())
    assert np.isin(np.array(sent)[:, 0], [np.float32(-0.01), np.float32(0.01)]).mean() > 0.9


@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_learns_frozen_lake(algorithm: Any) -> None:
    venv = graphwrap.wrap(
        make_vec_env("FrozenLake-v1", n_envs=16, env_kwargs={"is_slippery": False}), "graphgpo", group_size=16
    )
    rates: list[float] = []

    class Rates(CreditCallback):
        def _on_rollout_end(self) -> None:
            super()._on_rollout_end()
            rates.append(self.logger.name_to_value["credit/success_rate"])

    settings = {"n_steps": 100, "learning_rate": 3e-3, "ent_coef": 0.01, "device": "cpu", "seed": 1}
    if algorithm is PPO:
        settings |= {"batch_size": 400, "n_epochs": 4}
    model = algorithm("MlpPolicy", venv, **settings)
    model.learn(1600 * 12, callback=Rates())
    assert rates[0] < 0.2
    assert np.mean(rates[-3:]) > 0.8
