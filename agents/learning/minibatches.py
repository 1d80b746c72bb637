"""Which step rows go through the model together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Tokens = Sequence[int]


@dataclass(frozen=True)
class Minibatch:
    """The rows of a gradient step, in all processes, and how this process computes its share of them."""

    num_rows: int
    num_tokens: int  # of responses
    parts: list[np.ndarray]  # this process's micro-batches, as row numbers
    fillers: int = (
        0  # of the parts the last ones, which are other processes' rows: they are computed, not counted
    )

    @property
    def own(self) -> list[np.ndarray]:
        """The micro-batches that count."""
        return self.parts[: len(self.parts) - self.fillers]


def share_minibatch(
    rows: np.ndarray,
    prompts: Sequence[Tokens],
    responses: Sequence[Tokens],
    budget: int,
    rank: int = 0,
    size: int = 1,
) -> Minibatch:
    """Deal a minibatch to `size` processes, and split the share of number `rank` into micro-batches.

    Rows with equal tokens stay together, and every process gets rows of all lengths. All have the same number of
    micro-batches, since sharded weights are put together by all at once: who has fewer computes a short row again.

    Args:
        rows: int64, row numbers, at least one.
        prompts, responses: Token ids of all rows.
        budget: As in `micro_batches`.
        rank: Of this process.
        size: Processes.
    """
    num_tokens = sum(len(responses[row]) for row in rows.tolist())
    if size == 1:
        return Minibatch(len(rows), num_tokens, micro_batches(rows, prompts, responses, budget))
    alike: dict[tuple[int, Tokens, Tokens], list[int]] = {}
    for row in rows.tolist():
        prompt, response = tuple(prompts[row]), tuple(responses[row])
        alike.setdefault((len(prompt) + len(response), prompt, response), []).append(row)
    order = [alike[key] for key in sorted(alike, reverse=True)]
    dealt = [
        micro_batches(
            np.array([row for same in order[number::size] for row in same], np.int64),
            prompts,
            responses,
            budget,
        )
        for number in range(size)
    ]
    fillers = max(map(len, dealt)) - len(dealt[rank])
    filler = np.array(order[-1][:1])
    return Minibatch(len(rows), num_tokens, dealt[rank] + [filler] * fillers, fillers)


def minibatches(count: int, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Deal `count` rows in random order into minibatches of `size`; the last one has what is left.

    Returns:
        int64 arrays of row numbers, every row once; none for no rows. A small last minibatch is a gradient step like
        the others: its loss is a mean over what it holds.
    """
    order = rng.permutation(count)
    return [order[begin : begin + size] for begin in range(0, count, size)]


def micro_batches(
    rows: np.ndarray, prompts: Sequence[Tokens], responses: Sequence[Tokens], budget: int
) -> list[np.ndarray]:
    """Split a minibatch into parts that go through the model at once, rows of similar length together.

    A part is as large as a block of (longest prompt + longest response) tokens per row, padding included, that fits
    into `budget`. Rows with equal tokens are computed once, so they come together and count once. A row that is longer
    than the budget goes alone.

    Args:
        rows: int64, row numbers.
        prompts, responses: Token ids of all rows.
        budget: Tokens at once.

    Returns:
        int64 arrays, every row of `rows` in one of them; the longest rows come first, so that memory that does not
        suffice is noticed at once.
    """

    def size(row: int) -> tuple[int, int, Tokens, Tokens]:
        prompt, response = prompts[row], responses[row]
        return len(prompt) + len(response), len(prompt), tuple(prompt), tuple(response)

    sizes = {row: size(row) for row in rows.tolist()}
    parts: list[list[int]] = []
    different = longest_prompt = longest_response = 0
    before = None
    for row in sorted(sizes, key=lambda row: (*sizes[row], row), reverse=True):
        _, prompt_length, *tokens = sizes[row]
        prompt = max(longest_prompt, prompt_length)
        response = max(longest_response, len(tokens[1]))
        is_new = tokens != before
        if not parts or (different + is_new) * (prompt + response) > budget:
            parts.append([])
            different, is_new, prompt, response = 0, True, prompt_length, len(tokens[1])
        parts[-1].append(row)
        different += is_new
        longest_prompt, longest_response, before = prompt, response, tokens
    return [np.array(part) for part in parts]
