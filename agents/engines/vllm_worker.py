"""What is called inside vLLM's workers, in whatever process they live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from graphwrap.agents.engines import vllm_files

if TYPE_CHECKING:
    import torch


def reload(worker: Any, weights: Iterable[tuple[str, torch.Tensor]]) -> BaseException | None:
    """Replace the model's weights in place.

    Args:
        worker: vLLM's.
        weights: Hugging Face names and tensors, all of them.

    Returns:
        What `weights` raised: the model is then half-changed, but the next reload starts from a sound state.
    """
    source = _Source(weights)
    worker.reload_weights(weights_iterator=iter(source))
    _repack_heads(worker)
    return source.error


def reload_files(worker: Any, paths: list[str]) -> BaseException | None:
    """`reload` from safetensors files."""
    return reload(worker, vllm_files.read(paths))


class _Source:
    """Ends where the weights end or fail: an error that went through vLLM would leave layers half-loaded for good."""

    def __init__(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        self._weights = weights
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        weights = iter(self._weights)
        while True:
            try:
                item = next(weights)
            except StopIteration:
                return
            except BaseException as error:
                self.error = error
                return
            yield item


def _repack_heads(worker: Any) -> None:
    """Pack the language-model heads anew on a CPU.

    Linear layers run from packed copies there. A head that is tied to the embedding receives no weights of its own,
    so that vLLM leaves its copy as it was.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, UnquantizedEmbeddingMethod

    for module in worker.model_runner.get_model().modules():
        if isinstance(module, ParallelLMHead) and isinstance(module.quant_method, UnquantizedEmbeddingMethod):
            dispatch_cpu_unquantized_gemm(module, remove_weight=False)
