"""What is tried: each makes an input, hands it over and checks what came of it."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from graphwrap import GraphGPO, Transitions
from graphwrap.envs.xsb import decode, format_xsb, parse_xsb
from graphwrap.scripts.comparison.results import Folder
from graphwrap.states import intern_columns, make_table, state_key

from ..builders import COLUMNS, walks
from .values import SPECIAL_NUMBERS, TEXTS, array, pick, space, value

ACCEPTED, REFUSED = "accepted", "refused"
DOCUMENTED = (TypeError, ValueError)


def columns(rng: np.random.Generator) -> str:
    """`Transitions.from_columns` and credit, with some cells or columns replaced."""
    given: dict[str, Any] = walks(rng, tasks=int(rng.integers(1, 3)), episodes=2, costs=True)
    rows = len(given["step"])
    for _ in range(int(rng.integers(4))):
        _spoil(rng, given, pick(rng, list(given)), rows)
    options = {"round": pick(rng, (None, 0, 2, -400, 400, "2", True))} if rng.random() < 0.3 else {}
    if rng.random() < 0.3:
        options["fingerprint_above"] = pick(rng, (None, 0, 3, -1, "a"))
    try:
        made = Transitions.from_columns(**given, **options)
    except DOCUMENTED:
        return REFUSED
    rows = len(made)
    assert all(len(getattr(made, name)) == rows for name in (*COLUMNS, "cost"))
    assert rows == 0 or made.state.max() < made.num_states
    assert np.isfinite(GraphGPO()(made).advantages).all()
    assert len(Transitions.concat([made]).select(np.ones(rows, np.bool_))) == rows
    return ACCEPTED


def _spoil(rng: np.random.Generator, given: dict[str, Any], name: str, rows: int) -> None:
    column, how = given[name], int(rng.integers(8))
    if how < 3 and isinstance(column, list) and column:
        column[int(rng.integers(len(column)))] = value(rng, 2)
    elif how == 3:
        given[name] = value(rng, 2)
    elif how == 4:
        given[name] = [value(rng, 2)] * rows
    elif how == 5:
        made = array(rng)
        given[name] = np.resize(made, (rows, *made.shape[1:])) if made.size else made
    elif how == 6 and isinstance(column, list):
        column.append(pick(rng, SPECIAL_NUMBERS))
    elif name in ("cost", "success"):
        del given[name]


def keys(rng: np.random.Generator) -> str:
    """`state_key`, tables and columns, with values that fit a space and values that do not."""
    of = space(rng) if rng.random() < 0.6 else None
    options: dict[str, Any] = {
        "round": pick(rng, (None, 0, 2)),
        "fingerprint_above": pick(rng, (None, 0, 20, 4096)),
    }
    values = [value(rng) for _ in range(3)]
    if of is not None:
        of.seed(int(rng.integers(2**31)))
        values += [of.sample() for _ in range(2)]
    table = make_table(of, **options)
    found = ACCEPTED
    for one in values:
        before = len(table)
        try:
            key = state_key(one, of, **options)
            hash(key)
            number = table.intern_one(one)
            assert table.intern_one(one) == number <= before
        except DOCUMENTED:
            assert len(table) == before
            found = REFUSED
    for batch in (values, values[0], array(rng)):
        before = len(table)
        try:
            ids = table.intern_batch(batch, int(rng.integers(4)))
            assert ids.max(initial=-1) < len(table)
        except DOCUMENTED:
            assert len(table) == before
        try:
            (ids,), labels = intern_columns(batch, **options)
            assert len(labels) == ids.max(initial=-1) + 1
        except DOCUMENTED:
            pass
    assert len(table.labels) == len(table)
    table.compact(np.arange(len(table))[::2])
    return found


def parquet(rng: np.random.Generator) -> str:
    """`Transitions.load`, with some bytes of a file changed or some of its columns."""
    given: dict[str, Any] = walks(rng, tasks=2, episodes=2)
    if rng.random() < 0.5:
        names = {i: pick(rng, TEXTS[:8]) if rng.random() < 0.2 else (i, 0.5, np.arange(i)) for i in range(6)}
        given |= {name: [names[i] for i in given[name]] for name in ("state", "next_state")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        try:
            Transitions.from_columns(**given).save(path)
        except DOCUMENTED:
            return REFUSED
        if rng.random() < 0.5:
            path.write_bytes(_broken(rng, path.read_bytes()))
        else:
            _change_table(rng, path)
        try:
            loaded = Transitions.load(path)
        except DOCUMENTED:
            return REFUSED
        assert np.isfinite(GraphGPO()(loaded).advantages).all()
        return ACCEPTED


def _broken(rng: np.random.Generator, data: bytes) -> bytes:
    how = int(rng.integers(4))
    if how == 0:
        return data[: int(rng.integers(len(data)))]
    if how == 1:
        return rng.bytes(int(rng.integers(200)))
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(len(changed))) if len(changed) else 0
        if how == 2 and changed:
            changed[place] = int(rng.integers(256))
        else:
            changed[place:place] = rng.bytes(int(rng.integers(5)))
    return bytes(changed)


_LABELS = (
    *(
        '{"tuple": [1]}',
        "[1, 2]",
        "null",
        "NaN",
        "1e999",
        "{",
        "",
        '{"array": "AAAA", "dtype": "<f8", "shape": [9]}',
    ),
    *('{"array": [1], "dtype": "object", "shape": [1]}', '{"array": [1], "dtype": "|O", "shape": [1]}'),
    *(
        '{"array": [], "dtype": [["a", "<i4"]], "shape": [0]}',
        '{"array": [1], "dtype": "nonsense", "shape": [1]}',
    ),
    *('{"array": [1], "dtype": "<i4", "shape": [-1]}', '{"array": [1], "dtype": "<i4", "shape": "x"}'),
    *(
        '{"int": "zz"}',
        '{"float": "x"}',
        '{"set": [[1]]}',
        '{"dict": [[[], 1]]}',
        '{"dict": 3}',
        '{"bytes": "*"}',
    ),
    *('{"graph": [1]}', '{"unknown": 1}', '{"a": 1, "b": 2}', '{"fingerprint": ["00", "x"]}', "[" * 5000),
    *(
        '{"complex": ["a", "b"]}',
        '{"scalar": 3}',
        '{"int": 3}',
        '{"tuple": 3}',
        '{"frozenset": [{"dict": []}]}',
    ),
)


def _change_table(rng: np.random.Generator, path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    table = parquet.read_table(path)
    for _ in range(int(rng.integers(3))):
        index = int(rng.integers(table.num_columns))
        name, rows = table.column_names[index], table.num_rows
        how = int(rng.integers(7))
        if how == 0:
            table = table.remove_column(index)
            continue
        if how == 1:
            column = pyarrow.array([pick(rng, _LABELS) for _ in range(rows)], pyarrow.string())
        elif how == 2:
            texts = [text if isinstance(text, str) else "1" for text in table.column(index).to_pylist()]
            if rows:
                texts[int(rng.integers(rows))] = pick(rng, (*_LABELS, None))
            column = pyarrow.array(texts, pyarrow.string())
        elif how == 3:
            column = pyarrow.array(rng.integers(-2, 3, rows), pick(rng, (pyarrow.int8(), pyarrow.int64())))
        elif how == 4:
            column = pyarrow.array([pick(rng, (0.0, 1.5, None, float("nan"), 1e300)) for _ in range(rows)])
        elif how == 5:
            column = pyarrow.array([pick(rng, (True, False, None)) for _ in range(rows)], pyarrow.bool_())
        else:
            column = pyarrow.array([[1]] * rows, pyarrow.list_(pyarrow.int8()))
        table = table.set_column(index, name, column)
    if rng.random() < 0.2:
        table = table.slice(int(rng.integers(3)))
    about = pick(rng, ('{"format": 2}', '{"format": "x"}', "[]", "{", "3", "\udcff", '{"format": null}'))
    if rng.random() < 0.3:
        table = table.replace_schema_metadata({b"graphwrap": about.encode("utf-8", "surrogateescape")})
    parquet.write_table(table, path)


_LINES = (
    "; 3 optimal 99999999999999",
    "; -1",
    "; 1 optimal x",
    ";",
    "Title: x",
    "#####",
    "\t",
    "@",
    "#@$.#",
    "é#",
)


def levels(rng: np.random.Generator) -> str:
    """The reader of level files, with boards that have changed symbols, and with bytes that are none."""
    boards = rng.choice([0, 0, 0, 1, 1, 2, 4, 5], (int(rng.integers(1, 4)), *rng.integers(1, 9, 2).tolist()))
    if rng.random() < 0.7:
        boards = np.pad(boards, ((0, 0), (1, 1), (1, 1)))
    text = format_xsb(
        boards.astype(np.uint8), rng.integers(-1, 3, len(boards)), ["a header"][: rng.integers(2)]
    )
    lines = text.splitlines()
    for _ in range(int(rng.integers(4))):
        place = int(rng.integers(len(lines)))
        lines.insert(place, pick(rng, (*_LINES, " " * int(rng.integers(2000)), "#" * int(rng.integers(300)))))
    data = pick(rng, ("\n", "\r\n", "\r", "\x0b")).join(lines).encode()
    if rng.random() < 0.5:
        data = _broken(rng, data)
    text = decode(data)
    try:
        found, optimal, header = parse_xsb(text)
    except ValueError:
        return REFUSED
    assert found.ndim == 3
    assert found.dtype == np.uint8
    assert found.max(initial=0) <= 6
    assert len(optimal) == len(found)
    assert all(isinstance(line, str) for line in header)
    again, lengths, _ = parse_xsb(format_xsb(found, optimal))
    assert len(again) == len(found)
    assert lengths.tolist() == optimal.tolist()
    return ACCEPTED


_RUN = {
    "credit": {"label": "grpo", "title": "GRPO", "credit": "grpo", "parameters": {}},
    "seed": 0,
    "facts": {"a": 1.0},
}
_SETTINGS = {"settings": {}, "credits": {"grpo": _RUN["credit"]}, "seeds": [0], "versions": {}}


def results(rng: np.random.Generator) -> str:
    """The reader of a comparison's folder, with changed JSON and Parquet files."""
    import pyarrow
    from pyarrow import parquet

    root = Path(tempfile.mkdtemp())
    try:
        (root / "runs").mkdir()
        files = {
            "settings.json": json.dumps(_SETTINGS).encode(),
            "runs/grpo-seed0.json": json.dumps(_RUN).encode(),
        }
        curve = root / "runs" / "grpo-seed0.parquet"
        parquet.write_table(pyarrow.table({"steps": [1.0, 2.0], "success": [0.0, 1.0]}), curve)
        files["runs/grpo-seed0.parquet"] = curve.read_bytes()
        for name, data in files.items():
            if rng.random() < 0.5:
                how = int(rng.integers(3))
                data = _broken(rng, data) if how == 0 or name.endswith("parquet") else _change_json(rng, data)
            (root / name).write_bytes(data)
        if rng.random() < 0.1:
            os.unlink(pick(rng, [root / name for name in files]))
        try:
            folder = Folder(root)
            folder.settings()
            for run in folder.runs():
                pickle.dumps(run.facts)
        except (*DOCUMENTED, FileNotFoundError):
            return REFUSED
        return ACCEPTED
    finally:
        shutil.rmtree(root)


def _change_json(rng: np.random.Generator, data: bytes) -> bytes:
    parsed = json.loads(data)
    place = parsed
    while rng.random() < 0.5:
        inner = [one for one in place.values() if isinstance(one, dict) and one]
        if not inner:
            break
        place = pick(rng, inner)
    name = pick(rng, list(place))
    if rng.random() < 0.4:
        del place[name]
    else:
        place[name] = pick(rng, (None, 3, "x", [], {}, [[1]], {"a": {}}, 1e300, True))
    return json.dumps(parsed if rng.random() < 0.95 else pick(rng, ([], 3, None, "x"))).encode()


TARGETS = {"columns": columns, "keys": keys, "parquet": parquet, "levels": levels, "results": results}
"""Everything that is tried, by name."""
