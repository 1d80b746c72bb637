"""Held-out episodes."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from graphwrap.envs import load_levels, solve
from graphwrap.scripts.comparison.evaluation import HeldOut, held_out_starts
from graphwrap.scripts.comparison.settings import Settings

SOKOBAN = Settings(held_out_kwargs={"split": "test"})
LAKE = Settings(env="FrozenLake-v1", env_kwargs={"is_slippery": False}, eval_episodes=5)


def boards(batch: np.ndarray) -> np.ndarray:
    return batch.argmax(axis=1).astype(np.uint8)


def solver(batch: np.ndarray) -> list[int]:
    return [solve(board)[0] for board in boards(batch)]


def some(count: int) -> Settings:
    return Settings(held_out_kwargs={"split": "test"}, eval_episodes=count)


def test_sokoban_plays_every_test_level_once():
    starts = held_out_starts(SOKOBAN)
    assert [start.level for start in starts] == list(range(len(load_levels(split="test"))))
    assert len({start.seed for start in starts}) == len(starts)


def test_fewer_levels_are_spread_over_the_test_split():
    levels = [start.level for start in held_out_starts(some(5))]
    last = len(load_levels(split="test")) - 1
    assert levels == [0, round(last / 4), round(last / 2), round(3 * last / 4), last]


def test_training_levels_are_no_held_out_levels():
    with pytest.raises(ValueError, match=r"held-out levels must not be training levels, but \d+ of the \d+"):
        held_out_starts(Settings())


def test_made_levels_have_a_split_of_their_own():
    made = Settings(
        env_kwargs={"levels": "generate:6x6-1"}, held_out_kwargs={"split": "test"}, eval_episodes=3
    )
    assert [start.level for start in held_out_starts(made)] == [0, 1, 2]
    with pytest.raises(ValueError, match="both are generate:6x6-1, split train"):
        held_out_starts(Settings(env_kwargs={"levels": "generate:6x6-1"}))


def test_more_episodes_than_levels_are_refused():
    count = len(load_levels(split="test")) + 1
    with pytest.raises(ValueError, match=f"eval_episodes={count}"):
        held_out_starts(some(count))


def test_other_environments_have_seeds_apart_from_those_of_training():
    seeds = {start.seed for start in held_out_starts(Settings(env="CartPole-v1"))}
    assert len(seeds) == 200
    training = {int(np.random.SeedSequence([0, group]).generate_state(1)[0]) for group in range(1000)}
    assert not seeds & training


def test_a_solver_wins_every_level():
    held_out = HeldOut(some(12))
    assert held_out.play(solver).tolist() == [True] * 12
    held_out.close()


def test_the_size_of_the_batch_changes_nothing():
    wins = []
    for batch in (12, 5):
        held_out = HeldOut(some(12), batch=batch)
        # Wins where the number of boxes' neighbours happens to be even, so that some levels are lost.
        wins.append(
            held_out.play(
                lambda batch: [
                    solve(board)[0] if board[1:3].sum() % 3 else int(board.sum() % 4)
                    for board in boards(batch)
                ]
            ).tolist()
        )
        held_out.close()
    assert wins[0] == wins[1]
    assert 0 < sum(wins[0]) < 12


def test_success_is_a_positive_return_where_nobody_says():
    held_out = HeldOut(LAKE)
    path = {0: 2, 1: 2, 2: 1, 6: 1, 10: 1, 14: 2}
    assert held_out.play(lambda batch: [path[int(state)] for state in batch]).all()
    assert not held_out.play(lambda batch: [1] * len(batch)).any()
    held_out.close()


def test_success_by_return():
    for least, won in ((5.0, True), (60.0, False)):
        held_out = HeldOut(Settings(env="CartPole-v1", eval_episodes=4, success_return=least))
        assert held_out.play(lambda batch: [0] * len(batch)).tolist() == [won] * 4
        held_out.close()


class Tenths(gymnasium.Env):
    """Three rewards of 0.1, whose sum is not 0.3 in floating point."""

    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.left = 3
        return 0, {}

    def step(self, action):
        self.left -= 1
        return 0, -0.1, self.left == 0, False, {}


def test_returns_are_rounded_as_in_training():
    gymnasium.register("Tenths-v0", Tenths)
    try:
        held_out = HeldOut(Settings(env="Tenths-v0", eval_episodes=2, success_return=-0.3))
        assert held_out.play(lambda batch: [0] * len(batch)).all()
    finally:
        del gymnasium.registry["Tenths-v0"]


class Keyed(gymnasium.Env):
    """Dict observations; the action that equals the seed's parity wins."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Dict(
            {"a": gymnasium.spaces.Box(0, 1, (1,)), "b": gymnasium.spaces.Discrete(2)}
        )
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.right = seed % 2
        return {"a": np.full(1, self.right, np.float32), "b": self.right}, {}

    def step(self, action):
        won = int(action) == self.right
        return {"a": np.zeros(1, np.float32), "b": 0}, 0.0, True, False, {"won": won}


def test_dict_observations_come_as_a_dict_of_batches():
    gymnasium.register("KeyedForHeldOut-v0", Keyed, disable_env_checker=True)
    try:
        held_out = HeldOut(Settings(env="KeyedForHeldOut-v0", eval_episodes=6))
        assert held_out.play(lambda batch: batch["b"]).all()
        assert not held_out.play(lambda batch: 1 - batch["a"][:, 0].astype(int)).any()
    finally:
        del gymnasium.registry["KeyedForHeldOut-v0"]
