from __future__ import annotations

import functools
import operator
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import TRPO, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
    StopTrainingOnMaxEpisodes,
)
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
)

import graphwrap
from graphwrap import Transitions, make_credit
from graphwrap.minibatches import MaskedGet
from graphwrap.sb3 import CreditCallback
from tests.builders import COLUMNS
from tests.helpers import Line, line_vec

SMALL = {"policy_kwargs": {"net_arch": [8]}, "seed": 0, "device": "cpu"}


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Watch(BaseCallback):
    """Keeps what SB3 itself sees: every step, the buffer at the rollout's end, and each minibatch that is read."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[list[tuple]] = []
        self.buffers: list[dict[str, np.ndarray]] = []
        self.read: list[list[dict[str, np.ndarray]]] = []
        self.normalized: list[bool] = []

    def _on_training_start(self) -> None:
        model: Any = self.model
        evaluate = model.policy.evaluate_actions

        def spy(observations: Any, actions: Any, *further: Any, **named: Any) -> Any:
            self.normalized.append(model.normalize_advantage)
            return evaluate(observations, actions, *further, **named)

        model.policy.evaluate_actions = spy
        samples = model.rollout_buffer._get_samples

        def seen(*arguments: Any) -> Any:
            result = samples(*arguments)
            self.read[-1].append({name: getattr(result, name).numpy().copy() for name in result._fields[1:6]})
            return result

        model.rollout_buffer._get_samples = seen

    def _on_rollout_start(self) -> None:
        self.steps.append([])
        self.read.append([])

    def _on_step(self) -> bool:
        seen = {
            name: self.locals.get(name)
            for name in ("obs_tensor", "actions", "rewards", "dones", "infos", "new_obs")
        }
        self.steps[-1].append(tuple(v if name == "infos" else np.copy(v) for name, v in seen.items()))
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.model.rollout_buffer  # type: ignore[attr-defined]
        names = ("actions", "values", "log_probs", "advantages", "returns", "episode_starts", "rewards")
        self.buffers.append({name: getattr(buffer, name).copy() for name in names})

    def transitions(self, rollout: int, group_size: int) -> tuple[Transitions, np.ndarray]:
        """The rollout as an independent reading of what happened; and which rows belong to finished episodes.

        The rollout began with a reset, and the envs took their tickets in order.
        """
        columns: dict[str, list] = {name: [] for name in COLUMNS}
        num_envs = len(self.steps[rollout][0][2])
        ticket = iter(range(10**6))
        running = [next(ticket) for _ in range(num_envs)]
        count = [0] * num_envs
        ended = set()
        for observations, actions, rewards, dones, infos, after in self.steps[rollout]:
            over = []
            for env in range(num_envs):
                final = infos[env]["terminal_observation"] if dones[env] else after[env]
                cut = infos[env]["TimeLimit.truncated"]
                columns["task"].append(running[env] // group_size)
                columns["episode"].append(running[env])
                columns["step"].append(count[env])
                columns["state"].append(tuple(observations[env].tolist()))
                columns["action"].append(int(actions[env]))
                columns["next_state"].append(tuple(final.tolist()))
                columns["reward"].append(float(rewards[env]))
                columns["terminated"].append(bool(dones[env] and not cut))
                columns["truncated"].append(bool(cut))
                count[env] += 1
                if dones[env]:
                    ended.add(running[env])
                    over.append(env)
            for env in over:
                running[env], count[env] = next(ticket), 0
        finished = np.array([episode in ended for episode in columns["episode"]])
        return Transitions.from_columns(**columns), finished.reshape(-1, num_envs)


def rows_of(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Sorted rows of (action, value, log_prob, advantage, return)."""
    table = np.stack([np.asarray(array, np.float64).reshape(-1) for array in arrays.values()], axis=1)
    return table[np.lexsort(table.T)]


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


def numbered_buffer(algorithm: Any = PPO, policy: str = "MlpPolicy") -> Any:
    """The full buffer of a learner, 5 steps of 3 envs; the advantage of row (t, env) is 10 * t + env."""
    model = algorithm(policy, line_vec(3), n_steps=5, batch_size=5, **SMALL)
    _, callback = model._setup_learn(15)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, 5)
    model.rollout_buffer.advantages = (10.0 * np.arange(5)[:, None] + np.arange(3)).astype(np.float32)
    return model.rollout_buffer


def keep_windows(recorder: Any) -> list:
    """A list that will hold each window that the recorder returns."""
    windows: list = []
    assign = recorder.assign_credit

    def keep(unfinished: str) -> Any:
        windows.append(assign(unfinished))
        return windows[-1]

    recorder.assign_credit = keep
    return windows


