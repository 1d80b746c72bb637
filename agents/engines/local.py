"""Generates with the policy's own module: no copy of the weights, nothing to keep in step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from graphwrap.agents.engines.base import Engine, Generation, Sampling
from graphwrap.agents.models.batches import distinct, pad, positions
from graphwrap.agents.models.forward import new_cache, select_rows
from graphwrap.agents.policy import Policy

LEAVE = 0.25
"""Rows that have ended leave the batch once they are this share of it; moving the others' keys and values costs."""


class TransformersEngine(Engine):
    """Generates with the policy's own module, so its weights are always the policy's.

    Prompts of about equal length go together, equal prompts are computed once. An answer depends on its prompt, its
    place in `prompts`, the seed and the weights; the other prompts and `max_batch` change it by rounding only.

    Args:
        policy: whose model it is.
        max_batch: prompts at a time.

    Raises:
        ValueError: max_batch is below 1.
    """

    def __init__(self, policy: Policy, *, max_batch: int = 256):
        if max_batch < 1:
            raise ValueError(f"max_batch is at least 1, got {max_batch}")
        self.policy = policy
        self.max_batch = max_batch

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Generation]:
        """Answer every prompt, in this order; at temperature 0 log-probabilities are 0, the choice being certain.

        Raises:
            ValueError: an empty prompt, a negative temperature, max_tokens below 1, or more tokens than the model has
                positions.
            FloatingPointError: the model's logits are not finite.
        """
        if not prompts:
            return []
        self._check(prompts, sampling)
        draws = _draws(len(prompts), sampling)
        order = sorted(range(len(prompts)), key=lambda row: (len(prompts[row]), tuple(prompts[row])))
        answers: list[Generation | None] = [None] * len(prompts)
        with torch.no_grad(), self.policy.precision():
            for start in range(0, len(order), self.max_batch):
                rows = order[start : start + self.max_batch]
                made = self._batch([tuple(prompts[row]) for row in rows], draws[rows], sampling)
                for row, answer in zip(rows, made):
                    answers[row] = answer
        return answers  # type: ignore[return-value]

    def update(self, policy: Policy) -> None:
        """Nothing to take over: the weights are the policy's own.

        Raises:
            ValueError: it is another policy.
        """
        if policy is not self.policy:
            raise ValueError(
                "a TransformersEngine generates with the policy it was made with: make a new engine"
            )

    def _check(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> None:
        if sampling.temperature < 0:
            raise ValueError(f"temperature is at least 0, got {sampling.temperature}")
        if sampling.max_tokens < 1:
            raise ValueError(f"max_tokens is at least 1, got {sampling.max_tokens}")
        sampling.check_seeds(len(prompts))
        lengths = list(map(len, prompts))
        if not min(lengths):
            raise ValueError(f"a prompt has at least one token, prompt {lengths.index(0)} has none")
        limit = self.policy.max_length
        if limit is not None and max(lengths) + sampling.max_tokens > limit:
            raise ValueError(
                f"prompt and answer take at most {limit} tokens in this model, prompt {lengths.index(max(lengths))} "
                f"has {max(lengths)} and max_tokens is {sampling.max_tokens}: shorten the history or max_tokens"
            )

    def _batch(
        self, prompts: list[tuple[int, ...]], draws: torch.Tensor, sampling: Sampling
    ) -> list[Generation]:
        policy, device, count = self.policy, self.policy.device, len(prompts)
        draws = draws.to(device)
        eos = torch.tensor(policy.eos_ids, device=device)
        tokens = torch.zeros(count, sampling.max_tokens, dtype=torch.long, device=device)
        log_probs = torch.zeros(count, sampling.max_tokens, device=device)
        lengths = torch.full((count,), sampling.max_tokens, device=device)
        ended = torch.zeros(count, dtype=torch.bool, device=device)

        shared, owners = distinct(prompts)
        ids, filled = pad(shared, policy.pad_id, left=True)
        owner = torch.from_numpy(owners).to(device)
        mask = torch.from_numpy(filled.astype(np.int64)).to(device)
        place = torch.from_numpy(positions(filled)).to(device)
        cache = new_cache(policy.config)

        def next_logits(ids: torch.Tensor) -> torch.Tensor:
            """Those after the last of `ids`, which go on from the cache."""
            result = policy.run(
                input_ids=ids,
                attention_mask=mask,
                position_ids=place,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            return result.logits[:, -1]

        logits = next_logits(torch.from_numpy(ids).to(device))
        if len(shared) < count:
            select_rows(cache, owner)
            logits, mask = logits.index_select(0, owner), mask.index_select(0, owner)
        place = place[:, -1:].index_select(0, owner)
        active = torch.arange(count, device=device)  # rows of the batch that go on, by their place in prompts
        for step in range(sampling.max_tokens):
            chosen, chosen_log_probs = choose(logits, sampling.temperature, draws[active, step])
            tokens[active, step], log_probs[active, step] = chosen, chosen_log_probs
            stops = torch.isin(chosen, eos) & ~ended[active]
            lengths[active[stops]] = step + 1
            ended[active[stops]] = True
            running = ~ended[active]
            left = int(running.sum())
            if not left or step + 1 == sampling.max_tokens:
                break
            if left <= (1 - LEAVE) * len(active):
                keep = running.nonzero()[:, 0]
                select_rows(cache, keep)
                active, chosen, mask, place = (
                    one.index_select(0, keep) for one in (active, chosen, mask, place)
                )
            mask = torch.cat([mask, mask.new_ones(len(active), 1)], 1)
            place = place + 1
            logits = next_logits(chosen[:, None])
        return _generations(tokens.cpu().numpy(), log_probs.cpu().numpy(), lengths.tolist(), ended.tolist())


def _draws(count: int, sampling: Sampling) -> torch.Tensor:
    """Uniform numbers, float64 (count, max_tokens)."""

    def drawn(seed: int, rows: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.rand(rows, sampling.max_tokens, dtype=torch.float64, generator=generator)

    if sampling.seeds is None:
        return drawn(sampling.seed, sampling.first + count)[sampling.first :]
    return torch.cat([drawn(seed, 1) for seed in sampling.seeds])


def choose(
    logits: torch.Tensor, temperature: float, draws: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token per row from softmax(logits / temperature), by its cumulative distribution; 0: the likeliest.

    Args:
        logits: (B, V).
        temperature: at least 0.
        draws: float64 (B,), uniform on [0, 1).

    Returns:
        int64 (B,) token ids and float32 (B,) log-probabilities.

    Raises:
        FloatingPointError: logits are not finite.
    """
    logits = logits.float()
    if not temperature:
        chosen, sure = logits.argmax(-1), torch.zeros(len(logits), device=logits.device)
        finite = logits.gather(-1, chosen[:, None]).isfinite().all()
    else:
        full = torch.log_softmax(logits / temperature, -1)
        heights = full.double().exp().cumsum(-1)
        chosen = torch.searchsorted(heights, (draws * heights[:, -1])[:, None], right=True)[:, 0]
        chosen = chosen.clamp(max=logits.shape[-1] - 1)
        sure = full.gather(-1, chosen[:, None])[:, 0]
        finite = sure.isfinite().all()
    if not finite:
        raise FloatingPointError("the model's logits are not finite: its weights or its precision are broken")
    return chosen, sure


def _generations(
    tokens: np.ndarray, log_probs: np.ndarray, lengths: list[int], ended: list[bool]
) -> list[Generation]:
    return [
        Generation(tuple(row[:length].tolist()), chances[:length].copy(), finished)
        for row, chances, length, finished in zip(tokens, log_probs, lengths, ended)
    ]
