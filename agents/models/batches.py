"""Rows of token ids as padded tensors; what is padding is known from lengths, never from an id."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

Row = TypeVar("Row", bound=Hashable)


@dataclass
class TokenBatch:
    """B prompts, padded on the left to P tokens, each followed by a response, padded on the right to R."""

    input_ids: torch.Tensor  # int64 (B, P + R)
    attention_mask: torch.Tensor  # int64 (B, P + R), 0 where padded
    position_ids: torch.Tensor  # int64 (B, P + R), the first token of each prompt is at 0
    response_mask: torch.Tensor  # bool (B, R)

    @property
    def response_length(self) -> int:
        """R."""
        return self.response_mask.shape[1]

    @property
    def responses(self) -> torch.Tensor:
        """int64 (B, R)."""
        return self.input_ids[:, -self.response_length :]


def collate(
    prompts: Sequence[Sequence[int]],
    responses: Sequence[Sequence[int]],
    pad_id: int,
    device: torch.device | str = "cpu",
) -> TokenBatch:
    """Pad rows into one batch.

    Args:
        prompts: token ids, at least one per row.
        responses: token ids, at least one per row.
        pad_id: fills the padding; may be an id that also occurs in the rows.
        device: where the tensors are made.

    Raises:
        ValueError: no rows, an empty prompt or response, or unequal numbers of them.
    """
    check_rows(prompts, responses)
    left, before = pad(prompts, pad_id, left=True)
    right, after = pad(responses, pad_id)
    mask = np.concatenate([before, after], axis=1)
    return TokenBatch(
        input_ids=torch.from_numpy(np.concatenate([left, right], axis=1)).to(device),
        attention_mask=torch.from_numpy(mask.astype(np.int64)).to(device),
        position_ids=torch.from_numpy(positions(mask)).to(device),
        response_mask=torch.from_numpy(after).to(device),
    )


def pad(rows: Sequence[Sequence[int]], pad_id: int, left: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Rows as int64 (B, L), filled on the right or left with pad_id, and bool (B, L), True on tokens."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    columns = np.arange(lengths.max(initial=0))
    mask = columns[::-1] < lengths[:, None] if left else columns < lengths[:, None]
    ids = np.full(mask.shape, pad_id, np.int64)
    ids[mask] = np.fromiter((token for row in rows for token in row), np.int64, int(lengths.sum()))
    return ids, mask


def positions(mask: np.ndarray) -> np.ndarray:
    """int64, of bool or int (B, L): the number of tokens before each; 0 for padding on the left."""
    return np.maximum(np.cumsum(mask, axis=1, dtype=np.int64) - 1, 0)


def distinct(rows: Iterable[Row]) -> tuple[list[Row], np.ndarray]:
    """The rows without repeats, in order of their first place, and for each row its number there, int64."""
    numbers: dict[Row, int] = {}
    places = np.fromiter((numbers.setdefault(row, len(numbers)) for row in rows), np.int64)
    return list(numbers), places


def check_rows(prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]]) -> None:
    """ValueError unless there are as many prompts as responses, some, and none is empty."""
    if len(prompts) != len(responses):
        raise ValueError(
            f"each prompt has one response, got {len(prompts)} prompts, {len(responses)} responses"
        )
    if not prompts:
        raise ValueError("a batch has at least one row, got none")
    for name, rows in (("prompt", prompts), ("response", responses)):
        if not all(map(len, rows)):
            row = next(number for number, tokens in enumerate(rows) if not len(tokens))
            raise ValueError(
                f"a {name} has at least one token, that of row {row} has none: "
                "an engine answers with at least the end-of-sequence token"
            )
