"""Fast Downward's shared library, which holds one game: a copy of it for each engine.

It keeps the game in global variables, so two engines need two copies. A copy has only what the loader maps, 1 MB of
34 MB, and its file is gone as soon as it is loaded. A process that has unloaded one crashes at its end, so a library
whose engine was closed waits for the next engine.
"""

from __future__ import annotations

import ctypes
import os
import struct
import tempfile
import threading
from importlib import resources
from pathlib import Path
from typing import Any

_WORD = ctypes.c_int
_ARGUMENTS: dict[str, tuple[Any, list[Any]]] = {  # function: what it returns and takes
    "load_sas": (_WORD, [ctypes.c_char_p]),
    "load_sas_replan": (_WORD, [ctypes.c_char_p]),
    "cleanup": (None, []),
    "get_applicable_operators_count": (_WORD, []),
    "get_applicable_operators": (None, [ctypes.c_void_p]),
    "get_state_size": (_WORD, []),
    "get_state": (None, [ctypes.c_void_p]),
    "get_state_id": (_WORD, []),
    "set_state_id": (None, [_WORD]),
    "apply_operator": (ctypes.c_size_t, [ctypes.c_size_t, ctypes.c_void_p]),
    "check_goal": (ctypes.c_bool, []),
    "replan": (ctypes.c_bool, [ctypes.c_bool]),
    "get_last_plan_length": (_WORD, []),
    "get_last_plan": (None, [ctypes.c_void_p]),
}
_HEADER = struct.Struct("<16x HHIQQQIHHHHHH")  # of a 64-bit ELF file, after its 16 bytes of identification
_SEGMENT = struct.Struct("<IIQQQQQQ")
_LOADED = 1  # the type of a segment that is mapped

# What cannot be unloaded is shared by all engines of the process, one after the other.
_idle: list[ctypes.CDLL] = []
_lock = threading.Lock()


def borrow() -> ctypes.CDLL:
    """A library that nobody else uses."""
    with _lock:
        if _idle:
            return _idle.pop()
    return _load()


def give_back(library: ctypes.CDLL) -> None:
    """Say that `library` is no longer used."""
    library.cleanup()
    with _lock:
        _idle.append(library)


def _load() -> ctypes.CDLL:
    original = Path(str(resources.files("fast_downward"))) / "libdownward.so"
    # The loader takes a second file for the first one unless it has an inode of its own.
    with tempfile.TemporaryDirectory(prefix="graphwrap-") as folder:
        copy = Path(folder) / original.name
        copy.write_bytes(without_symbols(original.read_bytes()))
        library = ctypes.CDLL(os.fspath(copy))
    for name, (result, arguments) in _ARGUMENTS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def without_symbols(data: bytes) -> bytes:
    """A shared library without what only debuggers read; as it is where it is no 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        return data
    fields = list(_HEADER.unpack_from(data))
    first, size, count = fields[4], fields[8], fields[9]
    segments = [_SEGMENT.unpack_from(data, first + size * number) for number in range(count)]
    end = max([first + size * count] + [s[2] + s[5] for s in segments if s[0] == _LOADED])
    fields[5] = fields[11] = fields[12] = (
        0  # where the table of sections is, how long, and where its names are
    )
    header = bytearray(data[: _HEADER.size])
    _HEADER.pack_into(header, 0, *fields)
    header[:16] = data[:16]
    return bytes(header) + data[_HEADER.size : end]
