"""A chat that answers by a script, and evaluations with it on short walks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from graphwrap.agents.engines import Sampling
from graphwrap.agents.engines.chat import Chat, Reply
from graphwrap.agents.evaluation.agents import make_agent
from graphwrap.agents.evaluation.playing import Broken, Evaluation
from graphwrap.agents.evaluation.records import Records
from graphwrap.agents.evaluation.settings import EvaluationSettings
from graphwrap.agents.playing.episodes import Player
from graphwrap.agents.prompts import Prompt
from graphwrap.envs.pool import EnvPool
from tests.agents.walk import Walk

Script = Callable[[str, int], str]
"""(prompt, seed of the answer) -> answer."""


class Talker(Chat):
    """Answers by a script; notes what it was asked."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[str] = []
        self.samplings: list[Sampling] = []

    def answer(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Reply]:
        assert sampling.seeds is not None
        assert len(sampling.seeds) == len(prompts)
        self.samplings.append(sampling)
        self.asked += [prompt.text for prompt in prompts]
        texts = [self.script(prompt.text, seed) for prompt, seed in zip(prompts, sampling.seeds)]
        return [Reply((), np.zeros(0, np.float32), True, text, 10, 3) for text in texts]


def settings_of(
    agent: str = "zero-shot", tasks: int = 4, parallel: int = 3, **changes: int | str
) -> EvaluationSettings:
    settings = EvaluationSettings()
    settings.agent.name = agent
    settings.evaluation.tasks, settings.evaluation.parallel = tasks, parallel
    for name, value in changes.items():
        part = settings.agent if hasattr(settings.agent, name) else settings.evaluation
        assert hasattr(part, name)
        setattr(part, name, value)
    return settings


def play(
    settings: EvaluationSettings, folder: Path, talker: Talker, env: type = Walk, **options: object
) -> tuple[Evaluation, list[Broken]]:
    """Play what is missing in a folder."""
    agent = make_agent(settings, None)
    plan = Evaluation(settings, Records(folder))
    with EnvPool(partial(env, **options), settings.evaluation.parallel) as pool:
        return plan, plan.run(agent, Player(agent.prompter, talker, pool))
