import numpy as np
import pytest
import torch

from graphwrap.agents.models.batches import collate, distinct, pad, positions

pytestmark = pytest.mark.llm


def test_prompts_are_padded_left_and_responses_right():
    batch = collate([[5, 6, 7], [8]], [[1], [2, 3]], pad_id=0)

    assert batch.input_ids.tolist() == [[5, 6, 7, 1, 0], [0, 0, 8, 2, 3]]
    assert batch.attention_mask.tolist() == [[1, 1, 1, 1, 0], [0, 0, 1, 1, 1]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 3, 3], [0, 0, 0, 1, 2]]
    assert batch.response_mask.tolist() == [[True, False], [True, True]]
    assert batch.responses.tolist() == [[1, 0], [2, 3]]
    assert batch.input_ids.dtype == batch.position_ids.dtype == torch.int64


def test_padding_is_known_from_lengths_not_from_ids():
    batch = collate([[0, 0, 4], [0]], [[0, 0], [0]], pad_id=0)

    assert batch.attention_mask.tolist() == [[1, 1, 1, 1, 1], [0, 0, 1, 1, 0]]
    assert batch.response_mask.tolist() == [[True, True], [True, False]]


def test_pad_on_either_side():
    ids, mask = pad([[1, 2], [3]], 9)
    assert ids.tolist() == [[1, 2], [3, 9]]
    assert mask.tolist() == [[True, True], [True, False]]

    ids, mask = pad([[1, 2], [3]], 9, left=True)
    assert ids.tolist() == [[1, 2], [9, 3]]
    assert mask.tolist() == [[True, True], [False, True]]
    assert positions(mask).tolist() == [[0, 1], [0, 0]]


def test_distinct_rows_keep_their_first_place():
    rows = [(1, 2), (3,), (1, 2), (4,), (3,)]

    found, places = distinct(rows)

    assert found == [(1, 2), (3,), (4,)]
    assert places.dtype == np.int64
    assert [found[place] for place in places] == rows


@pytest.mark.parametrize(
    ("prompts", "responses", "message"),
    [
        ([], [], "at least one row"),
        ([[1]], [[1], [2]], "1 prompts, 2 responses"),
        ([[1], []], [[1], [2]], "prompt has at least one token, that of row 1"),
        ([[1], [2]], [[], [2]], "response has at least one token, that of row 0"),
    ],
)
def test_rows_that_make_no_batch(prompts, responses, message):
    with pytest.raises(ValueError, match=message):
        collate(prompts, responses, 0)
