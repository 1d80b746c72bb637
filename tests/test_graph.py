import networkx
import numpy as np
import pytest
from hypothesis import given

from graphwrap import Outcome, TransitionGraph, Transitions
from graphwrap.graph import GOAL_STATE

from .builders import COLUMNS, transitions


def two_steps(**columns):
    given = {
        "task": ["t", "t"],
        "episode": [0, 0],
        "step": [0, 1],
        "state": ["a", "b"],
        "action": ["x", "y"],
        "next_state": ["b", "a"],
        "reward": [0.0, 1.0],
        "terminated": [False, True],
        "truncated": [False, False],
    }
    return TransitionGraph.from_transitions(Transitions.from_columns(**{**given, **columns}))


def test_last_step_of_a_success_leads_to_goal_not_to_its_observation():
    graph = two_steps(success=[True, True])
    assert graph.node_state.tolist() == [GOAL_STATE, 0, 1]
    assert graph.source.tolist() == [1, 2]
    assert graph.target.tolist() == [2, 0]
    assert graph.distances.tolist() == [0.0, 2.0, 1.0]


def test_last_step_of_a_failure_leads_to_its_observation():
    graph = two_steps(success=[False, False])
    assert graph.target.tolist() == [2, 1]
    assert graph.distances.tolist() == [0.0, 1.0, 1.0]
    assert graph.reachable.tolist() == [True, False, False]


def test_an_observation_named_goal_is_not_the_goal():
    graph = two_steps(state=["GOAL", "success"], next_state=["success", "GOAL"], success=[False, False])
    assert not graph.reachable[1:].any()


def test_equal_states_of_two_tasks_are_two_nodes():
    batch = Transitions.from_columns(
        task=["t", "u"],
        episode=[0, 1],
        step=[0, 0],
        state=["a", "a"],
        action=[0, 0],
        next_state=["b", "b"],
        reward=[1.0, 0.0],
        terminated=[True, True],
        truncated=[False, False],
    )
    graph = TransitionGraph.from_transitions(batch)
    assert batch.state.tolist() == [0, 0]
    assert graph.source[0] != graph.source[1]
    assert graph.node_task.tolist() == [0, 0, 1, 1, 1]
    assert graph.goal.tolist() == [0, 2]


@given(transitions(slip=0.3, tasks=3))
def test_nodes_are_the_visited_task_state_pairs(batch):
    graph = TransitionGraph.from_transitions(batch)
    assert graph.source.dtype == graph.target.dtype == graph.node_state.dtype == np.int32
    visited = {(t, s) for t, s in zip(batch.task.tolist(), batch.state.tolist())}
    last = batch.order[batch.episode_offsets[1:] - 1]
    to_goal = set(last[batch.outcome == Outcome.SUCCESS].tolist())
    for row in range(len(batch)):
        node = graph.source[row]
        assert (graph.node_task[node], graph.node_state[node]) == (batch.task[row], batch.state[row])
        node = graph.target[row]
        if row in to_goal:
            assert node == graph.goal[batch.task[row]]
        else:
            assert (graph.node_task[node], graph.node_state[node]) == (batch.task[row], batch.next_state[row])
            visited.add((int(batch.task[row]), int(batch.next_state[row])))
    assert graph.num_nodes == len(visited) + batch.num_tasks
    for indptr, rows, key in ((*graph.outgoing, graph.source), (*graph.incoming, graph.target)):
        assert indptr.dtype == rows.dtype == np.int32
        for node in range(graph.num_nodes):
            assert rows[indptr[node] : indptr[node + 1]].tolist() == np.flatnonzero(key == node).tolist()


@given(transitions())
def test_row_order_does_not_matter(batch):
    shuffled = np.random.default_rng(0).permutation(len(batch))
    columns = {name: getattr(batch, name)[shuffled] for name in (*COLUMNS, "cost")}
    success = np.array([True, False, None, None], dtype=object)[batch.outcome][batch.episode][shuffled]
    again = TransitionGraph.from_transitions(Transitions.from_columns(**columns, success=success.tolist()))
    graph = TransitionGraph.from_transitions(batch)
    np.testing.assert_array_equal(again.distances[again.source], graph.distances[graph.source][shuffled])
    np.testing.assert_array_equal(again.distances[again.target], graph.distances[graph.target][shuffled])


def test_to_networkx_has_labels_and_an_edge_per_row():
    graph = two_steps(success=[True, True]).to_networkx()
    assert isinstance(graph, networkx.MultiDiGraph)
    assert graph.nodes[0] == {"task": "t", "state": "GOAL", "goal": True, "distance": 0.0, "reachable": True}
    assert graph.nodes[1] == {"task": "t", "state": "a", "goal": False, "distance": 2.0, "reachable": True}
    assert list(graph.edges(data=True))[1] == (
        2,
        0,
        {"action": "y", "reward": 1.0, "cost": 1.0, "episode": 0, "step": 1},
    )


def test_graph_arrays_cannot_be_changed():
    graph = two_steps()
    with pytest.raises(ValueError, match="read-only"):
        graph.source[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        graph.distances[0] = 5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gamma": 1.0}, r"gamma must be in \[0, 1\), got 1.0"),
        ({"gamma": -0.1}, r"gamma must be in \[0, 1\), got -0.1"),
        ({"action_weighting": "counts"}, "must be 'empirical' or 'uniform', got 'counts'"),
    ],
)
def test_values_refuse_parameters_out_of_range(parameters, message):
    with pytest.raises(ValueError, match=message):
        two_steps().values(**parameters)
