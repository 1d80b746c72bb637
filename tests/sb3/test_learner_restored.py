"""What is switched for an update, and comes back after it; saving."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
)

import graphwrap
from graphwrap.sb3 import CreditCallback
from tests.helpers import line_vec
from tests.sb3.learners import SMALL, Watch


def test_the_buffer_s_own_get_comes_back() -> None:
    venv = graphwrap.wrap(line_vec(4), group_size=2)
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, **SMALL)
    model.learn(64, callback=CreditCallback())
    assert "get" not in vars(model.rollout_buffer)
    assert not {"train", "_excluded_save_params"} & set(vars(model))
    assert model.normalize_advantage is True
    model.learn(64)


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
