"""Weights as safetensors files, on their way to an engine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

FILE_BYTES = 2**30


def write(
    weights: Iterable[tuple[str, torch.Tensor]], folder: Path, file_bytes: int = FILE_BYTES
) -> list[str]:
    """Write weights into a new folder, a file at a time, so that no more than a file's worth is copied in memory.

    Args:
        weights: Names and tensors on any device.
        folder: Made here; each file in it is complete or absent.
        file_bytes: A file is closed when it holds this much.

    Returns:
        The files' paths, in order.
    """
    folder.mkdir(parents=True)
    paths: list[str] = []
    held: dict[str, torch.Tensor] = {}
    size = 0
    for name, tensor in weights:
        # A copy, since tensors in one file may not share memory.
        held[name] = tensor.detach().to("cpu", copy=True).contiguous()
        size += held[name].nbytes
        if size >= file_bytes:
            paths.append(_write_one(held, folder, len(paths)))
            held, size = {}, 0
    if held:
        paths.append(_write_one(held, folder, len(paths)))
    return paths


def read(paths: Sequence[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """The weights of files that `write` wrote, one in memory at a time."""
    from safetensors import safe_open

    for path in paths:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                yield name, file.get_tensor(name)


def remove(folder: Path) -> None:
    """Remove a folder if it is there."""
    shutil.rmtree(folder, ignore_errors=True)


def _write_one(weights: dict[str, torch.Tensor], folder: Path, index: int) -> str:
    from safetensors.torch import save_file

    path = folder / f"model-{index:05d}.safetensors"
    beside = path.with_suffix(".part")
    save_file(weights, beside, metadata={"format": "pt"})
    os.replace(beside, path)
    return str(path)
