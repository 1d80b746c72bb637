"""The model's predictions for the tokens of responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from graphwrap.agents.models.batches import collate, pad, positions

Run = Callable[..., Any]
"""Calls the model; logits_to_keep says of how many last positions its output has logits."""


@dataclass
class Predictions:
    """Of B responses of at most R tokens."""

    logits: torch.Tensor  # (B, R, V), of the distributions that the responses' tokens come from
    tokens: torch.Tensor  # int64 (B, R)
    mask: torch.Tensor  # bool (B, R)
    hidden: torch.Tensor | None  # (B, H), the last layer's output at the prompts' last token


def predict(
    run: Run,
    prompts: Sequence[Sequence[int]],
    responses: Sequence[Sequence[int]],
    pad_id: int,
    device: torch.device,
    hidden: bool,
) -> Predictions:
    """One call for prompts with their responses; with `hidden` also the last layer's output."""
    batch = collate(prompts, responses, pad_id, device)
    length = batch.response_length
    output = run(  # the last token predicts nothing that is asked for
        input_ids=batch.input_ids[:, :-1],
        attention_mask=batch.attention_mask[:, :-1],
        position_ids=batch.position_ids[:, :-1],
        use_cache=False,
        output_hidden_states=hidden,
        logits_to_keep=length,
    )
    last = output.hidden_states[-1][:, -length] if hidden else None
    return Predictions(output.logits, batch.responses, batch.response_mask, last)


def predict_shared(
    run: Run,
    config: Any,
    prompts: Sequence[Sequence[int]],
    owners: np.ndarray,
    responses: Sequence[Sequence[int]],
    pad_id: int,
    device: torch.device,
    hidden: bool,
) -> Predictions:
    """As `predict`, with a call for the prompts and one for the responses, which go on from keys and values.

    Args:
        run: the model.
        config: its configuration, for the cache.
        prompts: different ones.
        owners: int64 (B,), the number of each response's prompt.
        responses: B rows.
        pad_id: fills the padding.
        device: the model's.
        hidden: also the last layer's output.
    """
    ids, before = pad(prompts, pad_id, left=True)
    answers, after = (torch.from_numpy(one).to(device) for one in pad(responses, pad_id))
    places = torch.from_numpy(positions(before)).to(device)
    prompt_mask = torch.from_numpy(before).to(device)
    owner = torch.from_numpy(owners).to(device)
    rest = answers.shape[1] - 1
    cache = new_cache(config)
    output = run(
        input_ids=torch.from_numpy(ids).to(device),
        attention_mask=prompt_mask.long(),
        position_ids=places,
        past_key_values=cache,
        use_cache=True,
        output_hidden_states=hidden,
        logits_to_keep=1,
    )
    logits = output.logits.index_select(0, owner)
    last = output.hidden_states[-1][:, -1].index_select(0, owner) if hidden else None
    if rest:
        select_rows(cache, owner)
        start = places[:, -1].index_select(0, owner)[:, None] + 1
        more = run(
            input_ids=answers[:, :-1],
            attention_mask=torch.cat([prompt_mask.index_select(0, owner), after[:, :-1]], 1).long(),
            position_ids=start + torch.arange(rest, device=device),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=rest,
        )
        logits = torch.cat([logits, more.logits], 1)
    return Predictions(logits, answers, after, last)


def new_cache(config: Any) -> Any:
    """An empty cache of keys and values for a model of this configuration."""
    from transformers import DynamicCache

    return DynamicCache(config=config)


def select_rows(cache: Any, rows: torch.Tensor) -> None:
    """Make the cache hold its rows of these numbers, int64 (B,), of which some may be there more than once."""
    cache.reorder_cache(cast(torch.LongTensor, rows))


@contextmanager
def recomputing(model: nn.Module, active: bool) -> Iterator[None]:
    """Within this context layers keep no activations but are run again by the backward pass, also in eval mode.

    Transformers does so in training mode alone, which would switch dropout on.
    """
    if not active:
        yield
        return
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers = [layer for layer in model.modules() if isinstance(layer, GradientCheckpointingLayer)]
    for layer in layers:
        layer.training = True
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False