def test_with_all_rows_valid_the_minibatches_are_sb3_s_own() -> None:
    batches = []
    for masked in (False, True):
        buffer = numbered_buffer()
        np.random.seed(3)  # noqa: NPY002  (what SB3 itself draws from)
        get = MaskedGet(buffer, np.ones((5, 3), bool)) if masked else buffer.get
        batches.append([[sample.advantages.tolist() for sample in get(4)] for _ in range(2)])
    assert batches[0] == batches[1]


@pytest.mark.parametrize(
    ("batch_size", "sizes"), [(3, [3, 3, 3]), (4, [4, 5]), (8, [9]), (None, [9]), (1, [1] * 9)]
)
def test_minibatches_of_valid_rows(batch_size: int | None, sizes: list[int]) -> None:
    buffer = numbered_buffer()
    valid = np.zeros((5, 3), bool)
    valid[[0, 1, 2, 4], 0] = valid[:, 2] = True
    get = MaskedGet(buffer, valid)
    for _ in range(2):
        read = [sample.advantages.tolist() for sample in get(batch_size)]
        assert list(map(len, read)) == sizes
        assert sorted(functools.reduce(operator.iadd, read, [])) == [0, 2, 10, 12, 20, 22, 32, 40, 42]
    assert "_get_samples" not in vars(buffer)


def test_the_buffer_s_own_get_comes_back() -> None:
    venv = graphwrap.wrap(line_vec(4), group_size=2)
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, **SMALL)
    model.learn(64, callback=CreditCallback())
    assert "get" not in vars(model.rollout_buffer)
    assert not {"train", "_excluded_save_params"} & set(vars(model))
    assert model.normalize_advantage is True
    model.learn(64)


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


@pytest.mark.parametrize(("keep", "updates"), [(None, 1), ("keep", 0)])
def test_one_valid_row_is_never_normalised(keep: str | None, updates: int) -> None:
    venv = graphwrap.wrap(line_vec(2, length=50, limit=40), group_size=2)
    model = A2C("MlpPolicy", venv, n_steps=4, normalize_advantage=True, **SMALL)

    class OnlyOne(CreditCallback):
        def _prepare_training(self, valid: np.ndarray) -> None:
            only = np.zeros_like(valid)
            only[2, 1] = True
            super()._prepare_training(only)

    with np.errstate(all="raise"):
        model.learn(8, callback=OnlyOne(normalize_advantage=keep))
    assert model._n_updates == updates
    assert all(torch.isfinite(parameter).all() for parameter in model.policy.parameters())


@pytest.mark.parametrize(
    ("own", "keep", "during"),
    [(True, None, False), (False, None, False), (True, "keep", True), (False, "keep", False)],
)
def test_normalize_advantage(own: bool, keep: str | None, during: bool) -> None:
    watch = Watch()
    venv = graphwrap.wrap(line_vec(4), group_size=2)
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, normalize_advantage=own, **SMALL)
    model.learn(64, callback=[CreditCallback(normalize_advantage=keep), watch])
    assert set(watch.normalized) == {during}
    assert model.normalize_advantage is own


def test_the_switch_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    venv = graphwrap.wrap(line_vec(4), group_size=2)
    PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, verbose=1, **SMALL).learn(
        32, callback=CreditCallback()
    )
    assert "normalize_advantage is off while training on credit" in capsys.readouterr().out


def test_an_error_in_training_leaves_the_learner_as_it_was() -> None:
    venv = graphwrap.wrap(line_vec(4), group_size=2)
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, **SMALL)
    evaluate = model.policy.evaluate_actions

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    model.policy.evaluate_actions = interrupted
    with pytest.raises(KeyboardInterrupt):
        model.learn(64, callback=CreditCallback())
    assert model.normalize_advantage is True
    assert "get" not in vars(model.rollout_buffer)
    assert "train" not in vars(model)
    model.policy.evaluate_actions = evaluate
    model.learn(64, callback=CreditCallback())


def test_an_error_between_rollout_and_training_does_not_mask_another_rollout() -> None:
    class Breaks(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            raise ArithmeticError("no disk")

    venv = graphwrap.wrap(line_vec(4), group_size=2)
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, **SMALL)
    with pytest.raises(ArithmeticError, match="no disk"):
        model.learn(64, callback=[CreditCallback(), Breaks()])
    watch = Watch()
    model.learn(64, callback=watch)
    assert [sum(len(batch["returns"]) for batch in read) for read in watch.read] == [32, 32]
    assert set(watch.normalized) == {True}
    assert "train" not in vars(model)


