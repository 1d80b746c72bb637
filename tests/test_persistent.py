"""`PersistentGraph` against a slow computation, and what it keeps and forgets."""

from __future__ import annotations

import copy
import pickle
from collections import defaultdict
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwrap
from graphwrap import GRAFT, GRPO, GraphGPO, PersistentGraph, RewardFlow, TransitionGraph, Transitions
from graphwrap.credit import CreditMethod
from graphwrap.states import state_key

from .builders import walks
from .helpers import make_line

SUCCESS, FAILURE = 0, 1
GOAL, FAIL = ("sink", "goal"), ("sink", "failure")
WITHOUT_GRAPH = ["grpo", "rloo", "gigpo", "salt", "rtmc", "gigpo-reference"]


class Step(NamedTuple):
    task: Any
    episode: Any
    step: int
    state: Any
    action: Any
    after: Any
    reward: float
    cost: float
    outcome: int
    left: int  # steps of the episode after this one


def batch_of(seed: int, shift: int, *, state: int = 0, **options: Any) -> Transitions:
    """Random walks with their rows in random order; `shift` moves the labels of the episodes, `state` of the states."""
    rng = np.random.default_rng(seed)
    columns = walks(
        rng, tasks=2, states=5, length=6, slip=0.2, unfinished=0.2, costs=True, rewards=True, **options
    )
    columns["episode"] = [label + shift for label in columns["episode"]]
    for name in ("state", "next_state"):
        columns[name] = [label + state for label in columns[name]]
    order = rng.permutation(len(columns["task"]))
    return Transitions.from_columns(**{name: [column[i] for i in order] for name, column in columns.items()})


def steps_of(t: Transitions) -> list[Step]:
    lengths = np.diff(t.episode_offsets)
    return [
        Step(
            t.task_labels[t.task[i]],
            t.episode_labels[t.episode[i]],
            int(t.step[i]),
            t.state_labels[t.state[i]],
            t.action_labels[t.action[i]],
            t.state_labels[t.next_state[i]],
            float(t.reward[i]),
            float(t.cost[i]),
            int(t.outcome[t.episode[i]]),
            int(lengths[t.episode[i]] - 1 - t.step[i]),
        )
        for i in range(t.num_rows)
    ]


def union_of(batches: list[Transitions]) -> list[Step]:
    """All steps; a later episode with the same task and label stands for an earlier one."""
    episodes: dict[tuple, list[Step]] = {}
    for batch in batches:
        fresh = defaultdict(list)
        for step in steps_of(batch):
            fresh[step.task, step.episode].append(step)
        episodes.update(fresh)
    return [step for steps in episodes.values() for step in steps]


def target(step: Step, *, failure_sink: bool = False) -> Any:
    if step.left == 0 and step.outcome == SUCCESS:
        return GOAL
    if step.left == 0 and step.outcome == FAILURE and failure_sink:
        return FAIL
    return step.after


def distances(union: list[Step], *, unit: bool = False) -> dict:
    """Cost of the cheapest path by (task, state); `d_max + c_max` without one, or inf with unit costs."""
    found: dict = {}
    for task in {step.task for step in union}:
        edges = [(s.state, target(s), 1.0 if unit else s.cost) for s in union if s.task == task]
        d = defaultdict(lambda: np.inf, {GOAL: 0.0})
        for _ in edges:
            for u, v, cost in edges:
                d[u] = min(d[u], d[v] + cost)
        finite = max(value for value in d.values() if np.isfinite(value))
        far = np.inf if unit else finite + max(cost for _, _, cost in edges)
        for u, v, _ in edges:
            for node in (u, v):
                found[task, node] = d[node] if np.isfinite(d[node]) else far
    return found


def norm(values: list[float], scale: float, *, std: bool = True, single: bool = False) -> list[float]:
    if len(values) == 1 and single and abs(values[0]) > 1e-9 * scale:
        return [float(np.sign(values[0]))]
    if len(values) < 2 or max(values) - min(values) <= 1e-9 * scale:
        return [0.0] * len(values)
    x = np.array(values) - np.mean(values)
    return list(x / np.std(values, ddof=1) if std else x)


def in_groups(keys: list, values: list[float], scale: Any, **options: bool) -> np.ndarray:
    result = np.zeros(len(keys))
    for key in set(keys):
        rows = [i for i, other in enumerate(keys) if other == key]
        result[rows] = norm([values[i] for i in rows], scale(key), **options)
    return result


