import dataclasses
import math
import warnings

import numpy as np
import pytest

from graphwrap import GraphGPO, PersistentGraph, Transitions


@pytest.fixture
def credit(load_golden):
    return GraphGPO(episode_weight=0.0)(Transitions.from_columns(**load_golden("figure")["transitions"]))


def test_the_figure_in_numbers(credit):
    # s1 is left twice, s21 once, s2 three times, s4 and s22 once; goal and s3 are only reached.
    assert credit.diagnostics == {
        "steps": 8,
        "episodes": 2,
        "groups": 1,
        "unscored_episodes": 0,
        "remembered_steps": 0,
        "nodes": 6,
        "edges": 8,
        "reachable_share": pytest.approx(4 / 6),
        "node_group_size": pytest.approx(8 / 5),
        "single_step_share": pytest.approx(3 / 8),
        "zero_credit_fraction": pytest.approx(3 / 8),
        "single_episode_share": 0,
        "no_success_share": 0,
        "only_success_share": 0,
        "progress_in_failures": pytest.approx(1 / 3),
        "progress_in_successes": pytest.approx(3 / 5),
        # Only s22 lies behind the last branch: from it one episode's end is reached, from all others both.
        "propagation_degree": pytest.approx(15 / 8),
        "single_propagation_share": pytest.approx(1 / 8),
        "visit_degree": pytest.approx(13 / 8),
        "single_visit_share": pytest.approx(3 / 8),
    }
    assert all(type(number) is float for number in credit.diagnostics.values())


def chain(length):
    return Transitions.from_columns(
        task=[0] * length,
        episode=[0] * length,
        step=range(length),
        state=range(length),
        action=[0] * length,
        next_state=range(1, length + 1),
        reward=[0.0] * length,
        terminated=[False] * length,
        truncated=[False] * (length - 1) + [True],
    )


def test_shares_without_a_base_are_nan():
    with pytest.warns(UserWarning, match="credit 0"):
        diagnostics = GraphGPO()(chain(4)).diagnostics
    assert math.isnan(diagnostics["progress_in_failures"])
    assert diagnostics["no_success_share"] == 1


def two_walks(**columns):
    """Episode 0 goes a, b, c, episode 1 goes b, c, d; both end there."""
    return Transitions.from_columns(
        task=[0] * 6,
        episode=[0] * 3 + [1] * 3,
        step=[0, 1, 2] * 2,
        state=["a", "b", "c", "b", "c", "d"],
        action=[0] * 6,
        next_state=["b", "c", "end", "c", "d", "end"],
        reward=[0.0] * 6,
        truncated=[False] * 6,
        **{"terminated": [False, False, True] * 2, **columns},
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_degrees_tell_apart_what_reaches_a_state_and_what_visits_it():
    diagnostics = GraphGPO()(two_walks()).diagnostics
    # b and c are visited by both, and from a the end of episode 1 can be reached, which never was there.
    assert diagnostics["propagation_degree"] == pytest.approx((2 + 2 * 2 + 2 * 2 + 1) / 6)
    assert diagnostics["single_propagation_share"] == pytest.approx(1 / 6)
    assert diagnostics["visit_degree"] == pytest.approx((1 + 2 * 2 + 2 * 2 + 1) / 6)
    assert diagnostics["single_visit_share"] == pytest.approx(2 / 6)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_unfinished_episode_has_no_outcome_to_reach_a_state():
    # Episode 0 stops in the state it was last seen in, c's successor "end"; nothing comes from it.
    diagnostics = GraphGPO()(two_walks(terminated=[False] * 5 + [True])).diagnostics
    assert diagnostics["propagation_degree"] == 1
    assert diagnostics["single_propagation_share"] == 1
    assert diagnostics["visit_degree"] == pytest.approx((0 + 2 + 2 + 1) / 6)


def test_an_end_is_a_sink_and_only_a_scored_end_is_one():
    # "b" is where the failure 1 ends, and where 0 goes on; 2 is unscored, 3 has no outcome yet.
    batch = Transitions.from_columns(
        task=[0] * 6,
        episode=[0, 0, 1, 2, 2, 3],
        step=[0, 1, 0, 0, 1, 0],
        state=["a", "b", "a2", "c", "b2", "d"],
        action=[0] * 6,
        next_state=["b", "goal", "b", "b2", "end", "d2"],
        reward=[0.0, 1.0, 0.0, float("nan"), 0.0, 0.0],
        terminated=[False, True, False, False, True, False],
        truncated=[False, False, True, False, False, False],
    )
    diagnostics = GraphGPO()(batch).diagnostics
    # a and b: episode 0. a2: episode 1, and not 0, which went on from b. c, b2 and d: no one.
    assert diagnostics["propagation_degree"] == pytest.approx(3 / 6)
    assert diagnostics["single_propagation_share"] == 1
    assert diagnostics["visit_degree"] == pytest.approx(3 / 6)
    assert diagnostics["single_visit_share"] == 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_without_a_scored_episode_there_is_no_degree():
    diagnostics = GraphGPO()(two_walks(terminated=[False] * 6)).diagnostics
    for name in ("propagation_degree", "single_propagation_share", "visit_degree", "single_visit_share"):
        assert math.isnan(diagnostics[name])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_remembered_episodes_reach_a_state_but_are_no_visits_of_this_batch():
    method = PersistentGraph("graphgpo")
    before = method(two_walks()).diagnostics
    second = dataclasses.replace(two_walks(), episode_labels=[2, 3])
    after = method(second).diagnostics
    assert after["propagation_degree"] == 2 * before["propagation_degree"]
    assert after["visit_degree"] == before["visit_degree"]


def test_unique_states_and_zero_credit_warn_once_each():
    batch = chain(20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            GraphGPO()(batch)
    texts = [str(w.message) for w in caught]
    assert len(texts) == 2
    assert "round= for floats, or state=" in texts[0]
    assert "credit 0" in texts[1]
    assert all(w.filename == __file__ for w in caught)


def test_groups_of_one_episode_warn():
    columns = {"step": [0] * 4, "state": ["s"] * 4, "action": [0, 1] * 2, "next_state": ["g", "f"] * 2}
    columns |= {"reward": [1.0, 0.0] * 2, "terminated": [True] * 4, "truncated": [False] * 4}
    keyed_by_episode = Transitions.from_columns(task=range(4), episode=range(4), **columns)
    with pytest.warns(UserWarning, match="every group holds a single episode"):
        assert GraphGPO()(keyed_by_episode).diagnostics["single_episode_share"] == 1
    one_is_alone = Transitions.from_columns(task=[0, 0, 0, 1], episode=range(4), **columns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert GraphGPO()(one_is_alone).diagnostics["single_episode_share"] == 0.5


def test_a_batch_with_credit_does_not_warn(load_golden):
    batch = Transitions.from_columns(**load_golden("larger")["transitions"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.any(GraphGPO()(batch).advantages)
