"""What an evaluation depends on: a training run's settings, and some of its own."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphwrap.agents.runs.checkpoints import FREE as FREE_IN_TRAINING
from graphwrap.agents.runs.checkpoints import MODEL
from graphwrap.agents.runs.checks import (
    NOT_NEGATIVE,
    POSITIVE,
    RULES,
    TEXT,
    at_least,
    faults_of,
    one_of,
    vllm_temperature_faults,
)
from graphwrap.agents.runs.config import load_settings_of
from graphwrap.agents.runs.run_folder import SETTINGS, RunFolder
from graphwrap.agents.settings import LoraSettings, Settings

ZERO_SHOT, REACT, REFLEXION = AGENTS = ("zero-shot", "react", "reflexion")
OPENAI = "openai"
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass
class AgentSettings:
    """How the model is made an agent."""

    name: str = ZERO_SHOT  # with prompt.template, as in training; or "react", "reflexion"
    template: str = ""  # of the prompts of react and reflexion; empty: the shipped one of this name
    history: int = 50  # react, reflexion: earlier steps in the prompt, thoughts included, as far as they fit
    trials: int = 3  # reflexion: attempts at a task; one that fails is followed by a reflection
    reflections: int = 3  # reflexion: how many of the last ones are shown
    reflect_template: str = "reflect"  # reflexion: of the prompt that asks for one
    reflect_max_tokens: int = 256  # reflexion: of one


@dataclass
class EndpointSettings:
    """An OpenAI-compatible endpoint, for engine.name=openai; model.path is the model's name there."""

    base_url: str = "https://api.openai.com/v1"  # what stands before /chat/completions
    key_variable: str = "OPENAI_API_KEY"  # the environment variable that has the key; empty: there is none
    concurrency: int = 8  # requests at a time
    timeout: float = 120.0  # seconds without an answer
    retries: int = 6  # of a request
    longest_wait: float = 300.0  # seconds; an endpoint that asks to wait for longer ends the run
    requests_per_minute: int = 0  # 0: no limit of ours
    tokens_per_minute: int = 0  # of prompts and answers; 0: no limit of ours
    prompt_price: float = 0.0  # per million tokens
    answer_price: float = 0.0  # per million tokens
    length_field: str = (
        "max_tokens"  # what limits an answer is called; newer models want max_completion_tokens
    )
    seed: bool = False  # send seeds, where the endpoint takes them
    options: dict[str, Any] = field(default_factory=dict)  # more fields of a request; null takes one out


@dataclass
class PlaySettings:
    """Which episodes are played."""

    tasks: int = 64
    repeats: int = 1  # episodes of each task, such as 8 for credit
    temperature: float = 0.4
    seed: int = 0  # of tasks and answers
    task_option: str = (
        ""  # the option of reset() that takes a task's number, from 0; empty: seeds choose tasks
    )
    parallel: int = 16  # episodes at a time


@dataclass
class EvaluationSettings(Settings):
    """A whole evaluation. Of a training run's settings, those of env, model, prompt and engine count here, and
    rollout.max_tokens, the longest answer."""

    agent: AgentSettings = field(default_factory=AgentSettings)
    openai: EndpointSettings = field(default_factory=EndpointSettings)
    evaluation: PlaySettings = field(default_factory=PlaySettings)


COUNTED = ("env.", "model.", "prompt.", "engine.", "agent.", "openai.", "evaluation.", "rollout.max_tokens")
"""Beginnings of the settings that an evaluation uses."""
FREE = {name for name in FREE_IN_TRAINING if name.startswith(COUNTED)} | {
    "evaluation.parallel",
    "evaluation.tasks",
    "openai.answer_price",
    "openai.concurrency",
    "openai.key_variable",
    "openai.longest_wait",
    "openai.prompt_price",
    "openai.requests_per_minute",
    "openai.retries",
    "openai.timeout",
    "openai.tokens_per_minute",
}
"""Those of them that may change when it is gone on with: they decide speed, cost and how many tasks are played."""

_RULES = {
    **{key: rule for key, rule in RULES.items() if key != "engine.name"},
    "engine.name": one_of("transformers", "vllm", OPENAI),
    "agent.name": one_of(*AGENTS),
    "agent.history": at_least(0),
    "agent.trials": at_least(1),
    "agent.reflections": at_least(1),
    "agent.reflect_template": TEXT,
    "agent.reflect_max_tokens": at_least(1),
    "openai.concurrency": at_least(1),
    "openai.timeout": POSITIVE,
    "openai.retries": at_least(0),
    "openai.longest_wait": NOT_NEGATIVE,
    "openai.requests_per_minute": at_least(0),
    "openai.tokens_per_minute": at_least(0),
    "openai.prompt_price": NOT_NEGATIVE,
    "openai.answer_price": NOT_NEGATIVE,
    "openai.length_field": TEXT,
    "evaluation.tasks": at_least(1),
    "evaluation.repeats": at_least(1),
    "evaluation.temperature": NOT_NEGATIVE,
    "evaluation.seed": at_least(0),
    "evaluation.parallel": at_least(1),
}


