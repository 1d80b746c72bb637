"""What a training run writes down about itself."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from graphwrap._files import whole_file

METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"
EPISODES = "episodes"
TRANSITIONS = "transitions"
_OF_UPDATE = re.compile(r"update-(\d{6,})\.(?:md|parquet)")

Row = dict[str, Any]


def read_metrics(folder: str | os.PathLike[str]) -> list[Row]:
    """The rows of a run's folder, one per update; null is NaN.

    A last line that a killed process left half-written is left out.

    Raises:
        ValueError: A line holds something else; it is named.
    """
    file = Path(folder) / METRICS
    if not file.exists():
        return []
    *lines, _rest = file.read_text(encoding="utf-8").split("\n")  # whole lines end with a line break
    rows: list[Row] = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            if not isinstance(row, dict) or not isinstance(row.get("update"), int):
                raise ValueError("it is no JSON object with an update's number")
        except ValueError as error:
            raise ValueError(
                f"{file} must hold one JSON object per line, but line {number} does not: {error}"
            ) from error
        rows.append({name: math.nan if value is None else value for name, value in row.items()})
    return rows


def forget_after(folder: str | os.PathLike[str], update: int) -> None:
    """Remove what was written about updates after `update`, which are to be done again."""
    folder = Path(folder)
    rows = [row for row in read_metrics(folder) if row["update"] <= update]
    if (folder / METRICS).exists():
        with whole_file(folder / METRICS) as file:
            file.write("".join(map(_line, rows)).encode("utf-8"))
    for path in [*(folder / EPISODES).glob("update-*"), *(folder / TRANSITIONS).glob("update-*")]:
        name = _OF_UPDATE.fullmatch(path.name)
        if name and int(name.group(1)) > update:
            path.unlink()
    for path in [*(folder / EPISODES).glob(".*.part"), *(folder / TRANSITIONS).glob(".*.part")]:
        path.unlink()


def file_of_update(folder: str | os.PathLike[str], kind: str, update: int) -> Path:
    """Where what belongs to an update is written; `kind` is `EPISODES` or `TRANSITIONS`. Its folder is made."""
    suffix = {EPISODES: "md", TRANSITIONS: "parquet"}[kind]
    path = Path(folder) / kind / f"update-{update:06d}.{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


class Tracker:
    """Metrics to JSON lines and TensorBoard, and to Weights & Biases where a project is named.

    Args:
        folder: Of the run.
        update: The updates that are done; what is there about later ones is dropped.
        wandb: Project; empty: none.
        config: The run's settings, for Weights & Biases.
        run_id: The run's name there, by which a resumed run is known.

    Raises:
        ImportError: A package is missing; names it.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        update: int = 0,
        wandb: str = "",
        config: Mapping[str, Any] | None = None,
        run_id: str | None = None,
    ) -> None:
        self.folder = Path(folder)
        if find_spec("tensorboard") is None:
            raise ImportError("tensorboard is missing; install with: pip install 'graphwrap[llm]'")
        if wandb and find_spec("wandb") is None:
            raise ImportError(f"wandb={wandb} needs the package wandb: pip install wandb, or leave it out")
        from torch.utils.tensorboard import SummaryWriter

        self.folder.mkdir(parents=True, exist_ok=True)
        forget_after(self.folder, update)
        self._file = open(self.folder / METRICS, "ab")  # noqa: SIM115
        self._board = SummaryWriter(str(self.folder / TENSORBOARD), purge_step=update + 1)
        self._wandb: Any = None
        if wandb:
            import wandb as package

            self._wandb = package.init(
                project=wandb,
                id=run_id,
                name=self.folder.name,
                dir=str(self.folder),
                config=dict(config or {}),
                resume="allow",
            )

    def log(self, row: Mapping[str, Any]) -> None:
        """Write the row of an update: `update`, and numbers and texts by name.

        Raises:
            OSError: It cannot be written, such as for a full disk.
        """
        self._file.write(_line(row).encode("utf-8"))
        self._file.flush()
        os.fsync(self._file.fileno())
        numbers = {
            name: float(value)
            for name, value in row.items()
            if name != "update" and isinstance(value, (int, float)) and math.isfinite(value)
        }
        for name, value in numbers.items():
            self._board.add_scalar(name, value, row["update"])
        self._board.flush()
        if self._wandb is not None:
            self._wandb.log(numbers, step=row["update"])

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        self._board.close()
        if self._wandb is not None:
            self._wandb.finish()


def _line(row: Mapping[str, Any]) -> str:
    plain = {name: _plain(value) for name, value in row.items()}
    return json.dumps(plain, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value  # NumPy's and torch's scalars
    return None if isinstance(value, float) and not math.isfinite(value) else value
