"""SokobanEnv against gym-sokoban's own environment class, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.envs import LevelSet, SokobanEnv, load_levels, solve
from graphwrap.envs.gym_sokoban import generate_room, load_env_class

from .boards import three_levels


def oracle(board: np.ndarray, max_steps: int, env: Any = None) -> Any:
    """gym-sokoban's environment, a new one or `env`, begun on a given board."""
    if env is None:
        env = load_env_class()(dim_room=board.shape, max_steps=max_steps, num_boxes=1, reset=False)
    env.num_boxes = int(np.isin(board, (3, 4)).sum())
    env.room_fixed = np.where(np.isin(board, (2, 3, 6)), 2, np.where(board == 0, 0, 1))
    env.room_state = np.where(board == 6, 5, board).astype(int)
    env.player_position = np.argwhere(env.room_state == 5)[0]
    env.num_env_steps = env.reward_last = env.boxes_on_target = 0  # as its reset() does
    return env


def codes(env: Any) -> np.ndarray:
    return np.where((env.room_state == 5) & (env.room_fixed == 2), 6, env.room_state)


def compare(board: np.ndarray, actions: list[int], max_steps: int) -> tuple[bool, bool]:
    """Plays the actions in both until the end; the last (terminated, truncated)."""
    theirs = oracle(board, max_steps)
    settings: dict[str, Any] = {"obs": "codes", "actions": "all", "max_steps": max_steps}
    levels = LevelSet("one", board[None])
    ours = SokobanEnv(levels, reward="dense", **settings)
    sparse = SokobanEnv(levels, reward="sparse", **settings)
    observation, _ = ours.reset(seed=0)
    sparse.reset(seed=0)
    np.testing.assert_array_equal(observation, codes(theirs))
    terminated = truncated = False
    for action in actions:
        before = codes(theirs)
        _, reward, done, info = theirs.step(action, observation_mode="tiny_rgb_array")
        observation, dense_reward, terminated, truncated, our_info = ours.step(action)
        np.testing.assert_array_equal(observation, codes(theirs))
        assert dense_reward == reward
        assert (terminated or truncated) == done
        sparse_step = sparse.step(action)
        np.testing.assert_array_equal(sparse_step[0], observation)
        assert sparse_step[2:] == (terminated, truncated, our_info)
        unchanged = np.array_equal(before, observation)
        assert sparse_step[1] == (10 if terminated else -0.1 if unchanged else 0)
        assert unchanged == (not info["action.moved_player"])
        if done:
            assert terminated == info["all_boxes_on_target"]
            assert our_info == {"is_success": terminated}
            break
        assert our_info == {}
    return terminated, truncated


@given(
    seed=st.integers(0, 10_000),
    shape=st.sampled_from([((6, 6), 1), ((6, 6), 2), ((7, 7), 1), ((7, 7), 2), ((5, 8), 1)]),
    actions=st.lists(st.integers(0, 8), max_size=40),
    finish=st.booleans(),
    spare=st.integers(-3, 3),
)
def test_equal_on_generated_rooms(
    seed: int, shape: tuple[tuple[int, int], int], actions: list[int], finish: bool, spare: int
) -> None:
    room = generate_room(seed, *shape)
    if finish:  # wander, then win if that is still possible: about max_steps, so on the last step too
        wanderer = oracle(room, 10**6)
        for action in actions:
            wanderer.step(action, observation_mode="tiny_rgb_array")
        rest = solve(codes(wanderer))
        actions = actions + [push + 1 for push in rest or ()]
    compare(room, actions, max(1, len(actions) + spare))


@pytest.mark.parametrize("reach", [0, 1, -1])
def test_a_win_on_the_last_step_is_terminated(reach: int) -> None:
    board = load_levels(split="test").boards[5]
    solution = [push + 1 for push in solve(board) or ()]
    ends = compare(board, solution, len(solution) + reach)
    assert ends == ((True, False) if reach >= 0 else (False, True))


def test_a_box_home_at_the_start_counts_with_the_first_step() -> None:
    board = three_levels().boards[1]
    ours = SokobanEnv(three_levels(), reward="dense")
    ours.reset(options={"level": 1})
    assert [ours.step(0)[1] for _ in range(2)] == [0.9, -0.1]
    compare(board, [1, 0, 2, 4, 8, 4, 3, 7, 3], 30)


@pytest.mark.parametrize("number", range(4))
def test_equal_in_every_state_of_a_room(number: int) -> None:
    """All nine actions in every reachable position, at the walls of the last row and column too."""
    room = load_levels().boards[number * 400] if number < 3 else generate_room(11, (6, 6), 2)
    start = oracle(room, 10**9)
    frontier, seen = [codes(start)], {codes(start).tobytes()}
    states = 0
    while frontier:
        board = frontier.pop()
        if not (board == 4).any():
            continue  # solved
        states += 1
        ours = SokobanEnv(LevelSet("one", board[None]), obs="codes", actions="all")
        for action in range(9):
            theirs = oracle(board, 15, start)
            theirs.step(action, observation_mode="tiny_rgb_array")
            ours.reset(options={"level": 0})
            reached = ours.step(action)[0]
            np.testing.assert_array_equal(reached, codes(theirs))
            if reached.tobytes() not in seen:
                seen.add(reached.tobytes())
                frontier.append(reached)
    assert states >= 20
