from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import graphwrap
from graphwrap.recording.history import HistoryTable
from graphwrap.states import StateKey, make_table
from tests.helpers import Line, line_vec, make_line


def table(history: int) -> HistoryTable:
    return HistoryTable(make_table(spaces.Discrete(100)), history)


def test_states_are_the_last_observations_in_a_row() -> None:
    states = table(2)
    (start,) = states.begin(states.observations.intern_batch(np.array([7]), 1))
    seen = [start]
    for observation in (8, 7, 8, 7, 8, 7):
        ids = states.observations.intern_batch(np.array([observation]), 1)
        seen.append(states.follow(np.array(seen[-1:]), ids)[0])
    assert [states.labels[state] for state in seen] == [
        (7,),
        (7, 8),
        (7, 8, 7),
        (8, 7, 8),
        (7, 8, 7),
        (8, 7, 8),
        (7, 8, 7),
    ]
    assert seen[2] == seen[4] != seen[0]
    assert list(states.labels[:2]) == [(7,), (7, 8)]
    assert states.intern_one(7) == start


def test_compact_forgets_observations_too() -> None:
    states = table(1)
    ids = states.intern_batch(np.arange(5), 5)
    following = states.follow(ids, states.observations.intern_batch(np.array([10, 11, 12, 13, 14]), 5))
    new = states.compact(following[[3, 1]])
    assert list(states.labels) == [(3, 13), (1, 11)]
    assert new[following].tolist() == [-1, 1, -1, 0, -1]
    assert len(states.observations) == 4
    again = pickle.loads(pickle.dumps(states))
    assert list(again.labels) == list(states.labels)


def labels_of(window: Any) -> list:
    t = window.transitions
    return [
        [tuple(int(each[0]) for each in t.state_labels[state]) for state in (t.state[i], t.next_state[i])]
        for i in range(len(t))
    ]


@pytest.mark.parametrize("history", [1, 3])
@pytest.mark.parametrize("kind", ["env", "sb3", *AutoresetMode])
def test_wrappers_against_a_list_of_observations(kind: Any, history: int) -> None:
    n = 1 if kind == "env" else 2
    key = StateKey(history=history)
    if kind == "env":
        env: Any = graphwrap.wrap(Line(), "grpo", task="single", state=key)
    elif kind == "sb3":
        env = graphwrap.wrap(line_vec(n), "grpo", task="single", state=key)
    else:
        made = SyncVectorEnv([partial(make_line)] * n, autoreset_mode=kind)
        env = graphwrap.wrap(made, "grpo", task="single", state=key)
    observation = env.reset() if kind == "sb3" else env.reset(seed=1)[0]
    seen = [[int(np.reshape(observation, (n, 2))[i, 0])] for i in range(n)]
    expected: list = []
    idle = np.zeros(n, bool)
    rng = np.random.default_rng(history)
    windows = []
    for t in range(60):
        actions = rng.integers(0, 2, n)
        finals: dict[int, int] = {}
        if kind == "env":
            observation, _, terminated, truncated, _ = env.step(actions[0])
            over = np.array([terminated or truncated])
        elif kind == "sb3":
            observation, _, over, infos = env.step(actions)
            finals = {i: int(infos[i]["terminal_observation"][0]) for i in np.flatnonzero(over)}
        else:
            observation, _, terminated, truncated, infos = env.step(actions)
            over = terminated | truncated
            if kind == AutoresetMode.SAME_STEP:
                finals = {i: int(infos["final_obs"][i][0]) for i in np.flatnonzero(over)}
        places = np.reshape(observation, (n, 2))[:, 0].astype(int)
        for i in range(n):
            if idle[i]:
                seen[i] = [places[i]]
                continue
            before = tuple(seen[i][-history - 1 :])
            seen[i].append(finals.get(i, int(places[i])))
            expected.append([before, tuple(seen[i][-history - 1 :])])
        idle = over if kind == AutoresetMode.NEXT_STEP else np.zeros(n, bool)
        for i in np.flatnonzero(over) if kind in ("sb3", AutoresetMode.SAME_STEP) else ():
            seen[i] = [int(places[i])]
        if kind == AutoresetMode.DISABLED and over.any():
            observation, _ = env.reset(options={"reset_mask": over})
            for i in np.flatnonzero(over):
                seen[i] = [int(observation[i, 0])]
        elif kind == "env" and over[0]:
            seen[0] = [int(env.reset()[0][0])]
        if t % 13 == 12:
            windows.append(env.assign_credit("graph"))
    windows.append(env.assign_credit("graph"))
    found = []
    for window in windows:
        labels = labels_of(window)
        found += [labels[row] for row in window.rows.reshape(-1) if row >= 0]
    assert found == expected
    recorder = env.recorder
    assert (
        len(recorder.states) <= 2 * recorder.num_context_steps + n
    )  # nothing else is left of closed windows


def test_history_tells_states_apart_that_look_the_same() -> None:
    nodes = {}
    for history in (0, 2):
        env = graphwrap.wrap(Line(length=9, limit=20), "grpo", task="single", state=StateKey(history=history))
        env.reset(seed=0)
        for action in (1, 0, 1, 0, 1, 1):
            env.step(action)
        nodes[history] = env.assign_credit("graph").transitions.num_states
    assert nodes[0] == 3
    assert nodes[2] == 5
