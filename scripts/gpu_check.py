"""Measures the LLM trainer on one GPU, with a model of random weights that needs no download.

Run as ``python scripts/gpu_check.py``.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium as gym
import numpy as np
import typer

from graphwrap._files import whole_file

if TYPE_CHECKING:
    from rich.console import Console

    from graphwrap.agents.settings import Settings

MODULE = "graphwrap.scripts.gpu_check"
"""What an environment's id names, since this file may run as a script."""
ENV = "graphwrap/StirredTextSokoban-v0"
PARTS = ("engine", "env", "prompt", "credit")
"""Of the rollout."""
PHASES = ("rollout", "update", "sync")
"""Of every update of the policy."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a Qwen2 model."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    key_value_heads: int
    vocabulary: int  # rows of the embedding, padding included
    positions: int = 32768


SIZES = {
    "qwen2.5-0.5b": Shape(896, 4864, 24, 14, 2, 151936),
    "tiny": Shape(64, 128, 1, 2, 1, 1024),
}


class StirredTextSokoban(gym.Wrapper[str, str, str, str]):
    """Text Sokoban in which an action that is none moves at random, different in each instance.

    Random weights name no action. This way boards change, the members of a group part, and prompts and the graph are
    as various as those of a policy that plays.
    """

    _instances = itertools.count()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(gym.make("graphwrap/TextSokoban-v0", disable_env_checker=True, **kwargs))
        self._moves = np.random.default_rng(next(self._instances))
        self._admissible: list[str] = []

    def reset(self, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(**kwargs)
        self._admissible = info["admissible_actions"]
        return observation, info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Make the move, or a random one."""
        if action not in self._admissible:
            action = self._admissible[self._moves.integers(len(self._admissible))]
        return self.env.step(action)


def gpu_check(
    out: Annotated[Path, typer.Option(help="JSON file to write.")] = Path("results/gpu-check.json"),
    size: Annotated[str, typer.Option(help=f"Shape of the model: {' or '.join(SIZES)}.")] = "qwen2.5-0.5b",
    device: Annotated[str, typer.Option(help="cuda, cuda:1, ... or cpu.")] = "cuda",
    engine: Annotated[
        str, typer.Option(help="vllm or transformers. [default: vllm where it is installed]")
    ] = "",
    sleep: Annotated[
        bool, typer.Option("--sleep/--no-sleep", help="vLLM gives its memory back while training.")
    ] = True,
    updates: Annotated[int, typer.Option(help="The first one warms up.", min=1)] = 3,
    tasks: Annotated[int, typer.Option(help="Groups of episodes.", min=1)] = 16,
    group_size: Annotated[int, typer.Option(help="Episodes of a group.", min=2)] = 8,
    steps: Annotated[int, typer.Option(help="Step limit of an episode.", min=1)] = 15,
    answer_tokens: Annotated[int, typer.Option(help="Tokens of an answer.", min=1)] = 64,
    tokens_per_batch: Annotated[
        int, typer.Option(help="Tokens that are trained on at once, padding included.", min=1)
    ] = 16384,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where a folder for the run is made, then removed. [default: the system's]"),
    ] = None,
) -> None:
    """Measure seconds by phase, peak memory, tokens per second and credit's share of a training run.

    The run is one of `graphwrap train-llm`, with its trainer, engine and PPO, on 16 x 8 episodes of Text Sokoban under
    GraphGPO. The model has random weights in the shape of Qwen2.5-0.5B and a small word-level tokenizer: times and
    memory are those of the real model with prompts of this length, which is reported. Answers are noise of full length,
    and the environment moves at random instead: success means nothing. It takes minutes, and up to 10 GB of disk for
    the run's checkpoint.

    The exit status is 2 where the check cannot start.

    Examples:

        python scripts/gpu_check.py
        python scripts/gpu_check.py --engine transformers --out results/gpu-check-transformers.json
        python scripts/gpu_check.py --size tiny --device cpu --engine transformers --steps 2 --tasks 2 --answer-tokens 4
    """
    from graphwrap.scripts.train_llm import require_packages

    try:
        require_packages()
        check_options(size, device, engine)
    except (ValueError, ImportError) as error:
        typer.echo(f"gpu_check: {error}", err=True)
        raise typer.Exit(2) from None
    from rich.console import Console

    from graphwrap.agents.runs.config import from_mapping

    console = Console()
    engine = engine or ("vllm" if find_spec("vllm") else "transformers")
    with tempfile.TemporaryDirectory(prefix="gpu-check-", dir=folder) as scratch:
        settings = from_mapping(
            {
                "env": {"id": f"{MODULE}:{ENV}", "kwargs": {"levels": "6x6-1", "max_steps": steps}},
                "model": {
                    "path": str(Path(scratch) / "model"),
                    "dtype": "float32" if device == "cpu" else "bfloat16",
                    "device": device,
                },
                "prompt": {"template": "sokoban", "history": 6, "max_tokens": 1024},
                "engine": {
                    "name": engine,
                    "max_batch": min(256, tasks * group_size),
                    "memory_gb": 0.25 if size == "tiny" else 4.0,
                    "sleep": sleep and engine == "vllm" and device != "cpu",
                },
                "rollout": {"tasks": tasks, "group_size": group_size, "max_tokens": answer_tokens},
                "ppo": {"tokens_per_batch": tokens_per_batch},
                "validation": {"every": 0, "episodes": 0},
                "updates": updates,
                "save_every": updates,
                "save_transitions": False,
                "show_episodes": 0,
            }
        )
        parameters = write_model(settings, SIZES[size])
        console.print(f"{parameters:,} parameters, {engine}, {device}", highlight=False)
        report = measure(settings, Path(scratch) / "run", console)
    report = {"size": size, "parameters": parameters, **report}
    report["settings"]["model.path"] = size  # the folder is gone
    show(report, console)
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(out) as file:
        file.write((json.dumps(report, indent=2) + "\n").encode("utf-8"))
    console.print(str(out), highlight=False, soft_wrap=True)