def load_evaluation(
    config: str, overrides: Sequence[str] = (), checkpoint: str = "best"
) -> EvaluationSettings:
    """Settings of an evaluation.

    The environment is that of validation: `env.held_out_kwargs` are put into `env.kwargs`, but for arguments that
    overrides of `env.kwargs` name.

    Args:
        config: A YAML file, the name of a shipped one, or the folder of a training run, whose settings and checkpoint
            are taken.
        overrides: As in `graphwrap.agents.runs.config.load_settings`.
        checkpoint: Of a run's folder: "best", or the "latest" where none is best, or "latest".

    Raises:
        ImportError, ValueError: As `load_settings`; or the folder holds no checkpoint.
    """
    folder = Path(config)
    if not folder.is_dir():
        settings = load_settings_of(EvaluationSettings, faults_of_evaluation, config, overrides)
    else:
        file = folder / SETTINGS
        if not file.is_file():
            raise ValueError(f"{folder} must be the folder of a training run, with its {SETTINGS}")
        model = _checkpoint_of(folder, checkpoint)
        given = [*overrides]
        if not any(text.partition("=")[0].strip() == "model.path" for text in overrides):
            given += [f"model.path={_quoted(str(model))}", "model.lora.rank=0"]
        settings = load_settings_of(EvaluationSettings, faults_of_evaluation, file, given)
    env = settings.env
    named = _overridden(overrides, env.kwargs)
    held_out = {name: value for name, value in env.held_out_kwargs.items() if name not in named}
    kwargs = {**env.kwargs, **held_out}
    if Path(settings.model.path).is_dir():
        # Whatever the link to the best checkpoint points to later.
        settings.model.path = str(Path(settings.model.path).resolve())
    settings.model.lora = LoraSettings()  # adapters that are not trained change nothing
    settings.env = dataclasses.replace(env, kwargs=kwargs, held_out_kwargs={})
    return settings


def _overridden(overrides: Sequence[str], kwargs: Mapping[str, Any]) -> set[str]:
    """The arguments in `env.kwargs` that overrides set."""
    keys = [text.partition("=")[0].strip() for text in overrides]
    if "env.kwargs" in keys:
        return set(kwargs)
    return {key.split(".")[2] for key in keys if key.startswith("env.kwargs.")}


def trials_of(settings: EvaluationSettings) -> int:
    """Attempts at a task, at most."""
    return settings.agent.trials if settings.agent.name == REFLEXION else 1


def faults_of_evaluation(settings: EvaluationSettings) -> list[str]:
    """What is wrong with the values: a rule, the value and the way out for each; empty if all is well."""
    faults = faults_of(settings, _RULES)
    name, endpoint = settings.engine.name, settings.openai
    if endpoint.key_variable and not _NAME.fullmatch(endpoint.key_variable):
        faults.append(
            "openai.key_variable must be the name of an environment variable, in capitals such as OPENAI_API_KEY (what "
            "was given is not shown, it could be a key): export NAME=... and set openai.key_variable=NAME"
        )
    if not re.fullmatch(r"https?://[^@?#\s]+", endpoint.base_url):
        faults.append(
            "openai.base_url must be http:// or https://, a host and a path, such as http://localhost:8000/v1, without "
            "user, query or key (what was given is not shown, it could hold a key)"
        )
    for field_name in ("messages", "model", "stream", "n"):
        if field_name in endpoint.options:
            faults.append(
                f"openai.options must leave {field_name} alone, got {endpoint.options[field_name]!r}"
            )
    if name == OPENAI:
        if settings.model.path == "tiny":
            faults.append(
                "model.path must be the endpoint's name of the model for engine.name=openai, got 'tiny'"
            )
        if settings.prompt.prefill:
            faults.append(
                f"prompt.prefill must be empty for engine.name=openai, got {settings.prompt.prefill!r}: an endpoint "
                "begins its answers by itself"
            )
    if name == "vllm":
        faults += vllm_temperature_faults("evaluation.temperature", settings.evaluation.temperature)
    return faults


def _checkpoint_of(folder: Path, which: str) -> Path:
    if which not in ("best", "latest"):
        raise ValueError(f"--checkpoint must be best or latest, got {which!r}")
    checkpoints = RunFolder(folder).checkpoints
    found = (which == "best" and checkpoints.best) or checkpoints.latest
    if not found:
        raise ValueError(f"{folder} must hold a checkpoint, and has none yet: train on, or set model.path")
    return found.path / MODEL


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
