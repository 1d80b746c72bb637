"""The folder of a training run: what it may hold, and how a run begins or goes on in it."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from graphwrap._files import remove, remove_folder, whole_file
from graphwrap.agents.runs.checkpoints import Checkpoint, Checkpoints, changed_settings, saved_settings
from graphwrap.agents.runs.config import to_yaml
from graphwrap.agents.runs.tracking import EPISODES, METRICS, TENSORBOARD, TRANSITIONS, read_metrics
from graphwrap.agents.settings import Settings

ABOUT = "run.json"
SETTINGS = "settings.yaml"
CHECKPOINTS = "checkpoints"
START = "start"
"""A model that was made for this run, before its first update."""
ENGINE = "engine"
"""Where weights lie while they are handed over to an engine."""
LOCK = ".lock"
_OWN = (SETTINGS, METRICS, TENSORBOARD, EPISODES, TRANSITIONS, CHECKPOINTS, START, ENGINE, "wandb")


@contextmanager
def held(folder: Path, wait: bool = False) -> Iterator[None]:
    """Keep other processes from running in a folder, which is made.

    Args:
        folder: That no other process may hold.
        wait: Until it is free.

    Raises:
        ValueError: One does, and is not waited for.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "ab") as file:
        try:
            import fcntl
        except ImportError:  # Windows
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            raise ValueError(
                f"{folder} must be used by one run at a time, and another process runs in it: wait for it, or "
                "choose another --out"
            ) from None
        yield


class RunFolder:
    """A run on disk. Every file in it is whole, however the process that writes it ends."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.checkpoints = Checkpoints(self.path / CHECKPOINTS)

    @property
    def start(self) -> Path:
        """Where a model that was made for this run is kept."""
        return self.path / START

    @property
    def engine(self) -> Path:
        """Where weights lie while they are handed over to an engine."""
        return self.path / ENGINE

    @property
    def run_id(self) -> str:
        """A name of this run that no other has."""
        return str(self.about()["id"])

    def about(self) -> dict[str, Any]:
        """The content of run.json: `id`, `settings` by dotted name, `seed`, `versions`, `machine`, `starts`."""
        return json.loads((self.path / ABOUT).read_text(encoding="utf-8"))

    def held(self) -> AbstractContextManager[None]:
        """Keep other processes from running in this folder; see `held`."""
        return held(self.path)

    def open(self, settings: Settings, command: str = "", overwrite: bool = False) -> Checkpoint | None:
        """Begin a run, or find where an earlier one can go on.

        Args:
            settings: Of the run.
            command: The command line, to be written down.
            overwrite: Remove what an earlier run left.

        Returns:
            The checkpoint to go on from; None: from the beginning.

        Raises:
            ValueError: The folder holds something else, or a run with other settings; says which. Nothing is changed.
        """
        self.check(settings, overwrite)
        if overwrite:
            if (self.path / CHECKPOINTS).is_dir():
                remove_folder(self.path / CHECKPOINTS)  # first: without rows they could not be gone on with
            for name in _OWN:
                remove(self.path / name)
        checkpoint = self.checkpoints.latest
        if checkpoint is None:  # nothing that was done before the first checkpoint is used
            remove(self.start)
        remove(self.engine)
        self.checkpoints.clean()
        known = (self.path / ABOUT).exists() and not overwrite
        earlier = self.about() if known else {"id": uuid.uuid4().hex[:12], "starts": []}
        self._write_about(earlier, settings, command, checkpoint)
        return checkpoint

    def check(self, settings: Settings, overwrite: bool = False) -> None:
        """Check that `open` would not refuse; nothing is changed.

        Raises:
            ValueError: As in `open`.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} must be a folder, and is a file: choose another --out")
        there = {path.name for path in self.path.iterdir()} - {LOCK} if self.path.exists() else set()
        if there and ABOUT not in there:
            raise ValueError(f"{self.path} is there and holds no training run: choose another --out")
        if overwrite:
            return
        checkpoint = self.checkpoints.latest
        if checkpoint is not None:
            earlier = checkpoint.settings
        elif read_metrics(self.path):
            earlier = self.about()["settings"]
        else:
            return
        differences = changed_settings(earlier, settings)
        if checkpoint is not None and settings.updates < checkpoint.update:
            differences.append(f"updates: {checkpoint.update} are done, {settings.updates} asked for")
        if differences:
            raise ValueError(
                f"the run in {self.path} cannot go on with what is asked for, since these decide its curve and "
                "differ:\n  "
                + "\n  ".join(differences)
                + "\nchoose another --out, the same settings, or --overwrite "
                "to begin anew"
            )

    def _write_about(
        self, earlier: dict[str, Any], settings: Settings, command: str, checkpoint: Checkpoint | None
    ) -> None:
        from graphwrap.doctor import machine, versions

        begun = {
            "command": command,
            "update": 0 if checkpoint is None else checkpoint.update,
            "versions": versions(),
            "machine": machine(),
        }
        about = {
            "id": earlier["id"],
            "seed": settings.seed,
            "settings": saved_settings(settings),
            **{name: begun[name] for name in ("command", "versions", "machine")},
            "starts": [*earlier["starts"], begun],
        }
        with whole_file(self.path / ABOUT) as file:  # first: by it the folder is known
            file.write((json.dumps(about, indent=2) + "\n").encode("utf-8"))
        with whole_file(self.path / SETTINGS) as file:
            file.write(to_yaml(settings).encode("utf-8"))


def changed_versions(checkpoint: Checkpoint) -> list[str]:
    """Packages that a checkpoint was made with in another version than this process has."""
    from graphwrap.doctor import versions

    now = versions()
    return [
        f"{name} {checkpoint.versions.get(name)} there, {now.get(name)} here"
        for name in dict.fromkeys([*now, *checkpoint.versions])
        if checkpoint.versions.get(name) != now.get(name)
    ]
