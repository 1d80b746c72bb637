"""Loads a language model and its tokenizer, with adapters, in the precision it trains in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from graphwrap.agents.settings import LoraSettings, ModelSettings

TINY = "tiny"


def choose_device(name: str) -> torch.device:
    """The device by name; "auto": a GPU where there is one.

    Raises:
        ValueError: a GPU that is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(
            f"model.device must be a device that is there, got {name!r}, and PyTorch sees no GPU: take cpu or auto"
        )
    return torch.device(name)


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """The precision the model computes in, by name; "auto": float32 on a CPU, bfloat16 on a GPU.

    Raises:
        ValueError: it is neither.
    """
    if name == "auto":
        name = "float32" if device.type == "cpu" else "bfloat16"
    if name not in ("float32", "bfloat16"):
        raise ValueError(f"model.dtype is auto, float32 or bfloat16, got {name!r}")
    return torch.float32 if name == "float32" else torch.bfloat16


def load_tokenizer(settings: ModelSettings, texts: Iterable[str] = ()) -> Any:
    """The tokenizer of the model folder, or of the tiny model: its vocabulary is what the texts hold."""
    if settings.path == TINY:
        from graphwrap.agents.models.tiny import build_tokenizer

        return build_tokenizer(texts, settings.tiny.max_length)
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(settings.path)


def load_model(settings: ModelSettings, tokenizer: Any, seed: int) -> Any:
    """The model in eval mode on its device, with adapters where settings ask for them.

    Weights that are trained are float32 also where the model computes in bfloat16, which has too few digits for
    the updates of a small learning rate. Frozen ones are in the precision of the computation.

    Args:
        settings: where it is, and how.
        tokenizer: of the tiny model.
        seed: of weights that are made: the tiny model's, and adapters.

    Raises:
        ValueError: a setting that is not possible.
        ModuleNotFoundError: LoRA without PEFT.
    """
    device = choose_device(settings.device)
    dtype = choose_dtype(settings.dtype, device)
    stored = dtype if settings.lora.rank else torch.float32
    if settings.path == TINY:
        from graphwrap.agents.models.tiny import build_model

        model = build_model(settings.tiny, tokenizer, seed).to(stored)
    else:
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(settings.path, dtype=stored)
    if settings.lora.rank:
        model = add_adapters(model, settings.lora, seed)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if settings.lora.rank:
            model.enable_input_require_grads()
    return model.to(device).eval()


def add_adapters(model: Any, lora: LoraSettings, seed: int) -> Any:
    """The model with PEFT's LoRA adapters, which alone are trained; nothing changes until they are.

    Raises:
        ValueError: dropout, or an unknown target module.
        ModuleNotFoundError: PEFT is missing.
    """
    if lora.rank < 0:
        raise ValueError(f"lora.rank is at least 0, got {lora.rank}")
    if lora.dropout:
        raise ValueError(
            f"lora.dropout is 0, got {lora.dropout}: dropout makes the ratio of equal weights differ from 1"
        )
    try:
        from peft import LoraConfig, get_peft_model
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("LoRA needs peft: pip install 'graphwrap[llm]'", name="peft") from error
    modules: str | list[str] = lora.target_modules
    if modules != "all-linear":
        modules = [name.strip() for name in lora.target_modules.split(",")]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(
            model,
            LoraConfig(
                r=lora.rank, lora_alpha=lora.alpha, target_modules=modules, bias="none", task_type="CAUSAL_LM"
            ),
        )
