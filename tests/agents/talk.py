"""An engine that answers by a script, and a small policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphwrap.agents.engines import Engine, Generation, Sampling
from graphwrap.agents.models.tiny import build_tokenizer
from graphwrap.agents.policy import Policy
from graphwrap.agents.prompts import Prompter, PromptTemplate
from graphwrap.agents.settings import ModelSettings, PromptSettings, Settings, TinySettings
from graphwrap.envs.pool import EnvPool
from tests.agents.walk import Walk

TEXTS = ["at 0 1 2 3 4 5 of", "<action>forth</action> <action>back</action> <action>burn</action>", "fly"]
FORTH, BACK, BURN, FLY = (f"<action>{word}</action>" for word in ("forth", "back", "burn", "fly"))


Script = Callable[[int, int, str], str]
"""(number of the call, place in the batch, prompt) -> answer."""


class ScriptedEngine(Engine):
    """Answers by a script; every token has log-probability -1."""

    def __init__(self, tokenizer: Any, script: Script) -> None:
        self.tokenizer = tokenizer
        self.script = script
        self.calls: list[tuple[int, Sampling]] = []

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Generation]:
        number = len(self.calls)
        self.calls.append((len(prompts), sampling))
        answers = []
        for place, prompt in enumerate(prompts):
            text = self.script(number, place, self.tokenizer.decode(prompt))
            ids = (*self.tokenizer(text)["input_ids"], self.tokenizer.eos_token_id)
            finished = len(ids) <= sampling.max_tokens
            ids = ids[: sampling.max_tokens]
            answers.append(Generation(ids, np.full(len(ids), -1.0, np.float32), finished))
        return answers

    def update(self, policy: Policy) -> None:
        pass


def small_settings(tasks: int = 2, group_size: int = 2) -> Settings:
    settings = Settings()
    settings.model = ModelSettings(
        tiny=TinySettings(hidden=16, layers=2, heads=2, intermediate=32, max_length=64)
    )
    settings.prompt = PromptSettings(history=0, max_tokens=40)
    settings.rollout.tasks = tasks
    settings.rollout.group_size = group_size
    settings.rollout.max_tokens = 4
    settings.ppo.learning_rate = 1e-2
    settings.updates = 4
    return settings


def small_prompter(settings: Settings, tokenizer: Any = None) -> Prompter:
    template = PromptTemplate.parse("{observation}")
    return Prompter(template, tokenizer or build_tokenizer(TEXTS), settings.prompt)


def small_policy(settings: Settings, *, critic: bool = False, reference: bool = True) -> Policy:
    return Policy.load(settings.model, critic=critic, reference=reference, texts=TEXTS, seed=1)


def walks(settings: Settings, processes: int = 0, **options: Any) -> EnvPool:
    count = settings.rollout.tasks * settings.rollout.group_size
    return EnvPool(partial(Walk, **options), count, processes)
