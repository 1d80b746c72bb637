"""Potentials while environments run: best policies stay, and what is known stays bounded."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwrap import GRAFT, GraphGPO, PersistentGraph, RewardFlow, TransitionGraph, Transitions
from graphwrap.recording.online import OnlinePotential
from graphwrap.states import make_table

GAMMA = 0.9
METHODS = [GraphGPO(omega=0.5), GRAFT(gamma=0.9), GRAFT(gamma=0.9, step_rewards=True), RewardFlow()]


def potential(credit: Any, num_envs: int, *, states: Any = None, **options: Any) -> OnlinePotential:
    return OnlinePotential(credit, make_table(states), make_table(), num_envs, gamma=GAMMA, **options)


def play(
    online: OnlinePotential, path: list, *, won: bool, env: int = 0, task: Any = "t", cut: bool = False
) -> list:
    """Play an episode through the states of `path` in one environment, and return its shaping terms."""
    n = online.num_envs

    def at_env(value: Any, other: Any = 0) -> list:
        return [value if i == env else other for i in range(n)]

    online.begin([env], [path[0]], [task])
    terms = []
    for i, state in enumerate(path[1:], start=2):
        last = i == len(path)
        ended = [env] if last else []
        term = online.record(
            at_env(0),
            at_env(state, path[0]),
            at_env(float(won and last), 0.0),
            at_env(last and not cut, False),
            at_env(last and cut, False),
            ended,
            [won] * len(ended),
            partly=True,
        )
        terms.append(term[env])
    return terms


class World:
    """A random MDP in which some (s, a, s') end the episode, whatever state they lead to; some of those are wins."""

    def __init__(self, seed: int, states: int = 5, actions: int = 3) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.states, self.actions = states, actions
        shape = (states, actions, states)
        self.chance = rng.dirichlet(np.full(states, 0.3), size=(states, actions))
        self.ends = rng.random(shape) < 0.25
        self.wins = self.ends & (rng.random(shape) < 0.4)
        self.reward = np.where(self.wins, 1.0, 0.0) + rng.normal(size=shape) * 0.3

    def q_values(self, reward: np.ndarray) -> np.ndarray:
        """Q of the best policy, by value iteration."""
        q = np.zeros((self.states, self.actions))
        for _ in range(300):
            ahead = np.where(self.ends, 0.0, q.max(axis=1))
            q = (self.chance * (reward + GAMMA * ahead)).sum(axis=2)
        return q

    def explore(self, online: OnlinePotential, episodes: int) -> None:
        """Play random episodes of different length in the first environment; some are truncated."""
        for _ in range(episodes):
            state, over = int(self.rng.integers(self.states)), False
            path, wins, limit = [state], False, int(self.rng.integers(1, 12))
            while not over and len(path) <= limit:
                action = int(self.rng.integers(self.actions))
                after = int(self.rng.choice(self.states, p=self.chance[state, action]))
                over, wins = bool(self.ends[state, action, after]), bool(self.wins[state, action, after])
                path.append(after)
                state = after
            play(online, path, won=wins, cut=not over)

    def shaping(self, online: OnlinePotential, *, keep_at_the_end: bool = False) -> np.ndarray:
        """The term of every (s, a, s'), each played in an environment of its own."""
        s, a, after = (index.reshape(-1) for index in np.indices(self.ends.shape))
        ends = self.ends.reshape(-1)
        online.begin(range(len(s)), s.tolist(), ["t"] * len(s))
        terminated = np.zeros_like(ends) if keep_at_the_end else ends
        truncated = ~terminated & (np.arange(len(s)) % 2 == 0)  # a time limit changes nothing
        term = online.record(a.tolist(), after.tolist(), self.reward.reshape(-1), terminated, truncated)
        online.abort()
        return term.reshape(self.ends.shape)


def best_actions(q: np.ndarray) -> list[set[int]]:
    return [set(np.flatnonzero(row >= row.max() - 1e-9).tolist()) for row in q]


@pytest.mark.parametrize("method", METHODS, ids=["graphgpo", "graft", "graft-rewards", "rewardflow"])
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_best_policy_is_the_same(method, seed):
    world = World(seed)
    online = potential(method, world.ends.size)
    world.explore(online, 30)
    phi = online.potential_of("t").lookup(online.states.intern_batch(list(range(world.states)), world.states))
    plain = world.q_values(world.reward)
    shaped = world.q_values(world.reward + world.shaping(online))
    np.testing.assert_allclose(shaped, plain - phi[:, None], rtol=0, atol=1e-9)
    assert best_actions(shaped) == best_actions(plain)


def test_a_potential_kept_at_the_end_would_change_the_best_policy():
    changed, shaped = 0, 0
    for seed in range(10):
        world = World(seed)
        online = potential(GraphGPO(omega=0.5), world.ends.size)
        world.explore(online, 30)
        plain = best_actions(world.q_values(world.reward))
        wrong = best_actions(world.q_values(world.reward + world.shaping(online, keep_at_the_end=True)))
        changed += wrong != plain
        shaped += bool(world.shaping(online).any())
    assert changed >= 5
    assert shaped >= 7


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), method=st.sampled_from(METHODS))
def test_terms_of_an_episode_add_up_to_its_ends(seed, method):
    """Whatever its length: -Phi of its start, plus the discounted Phi of its last state where it was truncated."""
    world = World(seed)
    online = potential(method, 2, update_every=1e-9)
    rng = np.random.default_rng(seed)
    world.explore(online, 10)
    for _ in range(5):
        path = rng.integers(world.states, size=rng.integers(2, 10)).tolist()
        cut = bool(rng.random() < 0.5)
        phi = online.potential_of("t").lookup(
            online.states.intern_batch(list(range(world.states)), world.states)
        )
        online.begin([1], [path[0]], ["t"])
        total = 0.0
        for i, state in enumerate(path[1:]):
            # The other environment wins with every step meanwhile; Phi of the running episode stays.
            online.begin([0], [int(rng.integers(world.states))], ["t"])
            last = i == len(path) - 2
            terminated, truncated = [True, last and not cut], [False, last and cut]
            ended = [0, 1] if last else [0]
            term = online.record([i] * 2, [0, state], [0.0] * 2, terminated, truncated, ended, [True, False])
            total += GAMMA**i * term[1]
        end = GAMMA ** (len(path) - 1) * phi[path[-1]] if cut else 0.0
        assert total == pytest.approx(end - phi[path[0]], abs=1e-9)


