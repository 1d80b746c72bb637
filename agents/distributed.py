"""The processes of a run on several GPUs: what they tell each other.

Each process plays whole groups of episodes. All of them then know all episodes, so that credit, statistics and the
choice of minibatches are computed everywhere alike, and as in one process; of each minibatch a process computes the
gradient of its share of the rows. So a run does not depend on the number of processes, but for rounding.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from graphwrap.agents.settings import Settings

if TYPE_CHECKING:
    from torch import nn

T = TypeVar("T")

STRATEGIES = ("ddp", "fsdp")
BUCKET = 2**25
"""Numbers of gradients that are sent at once."""
_PATIENCE = timedelta(hours=2)  # an ended process is noticed at once; this is for one that hangs


class World:
    """The processes of a run. This class is of a process alone: there is nobody to talk to.

    Every method but the properties must be called by all processes in the same order.

    Attributes:
        rank: This process's number, from 0.
        size: How many there are.
    """

    rank = 0
    size = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes the files and talks to people."""
        return self.rank == 0

    def gather(self, value: T) -> list[T]:
        """The values of all processes, by rank."""
        return [value]

    def share(self, value: T) -> T:
        """The main process's value."""
        return value

    def barrier(self) -> None:
        """Wait for all processes."""
        self.gather(None)

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Make each gradient the sum of those of all processes; a missing one is 0, unless all miss it."""


class Processes(World):
    """Several processes, by torch's process group.

    Raises:
        RuntimeError: From every method: another process has ended.
    """

    def __init__(self, rank: int, size: int) -> None:
        import torch.distributed as dist

        self.rank = rank
        self.size = size
        self._objects = dist.new_group(backend="gloo", timeout=_PATIENCE)

    def gather(self, value: T) -> list[T]:
        """The values of all processes, by rank; they are pickled."""
        import torch.distributed as dist

        values: list[Any] = [None] * self.size
        with _connected():
            dist.all_gather_object(values, value, group=self._objects)
        values[self.rank] = value
        return values

    def share(self, value: T) -> T:
        """The main process's value."""
        import torch.distributed as dist

        values: list[Any] = [value]
        with _connected():
            dist.broadcast_object_list(values, src=0, group=self._objects)
        return value if self.is_main else values[0]

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Make each gradient the sum of those of all processes; a missing one is 0, unless all miss it."""
        import torch
        import torch.distributed as dist

        known = self.gather([weight.grad is not None for weight in parameters])
        wanted = [weight for weight, flags in zip(parameters, zip(*known)) if any(flags)]
        for bucket in _buckets(wanted):
            flat = torch.cat(
                [
                    (torch.zeros_like(weight) if weight.grad is None else weight.grad).reshape(-1)
                    for weight in bucket
                ]
            )
            with _connected():
                dist.all_reduce(flat)
            for weight, part in zip(bucket, flat.split([weight.numel() for weight in bucket])):
                weight.grad = part.view_as(weight)


@contextmanager
def joined(settings: Settings) -> Iterator[World]:
    """Join the processes that `accelerate launch` or `torchrun` has started with this one; alone, do nothing.

    Raises:
        ValueError: The settings do not fit several processes; says all that is wrong.
        ImportError: accelerate is missing.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield World()
        return
    faults = faults_of_processes(settings, size)
    if faults:
        raise ValueError(f"these settings do not fit {size} processes:\n  " + "\n  ".join(faults))
    try:
        from accelerate import PartialState
    except ImportError:
        raise ImportError("several processes need accelerate: pip install 'graphwrap[llm]'") from None
    import torch.distributed as dist

    with _connected():
        state = PartialState(cpu=settings.model.device == "cpu", timeout=_PATIENCE)
    world = Processes(state.process_index, state.num_processes)
    if not world.is_main:  # all would say the same
        warnings.filterwarnings("ignore", category=UserWarning, module="graphwrap")
    yield world
    dist.destroy_process_group()  # not after an error: the others are waiting


def faults_of_processes(settings: Settings, size: int) -> list[str]:
    """What is wrong with the settings of a run in `size` processes: rule, value and way out for each."""
    faults = []
    tasks, engine, device = settings.rollout.tasks, settings.engine, settings.model.device
    if tasks % size:
        faults.append(
            f"rollout.tasks must be a multiple of the number of processes, since each plays whole groups, got {tasks} "
            f"for {size}: set rollout.tasks={tasks + size - tasks % size}, or start another number of processes"
        )
    if device not in ("auto", "cpu", "cuda"):
        faults.append(
            f"model.device must be auto, cpu or cuda, got {device!r}: each process takes the GPU of its number"
        )
    if engine.name == "vllm" and not engine.own_process:
        faults.append(
            "engine.own_process must be true for vLLM, got false: its process group is another than the trainer's"
        )
    if engine.name == "vllm" and engine.tensor_parallel > 1:
        faults.append(
            f"engine.tensor_parallel must be 1, got {engine.tensor_parallel}: every process has an engine on its own "
            "GPU; to spread one engine over several GPUs, train in one process"
        )
    return faults


@contextmanager
def _connected() -> Iterator[None]:
    """Say what a broken connection means."""
    try:
        yield
    except RuntimeError as error:
        raise RuntimeError(
            "another process of this run has ended, and what it printed says why; this one ends too. The connection "
            f"says: {str(error).strip().splitlines()[0]}"
        ) from error


def _buckets(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Neighbours of one precision, about `BUCKET` numbers each."""
    for _, alike in groupby(parameters, lambda weight: weight.dtype):
        bucket: list[nn.Parameter] = []
        for weight in alike:
            bucket.append(weight)
            if sum(one.numel() for one in bucket) >= BUCKET:
                yield bucket
                bucket = []
        if bucket:
            yield bucket
