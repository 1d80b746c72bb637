"""Transitions in a Parquet file.

Columns `task`, `episode`, `state`, `next_state` and `action` are dictionary-encoded JSON text of the labels
(`graphwrap.data.codec`), `outcome` is its name; `step`, `reward`, `cost`, `terminated` and `truncated` are plain.
Any Parquet reader can use the file; with pandas the text columns are categories.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from graphwrap._files import whole_file
from graphwrap.data.codec import decode, encode
from graphwrap.data.columns import intern_columns, pack_labels
from graphwrap.transitions import Outcome, Transitions

_FORMAT = 1
_TEXTS = ("task", "episode", "state", "next_state", "action")
_VALUES = ("step", "reward", "cost", "terminated", "truncated")
_COLUMNS = (
    *("task", "episode", "step", "state", "next_state", "action"),
    *("reward", "cost", "terminated", "truncated", "outcome"),
)


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "saving and loading transitions needs pyarrow, which is not installed; "
            "run pip install 'graphwrap[io]'"
        ) from error
    return pyarrow


def save(transitions: Transitions, path: str | os.PathLike[str]) -> None:
    """Write `transitions` to a Parquet file at `path`.

    The file is written beside `path` and then put in its place at once: an interrupted or failed call leaves whatever
    was there before.

    Raises:
        ImportError: pyarrow is missing.
        TypeError: A label has no exact text form. Nothing is written.
        OSError: The file cannot be written.
    """
    pa = _pyarrow()
    columns: dict[str, Any] = {name: pa.array(getattr(transitions, name)) for name in _VALUES}
    texts = {}
    for name in ("task", "episode", "state", "action"):
        texts[name] = _unique(encode(label) for label in getattr(transitions, f"{name}_labels"))
    texts["next_state"] = texts["state"]
    for name in _TEXTS:
        ids, values = texts[name]
        columns[name] = pa.DictionaryArray.from_arrays(
            pa.array(ids[getattr(transitions, name)]), pa.array(values, pa.string())
        )
    outcome = transitions.outcome[transitions.episode].astype(np.int32)
    names = pa.array([member.name for member in Outcome], pa.string())
    columns["outcome"] = pa.DictionaryArray.from_arrays(pa.array(outcome), names)
    metadata = {"graphwrap": json.dumps({"format": _FORMAT})}
    table = pa.table({name: columns[name] for name in _COLUMNS}, metadata=metadata)
    with whole_file(path) as file:
        pa.parquet.write_table(table, file)


def load(path: str | os.PathLike[str]) -> Transitions:
    """Read transitions from a Parquet file that `save` wrote: the same rows, ids, labels and outcomes.

    Raises:
        ImportError: pyarrow is missing.
        FileNotFoundError: There is no such file.
        ValueError: The file is something else, is of a newer format, or breaks a rule of `Transitions.from_columns`.
    """
    pa = _pyarrow()
    path = Path(path)
    # A file of Arrow's own: one of its threads that let go of a Python file while the interpreter ends would abort it.
    with pa.OSFile(os.fspath(path)) as file:
        try:
            table = pa.parquet.read_table(file)
            table.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # the disk, not the file
                raise
            raise ValueError(f"{path} must be a Parquet file written by Transitions.save: {error}") from error
    fault = _fault(pa, table)
    if fault:
        raise ValueError(f"{path} must be a file written by Transitions.save, but {fault}")
    columns: dict[str, Any] = {name: table[name].to_numpy() for name in _VALUES}
    texts = {name: _texts(table[name]) for name in (*_TEXTS, "outcome")}
    labels = {}
    for name, together in {"task": ["task"], "state": ["state", "next_state"], "action": ["action"]}.items():
        ids, values = _unique(text for key in together for text in texts[key][1])
        for key in together:
            columns[key], ids = ids[: len(texts[key][1])][texts[key][0]], ids[len(texts[key][1]) :]
        labels[f"{name}_labels"] = pack_labels([decode(text) for text in values])
    ids, values = texts["episode"]
    (columns["episode"],), pairs = intern_columns(columns["task"].astype(np.int64) * len(values) + ids)
    decoded = [decode(text) for text in values]
    labels["episode_labels"] = pack_labels([decoded[pair % len(values)] for pair in pairs.tolist()])
    outcomes = _outcomes(path, columns, *texts["outcome"], num_episodes=len(pairs))
    return Transitions.from_ids(**columns, **labels, outcome=outcomes)


def _fault(pa: Any, table: Any) -> str | None:
    """What tells `table` from one that `save` wrote, None if nothing does."""
    missing = [name for name in _COLUMNS if table.column_names.count(name) != 1]
    if missing:
        return f"it lacks {missing}"
    try:
        about = json.loads((table.schema.metadata or {}).get(b"graphwrap", "{}"))
        form = about.get("format", _FORMAT)
    except (AttributeError, ValueError, RecursionError):
        return "its metadata is something else"
    if not isinstance(form, int) or form > _FORMAT:
        return f"it is of format {form}, which this version cannot read"
    types = pa.types

    def is_text(kind: Any) -> bool:
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return types.is_string(kind) or types.is_large_string(kind)

    def is_number(kind: Any) -> bool:
        return types.is_integer(kind) or types.is_floating(kind)

    kinds = {"step": types.is_integer, "reward": is_number, "cost": is_number}
    for name in _COLUMNS:
        column = table[name]
        fits = kinds.get(name, types.is_boolean if name in _VALUES else is_text)
        if not fits(column.type):
            return f"its column {name} is of type {column.type}"
        if column.null_count:
            return f"its column {name} has no value in {column.null_count} rows"
    return None


def _unique(texts: Iterable[str]) -> tuple[np.ndarray, list[str]]:
    """Return (the number of each text, int32; the texts without repeats)."""
    known: dict[str, int] = {}
    ids = np.array([known.setdefault(text, len(known)) for text in texts], np.int32)
    return ids, list(known)


def _texts(column: Any) -> tuple[np.ndarray, list[str]]:
    """Return (which text each row has, the texts) of a column of text, dictionary-encoded or not."""
    if not hasattr(column.type, "index_type"):
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    if not column.num_chunks:
        return np.zeros(0, np.int64), []
    indices = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return np.concatenate(indices).astype(np.int64), column.chunk(0).dictionary.to_pylist()


def _outcomes(
    path: Path, columns: dict[str, Any], ids: np.ndarray, names: list[str], *, num_episodes: int
) -> np.ndarray:
    unknown = [name for name in names if name not in Outcome.__members__]
    if unknown:
        allowed = ", ".join(Outcome.__members__)
        raise ValueError(f"outcome in {path} must be one of {allowed}, got {unknown[0]!r}")
    per_row = np.array([Outcome[name] for name in names], np.int64)[ids]
    outcomes = np.full(num_episodes, -1, np.int64)
    outcomes[columns["episode"]] = per_row
    wrong = np.flatnonzero(outcomes[columns["episode"]] != per_row)
    if wrong.size:
        raise ValueError(
            f"outcome in {path} must be the same on all rows of an episode, row {wrong[0]} differs"
        )
    return outcomes