def outcome_part(batch: list[Step], *, std: bool = True) -> np.ndarray:
    """A^E over the episodes of the batch."""
    returns: dict[tuple, float] = defaultdict(float)
    for step in batch:
        if step.outcome in (SUCCESS, FAILURE):
            returns[step.task, step.episode] += step.reward
    episodes = list(returns)
    values = [returns[episode] for episode in episodes]
    largest = {task: max(abs(returns[e]) for e in episodes if e[0] == task) for task, _ in episodes}
    normed = in_groups([task for task, _ in episodes], values, lambda task: largest[task], std=std)
    of_episode = dict(zip(episodes, normed))
    return np.array([of_episode.get((step.task, step.episode), 0.0) for step in batch])


def slow_graphgpo(method: GraphGPO, union: list[Step], batch: list[Step]) -> np.ndarray:
    d = distances(union)
    solved = {step.task for step in union if step.outcome == SUCCESS}
    exponents = []
    for step in batch:
        exponent = d[step.task, target(step)] + (step.cost if method.exponent != "next" else 0.0)
        exponents.append(exponent - (d[step.task, step.state] if method.exponent == "progress" else 0.0))
    keys = [(step.task, step.state) for step in batch]
    least = {key: min(e for e, other in zip(exponents, keys) if other == key) for key in keys}
    if method.std:
        values = [method.omega ** (e - least[key]) for e, key in zip(exponents, keys)]
        part = in_groups(keys, values, lambda key: 1.0)
    else:
        values = [method.r_succ * method.omega**e for e in exponents]
        part = in_groups(keys, values, lambda key: method.r_succ * method.omega ** least[key], std=False)
    part *= [step.task in solved for step in batch]
    return part + outcome_part(batch, std=method.std)


def slow_rewardflow(method: RewardFlow, union: list[Step], batch: list[Step]) -> np.ndarray:
    value = {node: method.r_succ * method.gamma**hops for node, hops in distances(union, unit=True).items()}
    gain = [value[step.task, target(step)] - value[step.task, step.state] for step in batch]
    keys = [(step.task, step.state) for step in batch]
    return in_groups(keys, gain, lambda key: method.r_succ, std=False) + outcome_part(batch, std=False)


def slow_graft(method: GRAFT, union: list[Step], batch: list[Step]) -> np.ndarray:
    gamma, decay = method.gamma, method.gamma * method.lam
    result = np.zeros(len(batch))
    for task in {step.task for step in batch}:
        edges: dict[tuple, list[float]] = defaultdict(list)
        for step in union:
            if step.task == task:
                edges[step.state, step.action, target(step, failure_sink=True)].append(step.reward)
        leaving = defaultdict(list)
        for edge in edges:
            leaving[edge[0]].append(edge)
        visits = {u: sum(len(edges[e]) for e in out) for u, out in leaving.items()}

        def weight(edge: tuple, edges: dict = edges, leaving: dict = leaving, visits: dict = visits) -> float:
            if method.action_weighting == "empirical":
                return len(edges[edge]) / visits[edge[0]]
            same = sum(len(edges[e]) for e in leaving[edge[0]] if e[1] == edge[1])
            return len(edges[edge]) / same / len({e[1] for e in leaving[edge[0]]})

        mean = {e: np.mean(r) if method.step_rewards else 0.0 for e, r in edges.items()}
        value = defaultdict(float, {GOAL: 0.0 if method.step_rewards else 1.0})
        weights = {edge: weight(edge) for edge in edges}
        for _ in range(400):
            for u, out in leaving.items():
                value[u] = sum(weights[e] * (mean[e] + gamma * value[e[2]]) for e in out)
        one_step = {e: mean[e] + gamma * value[e[2]] - value[e[0]] for e in edges}

        rows = [i for i, step in enumerate(batch) if step.task == task]
        gae, size = [], 0.0
        for i in rows:
            step = batch[i]
            to = target(step, failure_sink=True)
            reward = step.reward if method.step_rewards else 0.0
            total = reward + gamma * value[to] - value[step.state]
            size = max(size, abs(value[step.state]), abs(reward))
            frontier = {to}
            for k in range(1, step.left + 1):
                ahead = [e for u in frontier for e in leaving.get(u, ())]
                counts = [len(edges[e]) if method.hop_edges == "occurrences" else 1 for e in ahead]
                if ahead:
                    total += decay**k * np.average([one_step[e] for e in ahead], weights=counts)
                frontier = {e[2] for e in ahead}
            gae.append(total)
        keys = [batch[i].state for i in rows]
        result[rows] = in_groups(keys, gae, lambda key, size=size: size, single=True)
    return result


