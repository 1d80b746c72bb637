from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from sb3_contrib import TRPO, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback, StopTrainingOnMaxEpisodes
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

import graphwrap
from graphwrap import GraphGPO, PersistentGraph, TransitionGraph, Transitions
from graphwrap.sb3 import CreditCallback
from graphwrap.sb3.shaping import shaping
from tests.builders import transitions
from tests.helpers import line_vec
from tests.sb3.learners import SMALL, Watch, keep_windows


class Corridor(gymnasium.Env):
    """States 0 .. 3, start 0, action 1 goes up and 0 stays; 3 is the goal (reward 10), step 4 the limit."""

    observation_space = spaces.Discrete(4)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = self.count = 0
        return 0, {}

    def step(self, action: Any) -> Any:
        self.count += 1
        self.place += int(action)
        won = self.place == 3
        cut = not won and self.count == 4
        return self.place, 10.0 if won else -1.0, won, cut, {"is_success": won} if won or cut else {}


def potentials(omega: float) -> np.ndarray:
    """Phi of the states 0 .. 3 of a corridor whose goal was reached: r_succ * omega ** d, d = 3, 2, 1."""
    return 10.0 * omega ** np.array([3.0, 2.0, 1.0, np.inf])


class Check(BaseCallback):
    """Works out by hand what the buffer should hold, from the steps that SB3 itself saw."""

    def __init__(self, phi: np.ndarray, value: float, remembers: bool = False) -> None:
        super().__init__()
        self.remembers, self.known, self.by_memory = remembers, False, 0
        self.phi, self.value, self.checked = phi, value, 0
        self.seen: list[tuple] = []
        self.cut = self.over = 0

    def _on_training_start(self) -> None:
        policy: Any = self.model.policy
        torch.nn.init.zeros_(policy.value_net.weight)
        torch.nn.init.constant_(policy.value_net.bias, self.value)

    def _on_rollout_start(self) -> None:
        self.seen = []

    def _on_step(self) -> bool:
        self.seen.append(
            (
                np.copy(self.locals["rewards"]),
                self.locals["dones"],
                self.locals["infos"],
                self.locals["new_obs"],
            )
        )
        return True

    def _on_rollout_end(self) -> None:
        model: Any = self.model
        buffer, gamma = model.rollout_buffer, model.gamma
        reached = [
            any(done[env] and info[env]["is_success"] for _, done, info, _ in self.seen)
            for env in range(buffer.n_envs)
        ]
        self.by_memory += self.known and not any(reached)
        self.known = any(reached) or (self.known and self.remembers)
        phi = self.phi if self.known else np.zeros(4)
        before = buffer.observations.reshape(buffer.buffer_size, -1).astype(int)
        shaped = np.zeros(buffer.rewards.shape)
        for t, (rewards, dones, infos, after) in enumerate(self.seen):
            for env in range(buffer.n_envs):
                cut = infos[env]["TimeLimit.truncated"]
                next_state = int(infos[env]["terminal_observation"] if dones[env] else after[env])
                next_phi = 0.0 if dones[env] and not cut else phi[next_state]
                shaped[t, env] = rewards[env] + gamma * next_phi - phi[before[t, env]]
                shaped[t, env] += gamma * self.value if cut else 0.0
                self.cut += bool(cut)
                self.over += bool(dones[env] and not cut)
        np.testing.assert_allclose(buffer.rewards, shaped, atol=1e-5)
        returns = np.zeros_like(shaped)
        for env in range(buffer.n_envs):
            following = self.value if not self.seen[-1][1][env] else 0.0
            advantage = 0.0
            for t in reversed(range(buffer.buffer_size)):
                on = 0.0 if self.seen[t][1][env] else 1.0
                delta = shaped[t, env] + gamma * on * following - self.value
                advantage = delta + gamma * buffer.gae_lambda * on * advantage
                returns[t, env] = advantage + self.value
                following = self.value
        np.testing.assert_allclose(buffer.returns, returns, atol=1e-4)
        np.testing.assert_allclose(buffer.advantages, returns - self.value, atol=1e-4)
        self.checked += any(reached)


