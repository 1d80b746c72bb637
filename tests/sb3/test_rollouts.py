"""Where rollouts begin and end, and what is logged of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import (
    StopTrainingOnMaxEpisodes,
)

import graphwrap
from graphwrap.sb3 import CreditCallback
from tests.helpers import line_vec
from tests.sb3.learners import SMALL, Watch, keep_windows


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
