"""Full weights under their Hugging Face names, and model folders written and read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

ADAPTER = "adapter_model.safetensors"


def is_peft(model: Any) -> bool:
    """True where the model has PEFT's adapters."""
    return hasattr(model, "peft_config")


def full_weights(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Each weight of the model once, under its Hugging Face name; adapters are added to what they adapt.

    A tied head is left out: it is the embedding. With adapters the merged weights are new tensors, made one at a
    time; the model's own stay as they are.
    """
    if not is_peft(model):
        for name, weight in model.named_parameters():
            yield name, weight.detach()
        return
    from peft.tuners.lora import LoraLayer

    base = model.get_base_model()
    adapted: dict[str, Any] = {
        name: module for name, module in base.named_modules() if isinstance(module, LoraLayer)
    }
    for name, weight in base.named_parameters():
        owner, _, kind = name.rpartition(".base_layer.")
        if owner:
            name = f"{owner}.{kind}"
        elif ".lora_" in name:
            continue
        merged = weight.detach()
        if owner and kind == "weight":
            layer = adapted[owner]
            for adapter in layer.active_adapters:
                delta = layer.get_delta_weight(adapter)
                merged = (merged.float() + delta.detach().float()).to(merged.dtype)
        yield name, merged


def save_model(model: Any, folder: Path, merged: bool) -> None:
    """Write what `from_pretrained` loads: the model, its adapters, or the model with them merged in."""
    if not is_peft(model):
        model.save_pretrained(folder)
    elif not merged:
        model.save_pretrained(folder, save_embedding_layers=False)
    else:
        base = model.get_base_model()
        weights = {name: weight.cpu().contiguous() for name, weight in full_weights(model)}
        base.save_pretrained(folder, state_dict=weights)


def _is_alike(model: Any, folder: Path) -> bool:
    """Whether the folder's configuration is of the model's kind."""
    from transformers import AutoConfig

    return bool(AutoConfig.from_pretrained(folder).model_type == model.config.model_type)


def restore_model(model: Any, folder: Path) -> None:
    """Read the weights that `save_model` wrote into the model, in place.

    Raises:
        FileNotFoundError: the folder holds no weights of this kind.
        ValueError: they are another model's.
    """
    from safetensors.torch import load_file

    if is_peft(model):
        from peft import set_peft_model_state_dict

        path = folder / ADAPTER
        if not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist: a policy with LoRA is restored from its adapters"
            )
        left: Any = set_peft_model_state_dict(model, load_file(path))
        if left.unexpected_keys:
            raise ValueError(f"{path} holds adapters for other modules: {left.unexpected_keys[0]}")
        return
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no model*.safetensors")
    saved = {name: weight for file in files for name, weight in load_file(file).items()}
    own = dict(model.named_parameters())
    if not saved.keys() >= own.keys() and _is_alike(model, folder):
        # Files may have other names than the module, such as each expert of a mixture by itself.
        loaded = type(model).from_pretrained(folder, dtype=model.dtype)
        saved = dict(loaded.named_parameters())
    wrong = [name for name in own if name not in saved or saved[name].shape != own[name].shape]
    wrong += sorted(saved.keys() - model.state_dict().keys())
    if wrong:
        raise ValueError(f"{folder} holds the weights of another model: {wrong[0]} differs")
    with torch.no_grad():
        for name, weight in own.items():
            weight.copy_(saved[name])
