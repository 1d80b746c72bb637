"""The folder of a comparison: what was asked for, and one finished run per pair of files."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphwrap._files import remove_folder, whole_file
from graphwrap.scripts.comparison.settings import Compared, CreditSpec

SETTINGS = "settings.json"
RUNS = "runs"
TRAININGS = "trainings"
"""The folders of training runs that can be gone on with, where the learner has such."""
REPORT_FILES = ("comparison.parquet", "summary.parquet", "summary.json", "summary.md", "curves.png")
DECIDING = (
    *("graphwrap", "gymnasium", "numba", "numpy", "python", "stable-baselines3", "torch", "transformers"),
    *("alfworld", "textworld", "fast-downward-textworld"),
)
"""Packages whose version may change a curve."""


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run."""

    credit: str  # label
    title: str  # for tables
    seed: int
    curve: dict[
        str, np.ndarray
    ]  # float64 (updates,) by name; see `graphwrap.scripts.comparison.training.train_run`
    facts: dict[str, Any]


class Mismatch(ValueError):
    """The folder holds a comparison with other settings."""


class Folder:
    """A comparison on disk.

    A run is finished when its JSON file is there; both its files are written beside their place and then moved, so an
    interruption leaves whole files only.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def open(
        self,
        settings: Compared,
        credits: Sequence[CreditSpec],
        seeds: Sequence[int],
        environment: dict[str, Any],
        overwrite: bool = False,
    ) -> list[tuple[CreditSpec, int]]:
        """Begin, extend or go on with a comparison.

        Args:
            settings: of every run.
            credits: to compare. A folder may hold others besides, and gets new ones added.
            seeds: the same.
            environment: what else is written down: `versions`, `machine`, `command`.
            overwrite: remove what an earlier comparison left in the folder.

        Returns:
            The runs that are missing, seed by seed.

        Raises:
            Mismatch: the folder holds runs with other settings, versions or parameters; says which.
            ValueError: the folder holds something else.
        """
        known = self.path / SETTINGS
        if not known.exists() and self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise ValueError(f"{self.path} is there and holds no comparison: choose another --out")
        if overwrite and known.exists():
            self._clear()
        wanted = {
            "settings": settings.describe(),
            "credits": {spec.label: dataclasses.asdict(spec) for spec in credits},
            "seeds": list(seeds),
            **environment,
        }
        if known.exists():
            self._compare(json.loads(known.read_text(encoding="utf-8")), wanted)
            earlier = json.loads(known.read_text(encoding="utf-8"))
            wanted["credits"] = {**earlier["credits"], **wanted["credits"]}
            wanted["seeds"] = sorted({*earlier["seeds"], *wanted["seeds"]})
        (self.path / RUNS).mkdir(parents=True, exist_ok=True)
        write_json(known, wanted)
        return [
            (spec, seed)
            for seed in seeds
            for spec in credits
            if not self._file(spec.label, seed, "json").exists()
        ]

    def _compare(self, there: dict[str, Any], wanted: dict[str, Any]) -> None:
        differences = [
            f"{name}: {there['settings'].get(name)!r} there, {value!r} asked for"
            for name, value in wanted["settings"].items()
            if there["settings"].get(name) != value
        ]
        for label in set(there["credits"]) & set(wanted["credits"]):
            before, now = there["credits"][label]["parameters"], wanted["credits"][label]["parameters"]
            differences += [
                f"{label} {name}: {before.get(name)!r} there, {value!r} asked for"
                for name, value in now.items()
                if before.get(name) != value
            ]
        differences += [
            f"{name} {there['versions'].get(name)} there, {wanted['versions'].get(name)} here"
            for name in DECIDING
            if there["versions"].get(name) != wanted["versions"].get(name)
        ]
        if differences:
            raise Mismatch(
                f"the runs in {self.path} cannot be compared with what is asked for, since these differ:\n  "
                + "\n  ".join(differences)
                + "\nchoose another --out, the same settings, or --overwrite to begin anew"
            )

    def _clear(self) -> None:
        runs = self.path / RUNS
        if (self.path / TRAININGS).exists():
            remove_folder(self.path / TRAININGS)
        for file in [*(self.path / name for name in (SETTINGS, *REPORT_FILES)), *runs.glob("*-seed*.*")]:
            file.unlink(missing_ok=True)

    def _file(self, label: str, seed: int, suffix: str) -> Path:
        return self.path / RUNS / f"{run_name(label, seed)}.{suffix}"

    def save(
        self, spec: CreditSpec, seed: int, rows: Sequence[dict[str, float]], facts: dict[str, Any]
    ) -> None:
        """Write a finished run."""
        columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        write_parquet(self._file(spec.label, seed, "parquet"), columns)
        write_json(
            self._file(spec.label, seed, "json"),
            {"credit": dataclasses.asdict(spec), "seed": seed, "facts": facts},
        )

    def runs(self) -> list[Run]:
        """Every finished run, by credit in the order asked for, then by seed.

        Raises:
            ValueError: A file holds something else; it is named.
        """
        credits = self.settings().get("credits")
        if not isinstance(credits, dict):
            raise _no_file_of_ours(self.path / SETTINGS, "it names no credits")
        order = list(credits)
        found = [_read_run(file) for file in sorted((self.path / RUNS).glob("*.json"))]
        unknown = [run.credit for run in found if run.credit not in order]
        if unknown:
            raise _no_file_of_ours(self.path / SETTINGS, f"it lacks the credit {unknown[0]!r}")
        return sorted(found, key=lambda run: (order.index(run.credit), run.seed))

    def settings(self) -> dict[str, Any]:
        """The content of settings.json.

        Raises:
            ValueError: The file holds something else; it is named.
        """
        return _read_json(self.path / SETTINGS)


def run_name(label: str, seed: int) -> str:
    """The name of a run's files."""
    safe = re.sub(r"[^A-Za-z0-9.=-]+", "_", label)
    return f"{safe}-seed{seed}"


