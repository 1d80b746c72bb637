"""What wrappers make of environments and user functions that misbehave."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorWrapper
from gymnasium.wrappers.vector import DictInfoToList
from stable_baselines3.common.vec_env import SubprocVecEnv

import graphwrap
from graphwrap.transitions import Outcome
from tests.helpers import Line, line_vec, make_line

UP = np.ones(2, np.int64)


def lines(
    n: int = 2, kind: type = SyncVectorEnv, mode: Any = AutoresetMode.NEXT_STEP, **settings: Any
) -> Any:
    return kind([partial(make_line, **settings) for _ in range(n)], autoreset_mode=mode)


class Altered(VectorWrapper):
    """Changes what a step returns."""

    def __init__(self, env: Any, change: Any) -> None:
        super().__init__(env)
        self.change = change

    def step(self, actions: Any) -> Any:
        return self.change(*self.env.step(actions))


@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("reward", [np.inf, -np.inf])
def test_an_infinite_reward_is_refused_at_its_step_and_costs_nothing_else(
    reward: float, online: bool
) -> None:
    broken = [False]

    def change(observations: Any, rewards: Any, *rest: Any) -> Any:
        return observations, np.array([0.0, reward]) if broken[0] else rewards, *rest

    venv = graphwrap.wrap(Altered(lines(length=40, limit=40), change), online=online)
    venv.reset(seed=0)
    venv.step(UP)
    broken[0] = True
    with pytest.raises(ValueError, match=rf"must be finite, or NaN.* environment 1 gave {reward}"):
        venv.step(UP)
    broken[0] = False
    venv.reset()
    venv.step(UP)
    if not online:
        assert venv.assign_credit("graph").rewards.tolist() == [[-0.1, -0.1]] * 2


@pytest.mark.parametrize("online", [False, True])
def test_the_reward_of_a_row_without_a_step_may_be_anything(online: bool) -> None:
    resets = [False]

    def change(observations: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any) -> Any:
        rewards = np.where(resets[0], np.inf, rewards)
        resets[0] = bool((terminated | truncated).any())
        return observations, rewards, terminated, truncated, infos

    venv = graphwrap.wrap(Altered(lines(length=40, limit=2), change), task="single", online=online)
    venv.reset(seed=0)
    for _ in range(3):
        venv.step(UP)
    assert venv.recorder.is_recording
    if not online:
        assert venv.assign_credit().is_step.tolist() == [[True, True], [True, True], [False, False]]


def test_rewards_of_another_shape_are_named() -> None:
    venv = graphwrap.wrap(
        Altered(lines(), lambda observations, rewards, *rest: (observations, rewards[:, None], *rest))
    )
    venv.reset(seed=0)
    with pytest.raises(
        ValueError, match=r"of shape \(2,\), one per environment, got shapes \(2, 1\), \(2,\), \(2,\)"
    ):
        venv.step(UP)


def test_a_success_flag_that_all_environments_share() -> None:
    for flag in (True, np.bool_(True), np.array(True)):

        def change(*step: Any, flag: Any = flag) -> Any:
            return *step[:4], {**step[4], "is_success": flag}

        venv = graphwrap.wrap(Altered(lines(length=40, limit=2), change), "grpo", task="single")
        venv.reset(seed=0)
        for _ in range(2):
            venv.step(UP)
        assert venv.assign_credit().transitions.outcome.tolist() == [Outcome.SUCCESS] * 2


class Hollow(gymnasium.Env):
    """A place, beside an array that holds nothing."""

    observation_space = spaces.Dict({"place": spaces.Discrete(9), "none": spaces.Box(0, 1, (0,), np.float32)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.place = 0
        return self._see(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.place += 1
        return self._see(), 1.0, self.place == 4, False, {}

    def _see(self) -> Any:
        return {"place": self.place, "none": np.zeros(0, np.float32)}


def test_spaces_that_hold_nothing() -> None:
    venv = graphwrap.wrap(SyncVectorEnv([Hollow] * 2))
    venv.reset(seed=0)
    for _ in range(4):
        venv.step(UP)
    t = venv.assign_credit().transitions
    assert [int(t.state_labels[state]["place"]) for state in t.state[t.episode == 0]] == [0, 1, 2, 3]
    assert t.state_labels[0]["none"].shape == (0,)


def test_an_episode_that_could_not_begin_leaves_no_task_open() -> None:
    class NoKey:
        __hash__ = None  # type: ignore[assignment]

    fails = [True]
    venv = graphwrap.wrap(
        lines(limit=2),
        "grpo",
        task="single",
        state=lambda observation, info: NoKey() if fails[0] else int(observation[0]),
    )
    with pytest.raises(TypeError, match="has no hash"):
        venv.reset(seed=0)
    fails[0] = False
    venv.reset(seed=0)
    for _ in range(2):
        venv.step(UP)
    assert venv.assign_credit().group_complete.all()
    assert venv.recorder.num_context_steps == 0


def test_a_masked_reset_that_fails_is_not_made_up_for_by_a_step() -> None:
    venv = graphwrap.wrap(lines(limit=2), "grpo", task="single")
    venv.reset(seed=0)
    for _ in range(2):
        venv.step(UP)
    fail_once(venv.env.envs[0])  # when its autoreset is no longer due
    with pytest.raises(TypeError, match="unexpected"):
        venv.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ResetNeeded, match=r"\[0, 1\] have none"):
        venv.step(UP)
    venv.reset(options={"reset_mask": np.array([True, False])})
    venv.step(UP)
    window = venv.assign_credit("graph")
    assert window.is_step.tolist() == [[True, True], [True, True], [True, False]]


def test_after_an_error_no_step_resets_what_had_ended_before() -> None:
    made = [
        partial(make_line, length=40, limit=2),
        partial(make_line, length=40, limit=9, fails_at=2),
    ]
    venv = graphwrap.wrap(SyncVectorEnv(made, autoreset_mode=AutoresetMode.NEXT_STEP))
    venv.reset(seed=0)
    for _ in range(2):
        venv.step(UP)
    with pytest.raises(RuntimeError, match="simulator crashed"):
        venv.step(UP)
    venv.reset(options={"reset_mask": np.array([False, True])})
    with pytest.raises(ResetNeeded, match=r"\[0\] have none"):
        venv.step(UP)


def test_after_an_error_no_group_waits_for_members_that_did_not_begin() -> None:
    class Drifting(Line):
        drifts = False

        def reset(self, **arguments: Any) -> Any:
            observation, info = super().reset(**arguments)
            return observation + self.drifts, info

    made = [partial(make_line, length=40, limit=2), partial(Drifting, length=40, limit=3)]
    venv = graphwrap.wrap(SyncVectorEnv(made, autoreset_mode=AutoresetMode.SAME_STEP), "grpo", group_size=2)
    venv.reset(seed=0)
    for _ in range(2):
        venv.step(UP)
    venv.env.envs[1].drifts = True
    with pytest.raises(ValueError, match="members of a group must start in the same state"):
        venv.step(UP)
    assert venv.assign_credit().group_complete.tolist() == [[True, True], [True, True], [False, True]]
    assert not len(venv.recorder.ledger.tasks)


def fail_once(env: Line) -> None:
    reset = env.reset

    def failing(**arguments: Any) -> Any:
        env.reset = reset  # type: ignore[method-assign]
        raise TypeError("unexpected")

    env.reset = failing  # type: ignore[method-assign]


def test_a_list_of_infos_is_refused() -> None:
    with pytest.raises(ValueError, match=r"wrap first, then convert: DictInfoToList\(graphwrap\.wrap\(venv"):
        graphwrap.wrap(DictInfoToList(lines()))
    outside = DictInfoToList(graphwrap.wrap(lines()))
    assert [set(info) for info in outside.reset(seed=0)[1]] == [{"level"}] * 2


def test_a_dead_worker_is_named_at_a_reset_too() -> None:
    gymnasium_env = graphwrap.wrap(lines(kind=AsyncVectorEnv))
    sb3_env = graphwrap.wrap(line_vec(1, vec_env_cls=SubprocVecEnv))
    gymnasium_env.reset(seed=0)
    sb3_env.reset()
    gymnasium_env.step(UP)
    sb3_env.step(UP[:1])
    for venv in (gymnasium_env, sb3_env):
        worker = venv.unwrapped.processes[-1]
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        with pytest.raises(RuntimeError, match=r"worker process of .* has died: . \(exit code -9\)"):
            venv.reset()
        assert venv.assign_credit("graph").mask.all()
    gymnasium_env.env.close(terminate=True)


def test_a_dead_forked_worker_does_not_hang_the_others() -> None:
    for in_step in (True, False):
        venv = graphwrap.wrap(line_vec(3, vec_env_cls=SubprocVecEnv))
        venv.reset()
        venv.step(np.ones(3, int))
        venv.step_async(np.ones(3, int)) if in_step else None
        worker = venv.unwrapped.processes[1]
        venv.unwrapped.remotes[1].recv() if in_step else None  # as if it died before it answered
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        with pytest.raises(
            RuntimeError, match=r"worker process of SubprocVecEnv has died: 1 \(exit code -9\)"
        ):
            venv.step_wait() if in_step else venv.reset()
        assert venv.assign_credit("graph").advantages.shape == (1, 3)
        for process in venv.unwrapped.processes:
            process.kill()


def test_a_worker_that_an_error_ended_is_named_by_the_next_reset() -> None:
    venv = graphwrap.wrap(lines(kind=AsyncVectorEnv, fails_at=1))
    venv.reset(seed=0)
    venv.step(UP)
    with pytest.raises(RuntimeError, match="simulator crashed"):
        venv.step(UP)
    with pytest.raises(RuntimeError, match="a worker process of AsyncVectorEnv has died"):
        venv.reset()
    venv.env.close(terminate=True)