SLOW = {GraphGPO: slow_graphgpo, RewardFlow: slow_rewardflow, GRAFT: slow_graft}


@pytest.mark.parametrize(
    "method",
    [
        GraphGPO(omega=0.4),
        GraphGPO(omega=0.4, exponent="next"),
        GraphGPO(omega=0.4, exponent="progress", std=False),
        RewardFlow(),
        GRAFT(gamma=0.9),
        GRAFT(gamma=0.9, step_rewards=True, action_weighting="uniform"),
        GRAFT(gamma=0.9, lam=0.8, hop_edges="occurrences", action_weighting="uniform"),
    ],
    ids=["cost", "next", "progress", "rewardflow", "graft", "graft-rewards", "graft-occurrences"],
)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), shifts=st.tuples(*[st.sampled_from([0, 2, 10])] * 2))
def test_equals_a_slow_computation(method, seed, shifts):
    batches = [batch_of(seed, 0), batch_of(seed + 1, shifts[0]), batch_of(seed + 2, shifts[1], episodes=3)]
    persistent = PersistentGraph(method)
    for number, batch in enumerate(batches, start=1):
        union, rows = union_of(batches[:number]), steps_of(batch)
        credit = persistent(batch)
        assert credit.advantages == pytest.approx(SLOW[type(method)](method, union, rows), abs=1e-7)
        d = distances(union)
        graph = credit.graph
        assert credit.distances[graph.source] == pytest.approx([d[s.task, s.state] for s in rows], abs=1e-12)
        assert credit.distances[graph.target] == pytest.approx(
            [d[s.task, target(s)] for s in rows], abs=1e-12
        )
        assert persistent.num_transitions == len(union)


@pytest.mark.parametrize("name", graphwrap.credit_names())
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_with_nothing_remembered_it_is_the_plain_method(name, seed):
    batch = batch_of(seed, 0)
    persistent = PersistentGraph(name)
    plain = graphwrap.make_credit(name)(batch)
    for data in (
        batch,
        TransitionGraph.from_transitions(batch),
    ):  # and the same episodes again stand for themselves
        credit = persistent(data)
        np.testing.assert_array_equal(credit.advantages, plain.advantages)
        np.testing.assert_array_equal(credit.distances, plain.distances)
        assert credit.diagnostics == pytest.approx(plain.diagnostics, nan_ok=True)


@pytest.mark.parametrize("name", WITHOUT_GRAPH)
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_methods_without_a_graph_give_what_they_give(name, seed):
    persistent = PersistentGraph(name)
    persistent(batch_of(seed, 0))
    batch = batch_of(seed + 1, 10)
    np.testing.assert_array_equal(persistent(batch).advantages, graphwrap.make_credit(name)(batch).advantages)


def episode(path: str, *, won: bool, task: Any = "t", label: Any = 0, **columns: list) -> Transitions:
    """An episode through the states of `path`, a letter each."""
    n = len(path) - 1
    return Transitions.from_columns(
        **{
            "task": [task] * n,
            "episode": [label] * n,
            "step": list(range(n)),
            "state": list(path[:-1]),
            "action": list(path[1:]),
            "next_state": list(path[1:]),
            "reward": [0.0] * (n - 1) + [float(won)],
            "terminated": [False] * (n - 1) + [True],
            "truncated": [False] * n,
            **columns,
        }
    )


def two_failures(label: int = 0) -> Transitions:
    """s -> a and s -> b, both failed."""
    return Transitions.concat(
        [episode("sa", won=False, label=label), episode("sb", won=False, label=label + 1)]
    )


