"""Every benchmark runs, small, and measures what it says."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from graphwrap import GraphGPO, Transitions
from graphwrap.scripts.benchmarks import BENCHMARKS, Ratio, Settings
from graphwrap.scripts.benchmarks.bandwidth import measure_bandwidth
from graphwrap.scripts.benchmarks.memory import resident
from graphwrap.scripts.benchmarks.processes import run_python
from graphwrap.scripts.benchmarks.recording import MEAN_LENGTH, CheapVectorEnv
from graphwrap.scripts.benchmarks.text import networkx_credit
from graphwrap.scripts.benchmarks.walks import random_columns

FAST = ("text", "graphs", "recording", "sokoban")
SLOW = ("bellman", "gae", "memory", "load", "training", "first_use")
ELSEWHERE = ("alfworld",)  # test_alfworld.py, which needs the extra


def check(name: str) -> None:
    pairs = []
    found = BENCHMARKS[name].measure(Settings(2, quick=True, on_pair=lambda: pairs.append(1)))
    assert found
    assert len(pairs) >= 1
    for measured in found:
        assert np.isfinite(measured.figure)
        if isinstance(measured, Ratio):
            assert len(measured.ours_each) == len(measured.other_each)


@pytest.mark.parametrize("name", FAST)
def test_it_measures(name):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_it_measures_slowly(name):
    check(name)


def test_every_subject_is_tried():
    assert sorted(FAST + SLOW + ELSEWHERE) == sorted(BENCHMARKS)


@pytest.mark.parametrize("costs", [False, True], ids=["unit costs", "different costs"])
def test_the_other_sides_credit_is_the_same(costs):
    columns = random_columns(10**5, 3, episodes=24, states=30)
    if costs:
        columns["cost"] = np.random.default_rng(0).integers(1, 9, len(columns["step"])) / 2
    credit = GraphGPO()(Transitions.from_columns(**columns))
    lists = {name: column.tolist() for name, column in columns.items()}
    np.testing.assert_allclose(networkx_credit(**lists), credit.advantages, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP], ids=lambda mode: mode.name
)
def test_the_cheap_environment_ends_like_cartpole(mode):
    env = CheapVectorEnv(16, mode, steps=2000)
    env.reset()
    ended = np.zeros((1999, 16), bool)
    for t in range(len(ended)):
        _, _, ended[t], truncated, infos = env.step(None)
        assert not truncated.any()
        if mode is AutoresetMode.SAME_STEP and ended[t].any():
            assert [final is not None for final in infos["final_obs"]] == ended[t].tolist()
    steps_between = 1 if mode is AutoresetMode.NEXT_STEP else 0
    assert 1 / ended.mean() == pytest.approx(MEAN_LENGTH + steps_between, rel=0.1)
    if mode is AutoresetMode.NEXT_STEP:
        assert not (ended[1:] & ended[:-1]).any()


def test_a_process_that_fails_says_why():
    assert run_python("-c", "print('hello'); print('{\"a\": 1}')") == {"a": 1}
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run_python("-c", "1 / 0")


def test_memory_is_counted_in_bytes():
    size = 60_000_000
    before = resident("VmRSS")
    with mmap.mmap(-1, size) as block:  # pages of its own, none that were freed before
        np.frombuffer(block, np.uint8)[:] = 1
        assert resident("VmRSS") - before == pytest.approx(size, rel=0.2)


def test_bandwidth_is_plausible():
    found = measure_bandwidth(16, 2)
    assert set(found) == {"triad GB/s", "copy GB/s"}
    assert all(0.1 < value < 2000 for value in found.values())
