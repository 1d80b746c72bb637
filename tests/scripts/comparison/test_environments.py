"""Environments of a comparison."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from graphwrap.envs import SokobanVectorEnv
from graphwrap.scripts.comparison.environments import check_spaces, recorded
from graphwrap.scripts.comparison.settings import Settings, parse_credit


def test_both_learners_meet_the_same_levels():
    seen = {}
    for learner in ("sb3", "ppo"):
        env = recorded(Settings(learner=learner), parse_credit("grpo", {}), 16)
        if learner == "sb3":
            env.seed(5)
            seen[learner] = env.reset()
            bare = env.unwrapped.vector_env
        else:
            seen[learner], bare = env.reset(seed=5)[0], env.unwrapped
        assert isinstance(bare, SokobanVectorEnv)
        env.close()
    np.testing.assert_array_equal(seen["sb3"], seen["ppo"])
    first = [np.array_equal(seen["ppo"][0], grid) for grid in seen["ppo"]]
    assert first == [True] * 8 + [False] * 8


def test_spaces_that_ppo_cannot_learn_with_are_refused():
    numbers, text = spaces.Discrete(2), spaces.Text(5)
    check_spaces("sb3", spaces.Dict({"a": numbers}), numbers)
    for observations in (text, spaces.Dict({"a": text}), spaces.Tuple([numbers])):
        with pytest.raises(ValueError, match=r"MultiBinary observations, .*, not (Text|Tuple)"):
            check_spaces("sb3", observations, numbers)
    with pytest.raises(ValueError, match=r"MultiBinary actions, .*, not Dict"):
        check_spaces("sb3", numbers, spaces.Dict({"a": numbers}))
    check_spaces("ppo", spaces.Box(0, 1, (3,)), numbers)
    for observations, actions in (
        (numbers, spaces.MultiDiscrete([2])),
        (spaces.Dict({"a": numbers}), numbers),
    ):
        with pytest.raises(ValueError, match="the learner 'ppo' takes Box or Discrete observations"):
            check_spaces("ppo", observations, actions)
