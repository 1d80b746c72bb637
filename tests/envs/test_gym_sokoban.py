from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest

from graphwrap.envs import solve
from graphwrap.envs.gym_sokoban import generate_room, load_env_class


def test_rooms_follow_the_seed() -> None:
    first = generate_room(5, (6, 6), 2)
    np.testing.assert_array_equal(generate_room(5, (6, 6), 2), first)
    assert first.dtype == np.uint8
    assert first.shape == (6, 6)
    rooms = {generate_room(seed).tobytes() for seed in range(20)}
    assert len(rooms) > 15


def test_rooms_are_gym_sokobans() -> None:
    """The same room as its generator makes when the global generators are seeded, which is its only way."""
    sub_seed = int(np.random.SeedSequence([4, 0]).generate_state(1)[0])
    load_env_class()
    utils = sys.modules["_graphwrap_gym_sokoban.room_utils"]
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        random.seed(sub_seed)
        np.random.seed(sub_seed)  # noqa: NPY002
        _, room, _ = utils.generate_room(dim=(6, 6), num_steps=20, num_boxes=1)
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
    np.testing.assert_array_equal(generate_room(4), room)


def test_global_generators_are_left_alone() -> None:
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    generate_room(1)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002


def test_failed_tries_are_repeated() -> None:
    """Two boxes in 5x5 often fail; the answer is a room, not an error or endless recursion."""
    for seed in range(10):
        room = generate_room(seed, (5, 5), 2, num_steps=4)
        assert (room == 4).sum() == 2
        assert solve(room) is not None
    single = [_room_or_error(seed) for seed in range(10)]
    assert any("in 1 tries" in text for text in single)
    assert "" in single


def _room_or_error(seed: int) -> str:
    try:
        generate_room(seed, (5, 5), 2, num_steps=4, tries=1)
    except RuntimeError as error:
        return str(error)
    return ""


def test_an_impossible_room_ends_in_an_error() -> None:
    with pytest.raises(
        RuntimeError, match=r"size \(4, 4\) with 5 boxes .* in 7 tries from seed 3; .*fewer boxes"
    ):
        generate_room(3, (4, 4), 5, tries=7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed is at least 0, got -1"),
        ({"seed": 0, "size": (2, 6)}, r"size is at least 3, got \(2, 6\)"),
        ({"seed": 0, "boxes": 0}, "boxes is at least 1, got 0"),
        ({"seed": 0, "tries": 0}, "tries is at least 1, got 0"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generate_room(**arguments)


def test_missing_gym_sokoban_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gym_sokoban", None)
    for call in (lambda: generate_room(0), load_env_class):
        with pytest.raises(ImportError, match=r"pip install --no-deps gym-sokoban==0.0.6"):
            call()


def test_loading_leaves_no_old_gym_behind() -> None:
    names = ("gym", "gym.utils", "gym.spaces", "pkg_resources", "gym_sokoban")
    before = {name: sys.modules.get(name) for name in names}
    assert load_env_class() is load_env_class()
    assert {name: sys.modules.get(name) for name in names} == before