@pytest.mark.filterwarnings("ignore:almost all", "ignore:every step")
def test_an_earlier_success_gives_credit_to_failures():
    persistent = PersistentGraph(GraphGPO(omega=0.5))
    assert persistent(two_failures()).advantages.tolist() == [0.0, 0.0]
    persistent(episode("sbg", won=True, label=2))
    credit = persistent(two_failures(label=3))
    # d(b) = 1; a cannot reach the goal and is d_max + c_max = 2 + 1 away
    assert credit.distances.tolist() == [0.0, 2.0, 3.0, 1.0]
    assert credit.graph.reachable.tolist() == [True, True, False, True]
    assert credit.advantages == pytest.approx([-(0.5**0.5), 0.5**0.5])
    assert credit.episode_advantages.tolist() == [0.0, 0.0]
    assert credit.graph.solved.tolist() == [True]
    assert credit.diagnostics["episodes"] == 2
    assert credit.diagnostics["remembered_steps"] == 4
    assert credit.diagnostics["no_success_share"] == 1
    assert credit.diagnostics["progress_in_failures"] == 0.5
    assert persistent.method.potential(credit.graph) == pytest.approx([0.0, 2.5, 0.0, 5.0])
    np.testing.assert_array_equal(
        persistent.potential(credit.graph), GraphGPO(omega=0.5).potential(credit.graph)
    )
    # of another task nothing is known
    with pytest.warns(UserWarning, match="credit 0"):
        assert not persistent(episode("sbg", won=False, task="u")).advantages.any()


@pytest.mark.filterwarnings("ignore:almost all", "ignore:every step")
def test_values_and_their_potential_come_from_the_union():
    persistent = PersistentGraph(GRAFT(gamma=0.5))
    persistent(episode("sbg", won=True))
    credit = persistent(two_failures(label=1))
    # b: won from there once. s: to b once, to the failure sink twice
    assert credit.values == pytest.approx([1.0, 0.25 / 3, 0.0, 0.5])
    assert credit.graph.values(gamma=0.5) == pytest.approx(credit.values)
    assert persistent.potential(credit.graph) == pytest.approx([0.0, 0.25 / 3, 0.0, 0.5])


@pytest.mark.filterwarnings("ignore:almost all", "ignore:every step")
def test_a_running_episode_that_comes_again_counts_once():
    running = {"terminated": [False], "success": [None]}
    persistent = PersistentGraph(GRAFT(gamma=0.5))
    persistent(episode("sa", won=False, **running))
    assert persistent.num_transitions == 1
    persistent(episode("sag", won=True))  # its next window: longer, and with an outcome
    assert persistent.num_transitions == 2
    credit = persistent(episode("sb", won=False, label=1))
    assert credit.values == pytest.approx([1.0, 0.125, 0.0])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["a", "b"], ["b", "a"]),
        ([1, 2], [2, 1]),
        ([1, 2], [2, "a"]),
        ([True, False], [True, 1]),
        ([0.5, float("nan")], [float("nan"), 0.5]),
        ([np.array([1, 2]), np.array([3, 4])], [np.array([3, 4]), np.array([1, 2])]),
        ([np.array([1, 2]), np.array([3, 4])], [np.array([3, 4]), "text"]),
        ([np.array([1, 2]), np.array([3, 4])], [np.array([3, 4], np.int32), np.array([3.0, 4.0])]),
        ([{"x": 1}, {"x": 2}], [{"x": 2}, {"x": 3}]),
        ([np.full(9999, 1), np.full(9999, 2)], [np.full(9999, 2), np.full(9999, 3)]),
        ([np.full(9999, 1), np.full(9999, 2)], ["text", np.full(9999, 2)]),
    ],
    ids=[
        "text",
        "int",
        "int-mixed",
        "bool",
        "nan",
        "array",
        "array-mixed",
        "array-dtypes",
        "dict",
        "large",
        "large-mixed",
    ],
)
def test_states_are_matched_by_key(first, second):
    """The first batch leaves both of its states, one of them by a win; what the second one meets again is known."""

    def of(states: list, label: int, won: bool) -> Transitions:
        return Transitions.from_columns(
            task=["t"] * 2,
            episode=[label, label + 1],
            step=[0, 0],
            state=states,
            action=[0, 0],
            next_state=["end"] * 2,
            reward=[0.0, 0.0],
            terminated=[True] * 2,
            truncated=[False] * 2,
            success=[False, won],
        )

    def key(state: Any) -> Hashable:
        return state_key(state, fingerprint_above=4096)

    persistent = PersistentGraph()
    persistent(of(first, 0, True))
    graph = persistent(of(second, 2, False)).graph
    won = key(first[1])
    found = {
        key(graph.transitions.state_labels[state]): bool(reachable)
        for state, reachable in zip(graph.node_state, graph.reachable)
        if state >= 0
    }
    assert found == {**dict.fromkeys(found, False), **({won: True} if won in found else {})}
    assert (won in found) == any(key(state) == won for state in second)


