from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from graphwrap.agents.settings import EnvSettings
from graphwrap.envs.pool import Crash, EnvPool, Reset, Step, env_maker

from .mischief import MadeUpTo, Mischief, dies_when_made, never

ROOT = Path(__file__).parents[2]


@pytest.fixture
def make_pool() -> Iterator[Callable[..., EnvPool]]:
    pools = []

    def make(*args: Any, **kwargs: Any) -> EnvPool:
        pools.append(EnvPool(*args, **kwargs))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def texts(replies: list[Any]) -> list[str]:
    """What each reply shows, or its error."""
    return [reply.error if isinstance(reply, Crash) else reply.observation for reply in replies]


def play(pool: EnvPool) -> list[list[Any]]:
    """Five rounds in which some environments raise, say nonsense, end or stand still."""
    script = {1: "raise", 2: "none", 3: "nan", 4: "unsendable x", 5: "win", 6: "exit"}
    everything: list[list[Any]] = [pool.reset(range(8), [10, 11, 12, 13, 14, 15, 16, 17])]
    live = [env for env, reply in enumerate(everything[0]) if isinstance(reply, Reset)]
    for t in range(4):
        asked = live[t % 2 :: 2]
        replies = pool.step(asked, ["go" if t < 2 else script.get(env, "go") for env in asked])
        everything.append(replies)
        over = [env for env, reply in zip(asked, replies) if isinstance(reply, Crash) or reply.ended]
        live = [env for env in live if env not in over]
    return [*everything, pool.reset(range(8), range(20, 28)), pool.step(range(8), ["go"] * 8)]


def test_results_do_not_depend_on_processes(make_pool: Callable[..., EnvPool]) -> None:
    expected = play(make_pool(Mischief, 8))
    assert texts(expected[0])[2:5] == ["seed 12 at 0", "ValueError: seed 13", "seed 14 at 0"]
    assert sum(isinstance(reply, Crash) for replies in expected for reply in replies) == 4
    assert texts(expected[-1]) == [f"seed {seed} at 1" for seed in range(20, 28)]
    assert play(make_pool(Mischief, 8, 3)) == expected


@pytest.mark.parametrize("processes", [0, 1])
def test_each_crash_is_one_environments_own(make_pool: Callable[..., EnvPool], processes: int) -> None:
    pool = make_pool(Mischief, 7, processes)
    pool.reset(range(7), range(7))
    replies = pool.step(range(7), ["go", "raise x", "none", "nan", "unsendable", "exit", "go"])
    shown = texts(replies)
    assert shown[0] == "seed 0 at 1"
    assert shown[6] == "seed 6 at 1"
    assert shown[1] == "KeyError: 'x'"
    assert shown[2] == "TypeError: the observation of a text environment is a str, got None"
    assert shown[3] == "TypeError: the reward of a step is a finite number, got nan"
    assert "Unsendable" in shown[4]
    assert shown[5] == "SystemExit: 2"
    assert "raise KeyError(argument)" in replies[1].details  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match="a step needs a running episode, env 1 has none: reset it first"):
        pool.step([0, 1], ["go", "go"])
    assert texts(pool.step([0], ["go"])) == ["seed 0 at 2"]  # the refused call made no step
    assert texts(pool.reset([1, 2], [8, 9])) == ["seed 8 at 0", "seed 9 at 0"]
    assert texts(pool.step([2, 6, 1], ["go"] * 3)) == ["seed 9 at 1", "seed 6 at 2", "seed 8 at 1"]


def test_a_killed_worker_loses_the_episodes_that_ran_in_it(make_pool: Callable[..., EnvPool]) -> None:
    pool = make_pool(Mischief, 8, 2)  # the even ones are one worker's, the odd ones the other's
    pool.reset(range(7), range(7))  # 7 stays idle
    assert pool.step([4], ["win"])[0].terminated  # type: ignore[union-attr]
    # 0 is answered before 2 dies; 0 runs on in no process, 6 waits; 1 and 3 are elsewhere.
    replies = pool.step([0, 1, 2, 3], ["go", "go", "die", "go"])
    assert texts(replies) == [
        "seed 0 at 1",
        "seed 1 at 1",
        "its process ended with exit code -9",
        "seed 3 at 1",
    ]
    lost = pool.step([6, 5, 0], ["go", "go", "go"])
    assert texts(lost) == [
        "its process ended with exit code -9",
        "seed 5 at 1",
        "its process ended with exit code -9",
    ]
    with pytest.raises(RuntimeError, match="env 6 has none"):
        pool.step([6], ["go"])
    # 4 had ended: it has lost nothing. All are there again.
    assert texts(pool.reset([0, 2, 4, 6, 7], [10, 12, 14, 16, 17])) == [
        f"seed {seed} at 0" for seed in (10, 12, 14, 16, 17)
    ]
    assert texts(pool.step(range(8), ["go"] * 8)) == [
        f"seed {seed} at {count}"
        for seed, count in [(10, 1), (1, 2), (12, 1), (3, 2), (14, 1), (5, 2), (16, 1), (17, 1)]
    ]


