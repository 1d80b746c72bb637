"""`wrap(env, online=True)`: what learners are given, and that any of them can be."""

from __future__ import annotations

import warnings
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from sb3_contrib import RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC

import graphwrap
from graphwrap.recording.online import OnlinePotential
from graphwrap.sb3 import CreditCallback
from graphwrap.states import StateKey
from tests.helpers import Line, line_vec, make_line

GRAPHGPO = graphwrap.GraphGPO(omega=0.5)
OPTIONS: dict[str, Any] = {"credit": GRAPHGPO, "task": "single", "online": True, "gamma": 0.9}


def oracle(episodes: list[list[int]], path: list[int], terminated: bool) -> list[float]:
    """Shaping terms along `path` on a line whose goal is 6, after `episodes` that were seen before."""
    edges = {pair for places in episodes for pair in pairwise(places)}
    distance = {6: 0}
    for steps in range(1, 30):
        for source, target in edges:
            if distance.get(target) == steps - 1:
                distance.setdefault(source, steps)
    won = any(places[-1] == 6 for places in episodes)

    def phi(place: int) -> float:
        return 10 * 0.5 ** distance[place] if won and place in distance and place != 6 else 0.0

    last = len(path) - 2
    return [
        0.9 * (0.0 if terminated and i == last else phi(b)) - phi(a)
        for i, (a, b) in enumerate(pairwise(path))
    ]


def collect(
    kind: Any, steps: int, state: Any = None
) -> list[tuple[list[int], list[float], list[float], bool]]:
    """Play random actions in one environment; per episode its places, rewards, outcome rewards and whether it
    terminated, in the order in which they ended."""
    rng = np.random.default_rng(0)
    options = {**OPTIONS, "state": state}
    episodes = []
    if kind == "env":
        env: Any = graphwrap.wrap(Line(limit=9), **options)
        place = [int(env.reset(seed=1)[0][0])]
    elif kind == "sb3":
        env = graphwrap.wrap(line_vec(1, limit=9), **options)
        env.seed(1)
        place = [int(env.reset()[0, 0])]
    else:
        made = SyncVectorEnv([partial(make_line, limit=9)], autoreset_mode=kind)
        env = graphwrap.wrap(made, **options)
        place = [int(env.reset(seed=1)[0][0, 0])]
    shaped: list[float] = []
    raw: list[float] = []
    idle = False
    for _ in range(steps):
        action = rng.integers(0, 2, 1)
        if kind == "env":
            observation, reward, terminated, truncated, info = env.step(action[0])
            final, outcome = int(observation[0]), info["outcome_reward"]
        elif kind == "sb3":
            observation, rewards, dones, infos = env.step(action)
            truncated = bool(infos[0].get("TimeLimit.truncated", False))
            terminated = bool(dones[0]) and not truncated
            final = int(infos[0].get("terminal_observation", observation[0])[0])
            reward, outcome = float(rewards[0]), infos[0]["outcome_reward"]
        else:
            observation, rewards, ends, cuts, infos = env.step(action)
            if idle:
                assert rewards[0] == 0.0
                assert not infos["_outcome_reward"][0]
                place, idle = [int(observation[0, 0])], False
                continue
            terminated, truncated = bool(ends[0]), bool(cuts[0])
            seen = (
                infos["final_obs"][0]
                if kind == AutoresetMode.SAME_STEP and "final_obs" in infos
                else observation[0]
            )
            final, reward, outcome = int(seen[0]), float(rewards[0]), float(infos["outcome_reward"][0])
        place.append(final)
        shaped.append(reward)
        raw.append(outcome)
        if terminated or truncated:
            episodes.append((place, shaped, raw, terminated))
            shaped, raw = [], []
            if kind == "env":
                observation = env.reset()[0][None]
            elif kind == AutoresetMode.DISABLED:
                observation, _ = env.reset(options={"reset_mask": np.array([True])})
            idle = kind == AutoresetMode.NEXT_STEP
            place = [int(np.reshape(observation, (-1, 2))[0, 0])]
    env.close()
    return episodes


@pytest.mark.parametrize("kind", ["env", "sb3", *AutoresetMode])
def test_rewards_are_shaped_by_past_episodes(kind: Any) -> None:
    episodes = collect(kind, 300)
    seen: list[list[int]] = []
    shaped_steps = 0
    for places, shaped, raw, terminated in episodes[:12]:
        terms = np.subtract(shaped, raw)
        np.testing.assert_allclose(terms, oracle(seen, places, terminated), atol=1e-5)
        np.testing.assert_allclose(raw[:-1], -0.1, atol=1e-6)
        shaped_steps += np.count_nonzero(terms)
        seen.append(places)
    assert shaped_steps > 5
    assert any(not terminated for *_, terminated in episodes)


