"""Small policies and settings for tests of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphwrap.agents.policy import Policy
from graphwrap.agents.runs.config import load_settings
from graphwrap.agents.settings import Settings

TEXTS = ("###\n#@#\n$.* +", "up down left right", "<action>up</action>")

SMALL = (
    "model.tiny.hidden=32",
    "model.tiny.layers=1",
    "model.tiny.heads=1",
    "model.tiny.intermediate=32",
    "model.tiny.warm_start_epochs=1",
    "model.tiny.warm_start_learning_rate=3e-3",
    "model.device=cpu",
    "threads=1",
    "env.kwargs.levels=6x6-1",
    "env.held_out_kwargs.levels=6x6-1",
    "prompt.template=tiny",
    "prompt.history=0",
    "credit.name=graphgpo",
    "ppo.learning_rate=3e-4",
    "ppo.schedule=constant",
    "ppo.entropy=0.01",
)


def small_settings(*overrides: str) -> Settings:
    """A run that takes seconds."""
    return load_settings("sokoban-tiny", [*SMALL, *overrides])


def small_policy(*overrides: str, rank: int = 0, seed: int = 0, **options: Any) -> Policy:
    """A policy with random weights, with adapters of some rank."""
    settings = small_settings(*overrides).model
    settings.lora.rank = rank
    return Policy.load(settings, texts=TEXTS, seed=seed, **options)


def random_model(folder: Path) -> str:
    """A model folder whose weights are random and whose tokenizer knows Text Sokoban; a model.path."""
    policy = small_policy("model.tiny.hidden=32")
    policy.save(folder)
    return str(folder)
