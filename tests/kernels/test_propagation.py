import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.kernels.propagation import count_ends_ahead, count_visitors


def as_int32(*arrays):
    return tuple(np.array(array, np.int32) for array in arrays)


@st.composite
def walks(draw):
    """Walks over few nodes of one or two blocks: (nodes of each block, [(block, nodes it goes through, counts)])."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=2))
    first = np.cumsum([0, *sizes])
    episodes = []
    for _ in range(draw(st.integers(1, 8))):
        block = draw(st.integers(0, len(sizes) - 1))
        nodes = draw(st.lists(st.integers(first[block], first[block + 1] - 1), min_size=1, max_size=6))
        episodes.append((block, nodes, draw(st.booleans())))
    return first, episodes


def edges_of(first, episodes):
    """Edges (from, to) by the node they leave; the last step of a walk leads to a sink."""
    num_nodes = int(first[-1])
    pairs = [(u, v) for _, nodes, _ in episodes for u, v in zip(nodes, [*nodes[1:], num_nodes])]
    return sorted(pairs, key=lambda pair: pair[0])


def by_key(keys, num_keys):
    order = np.argsort(keys, kind="stable")
    return np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=num_keys))]), order


@given(walks(), st.integers(1, 3))
def test_ends_ahead_are_those_a_search_finds(walk, times):
    first, episodes = walk
    num_nodes = int(first[-1])
    episodes = episodes * times
    edges = edges_of(first, episodes)
    graph = networkx.DiGraph(edges)
    graph.add_nodes_from(range(num_nodes))
    expected = [
        sum(
            nodes[-1] in networkx.descendants(graph, node) | {node} for _, nodes, counts in episodes if counts
        )
        for node in range(num_nodes)
    ]
    indptr, _ = by_key([u for u, _ in edges], num_nodes)
    ends = np.bincount([nodes[-1] for _, nodes, counts in episodes if counts], minlength=num_nodes)
    found = count_ends_ahead(*as_int32(indptr, [v for _, v in edges], first, ends))
    assert found.tolist() == expected


@given(walks())
def test_visitors_are_counted_once(walk):
    first, episodes = walk
    num_nodes = int(first[-1])
    source = [node for _, nodes, _ in episodes for node in nodes]
    episode = [number for number, (_, nodes, _) in enumerate(episodes) for _ in nodes]
    found = count_visitors(
        *as_int32(*by_key(source, num_nodes)),
        *as_int32(episode),
        np.array([counts for _, _, counts in episodes]),
    )
    assert found.tolist() == [
        sum(node in nodes for _, nodes, counts in episodes if counts) for node in range(num_nodes)
    ]


@pytest.mark.parametrize("number", [1, 63, 64, 65, 128, 129])
def test_ends_are_counted_past_a_word(number):
    # Episode e goes from node 0 to node e along a chain; twice each.
    walks = [list(range(e + 1)) for e in range(number)] * 2
    edges = edges_of([0, number], [(0, nodes, True) for nodes in walks])
    indptr, _ = by_key([u for u, _ in edges], number)
    found = count_ends_ahead(*as_int32(indptr, [v for _, v in edges], [0, number], [2] * number))
    assert found.tolist() == [2 * left for left in range(number, 0, -1)]


@pytest.mark.parametrize("number", [2, 64, 65, 200])
def test_a_fork_reaches_every_end_once(number):
    # Node 0 leads to all of 1 .. number, and those to two ends that they share.
    first, second = number + 1, number + 2
    edges = [(0, branch) for branch in range(1, number + 1)]
    edges += [(branch, end) for branch in range(1, number + 1) for end in (first, second)]
    indptr, _ = by_key([u for u, _ in edges], number + 3)
    ends = [0] * (number + 1) + [3, 1]
    found = count_ends_ahead(*as_int32(indptr, [v for _, v in edges], [0, number + 3], ends))
    assert found.tolist() == [4] * (number + 1) + [3, 1]
