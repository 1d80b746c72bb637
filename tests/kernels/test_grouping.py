import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.kernels.grouping import ids_within, rows_by_key


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-(2**31), 2**31 - 1), st.integers(-1, 3)), max_size=80)
)
def test_triples_are_numbered_group_by_group(triples):
    group, first, second = (np.array([t[k] for t in triples], np.int32) for k in range(3))
    ids, offsets = ids_within(*rows_by_key(group, 5), first, second)
    known: dict = {}
    for triple in sorted(triples, key=lambda triple: triple[0]):
        known.setdefault(triple, len(known))
    assert ids.tolist() == [known[triple] for triple in triples]
    assert ids.dtype == offsets.dtype == np.int32
    for g in range(5):
        assert {known[t] for t in triples if t[0] == g} == set(range(offsets[g], offsets[g + 1]))


def test_a_group_of_many_distinct_triples_is_linear():
    n = 200_000
    first = np.arange(n, dtype=np.int32)
    ids, offsets = ids_within(*rows_by_key(np.zeros(n, np.int32), 1), first, first % 3)
    assert ids.tolist() == list(range(n))
    assert offsets.tolist() == [0, n]


@given(st.lists(st.integers(0, 9), max_size=50))
def test_rows_by_key_keeps_the_order_of_rows(keys):
    key = np.array(keys, np.int32)
    indptr, rows = rows_by_key(key, 10)
    assert indptr[-1] == len(keys)
    for k in range(10):
        assert rows[indptr[k] : indptr[k + 1]].tolist() == np.flatnonzero(key == k).tolist()