def test_history_counts_online_too() -> None:
    plain, history = collect("env", 200), collect("env", 200, StateKey(history=1))
    assert [each[2] for each in plain] == [each[2] for each in history]
    assert [each[1] for each in plain] != [each[1] for each in history]
    # Phi of a start, which has no history, is the same with and without; what follows need not be.
    assert any(np.subtract(shaped, raw).any() for _, shaped, raw, _ in history)


def test_async_environments_and_groups_of_their_own() -> None:
    made = AsyncVectorEnv([partial(make_line, limit=9)] * 2)
    env = graphwrap.wrap(made, "graft", task="level", online=True)
    env.reset(seed=0)
    added = np.zeros(2)
    for _ in range(80):
        _, rewards, _, _, infos = env.step(np.array([1, 1]))
        added += np.abs(rewards - infos["outcome_reward"])
    env.close()
    assert (added > 0).all()


@pytest.mark.parametrize("learner", [PPO, RecurrentPPO, DQN, SAC])
def test_any_learner_is_given_shaped_rewards(learner: Any) -> None:
    actions = "box" if learner is SAC else "discrete"
    venv = graphwrap.wrap(line_vec(1, actions=actions, limit=9), **OPTIONS)
    policy = "MlpLstmPolicy" if learner is RecurrentPPO else "MlpPolicy"
    settings = {"n_steps": 64, "batch_size": 32, "n_epochs": 1} if "PPO" in learner.__name__ else {}
    model = learner(policy, venv, seed=0, gamma=0.9, **settings)
    outcomes: list[float] = []
    seen: list[float] = []

    def keep(local: dict, _: dict) -> bool:
        outcomes.append(local["infos"][0]["outcome_reward"])
        seen.append(float(local["rewards"][0]))
        return True

    model.learn(384, callback=keep)
    assert len(outcomes) == len(seen) == 384
    assert set(np.round(outcomes, 4)) <= {-0.1, -1.0, 10.0}
    assert np.abs(np.subtract(seen, outcomes)).max() > 0.5
    if learner in (DQN, SAC):
        np.testing.assert_allclose(model.replay_buffer.rewards[:384, 0], seen, rtol=1e-6)


def test_what_does_not_go_together() -> None:
    with pytest.raises(
        ValueError, match="online=True learns from past episodes of a task, and with group_size"
    ):
        graphwrap.wrap(Line(), online=True, group_size=2)
    with pytest.raises(ValueError, match=r"gamma=0\.9 is the discount of online=True"):
        graphwrap.wrap(Line(), gamma=0.9)
    with pytest.raises(TypeError, match="online must be True or False, got 1"):
        graphwrap.wrap(Line(), online=1)
    with pytest.raises(ValueError, match="GRPO has no potential"):
        graphwrap.wrap(Line(), "grpo", online=True)
    with pytest.raises(ValueError, match=r"gamma must be in \[0, 1\]"):
        graphwrap.wrap(Line(), online=True, gamma=1.5)
    env = graphwrap.wrap(Line(), online=True)
    with pytest.raises(RuntimeError, match="the credit is in the rewards already"):
        env.assign_credit()
    model = PPO("MlpPolicy", graphwrap.wrap(line_vec(1), online=True), n_steps=8, batch_size=8)
    with pytest.raises(ValueError, match="made with online=True, whose rewards hold the credit already"):
        model.learn(8, callback=CreditCallback())


def test_a_persistent_graph_sets_the_bounds() -> None:
    memory = graphwrap.PersistentGraph(GRAPHGPO, max_transitions=50)
    env = graphwrap.wrap(Line(), memory, task="single", online=True)
    assert isinstance(env.recorder, OnlinePotential)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(400):
        _, _, terminated, truncated, _ = env.step(rng.integers(0, 2))
        if terminated or truncated:
            env.reset()
    assert 40 <= env.recorder.num_transitions <= 50


@pytest.mark.parametrize(("r_succ", "warns"), [(10.0, False), (100.0, True)])
def test_a_potential_far_above_the_returns_is_warned_about_once(r_succ: float, warns: bool) -> None:
    credit = graphwrap.GraphGPO(omega=0.5, r_succ=r_succ)
    env = graphwrap.wrap(Line(), credit, task="single", online=True)
    env.reset(seed=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(80):
            _, _, terminated, truncated, _ = env.step(1)
            if terminated or truncated:
                env.reset()
    texts = [str(each.message) for each in caught if "the potential of states" in str(each.message)]
    assert len(texts) == warns
    if warns:
        assert "is up to 50, and a success returns 9." in texts[0]