LEARNERS = {
    "ppo": (PPO, "MlpPolicy", {"n_steps": 12, "batch_size": 12, "n_epochs": 1}),
    "a2c": (A2C, "MlpPolicy", {"n_steps": 12, "gae_lambda": 0.9}),
    "trpo": (TRPO, "MlpPolicy", {"n_steps": 12, "batch_size": 12, "n_critic_updates": 1}),
    "maskable": (MaskablePPO, "MlpPolicy", {"n_steps": 12, "batch_size": 12, "n_epochs": 1}),
    "recurrent": (RecurrentPPO, "MlpLstmPolicy", {"n_steps": 12, "batch_size": 12, "n_epochs": 1}),
}


class MaskedCorridor(Corridor):
    def action_masks(self) -> np.ndarray:
        return np.array([True, True])


@pytest.mark.parametrize("value", [0.0, 3.0])
@pytest.mark.parametrize("name", list(LEARNERS))
def test_returns_and_advantages_by_hand(name: str, value: float) -> None:
    algorithm, policy, options = LEARNERS[name]
    venv = graphwrap.wrap(DummyVecEnv([MaskedCorridor] * 3), GraphGPO(omega=0.5))
    check = Check(potentials(0.5), value)
    model = algorithm(policy, venv, learning_rate=0.0, gamma=0.9, **options, **SMALL)
    model.learn(36 * 6, callback=[CreditCallback(mode="reward"), check])
    assert check.checked >= 4
    assert check.cut > 5
    assert check.over > 5
    assert "compute_returns_and_advantage" not in vars(model.rollout_buffer)


def test_a_success_that_is_truncated_keeps_the_potential_of_the_state_it_reached() -> None:
    # In one episode place 3 is passed on the way to a later success, so it has a potential of its own.
    graph = TransitionGraph.from_transitions(
        Transitions.from_columns(
            task=[0, 0, 0],
            episode=[0, 1, 1],
            step=[0, 0, 1],
            state=[0, 0, 3],
            action=[0, 0, 0],
            next_state=[3, 3, 4],
            reward=[1.0, 0.0, 1.0],
            terminated=[False, False, True],
            truncated=[True, False, False],
            success=[True, True, True],
        )
    )
    phi = GraphGPO(omega=0.5).potential(graph)
    # d(0) = 1 by the first episode, d(3) = 1 by the second.
    np.testing.assert_allclose(shaping(graph, phi, 0.9), [0.9 * 5 - 5, 0.9 * 5 - 5, 0.0 - 5])


def test_the_state_that_a_truncated_success_stopped_in_may_be_known_from_earlier_batches() -> None:
    method = PersistentGraph(GraphGPO(omega=0.5))
    method(
        Transitions.from_columns(
            task=["t"] * 2,
            episode=[0, 0],
            step=[0, 1],
            state=["a", "b"],
            action=[0, 0],
            next_state=["b", "c"],
            reward=[0.0, 1.0],
            terminated=[False, True],
            truncated=[False, False],
        )
    )
    graph = method(
        Transitions.from_columns(
            task=["t"],
            episode=[1],
            step=[0],
            state=["a"],
            action=[0],
            next_state=["b"],
            reward=[1.0],
            terminated=[False],
            truncated=[True],
            success=[True],
        )
    ).graph
    # Phi(a) and Phi(b) are 10 * 0.5: one step to the goal, by this batch and by the earlier one.
    np.testing.assert_allclose(shaping(graph, method.potential(graph.union), 0.9), [0.9 * 5 - 5])


@given(transitions(slip=0.3), st.floats(0.1, 1.0), st.sampled_from(["graphgpo", "graft", "rewardflow"]))
@settings(max_examples=40)
def test_shaping_telescopes(batch: Transitions, gamma: float, method: str) -> None:
    graph = TransitionGraph.from_transitions(batch)
    phi = graphwrap.make_credit(method).potential(graph)
    added = shaping(graph, phi, gamma)
    for episode in range(batch.num_episodes):
        rows = batch.order[batch.episode_offsets[episode] : batch.episode_offsets[episode + 1]]
        discounts = gamma ** np.arange(len(rows))
        last = rows[-1]
        end = 0.0 if batch.terminated[last] else phi[graph.target[last]]
        total = gamma ** len(rows) * end - phi[graph.source[rows[0]]]
        assert np.sum(discounts * added[rows]) == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("scaled", [False, True])