def test_literals_on_a_line():
    online = potential(GraphGPO(omega=0.5, r_succ=8.0), 2)
    assert play(online, ["s", "a", "g"], won=True) == [0.0, 0.0]  # nothing was known
    # now Phi(s) = 8 / 4, Phi(a) = 8 / 2, and g was only ever reached at the end
    assert play(online, ["s", "a", "g"], won=True) == pytest.approx([0.9 * 4 - 2, -4.0])
    assert play(online, ["s", "new", "a"], won=False) == pytest.approx([-2.0, 0.0])
    assert play(online, ["s", "new", "a"], won=False, cut=True) == pytest.approx([0.9 * 2 - 2, 0.9 * 4 - 2])
    assert play(online, ["s", "a"], won=False, task="another") == [0.0]
    online.observe(Transitions.from_columns(
        task=["another"], episode=[0], step=[0], state=["a"], action=[0], next_state=["x"],
        reward=[1.0], terminated=[True], truncated=[False],
    ))  # fmt: skip
    assert online.num_transitions == 10
    assert play(online, ["s", "a"], won=False, task="another") == pytest.approx([-2.0])


def test_the_first_state_is_the_task_unless_told_otherwise():
    online = potential("graphgpo", 1, states=spaces.Box(0, 9, (2,), np.float32))
    starts = np.array([[1, 2]], np.float32)
    for expected in (0.0, -1.0):
        online.begin([0], starts)
        term = online.record([0], starts + 1, [1.0], [True], [False], [0], [None])
        assert term.tolist() == [expected]
    assert online.potential_of(starts[0]).lookup(online.states.intern_batch(starts, 1)).tolist() == [1.0]
    assert online.potential_of(starts[0] + 1).lookup(online.states.intern_batch(starts, 1)).tolist() == [0.0]


def test_final_states_may_come_apart():
    """Where `next_states` has the first state of the next episode, as with SAME_STEP."""
    online = potential(GraphGPO(omega=0.5, r_succ=8.0), 1)
    play(online, ["s", "a", "g"], won=True)
    online.begin([0], ["s"], ["t"])
    term = online.record([0], ["s"], [0.0], [False], [True], [0], [False], finals=["a"])
    assert term == pytest.approx([0.9 * 4 - 2])