def test_an_episode_that_ended_before_its_process_died_counts(make_pool: Callable[..., EnvPool]) -> None:
    pool = make_pool(Mischief, 2, 1)
    pool.reset([0, 1], [0, 1])
    won, crash = pool.step([0, 1], ["win", "die"])
    assert isinstance(won, Step)
    assert won.terminated
    assert isinstance(crash, Crash)
    assert texts(pool.reset([0], [5])) == ["seed 5 at 0"]


def test_a_process_that_dies_in_reset(make_pool: Callable[..., EnvPool]) -> None:
    pool = make_pool(Mischief, 3, 1)
    pool.reset([0], [0])
    assert texts(pool.reset([1, 2], [1, 99])) == ["seed 1 at 0", "its process ended with exit code -9"]
    assert all(isinstance(reply, Crash) for reply in pool.step([0, 1], ["go", "go"]))
    assert texts(pool.reset([0, 1, 2], [4, 5, 6])) == ["seed 4 at 0", "seed 5 at 0", "seed 6 at 0"]


def test_a_process_that_is_killed_between_two_calls(make_pool: Callable[..., EnvPool]) -> None:
    pool = make_pool(Mischief, 2, 2)
    pool.reset([0, 1], [0, 1])
    pid = pool.step([0], ["pid"])[0].info["pid"]  # type: ignore[union-attr]
    assert pid != os.getpid()
    os.kill(pid, signal.SIGKILL)
    assert texts(pool.step([0, 1], ["go", "go"])) == ["its process ended with exit code -9", "seed 1 at 1"]