def test_normalised_rewards_are_shaped_in_their_own_unit(scaled: bool) -> None:
    buffers = []
    for mode in ("off", "reward"):
        inner = graphwrap.wrap(DummyVecEnv([Corridor] * 4), GraphGPO(omega=0.5))
        windows = keep_windows(inner.recorder)
        venv = VecNormalize(inner, norm_obs=False, norm_reward=scaled, clip_reward=1e9)
        watch = Watch()
        scales: list[float] = []

        class Scale(BaseCallback):
            def _on_step(self) -> bool:
                return True

            def _on_rollout_end(self) -> None:
                factor = 1 / np.sqrt(venv.ret_rms.var + venv.epsilon)  # noqa: B023
                scales.append(float(factor) if scaled else 1.0)  # noqa: B023

        model = PPO("MlpPolicy", venv, n_steps=16, batch_size=16, n_epochs=1, learning_rate=0.0, **SMALL)
        callback = CreditCallback(mode="reward", apply=mode == "reward")
        model.learn(64 * 3, callback=[callback, watch, Scale()])
        buffers.append(watch.buffers)
    differences = []
    for plain, shaped, scale, window in zip(*buffers, scales, windows):
        np.testing.assert_array_equal(plain["actions"], shaped["actions"])
        graph = window.credit.graph
        added = shaping(graph, GraphGPO(omega=0.5).potential(graph), model.gamma)[window.rows]
        np.testing.assert_allclose(shaped["rewards"] - plain["rewards"], scale * added, atol=1e-4)
        differences.append(np.abs(added).max())
    assert max(differences) > 1
    assert (scales[-1] != 1.0) == scaled


def test_all_rows_are_trained_on_and_normalisation_stays() -> None:
    venv = graphwrap.wrap(line_vec(4, limit=6), group_size=2)
    watch = Watch()
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=2, normalize_advantage=True, **SMALL)
    model.learn(96, callback=[CreditCallback(mode="reward"), watch])
    for buffer, read in zip(watch.buffers, watch.read):
        assert sum(len(batch["advantages"]) for batch in read) == 2 * 32
        for name in ("advantages", "returns"):
            values = np.concatenate([batch[name] for batch in read])
            np.testing.assert_array_equal(np.sort(values), np.sort(np.tile(buffer[name].ravel(), 2)))
    assert set(watch.normalized) == {True}


def test_without_apply_only_the_log_differs() -> None:
    runs = []
    for callbacks in ([], [CreditCallback(mode="reward", apply=False, reset=False)]):
        watch = Watch()
        model = PPO("MlpPolicy", graphwrap.wrap(line_vec(4)), n_steps=8, batch_size=8, **SMALL)
        model.learn(64, callback=[*callbacks, watch])
        runs.append((watch, model))
    for one, other in zip(*(run[0].buffers for run in runs)):
        np.testing.assert_array_equal(one["rewards"], other["rewards"])
        np.testing.assert_array_equal(one["advantages"], other["advantages"])
    for one, other in zip(*(run[1].policy.parameters() for run in runs)):
        assert torch.equal(one, other)


def test_outcome_and_shaped_return_are_logged_under_two_names() -> None:
    logged: list[dict] = []

    class Logged(CreditCallback):
        def _on_rollout_end(self) -> None:
            super()._on_rollout_end()
            logged.append(dict(self.logger.name_to_value))

    venv = graphwrap.wrap(VecMonitor(DummyVecEnv([Corridor] * 4)), GraphGPO(omega=0.5), group_size=2)
    watch = Watch()
    model = PPO("MlpPolicy", venv, n_steps=12, batch_size=12, gamma=0.9, n_epochs=1, **SMALL)
    windows = keep_windows(venv.recorder)
    model.learn(48 * 4, callback=[watch, Logged(mode="reward")])
    different = 0
    for window, values in zip(windows, logged):
        graph, t = window.credit.graph, window.transitions
        added = shaping(graph, GraphGPO(omega=0.5).potential(graph), 0.9)
        outcome, shaped = [], []
        for task in range(t.num_tasks):
            members = np.flatnonzero(t.episode_task == task)
            if len(members) < 2 or (t.outcome[members] > 1).any():
                continue
            for episode in members:
                rows = np.flatnonzero(t.episode == episode)
                outcome.append(t.reward[rows].sum())
                shaped.append(outcome[-1] + added[rows].sum())
        assert outcome
        assert values["credit/outcome_return"] == pytest.approx(np.mean(outcome))
        assert values["credit/shaped_return"] == pytest.approx(np.mean(shaped))
        different += values["credit/shaped_return"] != values["credit/outcome_return"]
    assert different >= 3


