from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.vector_envs import MaskedReset, as_seed, info_rows
from tests.helpers import Line
from tests.sb3.worlds import World, vector


@st.composite
def infos(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Infos of some environments, in which a key has one type of value."""
    num_envs = draw(st.integers(1, 4))
    rows: list[dict[str, Any]] = [{} for _ in range(num_envs)]
    for key in draw(st.lists(st.sampled_from(["a", "b", "c", "d"]), unique=True)):
        kind = draw(
            st.sampled_from(
                [st.integers(-5, 5), st.booleans(), st.floats(allow_nan=False), st.text(max_size=3)]
            )
        )
        deep = draw(st.booleans())
        for row in rows:
            if draw(st.booleans()):
                row[key] = {"x": draw(kind)} if deep else draw(kind)
    return rows


@given(infos(), st.data())
def test_infos_come_back_as_gymnasium_took_them_in(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    env = VectorEnv()
    env.num_envs = len(rows)
    merged: dict[str, Any] = {}
    for index, row in enumerate(rows):
        merged = env._add_info(merged, row, index)
    before = copy.deepcopy(merged)
    envs = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True))
    found = info_rows(merged, envs, len(rows))
    assert found == [rows[index] for index in envs]
    assert [[type(value) for value in row.values()] for row in found] == [
        [type(value) for value in {key: rows[index][key] for key in row}.values()]
        for index, row in zip(envs, found)
    ]
    assert repr(merged) == repr(before)


def test_infos_without_masks() -> None:
    merged = {
        "count": np.array([1, 2, 3]),
        "_count": np.array([True, False, True]),
        "place": np.array([[0, 1], [2, 3], [4, 5]]),
        "small": np.array([1, 2, 3], np.float32),
        "names": ["a", "b", "c"],
        "whole": "of all",
        "nested": {"r": np.array([0.5, 1.5, 2.5]), "_r": np.array([False, True, False])},
    }
    first, second = info_rows(merged, [0, 1], 3)
    np.testing.assert_array_equal(first.pop("place"), [0, 1])
    np.testing.assert_array_equal(second.pop("place"), [2, 3])
    assert first == {"count": 1, "small": 1.0, "names": "a", "whole": "of all", "nested": {}}
    assert isinstance(first["small"], np.float32)
    assert second == {"small": 2.0, "names": "b", "whole": "of all", "nested": {"r": 1.5}}


def test_infos_share_nothing_with_the_vector_environment() -> None:
    boards, lists = np.zeros((2, 3)), np.empty(2, object)
    lists[:] = [[1], [2]]
    rows = info_rows({"board": boards, "list": lists}, [0, 1], 2)
    rows[0]["board"][:] = 9
    rows[1]["list"].append(7)
    assert not boards.any()
    assert lists.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [(None, None), ([None, None], None), ([5, 6, 7], 5), ([5, 7], [5, 7]), ([4], 4), ([None, 1], [None, 1])],
)
def test_as_seed(seeds: Any, expected: Any) -> None:
    assert as_seed(seeds) == expected


class Reads(VectorWrapper):
    """Reads the mask, as RecordEpisodeStatistics does, and takes it out."""

    seen: np.ndarray

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        result = super().reset(seed=seed, options=options)
        self.seen = options.pop("reset_mask")
        return result


def lines(**settings: Any) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: Line(**settings)] * 3)


def test_wrappers_and_the_vector_environment_have_masks_of_their_own() -> None:
    env = Reads(lines(length=40))
    env.env.reset(seed=0)
    reset, mask = MaskedReset(env), np.array([False, True, False])
    options = {"level": 1}
    observations, infos = reset(mask, [None, 9, None], options)
    env.seen[:] = True
    assert mask.tolist() == [False, True, False]
    assert options == {"level": 1}
    assert [sub.resets for sub in env.unwrapped.envs] == [1, 2, 1]
    assert observations[1, 0] == Line(length=40).reset(seed=9)[0][0]
    assert infos["_level"].tolist() == [False, True, False]
    assert "reset" not in vars(env.unwrapped)


class Ignores(SyncVectorEnv):
    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return super().reset(seed=seed, options={"low": options.get("low")} if options else None)


MASK = np.array([True, False, False])


@pytest.mark.parametrize("wrapper", [lambda env: env, Reads])
def test_who_ignores_the_mask_is_found_out(wrapper: Any) -> None:
    env = wrapper(Ignores([Line] * 3))
    with pytest.raises(ValueError, match=r"Ignores ignores options\['reset_mask'\] and resets every"):
        MaskedReset(env)(MASK)


@pytest.mark.parametrize(
    "how",
    [
        dict,
        copy.copy,
        copy.deepcopy,
        lambda options: {**options},
        lambda options: options.copy(),
        lambda options: pickle.loads(pickle.dumps(options)),
        lambda options: {key: options[key] for key in options.keys()},  # noqa: SIM118
        lambda options: dict(options.items()),
        lambda options: {"reset_mask": options["reset_mask"]},
        lambda options: {} | options,
    ],
)
def test_who_hands_the_options_on_is_trusted(how: Any) -> None:
    env = SyncVectorEnv([Line] * 3)
    env.reset = lambda *, seed=None, options=None: SyncVectorEnv.reset(env, seed=seed, options=how(options))
    SyncVectorEnv.reset(env, seed=0)
    own = env.reset
    MaskedReset(env)(MASK)
    assert [sub.resets for sub in env.envs] == [2, 1, 1]
    assert env.reset is own


def test_other_errors_of_a_reset_are_its_own() -> None:
    env = vector("async", 2, AutoresetMode.NEXT_STEP)
    env.close()
    with pytest.raises(ClosedEnvironmentError):
        MaskedReset(env)(np.array([True, False]), [3, None])

    class Breaks(World):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            raise ValueError("no board left")

    with pytest.raises(ValueError, match="no board left"):
        MaskedReset(SyncVectorEnv([Breaks] * 2))(np.array([True, False]), [3, None])
