"""Runs in two processes, and what they have in common with runs in one; started as a module, one of the processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

from graphwrap.agents.distributed import joined
from graphwrap.agents.models.warm_start import tiny_policy
from graphwrap.agents.runs.trainer import Trainer
from graphwrap.agents.settings import Settings
from tests.agents.small_runs import small_settings
from tests.agents.walk import Walk

ROOT = Path(__file__).parents[2]
RUN = (
    "model.tiny.layers=2",
    "model.tiny.heads=2",
    "env.id=tests.agents.walk:Walk-v0",
    "env.kwargs={burns: false}",
    "env.held_out_kwargs={burns: false, max_steps: 3}",
    "model.tiny.warm_start_rows=256",
    "model.tiny.warm_start_epochs=6",
    "model.tiny.warm_start_learning_rate=1e-2",
    "rollout.tasks=4",
    "rollout.group_size=3",
    "ppo.minibatch=13",
    "ppo.tokens_per_batch=150",
    "ppo.learning_rate=1e-4",
    "validation.episodes=3",
    "validation.every=1",
    "save_every=1",
)
SCENARIOS = {
    "ddp-token": ("distributed.strategy=ddp", "ppo.kl=0.01", "ppo.epochs=2"),
    "ddp-critic": ("distributed.strategy=ddp", "credit.name=ppo", "ppo.kl=0"),
    "fsdp-token": ("distributed.strategy=fsdp", "ppo.kl=0.01", "ppo.epochs=2"),
    "fsdp-sequence": ("distributed.strategy=fsdp", "ppo.ratio=sequence", "model.gradient_checkpointing=true"),
    "fsdp-critic": ("distributed.strategy=fsdp", "credit.name=ppo", "ppo.kl=0"),
    "fsdp-lora": ("distributed.strategy=fsdp", "model.lora.rank=4", "ppo.kl=0.01"),
    "ddp-sampled": ("distributed.strategy=ddp", "rollout.dynamic_sampling=true", "rollout.max_attempts=2"),
}
BROKEN = "broken"
"""The run at the end, in which one process fails."""


def settings_of(scenario: str, model: str, updates: int) -> Settings:
    """A run's settings."""
    return small_settings(*RUN, *SCENARIOS.get(scenario, ()), f"model.path={model}", f"updates={updates}")


def save_model(folder: Path) -> str:
    """A model that knows the format of answers; a model.path."""
    settings = small_settings(*RUN)
    tiny_policy(settings, partial(Walk, burns=False)).save(folder)
    return str(folder)


def start(arguments: list[str], port: int) -> list[subprocess.Popen[str]]:
    """Two processes of this module, as a launcher starts them."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    return [
        subprocess.Popen(
            [sys.executable, "-m", "tests.agents.two_processes", *arguments],
            cwd=ROOT,
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def main(model: str, out: Path) -> None:
    """Every scenario, the first update before an interruption and the second after it; then the broken run."""
    with joined(settings_of(BROKEN, model, 3)) as world:
        for scenario in SCENARIOS:
            for updates in (1, 2):
                rows = Trainer(settings_of(scenario, model, updates), out / scenario, world=world).run()
            assert [row["update"] for row in rows] == [1, 2]
            print("done", scenario, flush=True)

        def fail(row: dict) -> None:
            if row["update"] == 2 and not world.is_main:
                raise LookupError("this process fails")

        Trainer(settings_of(BROKEN, model, 3), out / BROKEN, world=world).run(fail)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
