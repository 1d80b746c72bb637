import networkx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphwrap import TransitionGraph

from ..builders import transitions


@given(
    st.one_of(transitions(), transitions(costs=True), transitions(costs=True, tasks=5, states=12, length=30))
)
def test_distances_equal_dijkstra_of_networkx(batch):
    graph = TransitionGraph.from_transitions(batch)
    for task in range(batch.num_tasks):
        rows = np.flatnonzero(batch.task == task)
        reverse = networkx.MultiDiGraph()
        nodes = range(graph.task_offsets[task], graph.task_offsets[task + 1])
        reverse.add_nodes_from(nodes)
        for row in rows:
            reverse.add_edge(int(graph.target[row]), int(graph.source[row]), weight=batch.cost[row])
        found = networkx.single_source_dijkstra_path_length(reverse, int(graph.goal[task]))
        unreachable = max(found.values()) + batch.cost[rows].max()
        for node in nodes:
            assert graph.reachable[node] == (node in found)
            np.testing.assert_allclose(graph.distances[node], found.get(node, unreachable), rtol=1e-12)


@given(transitions(costs=True))
def test_hops_count_steps_whatever_they_cost(batch):
    graph = TransitionGraph.from_transitions(batch)
    reverse = networkx.DiGraph()
    reverse.add_nodes_from(range(graph.num_nodes))
    reverse.add_edges_from(zip(graph.target.tolist(), graph.source.tolist()))
    for task in range(batch.num_tasks):
        found = networkx.single_source_shortest_path_length(reverse, int(graph.goal[task]))
        for node in range(graph.task_offsets[task], graph.task_offsets[task + 1]):
            assert graph.hops[node] == found.get(node, np.inf)