def check_options(size: str, device: str, engine: str) -> None:
    """Check that a run could start.

    Raises:
        ValueError: There is no GPU, no such size or engine.
    """
    import torch

    if size not in SIZES:
        raise ValueError(f"--size is one of {', '.join(SIZES)}, got {size!r}")
    if engine not in ("", "vllm", "transformers"):
        raise ValueError(f"--engine is vllm or transformers, got {engine!r}")
    if device != "cpu" and not torch.cuda.is_available():
        raise ValueError(
            f"--device {device} needs a GPU that torch {torch.__version__} can use, and there is none: install a CUDA "
            "build of torch on a machine with a GPU, or give --device cpu --size tiny to see that the check runs"
        )


def write_model(settings: Settings, shape: Shape) -> int:
    """Write the model folder of the settings, with random weights and a tokenizer for the environment.

    Returns:
        The number of weights.
    """
    import torch
    from transformers import GenerationConfig, Qwen2ForCausalLM
    from transformers.utils import logging

    from graphwrap.agents.models.tiny import build_tokenizer
    from graphwrap.agents.models.warm_start import random_walks, vocabulary
    from graphwrap.agents.policy import Policy
    from graphwrap.agents.prompts import PromptTemplate
    from graphwrap.envs.pool import env_maker

    logging.disable_progress_bar()
    states = random_walks(env_maker(settings.env), 256, settings.seed)
    template = PromptTemplate.load(settings.prompt.template)
    tokenizer = build_tokenizer(vocabulary(states, template, settings.prompt.history), shape.positions)
    config = config_of(shape, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model: Any = Qwen2ForCausalLM(config)
    model.to(torch.bfloat16)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    Policy(model, tokenizer).save(settings.model.path)
    return sum(weight.numel() for weight in model.parameters())


def config_of(shape: Shape, **special_ids: Any) -> Any:
    """The Qwen2Config of a shape."""
    from transformers import Qwen2Config

    return Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        max_position_embeddings=shape.positions,
        tie_word_embeddings=True,
        bos_token_id=None,
        **special_ids,
    )


