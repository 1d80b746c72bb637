import dataclasses

import numpy as np
import pytest
from hypothesis import given

import graphwrap
from graphwrap import GRAFT, GRPO, RTMC, GraphGPO, TransitionGraph, Transitions
from graphwrap.credit import CreditMethod, StepCredit
from graphwrap.methods import METHODS

from .builders import COLUMNS, transitions, walks


def test_names_are_the_methods_and_the_presets():
    assert graphwrap.credit_names() == [
        "grpo",
        "rloo",
        "gigpo",
        "graphgpo",
        "graft",
        "salt",
        "rtmc",
        "rewardflow",
        "graphgpo-reference",
        "gigpo-reference",
    ]


def test_make_credit():
    assert graphwrap.make_credit("graphgpo", omega=0.4) == GraphGPO(omega=0.4)
    assert graphwrap.make_credit("graphgpo-reference", omega=0.4) == GraphGPO(
        omega=0.4, exponent="next", episode_statistics="step", eps=1e-6
    )
    method = GRAFT(lam=0.5)
    assert graphwrap.make_credit(method) is method
    assert graphwrap.make_credit(method, gamma=0.9) == GRAFT(lam=0.5, gamma=0.9)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda: graphwrap.make_credit("graphpgo"),
            ValueError,
            ["'graphpgo'", "rewardflow", "did you mean 'graphgpo'"],
        ),
        (lambda: graphwrap.make_credit("rloo", omega=1), TypeError, ["RLOO", "'omega'", "it has none"]),
        (lambda: graphwrap.make_credit("grpo", omega=1), TypeError, ["GRPO", "episode_statistics, std, eps"]),
        (lambda: graphwrap.make_credit(GraphGPO(), gamma=1), TypeError, ["GraphGPO", "'gamma'", "omega"]),
        (lambda: graphwrap.make_credit(3), TypeError, ["3", "GraphGPO()"]),
        (lambda: graphwrap.make_credit(GraphGPO), TypeError, ["class", "GraphGPO()"]),
        (lambda: GraphGPO(omega=1.0), ValueError, ["GraphGPO(omega=)", "in (0, 1)", "1.0"]),
        (lambda: GraphGPO(omega=float("nan")), ValueError, ["omega", "nan"]),
        (lambda: GraphGPO(omega="0.1"), TypeError, ["omega", "'0.1'"]),
        (lambda: GraphGPO(omega=True), TypeError, ["omega", "True"]),
        (lambda: GraphGPO(r_succ=0), ValueError, ["greater than 0", "0"]),
        (lambda: GraphGPO(exponent="nxt"), ValueError, ["'cost', 'next', 'progress'", "'nxt'"]),
        (lambda: GraphGPO(graph_weight=float("inf")), ValueError, ["a finite number", "inf"]),
        (lambda: GRPO(std=1), TypeError, ["True or False", "1"]),
        (lambda: GRPO(eps=-1e-6), ValueError, ["at least 0", "-1e-06"]),
        (lambda: GRAFT(gamma=1.0), ValueError, ["in [0, 1)", "1.0"]),
        (lambda: GRAFT(lam=1.5), ValueError, ["in [0, 1]", "1.5"]),
        (lambda: GRPO()([1, 2]), TypeError, ["GRPO", "list", "from_columns"]),
    ],
)
def test_errors_state_rule_value_and_way_out(make, error, words):
    with pytest.raises(error) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