def test_diagnostics_are_logged() -> None:
    class Windows(CreditCallback):
        def _on_rollout_end(self) -> None:
            super()._on_rollout_end()
            logged.append(dict(self.logger.name_to_value))

    logged: list[dict] = []
    venv = graphwrap.wrap(line_vec(8, flags=True, limit=6), group_size=4)
    watch = Watch()
    model = PPO("MlpPolicy", venv, n_steps=6, batch_size=24, n_epochs=1, **SMALL)
    model.learn(48 * 2, callback=[watch, Windows()])
    for rollout, values in enumerate(logged):
        transitions, finished = watch.transitions(rollout, group_size=4)
        complete = [
            task
            for task in range(transitions.num_tasks)
            if np.count_nonzero((transitions.episode_task == task) & (transitions.outcome < 2)) == 4
        ]
        of_complete = np.isin(transitions.episode_task, complete)
        assert complete
        assert values["credit/complete_groups"] == len(complete)
        assert values["credit/success_rate"] == np.mean(transitions.outcome[of_complete] == 0)
        assert values["credit/outcome_return"] == pytest.approx(transitions.returns()[of_complete].mean())
        assert values["credit/trainable_share"] == pytest.approx(finished.mean())
        assert values["credit/steps"] == 48
        assert 0 < values["credit/seconds"] < 5


@pytest.mark.parametrize("wrapper_class", [None, graphwrap.SeededReset])
def test_with_n_steps_at_the_limit_every_rollout_holds_complete_groups(wrapper_class: Any) -> None:
    venv = graphwrap.wrap(line_vec(8, length=400, limit=6, wrapper_class=wrapper_class), group_size=4)
    windows = keep_windows(venv.recorder)
    model = PPO("MlpPolicy", venv, n_steps=6, batch_size=24, n_epochs=1, **SMALL)
    model.learn(48 * 3, callback=CreditCallback())
    assert [window.diagnostics["complete_groups"] for window in windows] == [2.0] * 3
    assert all(window.mask.all() and window.group_complete.all() for window in windows)
    # One reset by learn() and one by each rollout; without SeededReset also SB3's own after each end; one at the end.
    assert venv.get_attr("resets") == [1 + 3 + (0 if wrapper_class else 3) + 1] * 8
    assert venv.recorder.is_recording
    venv.step(np.ones(8, int))


@pytest.mark.parametrize("order", ["first", "last"])
def test_callback_lists_checkpoints_and_progress(order: str, tmp_path: Any) -> None:
    class SavesLate(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            self.model.save(tmp_path / "late")

    venv = graphwrap.wrap(line_vec(4), group_size=2)
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, **SMALL)
    others: list[BaseCallback] = [CheckpointCallback(4, str(tmp_path)), SavesLate()]
    credit = CreditCallback()
    callbacks = [credit, *others] if order == "first" else [*others, credit]
    model.learn(64, callback=CallbackList(callbacks), progress_bar=True)
    for name in ("late", "rl_model_48_steps"):
        loaded = PPO.load(tmp_path / name, env=venv)
        assert not {"train", "_excluded_save_params", "get"} & set(vars(loaded))
        assert loaded.normalize_advantage is True
        updates = loaded._n_updates
        loaded.learn(32, callback=CreditCallback())
        assert loaded._n_updates == updates + 1


def test_save_load_and_continued_learning(tmp_path: Any) -> None:
    venv = graphwrap.wrap(line_vec(4), group_size=2)
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=2, **SMALL)
    callback = CreditCallback()
    model.learn(32, callback=callback)
    model.learn(32, callback=callback, reset_num_timesteps=False)
    model.save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model", env=graphwrap.wrap(line_vec(4), group_size=2))
    for one, other in zip(model.policy.parameters(), loaded.policy.parameters()):
        assert torch.equal(one, other)
    watch = Watch()
    loaded.learn(64, callback=[CreditCallback(), watch], reset_num_timesteps=False)
    assert loaded.num_timesteps == 128
    assert sum(len(read) for read in watch.read) > 0


def test_set_env() -> None:
    first, second = (graphwrap.wrap(line_vec(4), group_size=2) for _ in range(2))
    model = PPO("MlpPolicy", first, n_steps=8, batch_size=8, n_epochs=1, **SMALL)
    callback = CreditCallback()
    model.learn(32, callback=callback)
    assert callback.recorder is first.recorder
    model.set_env(second)
    model.learn(32, callback=callback)
    assert callback.recorder is second.recorder
    assert len(first.recorder.ledger.episodes) < 12


