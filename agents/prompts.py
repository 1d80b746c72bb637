"""From what an agent sees to the token ids of a prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from graphwrap.agents.prompting.answers import Parsed, parse_action
from graphwrap.agents.prompting.templates import PromptTemplate, Turn, template_names

if TYPE_CHECKING:
    from graphwrap.agents.settings import PromptSettings

__all__ = ["Parsed", "Prompt", "PromptTemplate", "Prompter", "Turn", "parse_action", "template_names"]

CHARACTERS_PER_TOKEN = 3.5
"""By which tokens are estimated where the tokenizer is not known: few, so that there are rather too many tokens."""
_CACHED_PROMPTS = 8192


@dataclass(frozen=True)
class Prompt:
    """What the model is given."""

    token_ids: tuple[int, ...]  # special tokens and the answer's prefill included; () without a tokenizer
    text: str
    dropped: int = 0  # turns that were left out to fit
    messages: tuple[tuple[str, str], ...] = ()  # (role, content), where there are no token ids

    @property
    def length(self) -> int:
        """Tokens; estimated where there are no token ids."""
        return len(self.token_ids) if self.token_ids else estimate_tokens(self.text)


def estimate_tokens(text: str) -> int:
    """Tokens of a text for an unknown tokenizer."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


class Prompter:
    """Fills a template and turns it into token ids through the tokenizer's chat template.

    Without a system role in the chat template the system text leads the user message. A tokenizer without a chat
    template is given the plain text. Equal prompts are tokenized once.

    Args:
        template: The template.
        tokenizer: A Hugging Face tokenizer. None: prompts are messages for an endpoint that has its own, and the
            limit holds for estimated tokens.
        settings: History, token limit and prefill; `template` in it is not read.

    Attributes:
        opening: What of every answer is part of its prompt: the prefill, or a <think> of the chat template.

    Raises:
        ValueError: A history or token limit that is none.
    """

    def __init__(self, template: PromptTemplate, tokenizer: Any, settings: PromptSettings) -> None:
        if settings.history < 0:
            raise ValueError(f"prompt.history is a number of steps, at least 0, got {settings.history!r}")
        if settings.max_tokens < 1:
            raise ValueError(f"prompt.max_tokens is at least 1, got {settings.max_tokens!r}")
        self.template = template
        self.tokenizer = tokenizer
        self.settings = settings
        has_chat = tokenizer is not None and bool(tokenizer.chat_template)
        self.has_system_role = has_chat and _has_system_role(tokenizer)
        self.opening = (_opening(tokenizer) if has_chat else "") + settings.prefill
        self._tokenized = lru_cache(_CACHED_PROMPTS)(self._tokenize)

    def encode(
        self,
        *,
        task: str,
        step: int,
        history: Sequence[Turn],
        observation: str,
        admissible: Sequence[str] | None,
        reflections: Sequence[str] = (),
    ) -> Prompt:
        """The prompt of a step, with the last `settings.history` turns, or fewer so that it fits `max_tokens`.

        Args:
            task: What is to be done.
            step: Steps that were made before, 0 at first.
            history: All of these, or at least the last `settings.history`, oldest first.
            observation: What the agent sees.
            admissible: Actions. None or empty: any.
            reflections: Notes of earlier trials, oldest first.

        Raises:
            ValueError: It does not even fit without any turn.
        """
        shown = min(len(history), self.settings.history)
        for kept in range(shown, -1, -1):
            turns = history[len(history) - kept :]
            messages = self.template.messages(
                task=task,
                step=step,
                history=turns,
                observation=observation,
                admissible=admissible,
                reflections=reflections,
            )
            prompt = self._prompt(messages, shown - kept)
            if prompt.length <= self.settings.max_tokens:
                return prompt
        raise ValueError(
            f"a prompt has at most prompt.max_tokens={self.settings.max_tokens} tokens, got {prompt.length} without "
            f"any history: raise it, or shorten the template or the observation, which begins {observation[:80]!r}"
        )

    def decode(self, token_ids: Sequence[int]) -> str:
        """An answer as text, with its `opening`, without the end-of-sequence token, for `parse_action`.

        Args:
            token_ids: As sampled. Special tokens stay, since tags may be some; at the end only those of the end and
                of padding are left out.
        """
        ids = list(token_ids)
        while ids and ids[-1] in (self.tokenizer.eos_token_id, self.tokenizer.pad_token_id):
            ids.pop()
        decoded = self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return self.opening + decoded

    def _prompt(self, messages: Sequence[dict[str, str]], dropped: int) -> Prompt:
        contents = [message["content"] for message in messages]
        if self.tokenizer is None:
            chat = tuple((message["role"], message["content"]) for message in messages)
            return Prompt((), "\n\n".join(contents), dropped, chat)
        return Prompt(*self._tokenized(*contents), dropped)

    def _tokenize(self, *contents: str) -> tuple[tuple[int, ...], str]:
        tokenizer = self.tokenizer
        if self.has_system_role and len(contents) == 2:
            roles: tuple[str, ...] = ("system", "user")
        else:
            roles, contents = ("user",), ("\n\n".join(contents),)
        if tokenizer.chat_template:
            messages = [{"role": role, "content": content} for role, content in zip(roles, contents)]
            text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            text += self.settings.prefill
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]  # those of the chat are in the text
        else:
            text = contents[0] + "\n" + self.settings.prefill
            ids = tokenizer(text)["input_ids"]
            if ids and ids[-1] == tokenizer.eos_token_id:  # some tokenizers end every text
                ids = ids[:-1]
        return tuple(ids), text


def _has_system_role(tokenizer: Any) -> bool:
    """Whether a system message is shown: chat templates without the role raise, or leave it out."""
    probe = "A system message."
    messages = [{"role": "system", "content": probe}, {"role": "user", "content": "Hello."}]
    try:
        text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception:  # jinja2's, which is not imported for this
        return False
    return probe in text


def _opening(tokenizer: Any) -> str:
    """The <think> with which chat templates of reasoning models begin the answer, or ""."""
    messages = [{"role": "user", "content": "Hello."}]
    text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return "<think>" if text.rstrip().endswith("<think>") else ""
