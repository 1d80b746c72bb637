"""Which values the settings of a run may have."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from graphwrap.agents.settings import CRITIC, Settings
from graphwrap.methods import credit_names, make_credit

ENGINES = ("transformers", "vllm")
SHAPED_SAMPLING = (
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "allowed_token_ids",
    "bad_words",
    "override_generation_config",
)
"""Ways of sampling that change the distribution which answers are drawn from."""
VLLM_HEAD_SIZES = (32, 64, 80, 96, 112, 128)


class Rule(NamedTuple):
    """What a value must be, as words and as a test."""

    words: str
    holds: Callable[[Any], bool]
    options: tuple[str, ...] = ()


def at_least(low: int) -> Rule:
    """A number that is `low` or more."""
    return Rule(f"at least {low}", lambda value: value >= low)


def _number(low: float, high: float = math.inf, *, open_low: bool = False) -> Rule:
    end = "" if high == math.inf else f" and at most {high:g}"
    return Rule(
        f"{'above' if open_low else 'at least'} {low:g}{end}, and finite",
        lambda value: math.isfinite(value) and (value > low if open_low else value >= low) and value <= high,
    )


def one_of(*options: str) -> Rule:
    """One of some texts."""
    return Rule(f"one of {', '.join(options)}", lambda value: value in options, options)


POSITIVE = _number(0, open_low=True)
NOT_NEGATIVE = _number(0)
SHARE = _number(0, 1)
TEXT = Rule("a text that is not empty", lambda value: bool(value.strip()))

RULES = {
    "env.id": TEXT,
    "env.processes": at_least(0),
    "model.path": TEXT,
    "model.device": TEXT,
    "model.dtype": one_of("auto", "float32", "bfloat16"),
    "model.tiny.hidden": at_least(1),
    "model.tiny.layers": at_least(1),
    "model.tiny.heads": at_least(1),
    "model.tiny.intermediate": at_least(1),
    "model.tiny.max_length": at_least(2),
    "model.tiny.warm_start_rows": at_least(1),
    "model.tiny.warm_start_guided": SHARE,
    "model.tiny.warm_start_epochs": at_least(0),
    "model.tiny.warm_start_learning_rate": POSITIVE,
    "model.lora.rank": at_least(0),
    "model.lora.alpha": at_least(1),
    "model.lora.dropout": Rule(
        "0, because the trainer's log-probabilities must be those that the answers were drawn with",
        lambda value: value == 0,
    ),
    "model.lora.target_modules": TEXT,
    "prompt.template": TEXT,
    "prompt.history": at_least(0),
    "prompt.max_tokens": at_least(1),
    "engine.name": one_of(*ENGINES),
    "engine.max_batch": at_least(1),
    "engine.memory_gb": POSITIVE,
    "engine.tensor_parallel": at_least(1),
    "rollout.tasks": at_least(1),
    "rollout.group_size": at_least(1),
    "rollout.temperature": _number(0, open_low=True),
    "rollout.max_tokens": at_least(1),
    "rollout.invalid_penalty": NOT_NEGATIVE,
    "rollout.max_attempts": at_least(1),
    "credit.name": one_of(*credit_names(), CRITIC),
    "credit.gamma": SHARE,
    "credit.gae_lambda": SHARE,
    "ppo.learning_rate": POSITIVE,
    "ppo.schedule": one_of("constant", "linear", "cosine"),
    "ppo.warmup": at_least(0),
    "ppo.weight_decay": NOT_NEGATIVE,
    "ppo.epochs": at_least(1),
    "ppo.minibatch": at_least(1),
    "ppo.tokens_per_batch": at_least(1),
    "ppo.ratio": one_of("token", "sequence"),
    "ppo.clip_low": _number(0, 1, open_low=True),
    "ppo.clip_high": POSITIVE,
    "ppo.kl": NOT_NEGATIVE,
    "ppo.entropy": NOT_NEGATIVE,
    "ppo.value": NOT_NEGATIVE,
    "ppo.max_grad_norm": POSITIVE,
    "validation.every": at_least(0),
    "validation.episodes": at_least(0),
    "validation.temperature": NOT_NEGATIVE,
    "distributed.strategy": one_of("ddp", "fsdp"),
    "updates": at_least(1),
    "seed": at_least(0),
    "save_every": at_least(1),
    "show_episodes": at_least(0),
    "threads": at_least(0),
}


def faults_of(settings: Settings, rules: Mapping[str, Rule] = RULES) -> list[str]:
    """What is wrong with the values of `settings`: a rule, the value and the way out for each; empty if all is well."""
    faults = []
    for key, rule in rules.items():
        value: Any = settings
        for name in key.split("."):
            value = getattr(value, name)
        if not rule.holds(value):
            near = difflib.get_close_matches(value, rule.options, n=1) if isinstance(value, str) else []
            hint = f"; did you mean {near[0]}?" if near else ""
            faults.append(f"{key} must be {rule.words}, got {value!r}{hint}")
    return faults + _faults_of_pairs(settings)


def shaped_sampling_fault(key: str) -> str:
    """Why `key`, one of `SHAPED_SAMPLING`, is refused."""
    return (
        f"{key} is refused: answers drawn from a distribution that was cut or bent have other probabilities than the "
        "policy gives them, which biases the importance ratio; leave it out, and set rollout.temperature instead"
    )


def vllm_temperature_faults(key: str, temperature: float) -> list[str]:
    """What is wrong with a temperature for playing with vLLM: nothing if the list is empty."""
    if temperature == 0 or 0.01 <= temperature <= 2:
        return []
    return [f"{key} must be 0 or from 0.01 to 2 for vLLM, got {temperature}"]


def _faults_of_pairs(settings: Settings) -> list[str]:
    env, model, engine, rollout, credit = (
        settings.env,
        settings.model,
        settings.engine,
        settings.rollout,
        settings.credit,
    )
    faults = [
        shaped_sampling_fault(f"engine.options.{key}") for key in engine.options if key in SHAPED_SAMPLING
    ]
    if credit.name == CRITIC:
        if credit.parameters:
            faults.append(
                f"credit.parameters must be empty for {CRITIC}, got {credit.parameters!r}: its settings are "
                "credit.gamma and credit.gae_lambda"
            )
    elif credit.name in credit_names():
        if rollout.group_size < 2:
            faults.append(
                f"rollout.group_size must be at least 2, got {rollout.group_size}: {credit.name} compares the "
                f"episodes of a task; set it to 8, or credit.name={CRITIC}"
            )
        try:
            make_credit(credit.name, **credit.parameters)
        except (TypeError, ValueError) as error:
            faults.append(
                f"credit.parameters must be those of {credit.name} (graphwrap methods {credit.name} lists them), "
                f"got {credit.parameters!r}: {error}"
            )
    if model.path == "tiny":
        tiny = model.tiny
        if model.lora.rank:
            faults.append(
                f"model.lora.rank must be 0 for model.path=tiny, got {model.lora.rank}: a model made from nothing "
                "learns with all its weights. To train adapters on it, give model.path the folder "
                "checkpoints/latest/model of an earlier run"
            )
        if tiny.heads > 0 and tiny.hidden % tiny.heads:
            faults.append(
                f"model.tiny.hidden must be a multiple of model.tiny.heads, got {tiny.hidden} and {tiny.heads}"
            )
        elif engine.name == "vllm" and tiny.heads > 0 and tiny.hidden // tiny.heads not in VLLM_HEAD_SIZES:
            faults.append(
                f"model.tiny.hidden / model.tiny.heads must be one of {', '.join(map(str, VLLM_HEAD_SIZES))} for "
                f"vLLM, got {tiny.hidden // tiny.heads}; choose other heads, or engine.name=transformers"
            )
        if settings.prompt.max_tokens + rollout.max_tokens > tiny.max_length:
            faults.append(
                "model.tiny.max_length must hold prompt.max_tokens + rollout.max_tokens = "
                f"{settings.prompt.max_tokens + rollout.max_tokens} tokens, got {tiny.max_length}"
            )
    if engine.name == "vllm":
        if not 0.01 <= rollout.temperature <= 2:
            faults.append(f"rollout.temperature must be from 0.01 to 2 for vLLM, got {rollout.temperature}")
        faults += vllm_temperature_faults("validation.temperature", settings.validation.temperature)
    if engine.name != "vllm":
        wanted = {
            "engine.own_process": engine.own_process,
            "engine.sleep": engine.sleep,
            "engine.tensor_parallel above 1": engine.tensor_parallel > 1,
            "engine.options": bool(engine.options),
        }
        faults += [
            f"{key} is for vLLM, got engine.name={engine.name}: set engine.name=vllm, or leave it out"
            for key, is_set in wanted.items()
            if is_set
        ]
    if not all(isinstance(key, str) for key in {**env.kwargs, **env.held_out_kwargs}):
        faults.append("env.kwargs and env.held_out_kwargs must have texts as keys, the names of arguments")
    return faults
