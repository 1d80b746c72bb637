"""Learners of a comparison."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from graphwrap.agents.features import GridExtractor
from graphwrap.scripts.comparison.learners import policy_for


def test_a_policy_for_every_space():
    grid = spaces.Box(0.0, 1.0, (7, 6, 6), np.float32)
    policy, kwargs = policy_for(grid)
    assert (policy, kwargs["features_extractor_class"]) == ("MlpPolicy", GridExtractor)
    assert policy_for(spaces.Box(-1.0, 1.0, (4,))) == ("MlpPolicy", {})
    assert policy_for(spaces.Discrete(5)) == ("MlpPolicy", {})
    assert policy_for(spaces.Box(0, 255, (96, 96, 3), np.uint8)) == ("CnnPolicy", {})
    assert policy_for(spaces.Box(0, 6, (6, 6), np.uint8)) == ("MlpPolicy", {})
    assert policy_for(spaces.Dict({"a": spaces.Discrete(2)})) == ("MultiInputPolicy", {})