@pytest.mark.filterwarnings("ignore:almost all", "ignore:every step")
def test_the_oldest_episodes_go_first():
    persistent = PersistentGraph(max_transitions=5)
    persistent(episode("sag", won=True, label=0))
    persistent(episode("sbg", won=True, label=1))
    assert persistent.num_transitions == 4
    credit = persistent(episode("sab", won=False, label=2))  # the union still has all of them
    assert credit.distances.tolist() == [0.0, 2.0, 1.0, 1.0]
    assert persistent.num_transitions == 4
    credit = persistent(episode("sab", won=False, label=3))
    assert credit.distances.tolist() == [0.0, 2.0, 2.0, 1.0]  # a -> goal is forgotten
    credit = persistent(episode("abcdefgh", won=True, label=4))
    assert credit.graph.union.transitions.num_rows == 7 + 4
    assert persistent.num_transitions == 0  # longer than the bound: everything before it is older


@pytest.mark.filterwarnings("ignore:almost all", "ignore:every step")
def test_the_tasks_last_used_are_kept():
    persistent = PersistentGraph(max_tasks=2)
    for label, task in enumerate("tutv"):
        persistent(episode("sg", won=True, task=task, label=label))
    assert persistent.num_tasks == 2
    assert persistent(episode("ss", won=False, task="t", label=9)).graph.solved.tolist() == [True]
    assert persistent(episode("ss", won=False, task="u", label=9)).graph.solved.tolist() == [False]


def test_a_call_looks_at_the_tasks_of_its_batch_only():
    persistent = PersistentGraph(GraphGPO())
    persistent(batch_of(0, 0))
    columns = walks(np.random.default_rng(1), tasks=1)
    columns["episode"] = [label + 10 for label in columns["episode"]]
    graph = persistent(Transitions.from_columns(**columns)).graph
    assert graph.union.transitions.num_tasks == 1


@pytest.mark.filterwarnings("ignore:almost all", "ignore:every step")
@pytest.mark.parametrize("states", ["int", "text", "array"])
def test_memory_is_flat_over_many_windows(states):
    make = {"int": int, "text": str, "array": lambda i: np.array([i, i])}[states]
    persistent = PersistentGraph(GraphGPO(), max_tasks=20, max_transitions=3000)
    sizes = []
    for window in range(200):
        path = [make(i) for i in range(100 * window, 100 * window + 101)]  # every state is new
        persistent(
            Transitions.from_columns(
                task=[window // 4] * 100,
                episode=[window] * 100,
                step=list(range(100)),
                state=path[:-1],
                action=path[1:],
                next_state=path[1:],
                reward=[0.0] * 100,
                terminated=[False] * 99 + [True],
                truncated=[False] * 100,
                success=[True] * 100,
            )
        )
        assert persistent.num_transitions == min(3000, 100 * (window + 1))
        sizes.append((len(persistent._states), len(persistent._actions), len(pickle.dumps(persistent))))
    # 30 episodes of 101 states are kept, and at most as many are waiting to be forgotten
    assert max(size for size, _, _ in sizes) <= 2 * 30 * 101 + 100
    assert max(size for _, size, _ in sizes) <= 2 * 30 * 100 + 100
    assert max(size for _, _, size in sizes[100:]) <= 1.05 * max(size for _, _, size in sizes[:100])


@pytest.mark.filterwarnings("ignore:almost all", "ignore:every step")
def test_what_is_remembered_survives_forgetting():
    """Ids are given anew when labels are forgotten; what is known of a task stays right."""
    rng = np.random.default_rng(0)
    small = PersistentGraph(GRAFT(), max_transitions=400)
    seeds = rng.integers(2**32, size=150)
    batches = [batch_of(int(seed), 10 * i, state=i // 4) for i, seed in enumerate(seeds)]
    for i, batch in enumerate(batches):
        credit = small(batch)
        if i % 10 == 9:
            kept, total = [], 0
            for earlier in reversed(
                batches[:i]
            ):  # episodes of a batch get old in the order of their labels' ids
                for e in reversed(range(earlier.num_episodes)):
                    part = earlier.select(earlier.episode == e)
                    total += part.num_rows
                    if total <= 400:
                        kept.append(part)
                if total > 400:
                    break
            fresh = PersistentGraph(GRAFT())
            fresh(Transitions.concat(kept[::-1]))
            np.testing.assert_allclose(credit.advantages, fresh(batch).advantages, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))], ids=["copy", "pickle"]
)
def test_a_copy_remembers_and_goes_its_own_way(copied):
    persistent = PersistentGraph("graft")
    persistent(batch_of(0, 0))
    other = copied(persistent)
    assert other.num_transitions == persistent.num_transitions > 0
    batch = batch_of(1, 10)
    expected = persistent(batch).advantages
    np.testing.assert_array_equal(other(batch).advantages, expected)
    assert not np.array_equal(expected, GRAFT()(batch).advantages)
    persistent(batch_of(2, 20))
    assert other.num_transitions < persistent.num_transitions