@pytest.mark.parametrize("continues", ["new", "same"])
def test_a_rollout_that_another_callback_stopped(continues: str) -> None:
    for group_size in (None, 2):
        venv = graphwrap.wrap(line_vec(4, limit=5), group_size=group_size)
        model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, **SMALL)
        model.learn(10**4, callback=[CreditCallback(), StopTrainingOnMaxEpisodes(max_episodes=4)])
        assert venv.recorder.num_steps > 0
        windows = keep_windows(venv.recorder)
        watch = Watch()
        model.learn(64, callback=[CreditCallback(), watch], reset_num_timesteps=continues == "new")
        assert [buffer["episode_starts"][0].tolist() for buffer in watch.buffers][:1] == [[1.0] * 4]
        assert len(watch.buffers) == 2
        assert windows[0].diagnostics["context_steps"] == 0


def test_without_reset_episodes_go_on_over_rollouts() -> None:
    venv = graphwrap.wrap(line_vec(4, length=60, limit=20), "grpo", task="single")
    watch = Watch()
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=32, n_epochs=1, **SMALL)
    with pytest.warns(UserWarning, match="had no row to train on"):
        model.learn(32 * 5, callback=[CreditCallback(), watch])
    starts = np.concatenate([buffer["episode_starts"] for buffer in watch.buffers])
    assert np.flatnonzero(starts.any(axis=1)).tolist() == [0, 20]
    valid = [sum(len(batch["advantages"]) for batch in read) for read in watch.read]
    assert valid == [
        0,
        0,
        16,
        0,
        32,
    ]  # rows 16 to 19, and 32 to 39, are of episodes that ended in their rollout


@pytest.mark.parametrize("reset", [True, False])
def test_reset_can_be_chosen(reset: bool) -> None:
    venv = graphwrap.wrap(line_vec(4, length=60, limit=20), group_size=2 if not reset else None)
    watch = Watch()
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=32, n_epochs=1, **SMALL)
    model.learn(32 * 3, callback=[CreditCallback(reset=reset, unfinished="graph"), watch])
    starts = [buffer["episode_starts"].all(axis=1) for buffer in watch.buffers]
    expected = [0, 8, 16] if reset else [0, 20]
    assert np.flatnonzero(np.concatenate(starts)).tolist() == expected


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


class Masked(Line):
    def action_masks(self) -> np.ndarray:
        return np.array([self.place > 2, True])


@pytest.mark.parametrize("observations", ["box", "dict"])
def test_maskable_ppo(observations: str) -> None:
    venv = graphwrap.wrap(
        DummyVecEnv([lambda: Masked(observations=observations) for _ in range(4)]), group_size=2
    )
    policy = "MultiInputPolicy" if observations == "dict" else "MlpPolicy"
    model = MaskablePPO(policy, venv, n_steps=8, batch_size=8, n_epochs=2, **SMALL)
    watch = Watch()
    model.learn(64, callback=[CreditCallback(), watch])
    for buffer, read in zip(watch.buffers, watch.read):
        values = np.concatenate([batch["advantages"] for batch in read])
        assert 0 < len(values) < 2 * buffer["advantages"].size
        assert set(values.tolist()) <= set(buffer["advantages"].ravel().tolist())


def test_trpo() -> None:
    venv = graphwrap.wrap(line_vec(4), group_size=2)
    model = TRPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_critic_updates=2, **SMALL)
    watch = Watch()
    model.learn(64, callback=[CreditCallback(), watch])
    for read in watch.read:
        sizes = [len(batch["advantages"]) for batch in read]
        assert sizes[0] * 3 == sum(sizes)


@pytest.mark.parametrize("observations", ["box", "dict"])
@pytest.mark.parametrize("batch_size", [5, 16, 64])
def test_recurrent_ppo(observations: str, batch_size: int) -> None:
    venv = graphwrap.wrap(line_vec(4, observations=observations, limit=5), group_size=2)
    policy = "MultiInputLstmPolicy" if observations == "dict" else "MlpLstmPolicy"
    settings = {**SMALL, "policy_kwargs": {"net_arch": [8], "lstm_hidden_size": 8}}
    model = RecurrentPPO(policy, venv, n_steps=16, batch_size=batch_size, n_epochs=2, **settings)
    windows = keep_windows(venv.recorder)
    watch = Watch()
    model.learn(128, callback=[CreditCallback(), watch])
    assert all(torch.isfinite(parameter).all() for parameter in model.policy.parameters())
    assert model._n_updates == 4
    for window, buffer in zip(windows, watch.buffers):
        assert 0 < np.count_nonzero(window.mask) < window.mask.size
        np.testing.assert_array_equal(buffer["advantages"], window.advantages.astype(np.float32))