def measure(settings: Settings, folder: Path, console: Console) -> dict[str, Any]:
    """Train, and say what it took.

    Args:
        settings: Of the run.
        folder: Of the run.
        console: Shows progress.

    Returns:
        - `summary`: means over the updates after the first, or of the only one. `seconds/<phase>`, whose `together` is
          rollout, update and sync; `credit_share` of that; `answer_tokens_per_second` of the rollout;
          `trained_tokens_per_second` of the update, prompts and answers, each row once; `steps`, `prompt_tokens` and
          `response_tokens` (per step), `drift_mean`. `save_seconds`: of the checkpoint, which a run does not write
          after every update.
        - `start_seconds`: until the first update began. `updates`: all numbers of each update.
        - `memory`, GB of 1e9 bytes: `gpu_peak`, all that is used on the GPU, by other processes too, sampled every 50
          ms; `torch_peak`, what this process's allocator gave out; `host_peak`, of this process. `gpu_total`.
        - `machine`, `gpu`, `versions`, `settings`.
    """
    import torch

    from graphwrap.agents.runs.config import flat
    from graphwrap.agents.runs.trainer import Trainer
    from graphwrap.doctor import machine, versions

    device = torch.device(settings.model.device)
    first_row: list[float] = []
    began = time.perf_counter()
    with watched_memory(device) as memory:
        rows = Trainer(settings, folder, console=console).run(
            lambda _: first_row.append(time.perf_counter() - began)
        )
    counted = rows[1:] or rows
    names = [*(f"seconds/{phase}" for phase in (*PARTS, *PHASES))]
    names += ["steps", "prompt_tokens", "response_tokens", "drift_mean"]
    summary = {name: float(np.mean([row[name] for row in counted])) for name in names}
    summary["seconds/together"] = sum(summary[f"seconds/{phase}"] for phase in PHASES)
    summary["credit_share"] = summary["seconds/credit"] / summary["seconds/together"]
    summary["save_seconds"] = rows[-1]["seconds/save"]
    answers = float(np.mean([row["sampled_tokens"] for row in counted]))
    summary["answer_tokens_per_second"] = answers / summary["seconds/rollout"]
    trained = [row["trained_rows"] * row["prompt_tokens"] + row["trained_tokens"] for row in counted]
    summary["trained_tokens_per_second"] = float(np.mean(trained)) / summary["seconds/update"]
    return {
        "summary": summary,
        "start_seconds": first_row[0] - rows[0]["seconds/total"],
        "memory": memory,
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "machine": machine(),
        "versions": versions(),
        "settings": flat(settings),
        "updates": [
            {name: None if value != value else value for name, value in row.items()}  # NaN is no JSON
            for row in rows
        ],
    }


@contextmanager
def watched_memory(device: Any) -> Iterator[dict[str, float | None]]:
    """Within this context the peaks of memory are watched; after it they are in the dict, see `measure`."""
    import resource
    import sys

    import torch

    peaks: dict[str, float | None] = dict.fromkeys(("gpu_peak", "gpu_total", "torch_peak", "host_peak"))
    done = threading.Event()
    most = 0

    def watch() -> None:
        nonlocal most
        while not done.wait(0.05):
            free, total = torch.cuda.mem_get_info(device)
            most = max(most, total - free)

    on_gpu = device.type == "cuda"
    thread = threading.Thread(target=watch, daemon=True)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
        thread.start()
    try:
        yield peaks
    finally:
        done.set()
        if on_gpu:
            thread.join()
            peaks["gpu_peak"] = most / 1e9
            peaks["gpu_total"] = torch.cuda.mem_get_info(device)[1] / 1e9
            peaks["torch_peak"] = torch.cuda.max_memory_allocated(device) / 1e9
        unit = 1 if sys.platform == "darwin" else 1024
        peaks["host_peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def show(report: dict[str, Any], console: Console) -> None:
    """Print the table of a report."""
    from rich.table import Table

    summary, rows = report["summary"], report["updates"]
    table = Table("seconds", *(f"update {row['update']}" for row in rows), "mean", "share")
    for column in table.columns[1:]:
        column.justify = "right"
    for phase in (*PARTS, *PHASES):
        name = f"seconds/{phase}"
        share = summary[name] / summary["seconds/together"]
        label = f"  {phase}" if phase in PARTS else phase
        cells = (*(row[name] for row in rows), summary[name])
        table.add_row(label, *(f"{cell:.3f}" for cell in cells), f"{share:.3%}")
    table.caption = "indented: parts of the rollout; mean: of all updates but the first"
    console.print(table)
    facts = Table("", "", show_header=False)
    for label, text in (
        ("machine", report["machine"]),
        ("GPU", report["gpu"] or "none"),
        ("steps of an update", f"{summary['steps']:,.0f}"),
        (
            "tokens of a prompt, an answer",
            f"{summary['prompt_tokens']:.0f}, {summary['response_tokens']:.0f}",
        ),
        ("rollout", f"{summary['answer_tokens_per_second']:,.0f} answer tokens/s"),
        ("update", f"{summary['trained_tokens_per_second']:,.0f} prompt and answer tokens/s"),
        ("credit", f"{summary['credit_share']:.4%} of the time"),
        ("log-probability drift", f"{summary['drift_mean']:.2g}"),
        ("until the first update", f"{report['start_seconds']:.1f} s"),
        ("checkpoint", f"{summary['save_seconds']:.1f} s"),
        *(
            (f"memory, {name.replace('_', ' ')}", f"{value:.2f} GB")
            for name, value in report["memory"].items()
            if value
        ),
    ):
        facts.add_row(label, text)
    console.print(facts)


if ENV not in gym.registry:
    gym.register(ENV, f"{MODULE}:StirredTextSokoban")

if __name__ == "__main__":
    typer.run(gpu_check)