@pytest.mark.parametrize(
    ("reward", "terminated", "success", "known"),
    [
        (1.0, True, None, 4.0),
        (1.0, True, False, 0.0),
        (0.0, True, None, 0.0),
        (0.0, False, True, 4.0),
        (1.0, False, None, 0.0),
        (float("nan"), True, True, 0.0),
    ],
)
def test_what_a_success_is(reward, terminated, success, known):
    online = potential(GraphGPO(omega=0.5, r_succ=8.0), 1)
    online.begin([0], ["s"], ["t"])
    online.record([0], ["g"], [reward], [terminated], [not terminated], [0], [success])
    assert online.potential_of("t").lookup(online.states.intern_batch(["s"], 1)).tolist() == [known]


@given(seed=st.integers(0, 2**32 - 1), method=st.sampled_from(METHODS))
@settings(max_examples=25)
def test_equals_the_potential_of_all_that_is_remembered(seed, method):
    rng = np.random.default_rng(seed)
    online = potential(method, 1, update_every=1e-9)
    rows: dict[str, list] = {name: [] for name in ("episode", "step", "state", "next_state", "terminated")}
    for episode in range(6):
        path = rng.integers(6, size=rng.integers(2, 8)).tolist()
        play(online, path, won=episode % 3 == 0)
        for i, (state, after) in enumerate(itertools.pairwise(path)):
            for name, value in zip(rows, (episode, i, state, after, i == len(path) - 2)):
                rows[name].append(value)
    won = [end and episode % 3 == 0 for end, episode in zip(rows["terminated"], rows["episode"])]
    graph = TransitionGraph.from_transitions(
        Transitions.from_columns(
            task=["t"] * len(won), action=[0] * len(won), reward=np.array(won, float),
            truncated=[False] * len(won), **rows,
        )
    )  # fmt: skip
    expected = {
        graph.transitions.state_labels[state]: phi
        for state, phi in zip(graph.node_state.tolist(), method.potential(graph).tolist())
        if state >= 0
    }
    ids = online.states.intern_batch(list(range(6)), 6)
    found = online.potential_of("t").lookup(ids)
    assert found == pytest.approx([expected.get(state, 0.0) for state in range(6)], abs=1e-12)


def test_long_episodes_are_remembered_while_they_run_and_broken_off_ones_too():
    online = potential("graphgpo", 1)
    online.begin([0], [0], ["t"])
    for state in range(1, 601):
        online.record([0], [state], [0.0], [False], [False])
    assert online.num_transitions == 512
    online.abort()
    assert online.num_transitions == 600
    play(online, [600, -1], won=True)
    ids = online.states.intern_batch([600, 598], 2)
    assert online.potential_of("t").lookup(ids) == pytest.approx([1.0, 0.01])


class Counting(GraphGPO):
    """Counts the steps it makes potentials from."""

    sizes: list[int] = []  # noqa: RUF012

    def potential(self, graph):
        self.sizes.append(graph.transitions.num_rows)
        return super().potential(graph)


def test_potentials_are_made_at_the_first_success_and_then_ever_more_rarely():
    Counting.sizes = []
    online = potential(Counting(), 1)
    for _ in range(5):
        play(online, ["s", "a", "b"], won=False)
    assert Counting.sizes == []
    for _ in range(400):
        play(online, ["s", "a", "b"], won=True)
    play(online, ["s", "a", "b"], won=True)
    assert Counting.sizes[0] == 12
    assert all(after >= 1.09 * before for before, after in itertools.pairwise(Counting.sizes))
    assert Counting.sizes[-1] >= 810 / 1.11
    assert online.potential_of("t") is online.potential_of("t")


