"""One vLLM engine in this process."""

from __future__ import annotations

import contextlib
import gc
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from graphwrap.agents.engines import vllm_worker
from graphwrap.agents.engines.base import Generation, Sampling
from graphwrap.agents.engines.vllm_guest import check_this_process, import_vllm, process_kept, spare_llvmlite

if TYPE_CHECKING:
    import torch

LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # what vLLM makes room for


@dataclass(frozen=True)
class Start:
    """What a session is started with."""

    model: str  # folder
    dtype: str  # such as float32
    max_length: int  # tokens of a prompt and its answer
    max_batch: int  # prompts at a time
    memory_bytes: int  # key-value cache
    tensor_parallel: int
    sleep: bool
    stop: tuple[int, ...]  # the token ids that end an answer
    lora_rank: int = 0  # 0: no adapters
    options: dict[str, Any] = field(default_factory=dict)  # for vllm.LLM, last word
    device: int | None = None  # the policy's GPU


class Session:
    """vLLM in this process."""

    def __init__(self, start: Start) -> None:
        check_this_process()
        self._stop = list(start.stop)
        self._adapter: Any = None
        self._asleep = False
        self._failure = ""
        self.takes_tensors = start.tensor_parallel == 1
        with process_kept(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of vLLM's own calls
            os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the model is a local folder
            vllm = import_vllm()
            from vllm.distributed.parallel_state import (
                cleanup_dist_env_and_memory,
                model_parallel_is_initialized,
            )
            from vllm.platforms import current_platform

            self._is_cpu = current_platform.is_cpu()
            self._can_sleep = start.sleep and not self._is_cpu
            arguments = {**_arguments(start, self._is_cpu), **start.options}
            if model_parallel_is_initialized():
                raise RuntimeError(
                    "a process can hold one vLLM engine, and this one has one already: close it first, or set "
                    "engine.own_process=true"
                )
            spare_llvmlite()
            try:
                self._llm = vllm.LLM(**arguments)
            except BaseException:
                # Or no other could start in this process.
                cleanup_dist_env_and_memory()
                raise

    def generate(self, prompts: list[list[int]], sampling: Sampling) -> list[Generation]:
        """Answer the prompts, in this order."""
        from vllm import SamplingParams

        self._check()
        self.wake()
        # A seed each, so that an answer depends on neither the batch's schedule nor the global generators.
        seeds: Sequence[int] | np.ndarray
        if sampling.seeds is not None:
            seeds = sampling.seeds
        else:
            drawn = np.random.SeedSequence(sampling.seed).generate_state(
                sampling.first + len(prompts), np.uint64
            )
            seeds = drawn[sampling.first :] >> np.uint64(1)
        parameters = [
            SamplingParams(
                temperature=sampling.temperature,
                max_tokens=sampling.max_tokens,
                seed=int(seed),
                logprobs=0,
                flat_logprobs=True,
                detokenize=False,
                ignore_eos=True,
                stop_token_ids=self._stop,
            )
            for seed in seeds
        ]
        inputs: list[Any] = [{"prompt_token_ids": prompt} for prompt in prompts]
        # Until it is through: what is broken off between two of vLLM's steps cannot be taken up again.
        self._failure = "a generation was broken off inside vLLM"
        with process_kept(), self._eager():
            outputs = self._llm.generate(inputs, parameters, use_tqdm=False, lora_request=self._adapter)
        self._failure = ""
        if len(outputs) != len(prompts):
            raise RuntimeError(f"vLLM must answer every prompt, got {len(outputs)} answers to {len(prompts)}")
        return [_generation(output.outputs[0], sampling.temperature == 0) for output in outputs]

    def load(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take over all weights; whatever `weights` raises is raised again, with the model half-changed."""
        self._reload(vllm_worker.reload, weights)

    def load_files(self, paths: list[str]) -> None:
        """Take over all weights from safetensors files."""
        self._reload(vllm_worker.reload_files, paths)

    def swap(self, folder: str, number: int) -> None:
        """Use another adapter.

        Args:
            folder: PEFT's adapter folder.
            number: A number that no adapter of this session had: vLLM takes equal numbers for equal weights.
        """
        from vllm.lora.request import LoRARequest

        self._check()
        self.wake()
        engine = self._llm.llm_engine
        with process_kept():
            if self._adapter is not None:
                engine.remove_lora(self._adapter.lora_int_id)
                self._adapter = None
            adapter = LoRARequest(f"policy-{number}", number, folder)
            if not engine.add_lora(adapter):
                raise RuntimeError(f"vLLM did not take the adapter of {folder}")
            self._adapter = adapter
            self._reset_prefix_cache()

    def sleep(self) -> None:
        """Keep the weights in main memory and drop the caches, on a GPU."""
        if self._can_sleep and not self._asleep:
            self._asleep = True
            self._llm.sleep(level=1)

    def wake(self) -> None:
        """Undo `sleep`."""
        if self._asleep:
            self._llm.wake_up()
            self._asleep = False

    def close(self) -> None:
        """Free the model and the caches, and leave this process fit for another session."""
        llm = self.__dict__.pop("_llm", None)
        if llm is None:
            return
        from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

        with process_kept():
            llm.llm_engine.engine_core.shutdown()
            del llm
            gc.collect()
            cleanup_dist_env_and_memory()

    def _reload(self, function: Any, weights: Any) -> None:
        self._check()
        self.wake()
        with process_kept():
            self._failure = "an update of its weights was broken off inside vLLM"
            errors = self._llm.collective_rpc(function, args=(weights,))
            self._failure = ""
            for error in errors:
                if error is not None:
                    raise error
            self._reset_prefix_cache()

    def _reset_prefix_cache(self) -> None:
        if not self._llm.reset_prefix_cache():
            raise RuntimeError(
                "vLLM did not reset its prefix cache, whose entries are those of the weights before the update"
            )

    def _check(self) -> None:
        if self._failure:
            raise RuntimeError(
                f"vLLM cannot go on, since {self._failure}: close the engine and make a new one"
            )

    @contextlib.contextmanager
    def _eager(self) -> Iterator[None]:
        """On a CPU, keep vLLM from compiling a helper of its sampler, which takes longer than it ever saves."""
        import torch

        if not self._is_cpu:
            yield
            return
        with torch.compiler.set_stance("force_eager"):
            yield


def _arguments(start: Start, is_cpu: bool) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "model": start.model,
        "dtype": start.dtype,
        "max_model_len": start.max_length,
        "max_num_seqs": start.max_batch,
        "kv_cache_memory_bytes": start.memory_bytes,
        "tensor_parallel_size": start.tensor_parallel,
        "logprobs_mode": "processed_logprobs",  # of the distribution that is drawn from, temperature included
        "generation_config": "vllm",  # not the folder's
        "skip_tokenizer_init": True,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "seed": 0,  # every request has its own
    }
    if is_cpu:
        arguments |= {
            "enforce_eager": True,
            "block_size": 32,
            # A seeded request whose prompt is prefilled in chunks crashes the CPU build.
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(start.max_length, start.max_batch, 4096),
        }
    else:
        # The share that must be free at the start; the cache's size is given, and the trainer may be here too.
        arguments["gpu_memory_utilization"] = 0.01
        arguments["enable_sleep_mode"] = start.sleep
    if start.lora_rank:
        rank = next((rank for rank in LORA_RANKS if rank >= start.lora_rank), start.lora_rank)
        arguments |= {"max_lora_rank": rank, "max_loras": 1}
    return arguments


def _generation(output: Any, certain: bool) -> Generation:
    if output.finish_reason not in ("stop", "length"):
        raise RuntimeError(f"vLLM broke an answer off: {output.finish_reason}")
    flat = output.logprobs
    # The sampled token comes first at every position.
    log_probs = np.array([flat.logprobs[start] for start in flat.start_indices], np.float32)
    if certain:
        log_probs[:] = 0
    return Generation(tuple(output.token_ids), log_probs, output.finish_reason == "stop")
