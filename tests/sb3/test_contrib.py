"""Learners of sb3-contrib."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from sb3_contrib import TRPO, MaskablePPO, RecurrentPPO
from stable_baselines3.common.callbacks import BaseCallback

import graphwrap
from graphwrap.sb3 import CreditCallback, as_vec_env
from graphwrap.sb3.minibatches import MaskedGet
from tests.helpers import Line, line_vec
from tests.sb3.learners import SMALL, Watch, keep_windows, rows_of
from tests.sb3.worlds import dummy, vector

READ = ("actions", "old_values", "old_log_prob", "advantages", "returns")


class Masked(Line):
    def action_masks(self) -> np.ndarray:
        return np.array([self.place > 2, True])


class Samples(BaseCallback):
    """Keeps the minibatches that `train` is handed, and the buffer as it was at the rollout's end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.read: list[list[Any]] = []
        self.buffers: list[dict[str, np.ndarray]] = []
        self.monkeypatch = monkeypatch

    def _on_training_start(self) -> None:
        own, masked = self.model.rollout_buffer.get, MaskedGet.__call__  # type: ignore[attr-defined]

        def keep(samples: Iterator[Any]) -> Iterator[Any]:
            for sample in samples:
                self.read[-1].append(sample)
                yield sample

        def get(batch_size: int | None = None) -> Iterator[Any]:
            # Asked for everything at once, it is MaskedGet that asks.
            return own(batch_size) if batch_size is None else keep(own(batch_size))

        self.model.rollout_buffer.get = get  # type: ignore[attr-defined]
        self.monkeypatch.setattr(MaskedGet, "__call__", lambda *arguments: keep(masked(*arguments)))

    def _on_rollout_start(self) -> None:
        self.read.append([])

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        buffer: Any = self.model.rollout_buffer  # type: ignore[attr-defined]
        names = ("actions", "values", "log_probs", "advantages", "returns", "observations")
        found = {
            name: getattr(buffer, name).copy()
            for name in names
            if not isinstance(getattr(buffer, name), dict)
        }
        if hasattr(buffer, "action_masks"):
            found["action_masks"] = buffer.action_masks.copy()
        self.buffers.append(found)


def expected_rows(buffer: dict[str, np.ndarray], valid: np.ndarray, epochs: int) -> np.ndarray:
    names = ("actions", "values", "log_probs", "advantages", "returns")
    return rows_of({name: np.concatenate([buffer[name][valid].reshape(-1)] * epochs) for name in names})


@pytest.mark.parametrize("mode", ["advantage", "reward"])
@pytest.mark.parametrize("observations", ["box", "dict"])
@pytest.mark.parametrize("adapted", [False, True])
def test_maskable_ppo_trains_on_what_was_rewritten(
    adapted: bool, observations: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if adapted:
        inner = as_vec_env(vector("sync", 4, AutoresetMode.NEXT_STEP, make=Masked, observations=observations))
    else:
        inner = dummy(4, make=Masked, observations=observations)
    venv = graphwrap.wrap(inner, group_size=2)
    policy = "MultiInputPolicy" if observations == "dict" else "MlpPolicy"
    model = MaskablePPO(policy, venv, n_steps=8, batch_size=8, n_epochs=2, **SMALL)
    windows, samples = keep_windows(venv.recorder), Samples(monkeypatch)
    model.learn(32 * 3, callback=[CreditCallback(mode=mode), samples])
    forbidden = 0
    for window, buffer, read in zip(windows, samples.buffers, samples.read, strict=True):
        valid = window.mask if mode == "advantage" else np.ones_like(window.mask)
        assert 0 < np.count_nonzero(window.mask) < window.mask.size
        if mode == "advantage":
            np.testing.assert_array_equal(buffer["advantages"], window.advantages.astype(np.float32))
        found = {
            name: np.concatenate([getattr(each, name).numpy().reshape(-1) for each in read]) for name in READ
        }
        np.testing.assert_array_equal(rows_of(found), expected_rows(buffer, valid, epochs=2))
        places = np.array(
            [window.transitions.state_labels[state] for state in window.transitions.state], object
        )
        place = np.array([label["place"] if observations == "dict" else label[0] for label in places])[
            window.rows
        ]
        np.testing.assert_array_equal(buffer["action_masks"], np.stack([place > 2, np.ones_like(place)], -1))
        masks = np.concatenate([each.action_masks.numpy() for each in read])
        taken = np.concatenate([each.actions.numpy().reshape(-1) for each in read]).astype(int)
        assert masks[np.arange(len(taken)), taken].all()
        assert np.count_nonzero(masks[:, 0] == 0) == 2 * np.count_nonzero(place[valid] <= 2)
        forbidden += np.count_nonzero(masks[:, 0] == 0)
    assert forbidden > 0
    assert all(torch.isfinite(parameter).all() for parameter in model.policy.parameters())


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_action_masks_through_a_vector_environment(kind: str) -> None:
    models = []
    adapted = as_vec_env(vector(kind, 4, AutoresetMode.NEXT_STEP, make=Masked))
    for inner in (adapted, dummy(4, make=Masked)):
        venv = graphwrap.wrap(inner, group_size=2)
        model = MaskablePPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_epochs=1, **SMALL)
        models.append(model.learn(64, callback=CreditCallback()))
    for one, other in zip(*(model.policy.parameters() for model in models), strict=True):
        assert torch.equal(one, other)
    adapted.close()