@pytest.mark.parametrize("kind", ["text", "array"])
def test_potentials_stay_as_they_were_and_memory_flat(kind):
    """States are new in every episode; potentials of long ago still know theirs."""
    space = spaces.Text(20) if kind == "text" else spaces.Box(0, 1e9, (2,))

    def states(numbers: range) -> list:
        return [f"state {i}" if kind == "text" else np.array([i, i], np.float32) for i in numbers]

    def ids(numbers: range) -> np.ndarray:
        values = states(numbers)
        return online.states.intern_batch(values if kind == "text" else np.stack(values), len(values))

    def to_batch(value: Any) -> Any:
        return [value] if kind == "text" else value[None]

    online = potential(
        PersistentGraph(GraphGPO(omega=0.5), max_tasks=10, max_transitions=500), 2, states=space
    )
    held, sizes, held_values = [], [], []
    online.begin([1], to_batch(states(range(1))[0]), ["t 0"])
    for episode in range(300):
        numbers = range(20 * episode, 20 * episode + 21)
        path = states(numbers)
        online.begin([0], to_batch(path[0]), [f"t {episode // 3}"])
        for i, state in enumerate(path[1:]):
            last = i == 19
            batch = [state, path[0]] if kind == "text" else np.stack([state, path[0]])
            online.record(
                [i, 0], batch, [0.0] * 2, [last, False], [False] * 2, [0] * last, [True] * last, partly=True
            )
        if episode in (0, 5):
            held.append((numbers, online.potential_of(f"t {episode // 3}")))
            held_values.append(held[-1][1].lookup(ids(numbers)))
        sizes.append((len(online.states), len(online.actions)))
        assert online.num_transitions <= 500
    for (numbers, snapshot), values in zip(held, held_values):
        assert (values[:20] == 10 * 0.5 ** np.arange(20, 0, -1)).all()
        np.testing.assert_array_equal(snapshot.lookup(ids(numbers)), values)
        assert not snapshot.lookup(ids(range(5000, 5020))).any()
    # what runs all the while has its ids right, too: from the last episode's start it wins with one step
    first = to_batch(path[0])
    online.record(
        [1, 0], np.concatenate([first, first]), [0.0] * 2, [True] * 2, [False] * 2, [1], [True], partly=True
    )
    assert online.potential_of("t 0").lookup(ids(range(20 * episode, 20 * episode + 1))).tolist() == [5.0]
    assert max(size for size, _ in sizes) < 3000  # of 6,000 states in all
    assert max(size for size, _ in sizes[150:]) <= 1.1 * max(size for size, _ in sizes[:150])


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["copy", "pickle"]
)
def test_a_copy_goes_on_alike(copied):
    online = potential(PersistentGraph("graphgpo", max_transitions=300), 1)
    play(online, ["s", "a", "g"], won=True)
    online.begin([0], ["s"], ["t"])
    other = copied(online)
    for one in (online, other):
        assert one.record([0], ["a"], [0.0], [False], [False]) == pytest.approx([0.9 * 1 - 0.1])
        for episode in range(300):  # forgets the first episode, and gives new ids
            play(one, [f"{episode} {i}" for i in range(10)], won=True, task=episode)
        assert one.num_transitions <= 300
    assert len(online.states) == len(other.states) < 1500


def test_an_episode_that_begins_breaks_off_the_running_one():
    online = potential("graphgpo", 2)
    online.begin([0, 1], ["s", "s"], ["t", "t"])
    online.record([0, 0], ["a", "b"], [0.0, 0.0], [False] * 2, [False] * 2)
    online.begin([1], ["s"], ["t"])
    assert online.num_transitions == 1
    online.abort()
    assert online.num_transitions == 2


def test_errors():
    with pytest.raises(ValueError, match=r"GRPO has no potential.*GraphGPO, GRAFT, RewardFlow"):
        potential("grpo", 1)
    with pytest.raises(ValueError, match=r"gamma must be in \[0, 1\].*1.5"):
        OnlinePotential("graft", make_table(), make_table(), 1, gamma=1.5)
    with pytest.raises(TypeError, match="gamma must be a number, got '1'"):
        OnlinePotential("graft", make_table(), make_table(), 1, gamma="1")
    with pytest.raises(ValueError, match=r"update_every must be greater than 0.*0"):
        potential("graft", 1, update_every=0)
    online = potential("graft", 2)
    online.begin([0], ["s"], ["t"])
    with pytest.raises(RuntimeError, match="env 1 has none"):
        online.record([0] * 2, ["a"] * 2, [0.0] * 2, [False] * 2, [False] * 2)
    assert online.record([0] * 2, ["a"] * 2, [0.0] * 2, [False] * 2, [False] * 2, partly=True).tolist() == [
        0.0,
        0.0,
    ]
    with pytest.raises(TypeError, match="no hash"):
        online.begin([1], ["s"], [Unhashable()])


class Unhashable:
    __hash__ = None
