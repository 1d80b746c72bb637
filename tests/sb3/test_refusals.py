"""What is refused, and how it is said."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import (
    BaseCallback,
    EvalCallback,
    EveryNTimesteps,
)
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecMonitor,
)

import graphwrap
from graphwrap.sb3 import CreditCallback, as_vec_env
from tests.helpers import Line, line_vec
from tests.sb3.learners import SMALL
from tests.sb3.worlds import line_vector


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
            lambda: PPO("MlpPolicy", as_vec_env(graphwrap.wrap(line_vector(2))), **SMALL),
            ValueError,
            r"wrap last: graphwrap.wrap\(as_vec_env\(venv\), ...\)",
        ),
        (
            lambda: PPO("MlpPolicy", as_vec_env(line_vector(2)), **SMALL),
            ValueError,
            "CreditCallback found no recorded environment",
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
        ({"mode": "advantages"}, "mode must be 'advantage' or 'reward', got 'advantages'"),
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


def test_a_recorded_vector_env_inside_the_adapter_is_not_recorded_twice() -> None:
    import gymnasium

    inner = graphwrap.wrap(gymnasium.make_vec("graphwrap/Sokoban-v0", num_envs=4), group_size=4)
    with pytest.raises(ValueError, match="the VectorEnv inside as_vec_env is wrapped by graphwrap"):
        graphwrap.wrap(graphwrap.sb3.as_vec_env(inner), group_size=4)
