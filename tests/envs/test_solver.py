from __future__ import annotations

import numpy as np
import pytest

from graphwrap.envs import LevelSet, SokobanEnv, solve
from graphwrap.envs.gym_sokoban import generate_room
from graphwrap.envs.xsb import parse_xsb

from .boards import three_levels


def board(text: str) -> np.ndarray:
    return parse_xsb(text)[0][0]


def shortest_by_playing(levels: LevelSet) -> int | None:
    """Optimal length of level 0, by breadth-first search over action sequences in the environment."""
    frontier: list[list[int]] = [[]]
    seen = {levels.boards[0].tobytes()}
    env = SokobanEnv(levels, obs="codes", max_steps=10**6)
    while frontier:
        following = []
        for path in frontier:
            for action in range(4):
                env.reset(options={"level": 0})
                for earlier in path:
                    env.step(earlier)
                observation, _, won, _, _ = env.step(action)
                if won:
                    return len(path) + 1
                if observation.tobytes() not in seen:
                    seen.add(observation.tobytes())
                    following.append([*path, action])
        frontier = following
    return None


def test_solutions_by_hand() -> None:
    assert solve(three_levels().boards[0]) == (3,)
    assert solve(three_levels().boards[2]) == (3, 3)
    assert solve(board("######\n#    #\n#. $@#\n######\n")) == (2, 2)
    assert solve(board("######\n#    #\n#.$ @#\n######\n")) == (2, 2)
    around = solve(board("#######\n#     #\n#  @$.#\n#     #\n#######\n"))
    assert around == (3,)
    back = solve(board("#######\n#     #\n# .$  #\n# @   #\n#######\n"))
    assert back == (3, 3, 0, 2)


def test_solved_and_unsolvable_boards() -> None:
    assert solve(board("#####\n#@* #\n#####\n")) == ()
    assert solve(board("#####\n#$@.#\n#   #\n#####\n")) is None


def test_boxes_may_leave_targets() -> None:
    """The box that is home is in the way of the other one and must be pushed on."""
    corridor = board("########\n#@$ *. #\n########\n")
    assert solve(corridor) is None  # one box cannot push another
    yard = board("########\n#@  ####\n#   * .#\n# $ ####\n#   ####\n########\n")
    solution = solve(yard)
    assert solution is not None
    env = SokobanEnv(LevelSet("yard", yard[None]), obs="codes", max_steps=50)
    env.reset(seed=0)
    steps = [env.step(action) for action in solution]
    assert [int((step[0] == 3).sum()) for step in steps][-1] == 2
    assert 0 in [int((step[0] == 3).sum()) for step in steps]
    assert [step[2] for step in steps] == [False] * (len(steps) - 1) + [True]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("boxes", [1, 2])
def test_optimal_by_playing(seed: int, boxes: int) -> None:
    levels = LevelSet("one", generate_room(seed, (5, 6), boxes)[None])
    solution = solve(levels.boards[0])
    assert solution is not None
    assert len(solution) == shortest_by_playing(levels)


def test_gives_up_with_a_verdict() -> None:
    with pytest.raises(RuntimeError, match="max_states=10: pass a larger max_states"):
        solve(generate_room(0, (7, 7), 2), max_states=10)
