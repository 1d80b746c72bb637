"""Checkpoints of a training run: whole or not there, and enough to go on bit for bit."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphwrap._files import remove_folder, system_errors, whole_folder
from graphwrap.agents.settings import Settings

if TYPE_CHECKING:
    from graphwrap.agents.policy import Policy

MODEL = "model"
"""The folder of a checkpoint that `from_pretrained` and vLLM load: the whole model, adapters merged in."""
ADAPTER = "adapter"
"""The folder of the adapters alone, where adapters are trained."""
TRAINER = "trainer.pt"
ABOUT = "checkpoint.json"
TEMPLATE_TEXT = "prompt.template's text"
"""Among saved settings: a digest of the template, whose file may be changed under its name."""
_NAME = re.compile(r"update-(\d{6,})")

FREE = {
    "distributed.strategy",
    "engine.max_batch",
    "engine.memory_gb",
    "engine.own_process",
    "engine.sleep",
    "engine.tensor_parallel",
    "env.processes",
    "model.device",
    "model.gradient_checkpointing",
    "ppo.tokens_per_batch",
    "save_every",
    "save_transitions",
    "show_episodes",
    "threads",
    "validation.every",
    "wandb",
}
"""Settings that may change when a run is resumed: they decide its speed and what is kept, and the curve to rounding
at most. `updates` is one of them where the learning rate does not depend on it."""


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint on disk."""

    path: Path
    update: int  # updates that were done
    score: float | None  # held-out success, None where it was not measured
    settings: dict[str, Any]  # of the run, by dotted name
    versions: dict[str, str | None]

    @property
    def model(self) -> Path:
        """A Hugging Face folder of the whole model."""
        return self.path / MODEL

    @property
    def weights(self) -> Path:
        """The folder that `Policy.restore` reads."""
        adapter = self.path / ADAPTER
        return adapter if adapter.is_dir() else self.model

    def trainer_state(self) -> dict[str, Any]:
        """What the trainer saved: tensors and plain values.

        Raises:
            ValueError: The file is damaged.
        """
        import torch

        file = self.path / TRAINER
        try:
            return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # torch, pickle and zipfile each raise their own
            raise ValueError(
                f"{file} must be what this program wrote, but cannot be read: {error}; remove the folder "
                f"{self.path} to go on from an older checkpoint"
            ) from error


class Checkpoints:
    """The checkpoints in a folder. Kept are the newest one and the one with the highest score, older first.

    Every checkpoint is written beside its place and renamed when all of it is on the disk, and renamed before it is
    removed; so whatever has a checkpoint's name is whole. The links `latest` and `best` are for people.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def all(self) -> list[Checkpoint]:
        """Every whole checkpoint, oldest first."""
        found = [each for path in self.folder.glob("update-*") if (each := _read(path)) is not None]
        return sorted(found, key=lambda each: each.update)

    @property
    def latest(self) -> Checkpoint | None:
        """The one after the most updates."""
        return max(self.all(), key=lambda each: each.update, default=None)

    @property
    def best(self) -> Checkpoint | None:
        """The first one of those with the highest score, None where none has a score."""
        scored = [each for each in self.all() if each.score is not None]
        return max(scored, key=lambda each: (each.score, -each.update), default=None)

    def clean(self) -> None:
        """Remove what a killed process left half-written or half-removed."""
        import shutil

        for path in self.folder.glob(".update-*.part"):
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def saving(
        self,
        update: int,
        policy: Policy,
        trainer_state: Mapping[str, Any],
        settings: Settings,
        score: float | None = None,
    ) -> Iterator[None]:
        """Write a checkpoint; it counts from the end of the block on, if that ends without an error.

        So what the block writes, such as the log's line of this update, is there whenever the checkpoint is.

        Args:
            update: How many updates were done.
            policy: Its weights are written, with adapters both merged and alone.
            trainer_state: Tensors and plain values.
            settings: Of the run.
            score: Held-out success.

        Raises:
            OSError: It cannot be written, such as for a full disk. The message says what is kept.
        """
        from graphwrap.doctor import versions

        about = {
            "update": update,
            "score": score,
            "settings": saved_settings(settings),
            "versions": versions(),
        }
        with whole_folder(self.folder / f"update-{update:06d}") as folder:
            try:
                with system_errors():
                    _write(folder, policy, trainer_state, about)
            except OSError as error:
                if error.errno is None:
                    raise
                raise self._cannot_write(update, error.errno) from error
            yield
        self._prune()
        self._link()

    def _cannot_write(self, update: int, number: int) -> OSError:
        latest = self.latest
        kept = f"that of update {latest.update} is whole" if latest else "there is no earlier one"
        return OSError(
            number,
            f"the checkpoint of update {update} cannot be written to {self.folder}: {os.strerror(number)}; {kept}. "
            "Free space there, then the same command goes on",
        )

    def _prune(self) -> None:
        kept = {each.update for each in (self.latest, self.best) if each is not None}
        for each in self.all():
            if each.update not in kept:
                remove_folder(each.path)

    def _link(self) -> None:
        for name, checkpoint in (("latest", self.latest), ("best", self.best)):
            link = self.folder / name
            beside = self.folder / f".{name}.link"
            with suppress(OSError):  # some file systems have no links
                beside.unlink(missing_ok=True)
                if checkpoint is None:
                    link.unlink(missing_ok=True)
                else:
                    beside.symlink_to(checkpoint.path.name, target_is_directory=True)
                    os.replace(beside, link)


def saved_settings(settings: Settings) -> dict[str, Any]:
    """The settings by dotted name, and a digest of the template's text."""
    from graphwrap.agents.prompts import PromptTemplate
    from graphwrap.agents.runs.config import flat

    text = repr(PromptTemplate.load(settings.prompt.template))
    return {**flat(settings), TEMPLATE_TEXT: hashlib.sha256(text.encode()).hexdigest()[:12]}


