"""A small Llama-style model and a word-level tokenizer, made from an environment's texts without any download."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from graphwrap.agents.settings import TinySettings

PAD, EOS, UNKNOWN, ASSISTANT = SPECIAL = ("<pad>", "<eos>", "<unk>", "<assistant>")
TAGS = ("<action>", "</action>", "<think>", "</think>")

_TOKEN = r"</?\w+>|\w+(?:[-']\w+)*|."
_SEPARATOR = r"(?<=\w)\s+|(?<=\w>)\s+|\s+(?=</?\w)|\s+(?=\w)|[\r\n]+"

_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}<assistant>{{ message['content'] }}<eos>"
    "{% else %}{{ message['content'] }}{% endif %}{{ '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def build_tokenizer(texts: Iterable[str], max_length: int = 128) -> Any:
    """A word-level tokenizer (PreTrainedTokenizerFast) whose vocabulary is what the texts hold.

    A word, also with - or ' inside, is one token, so is a tag such as <action>, and so is every other character. A
    space beside a word or a tag separates and is no token; any other space is one, since it is the cell of a grid.
    Line breaks are no tokens: the boards of one environment have one width. Decoding puts a space between tokens.

    The ids are the same for the same set of texts, in whatever order. Ids 0 to 3 are <pad>, <eos>, <unk> and
    <assistant>, which begins an answer in the chat template.

    Args:
        texts: prompts and answers in every word that the model has to know; others become <unk>.
        max_length: tokens that the model takes.

    Raises:
        ValueError: there is no text.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    normalizer = normalizers.Replace(Regex(_SEPARATOR), "\n")
    splitter = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("\n+"), "removed"),
            pre_tokenizers.Split(Regex(_TOKEN), "isolated"),
        ]
    )
    found = {
        token for text in set(texts) for token, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))
    }
    if not found:
        raise ValueError(
            "the vocabulary of a tiny model comes from texts, got none: pass prompts and answers of the environment"
        )
    words = [*SPECIAL, *TAGS, *sorted(found.difference(SPECIAL, TAGS))]
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=UNKNOWN)
    )
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        additional_special_tokens=[ASSISTANT],
        chat_template=_CHAT_TEMPLATE,
        model_max_length=max_length,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def build_model(settings: TinySettings, tokenizer: Any, seed: int = 0) -> Any:
    """A LlamaForCausalLM with random weights, float32, in eval mode; the same weights for the same seed.

    The head has weights of its own: they start apart from the embedding, which learns faster at this size.

    Args:
        settings: sizes.
        tokenizer: gives the vocabulary and the special ids.
        seed: of the weights; global generators are left as they are.

    Raises:
        ValueError: hidden is no multiple of heads, or the head's size is odd.
    """
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    head = settings.hidden // settings.heads
    if head * settings.heads != settings.hidden or head % 2:
        raise ValueError(
            f"hidden is heads times an even size, got hidden={settings.hidden}, heads={settings.heads}"
        )
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden,
        intermediate_size=settings.intermediate,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.heads,
        head_dim=head,
        max_position_embeddings=settings.max_length,
        initializer_range=settings.hidden
        ** -0.5,  # with Llama's 0.02, meant for thousands of units, it learns late
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    return model.eval()
