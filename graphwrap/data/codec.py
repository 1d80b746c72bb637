"""Labels as JSON text and back, exactly.

None, booleans, integers, finite floats, text and lists are plain JSON. Everything else is an object with one tag:
`{"tuple": [...]}`, `{"dict": [[key, value], ...]}`, `{"bytes": base64}`, `{"float": "nan"}`,
`{"array": values or base64, "dtype": ..., "shape": [...]}` and so on.
"""

from __future__ import annotations

import base64
import enum
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import GraphInstance
from numpy.lib.format import descr_to_dtype, dtype_to_descr

from graphwrap.data.fingerprints import DIGEST_BYTES, Fingerprint
from graphwrap.data.keys import shorten

_READABLE = 64  # arrays of at most so many numbers are written as numbers
_BIG = 1 << 1024  # Python limits the decimal digits of the integers it reads


def encode(label: Any) -> str:
    """Return the JSON text of `label`.

    Raises:
        TypeError: The label, or something inside it, has no exact text form.
    """
    return json.dumps(_plain(label), allow_nan=False)


def decode(text: str) -> Any:
    """Return the label that `encode` made `text` from; its arrays are read-only.

    Raises:
        ValueError: `text` is not from `encode`.
    """
    try:
        return _label(json.loads(text))
    except (
        AttributeError,
        IndexError,
        KeyError,
        OverflowError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise ValueError(f"a label must be text that Transitions.save wrote, got {shorten(text)}") from error


def _plain(label: Any) -> Any:
    if isinstance(label, enum.Enum):
        raise _no_text(label)
    if label is None or type(label) in (bool, str):
        return label
    if isinstance(label, np.bool_):
        return bool(label)
    if isinstance(label, (int, np.integer)) and not isinstance(label, np.timedelta64):
        number = int(label)
        return number if -_BIG < number < _BIG else {"int": hex(number)}
    if isinstance(label, (float, np.floating)) and float(label) == label:
        return float(label) if math.isfinite(label) else {"float": str(float(label))}
    if isinstance(label, (float, np.floating)) and math.isnan(label):
        return {"float": "nan"}
    if isinstance(label, (complex, np.complexfloating)):
        return {"complex": [_plain(label.real), _plain(label.imag)]}
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, bytes):
        return {"bytes": _base64(label)}
    if isinstance(label, Fingerprint):
        return {"fingerprint": [label.digest.hex(), label.about]}
    if isinstance(label, np.generic):
        return {"scalar": _array(np.asarray(label))}
    if isinstance(label, np.ndarray) and not isinstance(label, np.ma.MaskedArray):
        return _array(label)
    if isinstance(label, Mapping):
        return {"dict": [[_plain(key), _plain(value)] for key, value in label.items()]}
    if isinstance(label, list):
        return [_plain(item) for item in label]
    if isinstance(label, GraphInstance):
        return {"graph": [_plain(item) for item in label]}
    if isinstance(label, tuple) and not hasattr(label, "_fields"):
        return {"tuple": [_plain(item) for item in label]}
    if isinstance(label, (set, frozenset)):
        kind = "set" if isinstance(label, set) else "frozenset"
        return {kind: sorted((_plain(item) for item in label), key=json.dumps)}
    raise _no_text(label)


def _array(array: np.ndarray) -> dict[str, Any]:
    dtype, shape = array.dtype, list(array.shape)
    if dtype.kind == "O":
        return {"array": [_plain(item) for item in array.ravel()], "dtype": "object", "shape": shape}
    if dtype.hasobject or dtype.kind not in "biufcmMSUV":
        raise _no_text(array)
    form = {"dtype": dtype_to_descr(dtype), "shape": shape}
    small = array.size <= _READABLE and dtype.itemsize <= 8
    if small and (dtype.kind in "biu" or (dtype.kind == "f" and np.isfinite(array).all())):
        return {"array": array.ravel().tolist(), **form}
    return {"array": _base64(array.tobytes()), **form}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _no_text(label: Any) -> TypeError:
    return TypeError(
        "labels can be saved if they are numbers, text, bytes, None, arrays, and dicts, tuples, lists and sets of "
        f"these, got {shorten(label)} of type {type(label).__qualname__}; record something of those kinds in its "
        "place (its name or its number, say)"
    )


def _label(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_label(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if "array" in plain:
        return _decode_array(plain["array"], plain["dtype"], plain["shape"])
    ((tag, content),) = plain.items()
    if tag == "scalar":
        return _label(content)[()]
    if tag == "dict":
        return {_label(key): _label(value) for key, value in content}
    if tag == "bytes":
        return base64.b64decode(content)
    if tag == "int":
        return int(content, 16)
    if tag == "float":
        return float(content)
    if tag == "fingerprint":
        digest, about = bytes.fromhex(content[0]), content[1]
        if len(digest) != DIGEST_BYTES or not isinstance(about, str):
            raise ValueError("a fingerprint has 16 bytes and a text")
        return Fingerprint(digest, about)
    items = [_label(item) for item in content]
    if tag == "complex":
        return complex(*items)
    if tag == "graph":
        return GraphInstance(*items)
    return {"tuple": tuple, "set": set, "frozenset": frozenset}[tag](items)


def _decode_array(values: Any, descr: Any, shape: list[int]) -> np.ndarray:
    if descr == "object":
        array: np.ndarray = np.empty(len(values), object)
        array[:] = [_label(item) for item in values]
    else:
        dtype = descr_to_dtype(_tuples(descr) if isinstance(descr, list) else descr)
        raw = isinstance(values, str)
        array = np.frombuffer(base64.b64decode(values), dtype) if raw else np.array(values, dtype)
    array = array.reshape(shape)
    array.flags.writeable = False
    return array


def _tuples(descr: list[Any]) -> list[Any]:
    """A dtype description as NumPy wants it: JSON turned its tuples into lists."""
    fields = []
    for name, inner, *shape in descr:
        inner = _tuples(inner) if isinstance(inner, list) else inner
        fields.append((tuple(name) if isinstance(name, list) else name, inner, *map(tuple, shape)))
    return fields
