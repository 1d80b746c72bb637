"""Models that are talked to: prompts in, texts out. Engines of tokens and endpoints serve the same agents by it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from graphwrap.agents.engines.base import Engine, Generation, Sampling
from graphwrap.agents.prompts import Prompt, Prompter

_CACHED_TEXTS = 8192


@dataclass(frozen=True, eq=False)
class Reply(Generation):
    """One answer as text. Its token ids and their log-probabilities are empty where an endpoint keeps them."""

    text: str = ""  # without the end-of-sequence token; what the prompt prefilled comes first
    prompt_tokens: int = 0
    answer_tokens: int = 0


class Chat(ABC):
    """Answers prompts."""

    @abstractmethod
    def answer(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Reply]:
        """Answer every prompt, in this order.

        Args:
            prompts: As a `Prompter` for this model makes them.
            sampling: How.
        """


class TokenChat(Chat):
    """Answers with an engine of tokens.

    Args:
        engine: Its weights answer.
        prompter: Made the prompts, and decodes the answers.
    """

    def __init__(self, engine: Engine, prompter: Prompter) -> None:
        self.engine = engine
        self._decode = lru_cache(_CACHED_TEXTS)(prompter.decode)

    def answer(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Reply]:
        """Answer every prompt, in this order."""
        answers = self.engine.generate([prompt.token_ids for prompt in prompts], sampling)
        return [self._reply(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True)]

    def _reply(self, prompt: Prompt, answer: Generation) -> Reply:
        ids = answer.token_ids
        text = self._decode(ids[:-1] if answer.finished else ids)
        return Reply(ids, answer.log_probs, answer.finished, text, len(prompt.token_ids), len(ids))