def test_methods_are_frozen_values():
    assert GraphGPO() == GraphGPO()
    assert len({GraphGPO(), GraphGPO(), GraphGPO(omega=0.2)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        GraphGPO().omega = 0.2


@pytest.mark.parametrize("name", graphwrap.credit_names())
@given(batch=transitions(slip=0.2, rewards=True, costs=True))
def test_credit_is_finite_aligned_and_the_same_from_the_graph(name, batch):
    method = graphwrap.make_credit(name)
    credit = method(batch)
    again = method(TransitionGraph.from_transitions(batch))
    for field in ("advantages", "step_advantages", "episode_advantages"):
        array = getattr(credit, field)
        assert array.dtype == np.float64
        assert array.shape == (len(batch),)
        assert np.isfinite(array).all()
        np.testing.assert_array_equal(array, getattr(again, field))
    assert credit.distances.shape == (credit.graph.num_nodes,)
    assert (credit.graph_rewards is not None) == name.startswith("graphgpo")
    assert (credit.values is not None) == (name in ("graft", "rewardflow"))
    assert credit.seconds > 0


@pytest.mark.parametrize("name", graphwrap.credit_names())
def test_an_empty_batch_has_empty_credit(name):
    batch = Transitions.from_columns(**{column: [] for column in COLUMNS})
    credit = graphwrap.make_credit(name)(batch)
    assert credit.advantages.shape == (0,)
    assert credit.diagnostics["steps"] == 0


@pytest.mark.parametrize("name", list(METHODS))
def test_an_unscored_episode_takes_no_part_in_returns(name):
    columns = walks(np.random.default_rng(3), tasks=1, episodes=6, unfinished=0.0)
    rows = np.flatnonzero(np.array(columns["episode"]) == 2)
    columns["reward"][rows[-1]] = float("nan")
    batch = Transitions.from_columns(**columns)
    credit = graphwrap.make_credit(name)(batch)
    assert np.isfinite(credit.advantages).all()
    assert (credit.episode_advantages[rows] == 0).all()
    assert credit.diagnostics["unscored_episodes"] == 1
    if name in ("grpo", "rloo", "gigpo", "salt", "rtmc"):
        assert (credit.advantages[rows] == 0).all()
        kept = np.setdiff1d(np.arange(len(batch)), rows)
        without = graphwrap.make_credit(name)(
            Transitions.from_columns(**{k: [v[i] for i in kept] for k, v in columns.items()})
        )
        np.testing.assert_allclose(credit.advantages[kept], without.advantages, atol=1e-12)


@pytest.mark.parametrize("name", list(METHODS))
def test_without_a_success_nothing_but_returns_counts(name):
    columns = walks(np.random.default_rng(5), tasks=1, episodes=6, unfinished=0.0)
    columns["success"] = [False] * len(columns["success"])
    columns["reward"] = [0.0] * len(columns["reward"])
    columns["terminated"] = [False] * len(columns["reward"])
    columns["truncated"] = (np.diff(columns["episode"], append=-1) != 0).tolist()
    with pytest.warns(UserWarning, match="credit 0"):
        credit = graphwrap.make_credit(name)(Transitions.from_columns(**columns))
    assert (credit.advantages == 0).all()


def test_dense_rewards_reach_graft_and_the_return_methods():
    columns = walks(np.random.default_rng(7), tasks=1, episodes=6, unfinished=0.0, rewards=True)
    batch = Transitions.from_columns(**columns)
    assert not np.allclose(GRAFT(step_rewards=True)(batch).advantages, GRAFT()(batch).advantages)
    flat = Transitions.from_columns(**{**columns, "reward": [0.0] * len(batch)})
    np.testing.assert_array_equal(GRAFT()(flat).advantages, GRAFT()(batch).advantages)
    for name in ("grpo", "gigpo", "rtmc"):
        method = graphwrap.make_credit(name)
        with pytest.warns(UserWarning, match="credit 0"):
            assert (method(flat).advantages == 0).all()
        assert np.any(method(batch).advantages)


def test_equal_returns_are_exactly_no_credit_in_rtmc():
    batch = Transitions.from_columns(
        task=[0] * 3,
        episode=[0, 1, 2],
        step=[0] * 3,
        state=["s"] * 3,
        action=[0, 0, 1],
        next_state=["t"] * 3,
        reward=[0.1] * 3,
        terminated=[True] * 3,
        truncated=[False] * 3,
    )
    assert RTMC()(batch).advantages.tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", graphwrap.credit_names())
def test_credit_shares_no_memory_with_its_parts(name):
    credit = graphwrap.make_credit(name)(Transitions.from_columns(**walks(np.random.default_rng(0))))
    for part in (credit.step_advantages, credit.episode_advantages):
        assert not np.shares_memory(credit.advantages, part)


def test_a_method_may_have_plain_fields():
    @dataclasses.dataclass(frozen=True)
    class Constant(CreditMethod):
        number: int = 2

        def compute(self, graph):
            part = np.full(len(graph.source), float(self.number))
            return StepCredit(part, part, np.zeros_like(part))

    batch = Transitions.from_columns(**walks(np.random.default_rng(0)))
    assert (graphwrap.make_credit(Constant(), number=3)(batch).advantages == 3).all()