def test_recurrent_masks_count_exactly_the_valid_rows() -> None:
    buffer = numbered_buffer(RecurrentPPO, "MlpLstmPolicy")
    valid = np.zeros((5, 3), bool)
    valid[1, 0] = valid[0:2, 1] = valid[4, 2] = True
    for _ in range(5):
        read = list(MaskedGet(buffer, valid)(4))
        chosen = [sample.advantages[sample.mask > 0.5].tolist() for sample in read]
        assert sorted(functools.reduce(operator.iadd, chosen, [])) == [1, 10, 11, 42]
        assert all(len(part) > 1 for part in chosen)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: PPO("MlpPolicy", line_vec(2), **SMALL),
            ValueError,
            "CreditCallback found no recorded environment",
        ),
        (
            lambda: PPO(
                "MlpPolicy", DummyVecEnv([lambda: graphwrap.wrap(Line()) for _ in range(2)]), **SMALL
            ),
            ValueError,
            "each of the 2 sub-environments records on its own",
        ),
        (
            lambda: DQN("MlpPolicy", graphwrap.wrap(line_vec(1)), buffer_size=10, **SMALL),
            TypeError,
            "needs an on-policy learner.* not DQN",
        ),
    ],
)
def test_learners_that_do_not_fit(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make().learn(10, callback=CreditCallback())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"apply": "no"}, "apply must be True or False, got 'no'"),
        ({"reset": "always"}, "reset must be True, False or 'auto', got 'always'"),
        ({"unfinished": "drop"}, "unfinished must be 'mask' or 'graph', got 'drop'"),
        ({"normalize_advantage": True}, r"normalize_advantage must be None \(off while training"),
    ],
)
def test_bad_options(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CreditCallback(**options)


def test_inside_an_event_callback_it_would_do_nothing() -> None:
    model = PPO("MlpPolicy", graphwrap.wrap(line_vec(2)), n_steps=8, batch_size=8, **SMALL)
    with pytest.raises(ValueError, match=r"inside EveryNTimesteps hears .*callback=\[CreditCallback\(\)"):
        model.learn(16, callback=EveryNTimesteps(4, CreditCallback()))


def test_an_eval_callback_on_the_recorded_env_is_found_out() -> None:
    venv = graphwrap.wrap(line_vec(2))
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, **SMALL)
    evaluation = EvalCallback(venv, eval_freq=4, n_eval_episodes=1, verbose=0)
    with pytest.raises(RuntimeError, match=r"the rollout has 8 steps of 2 environments.* give EvalCallback"):
        model.learn(32, callback=[CreditCallback(), evaluation])


def test_an_eval_callback_with_its_own_env() -> None:
    venv = graphwrap.wrap(line_vec(4), group_size=2)
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, **SMALL)
    model.learn(64, callback=[EvalCallback(line_vec(1), eval_freq=4, verbose=0), CreditCallback()])
    assert model._n_updates == 2


class ChangesActions(VecMonitor):
    def step_async(self, actions: np.ndarray) -> None:
        super().step_async(1 - actions)


class RestartsEpisodes(BaseCallback):
    def _on_step(self) -> bool:
        if self.n_calls == 3:
            self.model._last_obs = self.training_env.reset()  # type: ignore[assignment]
        return True


def test_wrappers_that_change_what_is_done_are_found_out() -> None:
    venv = ChangesActions(graphwrap.wrap(line_vec(2)))
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, **SMALL)
    with pytest.raises(
        RuntimeError, match="the recorded actions differ from the rollout buffer's, first at step 0"
    ):
        model.learn(16, callback=CreditCallback())
    venv = graphwrap.wrap(line_vec(2))
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, **SMALL)
    with pytest.raises(
        RuntimeError, match=r"the recorded starts of episodes differ .* first at step 3 of environment 0"
    ):
        model.learn(16, callback=[RestartsEpisodes(), CreditCallback()])
    assert venv.recorder.num_steps == 8  # nothing has changed


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


def test_a_second_credit_callback_is_named() -> None:
    venv = graphwrap.wrap(line_vec(4), group_size=2)
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, **SMALL)
    with pytest.raises(RuntimeError, match=r"give learn\(\) one CreditCallback"):
        model.learn(64, callback=[CreditCallback(), CreditCallback()])


def test_without_stable_baselines3_the_extra_is_named() -> None:
    code = "import sys; sys.modules['stable_baselines3'] = None; import graphwrap; graphwrap.sb3"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "ImportError: graphwrap.sb3 needs Stable-Baselines3: pip install 'graphwrap[sb3]'" in done.stderr