def test_an_error_of_the_method_leaves_the_memory_as_it_is():
    class Broken(GRPO):
        def compute(self, graph):
            raise RuntimeError("broken")

    persistent = PersistentGraph(Broken())
    with pytest.raises(RuntimeError, match="broken"):
        persistent(batch_of(0, 0))
    assert persistent.num_transitions == 0


def test_is_a_method_like_any_other():
    persistent = PersistentGraph("graphgpo-reference", max_tasks=7)
    assert graphwrap.make_credit(persistent) is persistent
    assert isinstance(persistent, CreditMethod)
    assert persistent.method == graphwrap.make_credit("graphgpo-reference")
    assert repr(persistent).startswith("PersistentGraph(credit=GraphGPO(omega=0.1")
    assert persistent != PersistentGraph("graphgpo-reference", max_tasks=7)
    assert len({persistent, PersistentGraph()}) == 2
    assert persistent.has_potential
    assert not PersistentGraph("gigpo").has_potential
    empty = graphwrap.make_credit(persistent, max_tasks=3)
    assert (empty.max_tasks, empty.num_transitions) == (3, 0)
    with pytest.raises(ValueError, match=r"GRPO has no potential.*GRAFT"):
        PersistentGraph("grpo").potential(TransitionGraph.from_transitions(batch_of(0, 0)))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: PersistentGraph("graphpgo"), ValueError, ["'graphpgo'", "did you mean 'graphgpo'"]),
        (lambda: PersistentGraph(3), TypeError, ["3", "GraphGPO()"]),
        (lambda: PersistentGraph(PersistentGraph()), ValueError, ["credit=", "memory"]),
        (lambda: PersistentGraph(max_tasks=0), ValueError, ["max_tasks", "at least 1", "0"]),
        (lambda: PersistentGraph(max_transitions=1.5), TypeError, ["max_transitions", "whole number", "1.5"]),
        (lambda: PersistentGraph(max_tasks=True), TypeError, ["max_tasks", "True"]),
        (lambda: PersistentGraph()([1]), TypeError, ["PersistentGraph", "list", "from_columns"]),
        (lambda: graphwrap.make_credit(PersistentGraph(), omega=1), TypeError, ["'omega'", "max_tasks"]),
    ],
)
def test_errors_state_rule_value_and_way_out(make, error, words):
    with pytest.raises(error) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


def test_an_empty_batch():
    names = ("task", "episode", "step", "state", "action", "next_state", "reward", "terminated", "truncated")
    persistent = PersistentGraph()
    persistent(batch_of(0, 0))
    assert persistent(Transitions.from_columns(**{name: [] for name in names})).advantages.shape == (0,)


@pytest.mark.filterwarnings("ignore:almost all", "ignore:every step", "ignore:outcomes were inferred")
def test_windows_of_a_recorder():
    """Context rows come again in the next window and count once; a later window knows the way of an earlier one."""
    persistent = PersistentGraph(GraphGPO())
    env = graphwrap.wrap(make_line(observations="discrete", flags=True), persistent, task="single")
    env.reset(seed=0)
    steps = 0
    for window in range(6):
        for _ in range(4):
            _, _, terminated, truncated, _ = env.step(1 if window == 0 else 0)
            steps += 1
            if terminated or truncated:
                env.reset()
        credit = env.assign_credit(unfinished="graph").credit
        assert persistent.num_transitions == steps
        if window > 1:
            assert credit.graph.solved.tolist() == [True]