@pytest.mark.parametrize("mode", ["advantage", "reward"])
@pytest.mark.parametrize(("batch_size", "observations"), [(5, "box"), (16, "dict"), (64, "box")])
def test_recurrent_ppo_trains_on_what_was_rewritten(
    batch_size: int, observations: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = graphwrap.wrap(line_vec(4, observations=observations, limit=5), group_size=2)
    policy = "MultiInputLstmPolicy" if observations == "dict" else "MlpLstmPolicy"
    settings = {**SMALL, "policy_kwargs": {"net_arch": [8], "lstm_hidden_size": 8}}
    model = RecurrentPPO(policy, venv, n_steps=16, batch_size=batch_size, n_epochs=2, **settings)
    windows, samples = keep_windows(venv.recorder), Samples(monkeypatch)
    model.learn(128, callback=[CreditCallback(mode=mode), samples])
    assert model._n_updates == 4
    for window, buffer, read in zip(windows, samples.buffers, samples.read, strict=True):
        valid = window.mask if mode == "advantage" else np.ones_like(window.mask)
        assert 0 < np.count_nonzero(window.mask) < window.mask.size
        if mode == "advantage":
            np.testing.assert_array_equal(buffer["advantages"], window.advantages.astype(np.float32))
        counted = [each.mask.numpy() > 0.5 for each in read]
        found = {
            name: np.concatenate(
                [getattr(each, name).numpy().reshape(-1)[on] for each, on in zip(read, counted)]
            )
            for name in READ
        }
        np.testing.assert_array_equal(rows_of(found), expected_rows(buffer, valid, epochs=2))
    assert all(torch.isfinite(parameter).all() for parameter in model.policy.parameters())


@pytest.mark.parametrize("mode", ["advantage", "reward"])
def test_trpo(mode: str) -> None:
    venv = graphwrap.wrap(line_vec(4), group_size=2)
    model = TRPO("MlpPolicy", venv, n_steps=8, batch_size=8, n_critic_updates=2, **SMALL)
    windows, watch = keep_windows(venv.recorder), Watch()
    model.learn(64, callback=[CreditCallback(mode=mode), watch])
    for window, buffer, read in zip(windows, watch.buffers, watch.read, strict=True):
        sizes = [len(batch["advantages"]) for batch in read]
        assert sizes[0] * 3 == sum(sizes)
        valid = window.mask if mode == "advantage" else np.ones_like(window.mask)
        np.testing.assert_array_equal(np.sort(read[0]["advantages"]), np.sort(buffer["advantages"][valid]))