@pytest.mark.parametrize("processes", [0, 1])
def test_an_environment_that_cannot_be_made_anew_crashes_its_next_episode(
    make_pool: Callable[..., EnvPool], processes: int, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    left.write_bytes(b"..")
    pool = make_pool(MadeUpTo(left), 2, processes)
    pool.reset([0, 1], [0, 1])
    pool.step([0], ["raise"])
    assert texts(pool.reset([0], [2])) == ["OSError: no more environments"]
    assert texts(pool.step([1], ["go"])) == ["seed 1 at 1"]
    left.write_bytes(b".")
    assert texts(pool.reset([0], [3])) == ["seed 3 at 0"]


@pytest.mark.parametrize("processes", [0, 2])
def test_an_environment_that_cannot_be_made_at_all(processes: int) -> None:
    with pytest.raises(RuntimeError, match=r"an environment cannot be made: .*no game file"):
        EnvPool(never, 3, processes)


def test_a_worker_that_cannot_start() -> None:
    with pytest.raises(RuntimeError, match="ended with exit code 7 before its environments were made"):
        EnvPool(dies_when_made, 2, 1)


def test_what_cannot_be_sent_is_left_out_of_an_info(make_pool: Callable[..., EnvPool]) -> None:
    pool = make_pool(Mischief, 1, 1)
    pool.reset([0], [3])
    (step,) = pool.step([0], ["lock"])
    assert isinstance(step, Step)
    assert step.info == {"state_key": (3, 1)}


def test_long_texts_pass(make_pool: Callable[..., EnvPool]) -> None:
    pool = make_pool(Mischief, 6, 2)
    pool.reset(range(6), range(6))
    action = "long " + "y" * 300_000
    assert [len(text) for text in texts(pool.step(range(6), [action] * 6))] == [300_000] * 6


def test_an_interrupted_call_leaves_a_pool_that_works(make_pool: Callable[..., EnvPool]) -> None:
    pool = make_pool(Mischief, 4, 2)
    pool.reset(range(4), range(4))

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            pool.step([0, 1], ["sleep 600", "go"])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    replies = pool.step(range(4), ["go"] * 4)
    assert [isinstance(reply, Crash) for reply in replies] == [True, True, True, False]
    assert texts(replies)[:2] == ["interrupted by KeyboardInterrupt"] * 2
    assert texts(pool.reset([0, 1, 2], [7, 8, 9])) == ["seed 7 at 0", "seed 8 at 0", "seed 9 at 0"]
    assert texts(pool.step(range(4), ["go"] * 4)) == [
        "seed 7 at 1",
        "seed 8 at 1",
        "seed 9 at 1",
        "seed 3 at 2",
    ]


_PARENT = """
import os, signal, sys
from graphwrap.envs.pool import EnvPool
from tests.envs.mischief import Mischief

if __name__ == "__main__":
    pool = EnvPool(Mischief, 2, 2)
    pool.reset([0, 1], [0, 1])
    print(*(step.info["pid"] for step in pool.step([0, 1], ["pid", "pid"])), flush=True)
    if sys.argv[1] == "busy":
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        pool.step([0, 1], ["sleep 600", "sleep 600"])
    if sys.argv[1] == "idle":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["busy", "idle", "exit without close"])
def test_workers_end_with_their_parent(how: str, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(_PARENT)
    done = subprocess.run(
        [sys.executable, script, how],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    assert done.returncode == (0 if how == "exit without close" else -signal.SIGKILL)
    deadline = time.monotonic() + 20
    while any(map(_runs, pids)):
        assert time.monotonic() < deadline, "the workers outlive their parent"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_close_ends_the_workers_and_the_pool() -> None:
    before = set(multiprocessing.active_children())
    with EnvPool(Mischief, 3, 2) as pool:
        started = set(multiprocessing.active_children()) - before
        assert len(started) == 2
        pool.reset([0], [0])
    assert not started & set(multiprocessing.active_children())
    pool.close()
    with pytest.raises(RuntimeError, match="the pool is closed"):
        pool.reset([0], [0])


def test_there_are_no_more_workers_than_environments(make_pool: Callable[..., EnvPool]) -> None:
    before = set(multiprocessing.active_children())
    make_pool(Mischief, 1, 3)
    assert len(set(multiprocessing.active_children()) - before) == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda pool: EnvPool(Mischief, 0), ValueError, "num_envs is at least 1, got 0"),
        (
            lambda pool: EnvPool(Mischief, 1, -1),
            ValueError,
            r"processes is at least 0 \(0: this process\), got -1",
        ),
        (
            lambda pool: pool.reset([0, 1], [0]),
            ValueError,
            "envs and seeds are of the same length, got 2 and 1",
        ),
        (lambda pool: pool.step([0], []), ValueError, "envs and actions are of the same length, got 1 and 0"),
        (lambda pool: pool.reset([0, 2], [0, 0]), ValueError, "envs are 0 to 1, got 2"),
        (lambda pool: pool.reset([-1], [0]), ValueError, "envs are 0 to 1, got -1"),
        (lambda pool: pool.reset([1, 1], [0, 0]), ValueError, "named at most once, got env 1 twice"),
        (lambda pool: pool.step([0], [3]), TypeError, "an action is a str, got 3"),
        (lambda pool: pool.step([1], ["go"]), RuntimeError, "env 1 has none: reset it first"),
    ],
)
def test_wrong_calls_are_refused(call: Any, error: Any, message: str) -> None:
    pool = EnvPool(Mischief, 2)
    pool.reset([0], [0])
    with pytest.raises(error, match=message):
        call(pool)
    assert texts(pool.step([0], ["go"])) == ["seed 0 at 1"]


def test_nothing_to_do(make_pool: Callable[..., EnvPool]) -> None:
    pool = make_pool(Mischief, 2)
    assert pool.reset([], []) == []
    assert pool.step([], []) == []


@pytest.mark.parametrize("processes", [0, 2])
def test_groups_of_sokoban_start_alike(make_pool: Callable[..., EnvPool], processes: int) -> None:
    pool = make_pool(env_maker(EnvSettings()), 12, processes)
    seeds = [3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5]
    starts = pool.reset(range(12), seeds)
    expected = [gym.make("graphwrap/TextSokoban-v0").reset(seed=seed) for seed in seeds]
    assert [(start.observation, start.info) for start in starts] == expected  # type: ignore[union-attr]
    assert len(set(texts(starts))) == 3


def test_settings_make_the_environment(make_pool: Callable[..., EnvPool]) -> None:
    settings = EnvSettings(
        kwargs={"max_steps": 3, "levels": "7x7-2"}, held_out_kwargs={"split": "test", "max_steps": 5}
    )
    train, held_out = env_maker(settings)().unwrapped, env_maker(settings, held_out=True)().unwrapped
    assert (train.max_steps, held_out.max_steps) == (3, 5)  # type: ignore[attr-defined]
    assert train.levels.name != held_out.levels.name  # type: ignore[attr-defined]


@pytest.mark.parametrize("processes", [0, 2])
def test_ones_own_environment_is_played(make_pool: Callable[..., EnvPool], processes: int) -> None:
    maker = env_maker(EnvSettings(id="tests.agents.own_env:KeyAndDoor-v0"))
    pool = make_pool(maker, 3, processes)
    starts = pool.reset(range(3), [0, 0, 2])
    assert starts[0] == starts[1]
    keys = [start.info["state_key"][1] for start in starts]  # type: ignore[union-attr]
    routes = []
    for key in keys:
        back = ["go left"] * (key - 1) if key else ["go right"]
        routes.append([*["go right"] * key, "dance", "take key", *back, "open door"])
    last: dict[int, Any] = {}
    for t in range(max(map(len, routes))):
        envs = [env for env in range(3) if t < len(routes[env])]
        last.update(zip(envs, pool.step(envs, [routes[env][t] for env in envs])))
    assert [(step.terminated, step.reward, step.info["is_success"]) for step in last.values()] == [
        (True, 1.0, True)
    ] * 3