def test_unscored_rewards_are_not_trained_on() -> None:
    class Broken(Corridor):
        def step(self, action: Any) -> Any:
            place, reward, *rest = super().step(action)
            return place, float("nan") if self.count == 3 and place == 1 else reward, *rest

    venv = graphwrap.wrap(DummyVecEnv([Broken] * 4))
    watch = Watch()
    model = PPO("MlpPolicy", venv, n_steps=12, batch_size=16, n_epochs=1, **SMALL)
    model.learn(48 * 3, callback=[CreditCallback(mode="reward"), watch])
    assert any(np.isnan(buffer["returns"]).any() for buffer in watch.buffers)
    assert sum(len(read) for read in watch.read)
    assert all(np.isfinite(batch["returns"]).all() for read in watch.read for batch in read)
    assert all(torch.isfinite(parameter).all() for parameter in model.policy.parameters())


def test_a_rollout_that_another_callback_stopped_leaves_the_buffer_as_it_was() -> None:
    venv = graphwrap.wrap(line_vec(4, limit=5))
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, **SMALL)
    model.learn(10**4, callback=[CreditCallback(mode="reward"), StopTrainingOnMaxEpisodes(max_episodes=4)])
    assert "compute_returns_and_advantage" not in vars(model.rollout_buffer)
    model.learn(64, callback=CreditCallback(mode="reward"))


def test_an_error_in_mid_rollout_leaves_the_buffer_its_own_method() -> None:
    venv = graphwrap.wrap(line_vec(2, fails_at=5))
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, **SMALL)
    with pytest.raises(RuntimeError, match="the simulator crashed"):
        model.learn(64, callback=CreditCallback(mode="reward"))
    model.set_env(line_vec(2))
    watch = Watch()
    model.learn(16, callback=watch)
    assert "compute_returns_and_advantage" not in vars(model.rollout_buffer)
    assert watch.buffers[0]["returns"].any()


def test_a_single_wrapped_env() -> None:
    env = graphwrap.wrap(Corridor(), GraphGPO(omega=0.5))
    check = Check(potentials(0.5), 1.0)
    model = PPO(
        "MlpPolicy", env, n_steps=36, batch_size=12, n_epochs=1, learning_rate=0.0, gamma=0.9, **SMALL
    )
    model.learn(36 * 4, callback=[CreditCallback(mode="reward"), check])
    assert check.checked >= 3


def test_a_persistent_graph_shapes_rollouts_without_a_success() -> None:
    venv = graphwrap.wrap(DummyVecEnv([Corridor] * 3), PersistentGraph(GraphGPO(omega=0.5)))
    check = Check(potentials(0.5), 1.0, remembers=True)
    model = PPO(
        "MlpPolicy", venv, n_steps=4, batch_size=12, n_epochs=1, learning_rate=0.0, gamma=0.9, **SMALL
    )
    model.learn(12 * 20, callback=[CreditCallback(mode="reward", reset=True), check])
    assert check.checked > 3
    assert check.by_memory > 2


@pytest.mark.parametrize("name", ["grpo", "rloo", "gigpo", "salt", "rtmc"])
def test_methods_without_a_potential_are_refused(name: str) -> None:
    model = PPO("MlpPolicy", graphwrap.wrap(line_vec(2), name), n_steps=8, batch_size=8, **SMALL)
    with pytest.raises(
        ValueError, match=r"has none; take one of GraphGPO, GRAFT, RewardFlow, or mode='advantage'"
    ):
        model.learn(16, callback=CreditCallback(mode="reward"))
    assert model.num_timesteps == 0


def test_learns_frozen_lake() -> None:
    venv = graphwrap.wrap(
        make_vec_env("FrozenLake-v1", n_envs=16, env_kwargs={"is_slippery": False}), "graphgpo", group_size=16
    )
    rates: list[float] = []

    class Rates(CreditCallback):
        def _on_rollout_end(self) -> None:
            super()._on_rollout_end()
            rates.append(self.logger.name_to_value["credit/success_rate"])

    settings = {"n_steps": 100, "learning_rate": 3e-3, "ent_coef": 0.01, "device": "cpu", "seed": 1}
    model = PPO("MlpPolicy", venv, batch_size=400, n_epochs=4, **settings)
    model.learn(1600 * 12, callback=Rates(mode="reward"))
    assert rates[0] < 0.2
    assert np.mean(rates[-3:]) > 0.8
