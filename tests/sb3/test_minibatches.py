"""Minibatches of valid rows."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
from sb3_contrib import RecurrentPPO

from graphwrap.sb3.minibatches import MaskedGet
from tests.sb3.learners import numbered_buffer


def test_with_all_rows_valid_the_minibatches_are_sb3_s_own() -> None:
    batches = []
    for masked in (False, True):
        buffer = numbered_buffer()
        np.random.seed(3)  # noqa: NPY002  (what SB3 itself draws from)
        get = MaskedGet(buffer, np.ones((5, 3), bool)) if masked else buffer.get
        batches.append([[sample.advantages.tolist() for sample in get(4)] for _ in range(2)])
    assert batches[0] == batches[1]


@pytest.mark.parametrize(
    ("batch_size", "sizes"), [(3, [3, 3, 3]), (4, [4, 5]), (8, [9]), (None, [9]), (1, [1] * 9)]
)
def test_minibatches_of_valid_rows(batch_size: int | None, sizes: list[int]) -> None:
    buffer = numbered_buffer()
    valid = np.zeros((5, 3), bool)
    valid[[0, 1, 2, 4], 0] = valid[:, 2] = True
    get = MaskedGet(buffer, valid)
    for _ in range(2):
        read = [sample.advantages.tolist() for sample in get(batch_size)]
        assert list(map(len, read)) == sizes
        assert sorted(functools.reduce(operator.iadd, read, [])) == [0, 2, 10, 12, 20, 22, 32, 40, 42]
    assert "_get_samples" not in vars(buffer)


def test_recurrent_masks_count_exactly_the_valid_rows() -> None:
    buffer = numbered_buffer(RecurrentPPO, "MlpLstmPolicy")
    valid = np.zeros((5, 3), bool)
    valid[1, 0] = valid[0:2, 1] = valid[4, 2] = True
    for _ in range(5):
        read = list(MaskedGet(buffer, valid)(4))
        chosen = [sample.advantages[sample.mask > 0.5].tolist() for sample in read]
        assert sorted(functools.reduce(operator.iadd, chosen, [])) == [1, 10, 11, 42]
        assert all(len(part) > 1 for part in chosen)
