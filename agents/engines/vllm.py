"""vLLM as an engine, in this process or in one of its own."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from graphwrap.agents.engines import vllm_files
from graphwrap.agents.engines.base import Engine, Generation, Sampling
from graphwrap.agents.engines.vllm_guest import check_installed
from graphwrap.agents.engines.vllm_process import RemoteSession
from graphwrap.agents.engines.vllm_session import Session, Start
from graphwrap.agents.settings import EngineSettings

if TYPE_CHECKING:
    import torch

    from graphwrap.agents.policy import Policy

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.01, 2.0  # vLLM raises what is below, and refuses what is above


class VLLMEngine(Engine):
    """Generates with vLLM, the CUDA or the CPU build, from a copy of the policy's weights.

    With `settings.own_process` vLLM runs in a process of its own and the weights travel as files. Otherwise it runs
    in this one and reads the policy's tensors; vLLM then sets up `torch.distributed` here, binds new memory to this
    process's NUMA node, and only one such engine can live in a process. `OMP_NUM_THREADS` decides how many threads
    the CPU build uses.

    With LoRA the adapters are merged into the weights that the engine gets. `settings.options` with
    `enable_lora: true` leaves them apart: the base weights are sent once, and every update swaps the adapter.

    An update that fails, or is interrupted, leaves the engine refusing to generate until a complete one.
    """

    def __init__(
        self,
        policy: Policy,
        settings: EngineSettings,
        folder: str | os.PathLike[str],
        *,
        max_length: int,
    ) -> None:
        """Start vLLM with the policy's weights as they are now.

        Args:
            policy: Whose answers are generated.
            settings: `own_process`, `max_batch`, `memory_gb`, `tensor_parallel`, `sleep`, and `options` for
                `vllm.LLM`, which win over everything else set here.
            folder: Where weights lie while they are handed over; room for the model in `policy.dtype`.
            max_length: The tokens of the longest prompt and the longest answer together.

        Raises:
            ImportError: vLLM is missing, or cannot be imported.
            RuntimeError: vLLM does not start, or may not run in this process.
            ValueError: An option does not fit the policy.
        """
        self._max_length = max_length
        self._vocabulary = policy.base.get_input_embeddings().weight.shape[0]
        self._swaps = bool(settings.options.get("enable_lora", False))
        if self._swaps and not policy.has_adapters:
            raise ValueError(
                "engine.options.enable_lora is for a policy with LoRA adapters, got one without: set "
                "model.lora.rank, or leave the option out"
            )
        if max_length < 2:
            raise ValueError(f"max_length must be at least 2, a prompt and an answer, got {max_length}")
        check_installed()
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._scratch = tempfile.TemporaryDirectory(prefix="vllm-", dir=folder)
        self._folder = Path(self._scratch.name)
        self._updates = 0
        self._ready = False
        self._session: Session | RemoteSession | None = None
        try:
            model = self._folder / "model"
            self._names = _write_model(policy, model, merged=not self._swaps)
            start = Start(
                model=str(model),
                dtype=str(policy.dtype).removeprefix("torch."),
                max_length=max_length,
                max_batch=settings.max_batch,
                memory_bytes=int(settings.memory_gb * 2**30),
                tensor_parallel=settings.tensor_parallel,
                sleep=settings.sleep,
                stop=tuple(policy.eos_ids),
                lora_rank=_lora_rank(policy) if self._swaps else 0,
                options=dict(settings.options),
                device=policy.device.index if policy.device.type == "cuda" else None,
            )
            self._session = RemoteSession(start) if settings.own_process else Session(start)
            vllm_files.remove(model)
            if self._swaps:
                self.update(policy)
            self._ready = True
        except BaseException:
            self.close()
            raise

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Generation]:
        """Answer every prompt, in this order; equal arguments and weights give equal answers.

        At temperature 0 log-probabilities are 0, the choice being certain.

        Args:
            prompts: Token ids, special tokens included.
            sampling: How; the temperature is 0 or from 0.01 to 2.

        Raises:
            RuntimeError: The weights are not those of a complete update, the engine was closed, or vLLM failed.
            FloatingPointError: The model's logits are not finite.
            ValueError: A prompt is empty or longer than `max_length` leaves room for, or `sampling` is out of range.
        """
        session = self._open()
        if not self._ready:
            raise RuntimeError(
                "the last update of the engine's weights was not complete, so its answers would come from a mixture "
                "of policies: call update(policy) first"
            )
        self._check(prompts, sampling)
        if not prompts:
            return []
        answers = session.generate([list(map(int, prompt)) for prompt in prompts], sampling)
        if not all(np.isfinite(answer.log_probs).all() for answer in answers):
            raise FloatingPointError(
                "the model's logits are not finite: its weights or its precision are broken; repair them and make "
                "a new engine, since the caches of this one hold such numbers now"
            )
        return answers

    def update(self, policy: Policy) -> None:
        """Take over the policy's weights, and forget every cached prefix.

        Raises:
            RuntimeError: vLLM failed, or a weight is missing.
            Exception: Whatever `policy.named_weights()` raises.
        """
        session = self._open()
        self._ready = False
        self._updates += 1
        if self._swaps:
            folder = self._folder / f"adapter-{self._updates}"
            policy.save(folder)
            session.swap(str(folder), self._updates)
            # vLLM may read the current one again, never an earlier one.
            vllm_files.remove(self._folder / f"adapter-{self._updates - 1}")
        else:
            names: set[str] = set()
            weights = _noted(policy.named_weights(), names)
            if isinstance(session, RemoteSession) or not session.takes_tensors:
                folder = self._folder / f"weights-{self._updates}"
                try:
                    session.load_files(vllm_files.write(weights, folder))
                finally:
                    vllm_files.remove(folder)
            else:
                session.load(weights)
            if missing := sorted(self._names - names):
                raise RuntimeError(
                    f"an update must hold every weight that the engine was started with, but {len(missing)} were "
                    f"missing, such as {missing[0]!r}: named_weights() of the policy must give them all"
                )
        self._ready = True

    def sleep(self) -> None:
        """Give the GPU's memory back until `wake`, where `settings.sleep` is set; nothing on a CPU."""
        self._open().sleep()

    def wake(self) -> None:
        """Take the GPU's memory again; nothing where the engine is awake. An update or a prompt does so by itself."""
        self._open().wake()

    def close(self) -> None:
        """End vLLM and remove what it kept on disk; nothing the second time."""
        session, self._session = self._session, None
        try:
            if session is not None:
                session.close()
        finally:
            self._scratch.cleanup()

    def _open(self) -> Session | RemoteSession:
        if self._session is None:
            raise RuntimeError("the engine was closed: make a new one")
        return self._session

    def _check(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> None:
        temperature = sampling.temperature
        if temperature != 0 and not LOWEST_TEMPERATURE <= temperature <= HIGHEST_TEMPERATURE:
            raise ValueError(
                f"the temperature must be 0 or from {LOWEST_TEMPERATURE} to {HIGHEST_TEMPERATURE} for vLLM, got "
                f"{temperature}"
            )
        if sampling.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {sampling.max_tokens}")
        sampling.check_seeds(len(prompts))
        for index, prompt in enumerate(prompts):
            if len(prompt) and not 0 <= min(prompt) <= max(prompt) < self._vocabulary:
                raise ValueError(
                    f"token ids must be from 0 to {self._vocabulary - 1}, got {min(prompt)} to {max(prompt)} in "
                    f"prompt {index}: encode prompts with the policy's tokenizer"
                )
            if not len(prompt):
                raise ValueError(f"a prompt must hold at least one token, got none in prompt {index}")
            if len(prompt) + sampling.max_tokens > self._max_length:
                raise ValueError(
                    f"a prompt and its answer must fit max_length = {self._max_length} tokens, got {len(prompt)} "
                    f"tokens in prompt {index} and max_tokens = {sampling.max_tokens}: shorten the prompt, or make "
                    "the engine with a larger max_length"
                )


def _write_model(policy: Policy, folder: Path, merged: bool) -> set[str]:
    """Write a model folder without a tokenizer; return the names of its weights."""
    names: set[str] = set()
    weights = policy.named_weights() if merged else _base_weights(policy)
    vllm_files.write(_noted(weights, names), folder)
    base = policy.base
    config = copy.deepcopy(base.config)
    config.architectures = [type(base).__name__]
    config.save_pretrained(folder)
    return names


def _base_weights(policy: Policy) -> Iterator[tuple[str, torch.Tensor]]:
    """Full weights as they were before there were adapters."""
    for name, weight in policy.base.named_parameters():
        if ".lora_" not in name:
            yield name.replace(".base_layer.", "."), weight.detach().to(policy.dtype)


def _lora_rank(policy: Policy) -> int:
    return max(weight.shape[0] for name, weight in policy.base.named_parameters() if ".lora_A." in name)


def _noted(
    weights: Iterable[tuple[str, torch.Tensor]], names: set[str]
) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in weights:
        yield name, tensor
        names.add(name)
