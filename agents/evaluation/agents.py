"""Prompting agents: what a model is asked, and what it takes along from one trial of a task to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphwrap.agents.evaluation.settings import REFLEXION, ZERO_SHOT, EvaluationSettings
from graphwrap.agents.prompting.answers import without_thoughts
from graphwrap.agents.prompts import Prompt, Prompter, PromptTemplate, Turn


@dataclass(frozen=True)
class Agent:
    """How a model is asked."""

    prompter: Prompter  # for an action
    reflector: Prompter | None = None  # for what it learnt from a trial that failed
    shown: int = 0  # reflections in a prompt: the last ones

    def reflection_prompt(
        self, task: str, turns: Sequence[Turn], last_observation: str, reflections: Sequence[str]
    ) -> Prompt:
        """What asks for a reflection on a trial that failed.

        Args:
            task: What was to be done.
            turns: All steps of the trial.
            last_observation: What its last step led to.
            reflections: Those of the trials before.
        """
        assert self.reflector is not None
        return self.reflector.encode(
            task=task,
            step=len(turns),
            history=turns,
            observation=last_observation,
            admissible=None,
            reflections=reflections,
        )

    def with_reflection(self, reflections: Sequence[str], answer: str) -> tuple[str, ...]:
        """The reflections of the next trial: the last ones, with that of an answer."""
        return (*reflections, without_thoughts(answer))[-self.shown :]


def load_templates(settings: EvaluationSettings) -> dict[str, PromptTemplate]:
    """The templates of the agent, by what they ask for: "action", and for reflexion "reflection".

    Raises:
        ValueError: There is no such template, or it breaks a rule.
    """
    agent = settings.agent
    if agent.name == ZERO_SHOT:
        return {"action": PromptTemplate.load(settings.prompt.template)}
    found = {"action": PromptTemplate.load(agent.template or agent.name)}
    if agent.name == REFLEXION:
        found["reflection"] = PromptTemplate.load(agent.reflect_template)
    return found


def make_agent(settings: EvaluationSettings, tokenizer: Any) -> Agent:
    """The agent of the settings.

    Args:
        settings: Of the evaluation.
        tokenizer: The model's; None for an endpoint, which has its own.

    Raises:
        ValueError: There is no such template, or it breaks a rule.
    """
    agent, templates = settings.agent, load_templates(settings)
    if agent.name == ZERO_SHOT:
        return Agent(Prompter(templates["action"], tokenizer, settings.prompt))
    prompting = replace(settings.prompt, history=agent.history)
    prompter = Prompter(templates["action"], tokenizer, prompting)
    if agent.name != REFLEXION:
        return Agent(prompter)
    reflector = Prompter(templates["reflection"], tokenizer, replace(prompting, prefill=""))
    return Agent(prompter, reflector, agent.reflections)
