"""Small language models of several architectures with random weights, and what they say row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from graphwrap.agents.models.loading import add_adapters
from graphwrap.agents.models.tiny import build_tokenizer
from graphwrap.agents.policy import Policy
from graphwrap.agents.settings import LoraSettings

ARCHITECTURES = ("llama", "qwen2", "gpt2")
WORDS = "up down left right # @ $ . the box is here go push wall"


def make_model(architecture: str, vocabulary: int, seed: int = 0, spread: float = 0.3, **changes: Any) -> Any:
    """A model whose distributions are far from uniform; float32."""
    common = {"vocab_size": vocabulary, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
    decoder = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if architecture == "llama":
            settings = {**common, **decoder, "max_position_embeddings": 64, "initializer_range": spread}
            return LlamaForCausalLM(LlamaConfig(**{**settings, **changes})).eval()
        if architecture == "qwen2":
            settings = {**common, **decoder, "max_position_embeddings": 64, "initializer_range": spread}
            settings |= {"num_key_value_heads": 2, "tie_word_embeddings": True}
            return Qwen2ForCausalLM(Qwen2Config(**{**settings, **changes})).eval()
        settings = {**common, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
        return GPT2LMHeadModel(GPT2Config(**{**settings, "initializer_range": spread, **changes})).eval()


def make_policy(
    architecture: str = "llama", critic: bool = False, lora: LoraSettings | None = None, **changes: Any
) -> Policy:
    """A policy over a small vocabulary; GPT-2's has dropout, which must not act."""
    tokenizer = build_tokenizer([WORDS], 64)
    model = make_model(architecture, len(tokenizer), **changes)
    if lora is not None:
        model = add_adapters(model, lora, seed=1)
    return Policy(model, tokenizer, critic=critic)


def make_rows(
    policy: Policy, count: int, seed: int = 0, longest: int = 12, answer: int = 5
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Prompts and responses of unequal lengths in which every id may occur, those of padding and end included."""
    rng = np.random.default_rng(seed)
    size = policy.base.get_input_embeddings().weight.shape[0]

    def some(most: int) -> tuple[int, ...]:
        return tuple(map(int, rng.integers(size, size=rng.integers(1, most + 1))))

    return [some(longest) for _ in range(count)], [some(answer) for _ in range(count)]


def alone(
    model: Any, prompt: Sequence[int], response: Sequence[int], temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities (len(response), V) and last hidden states (len(response), H), without padding or cache."""
    output = model(input_ids=torch.tensor([[*prompt, *response]]), use_cache=False, output_hidden_states=True)
    places = slice(len(prompt) - 1, len(prompt) + len(response) - 1)
    return (
        torch.log_softmax(output.logits[0, places] / temperature, -1),
        output.hidden_states[-1][0, places],
    )


def move(policy: Policy, amount: float = 0.05, seed: int = 0) -> None:
    """Change every trained weight a little."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in policy.parameters():
            weight += amount * torch.randn(weight.shape, generator=generator)