def changed_settings(there: Mapping[str, Any], settings: Settings) -> list[str]:
    """The settings that decide the curve and differ from those of an earlier run, each with both values.

    Args:
        there: The earlier run's, of `saved_settings`. What it does not name is as it is by default.
        settings: Of the run to go on.
    """
    from graphwrap.agents.runs.config import flat

    free = FREE | ({"updates"} if settings.ppo.schedule == "constant" else set())
    now = saved_settings(settings)
    return differences({TEMPLATE_TEXT: now[TEMPLATE_TEXT], **flat(Settings()), **there}, now, free)


def differences(there: Mapping[str, Any], now: Mapping[str, Any], free: Collection[str]) -> list[str]:
    """The settings that differ, each with both values; as JSON, in which a number that is a key is a text.

    Args:
        there: Those of something earlier, by name.
        now: Those asked for.
        free: Names of settings that may differ.
    """
    there, now = (json.loads(json.dumps(settings)) for settings in (there, now))
    return [
        f"{key}: {there.get(key)!r} there, {now.get(key)!r} asked for"
        for key in dict.fromkeys([*now, *there])
        if key not in free and there.get(key) != now.get(key)
    ]


def restore(policy: Policy, checkpoint: Checkpoint) -> None:
    """Give `policy`, made with the same settings, the weights of a checkpoint.

    Raises:
        ValueError: A file is damaged, or holds weights of another model.
    """
    try:
        policy.restore(checkpoint.weights)
    except Exception as error:  # safetensors and PEFT each raise their own
        raise ValueError(
            f"{checkpoint.weights} must hold this model's weights, but they cannot be loaded: {error}; remove the "
            f"folder {checkpoint.path} to go on from an older checkpoint"
        ) from error


def _write(folder: Path, policy: Policy, trainer_state: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    import torch

    policy.save(folder / MODEL, merged=True)
    if policy.has_adapters:
        policy.save(folder / ADAPTER)
    with open(folder / TRAINER, "wb") as file:
        torch.save(dict(trainer_state), file)
    (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def _read(path: Path) -> Checkpoint | None:
    if not _NAME.fullmatch(path.name):
        return None
    try:
        about = json.loads((path / ABOUT).read_text(encoding="utf-8"))
        return Checkpoint(path, **about)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{path / ABOUT} must be what this program wrote, but cannot be read: {error}; remove the folder {path} to "
            "go on from an older checkpoint"
        ) from error
