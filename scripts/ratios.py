"""Two ways of doing the same, measured in turn: credit against SciPy, and training with credit against without."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

ENV_ID = "graphwrap/Sokoban-v0"


@dataclass(frozen=True)
class Ratio:
    """Two ways of doing the same, measured in turn."""

    name: str
    what: str
    ours: str
    other: str
    unit: str
    ours_each: list[float]
    other_each: list[float]
    limit: float
    at_most: bool  # whether the ratio ours / other should be at most `limit`, else at least
    details: dict[str, float]

    @property
    def ratios(self) -> list[float]:
        """ours / other of each pair."""
        return [ours / other for ours, other in zip(self.ours_each, self.other_each)]

    @property
    def median(self) -> float:
        """Median ratio of the pairs."""
        return float(np.median(self.ratios))

    @property
    def holds(self) -> bool:
        """Whether the median keeps the limit."""
        return self.median <= self.limit if self.at_most else self.median >= self.limit


def interleaved(
    ours: Callable[[], float],
    other: Callable[[], float],
    pairs: int,
    on_pair: Callable[[], None] | None = None,
) -> tuple[list[float], list[float]]:
    """Measure both in turn, the one that goes first alternating.

    Args:
        ours: measures once and returns the number.
        other: the same.
        pairs: how often each is measured.
        on_pair: called after each pair.
    """
    first: list[float] = []
    second: list[float] = []
    for pair in range(pairs):
        if pair % 2 == 0:
            first.append(ours())
            second.append(other())
        else:
            second.append(other())
            first.append(ours())
        if on_pair is not None:
            on_pair()
    return first, second


def _seconds(function: Callable[[], Any]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def random_transitions(rows: int, tasks: int, seed: int = 0) -> Any:
    """Integer-state transitions of random walks, in 20 episodes of up to 50 steps of each task.

    Each task is a random deterministic MDP of 220 states and 4 actions with one goal, so that about five steps leave
    a state, as in the papers' runs, and about a fifth of the episodes succeed.

    Args:
        rows: how many; the last episode is cut there.
        tasks: number of tasks; each has as many rows as any other.
        seed: of the walks.
    """
    from graphwrap import Transitions

    states, actions, length = 220, 4, 50
    rng = np.random.default_rng(seed)
    episodes = -(-rows * 3 // (2 * length) // tasks) * tasks  # some end before their limit
    successor = rng.integers(states, size=(tasks, states, actions))
    task = np.arange(episodes) % tasks
    chosen = rng.integers(actions, size=(episodes, length))
    place = np.zeros((episodes, length + 1), np.int64)
    for t in range(length):
        place[:, t + 1] = successor[task, place[:, t], chosen[:, t]]
    at_goal = place[:, 1:] == states - 1
    won = at_goal.any(axis=1)
    lengths = np.where(won, at_goal.argmax(axis=1) + 1, length)
    real = np.arange(length) < lengths[:, None]
    episode, step = (index[:rows] for index in np.nonzero(real))
    last = step == lengths[episode] - 1
    return Transitions.from_columns(
        task=task[episode],
        episode=episode,
        step=step,
        state=place[episode, step],
        action=chosen[episode, step],
        next_state=place[episode, step + 1],
        reward=(last & won[episode]).astype(np.float64),
        terminated=last & won[episode],
        truncated=last & ~won[episode],
    )


def graph_ratio(rows: int, tasks: int, pairs: int, on_pair: Callable[[], None] | None = None) -> Ratio:
    """CSR, distances and GraphGPO credit, against SciPy's CSR and Dijkstra on the same arrays."""
    from scipy.sparse import csgraph, csr_matrix

    from graphwrap import GraphGPO, TransitionGraph

    transitions = random_transitions(rows, tasks)
    method = GraphGPO(omega=0.8)
    graph = TransitionGraph.from_transitions(transitions)
    source, target, goal, num_nodes = graph.source, graph.target, graph.goal, graph.num_nodes
    ones = np.ones(len(source))

    def scipy_distances() -> np.ndarray:
        backwards = csr_matrix((ones, (target, source)), shape=(num_nodes, num_nodes))
        return csgraph.dijkstra(backwards, unweighted=True, min_only=True, indices=goal)

    def credit() -> Any:
        return method.compute(TransitionGraph.from_transitions(transitions))

    # Both warmed up, and the same distances.
    expected = scipy_distances()
    credit()
    distances = method(transitions).distances
    reachable = np.isfinite(expected)
    if not (
        np.array_equal(distances[reachable], expected[reachable])
        and np.array_equal(reachable, graph.reachable)
    ):
        raise RuntimeError("graphwrap and SciPy disagree about the distances of the benchmark's graph")
    ours, other = interleaved(lambda: _seconds(credit), lambda: _seconds(scipy_distances), pairs, on_pair)
    alone = [_seconds(lambda: TransitionGraph.from_transitions(transitions).distances) for _ in range(pairs)]
    whole = [_seconds(lambda: method(transitions).diagnostics) for _ in range(pairs)]
    return Ratio(
        "graph",
        f"{len(transitions):,} integer-state transitions in {transitions.num_tasks:,} tasks, {num_nodes:,} nodes, "
        f"{transitions.num_episodes:,} episodes",
        "graphwrap: Transitions to CSR, distances, GraphGPO credit",
        "SciPy: CSR and csgraph.dijkstra(unweighted=True, min_only=True)",
        "s",
        ours,
        other,
        1.0,
        True,
        {
            "seconds for CSR and distances alone": float(np.median(alone)),
            "seconds with diagnostics": float(np.median(whole)),
        },
    )


