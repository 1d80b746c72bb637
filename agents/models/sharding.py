"""Weights, gradients and moments divided over the processes of a run (PyTorch's FSDP, `fully_shard`)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from graphwrap.agents.policy import Policy


class ShardedPolicy(Policy):
    """A policy whose process holds a part of each weight; layers are put together when they compute.

    Every process must evaluate as often as the others. Gradients are sums over the processes. Engines and checkpoints
    get `whole()`, which is a copy of all weights per process.

    Args:
        whole: A policy with the weights to start from, the same in all processes; it is kept for `whole()`.
        device: Where this process computes.
        engine_uses_whole: Whether the copy is on `device` too, for an engine that generates with it; otherwise it stays
            where it is and only hands over weights.
    """

    def __init__(self, whole: Policy, device: torch.device, engine_uses_whole: bool) -> None:
        model = _sharded(whole.model, device)
        head: nn.Linear | None = whole.value_head
        super().__init__(model, whole.tokenizer, whole.dtype, head is not None)
        # Whether prompts are shared depends on the rows, and so would the number of calls.
        self.share_prompts = False
        self.value_head: nn.Linear | None = None if head is None else _sharded(head, device)
        if whole._frozen is not None:
            self._frozen = _sharded(whole._frozen, device)
            whole._frozen = None
        if engine_uses_whole:
            whole.model.to(device)
        whole.device = device
        self._whole = whole

    @torch.no_grad()
    def whole(self) -> Policy:
        """The same policy with all weights in this process, always the same object; to be called by all processes."""
        for weight, copied in zip(self.parameters(), self._whole.parameters(), strict=True):
            copied.copy_(gathered(weight))
        return self._whole

    def freeze_reference(self) -> None:
        """Make the weights of now the reference; adapters need no copy."""
        if not self.has_adapters:
            self._frozen = _sharded(self.whole().base, self.device).requires_grad_(False)

    @torch.no_grad()
    def restore(self, folder: str | Path) -> None:
        """As in `Policy`; every process reads the folder."""
        self._whole.restore(folder)
        for weight, copied in zip(self.parameters(), self._whole.parameters(), strict=True):
            weight.to_local().copy_(scattered(copied, weight).to_local())  # type: ignore[operator]


def is_sharded(tensor: Any) -> bool:
    """Whether this process holds a part of the tensor only."""
    return hasattr(tensor, "full_tensor")


def gathered(value: Any) -> Any:
    """A sharded tensor as a whole one; anything else as it is."""
    return value.detach().full_tensor() if is_sharded(value) else value


def scattered(value: Any, like: Any) -> Any:
    """A whole tensor, the same in all processes, sharded as `like` is; as it is where that is not."""
    if not is_sharded(like) or not torch.is_tensor(value) or value.shape != like.shape:
        return value
    from torch.distributed.tensor import distribute_tensor

    device = like.to_local().device
    return distribute_tensor(value.detach().to(device), like.device_mesh, like.placements, src_data_rank=None)


def gathered_moments(state: Mapping[str, Any]) -> dict[str, Any]:
    """An optimizer's state_dict with whole tensors on the CPU, as one process would have it."""
    moments = {
        number: {
            name: gathered(value).cpu() if torch.is_tensor(value) else value for name, value in kept.items()
        }
        for number, kept in state["state"].items()
    }
    return {**state, "state": moments}


def scattered_moments(state: Mapping[str, Any], parameters: list[nn.Parameter]) -> dict[str, Any]:
    """The opposite of `gathered_moments`."""
    moments = {
        number: {name: scattered(value, parameters[number]) for name, value in kept.items()}
        for number, kept in state["state"].items()
        if number < len(parameters)
    }
    return {**state, "state": moments}


def _sharded(model: Any, device: torch.device) -> Any:
    """A sharded copy of a module, layer by layer, so that only one of them is whole on the device at a time."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from transformers.modeling_layers import GradientCheckpointingLayer

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    model = copy.deepcopy(model)
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    for module in [*layers, model]:
        fully_shard(module, mesh=mesh)
        module.set_gradient_divide_factor(1.0)  # a sum, no mean
        module.set_force_sum_reduction_for_comms(True)
    return model