def _no_file_of_ours(file: Path, fault: str) -> ValueError:
    return ValueError(
        f"{file} must be a file that graphwrap compare wrote, but {fault}; delete it, or begin anew with --overwrite"
    )


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise _no_file_of_ours(file, f"it is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise _no_file_of_ours(file, "it is no JSON object")
    return content


def _read_run(file: Path) -> Run:
    import pyarrow
    from pyarrow import parquet

    about = _read_json(file)
    spec, seed, facts = (about.get(name) for name in ("credit", "seed", "facts"))
    label, title = (spec.get(name) if isinstance(spec, dict) else None for name in ("label", "title"))
    named = isinstance(label, str) and isinstance(title, str)
    if not (named and type(seed) is int and isinstance(facts, dict)):
        raise _no_file_of_ours(file, "its credit, seed or facts are missing")
    curve = file.with_suffix(".parquet")
    try:
        with pyarrow.OSFile(str(curve)) as data:  # not Python's: see `graphwrap.data.storage.load`
            table = parquet.read_table(data)
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk, not the file
            raise
        raise _no_file_of_ours(curve, f"it is no Parquet file: {error}") from error
    columns = {name: table[name].to_numpy() for name in table.column_names}
    return Run(str(label), str(title), seed, columns, facts)


def command_line(subcommand: str) -> str:
    """The command line that this process was started with, as one of `graphwrap`."""
    arguments = sys.argv[1:] if sys.argv[1:2] == [subcommand] else [subcommand, *sys.argv[1:]]
    return shlex.join(["graphwrap", *arguments])


def write_json(path: Path, value: Any) -> None:
    """Write `value` so that `path` is either as it was or complete."""
    write_bytes(path, (json.dumps(value, indent=2) + "\n").encode("utf-8"))


def write_parquet(path: Path, columns: dict[str, Any]) -> None:
    """Write a table of equally long columns so that `path` is either as it was or complete."""
    import pyarrow
    from pyarrow import parquet

    with whole_file(path) as file:
        parquet.write_table(pyarrow.table(columns), file)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file so that `path` is either as it was or complete."""
    with whole_file(path) as file:
        file.write(data)
