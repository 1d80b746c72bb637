"""Small batches by hand, as columns and as ids."""

from __future__ import annotations

import numpy as np

from graphwrap import Transitions

VALUES = ("reward", "cost", "terminated", "truncated")


IDS = ("task", "episode", "state", "next_state", "action")


def columns(**changes):
    """Two episodes of task "t", three and two steps, with `changes`."""
    return {
        "task": ["t"] * 5,
        "episode": ["a", "a", "a", "b", "b"],
        "step": [0, 1, 2, 0, 1],
        "state": ["s", "u", "v", "s", "v"],
        "action": [0, 1, 0, 1, 1],
        "next_state": ["u", "v", "w", "v", "x"],
        "reward": [0.0, 0.0, 1.0, 0.0, 0.0],
        "terminated": [False, False, True, False, False],
        "truncated": [False, False, False, False, True],
        **changes,
    }


def label(transitions: Transitions, name: str) -> list:
    """The column `name` of `transitions`, ids turned back into labels."""
    ids = getattr(transitions, name).tolist()
    table = transitions.state_labels if name == "next_state" else getattr(transitions, f"{name}_labels")
    return [table[i] for i in ids]


def assert_equal(a: Transitions, b: Transitions) -> None:
    for name, value in vars(a).items():
        other = getattr(b, name)
        if name.endswith("_labels"):
            assert list(value) == list(other)
        else:
            np.testing.assert_array_equal(value, other)
            assert value.dtype == other.dtype


def ids(**changes):
    return {
        "task": [0, 0],
        "episode": [0, 0],
        "step": [0, 1],
        "state": [0, 1],
        "action": [0, 0],
        "next_state": [1, 0],
        "reward": [0.0, 1.0],
        "terminated": [False, True],
        "truncated": [False, False],
        **changes,
    }