def training_ratio(
    updates: int, pairs: int, num_envs: int, network: str, on_pair: Callable[[], None] | None = None
) -> Ratio:
    """SB3 PPO with wrapper, groups and callback, against bare PPO, in environment steps per second.

    Every measurement trains a new model from the same seed, so that both meet the same stage of learning. Making the
    environments and the model is not timed.
    """
    import warnings

    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    import graphwrap
    from graphwrap.sb3 import CreditCallback
    from graphwrap.scripts.comparison.settings import Settings
    from graphwrap.scripts.comparison.training import policy_for

    usual = Settings()
    n_steps = usual.n_steps
    gradient_steps: dict[bool, int] = {}

    def measure(wrapped: bool) -> float:
        venv = make_vec_env(ENV_ID, num_envs, wrapper_class=graphwrap.SeededReset if wrapped else None)
        if wrapped:
            venv = graphwrap.wrap(venv, credit=graphwrap.GraphGPO(omega=0.8), group_size=8)
        policy, policy_kwargs = policy_for(venv.observation_space) if network == "grid" else ("MlpPolicy", {})
        model = PPO(
            policy,
            venv,
            learning_rate=usual.learning_rate,
            n_steps=n_steps,
            batch_size=usual.batch_size,
            n_epochs=usual.epochs,
            ent_coef=usual.entropy,
            policy_kwargs=policy_kwargs,
            seed=0,
            device="cpu",
        )
        counted = [0]
        model.policy.optimizer.register_step_post_hook(lambda *_: counted.__setitem__(0, counted[0] + 1))
        steps = updates * n_steps * num_envs
        seconds = _seconds(
            lambda: model.learn(
                steps, callback=CreditCallback() if wrapped else None, log_interval=updates + 1
            )
        )
        gradient_steps[wrapped] = counted[0]
        venv.close()
        return steps / seconds

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message="You have specified a mini-batch size", category=UserWarning
            )
            measure(True)
            measure(False)
            ours, other = interleaved(lambda: measure(True), lambda: measure(False), pairs, on_pair)
    finally:
        torch.set_num_threads(threads)
    return Ratio(
        "training",
        f"Sokoban, {num_envs} environments, {n_steps} steps, {updates} updates of {usual.epochs} epochs, "
        f"one torch thread, {network} network",
        "SB3 PPO with wrapper, groups of 8 and CreditCallback",
        "bare SB3 PPO",
        "steps/s",
        ours,
        other,
        0.95,
        False,
        {
            "gradient steps with": float(gradient_steps[True]),
            "gradient steps bare": float(gradient_steps[False]),
        },
    )
