"""128 bits that stand for a value too large to be kept."""

from __future__ import annotations

import enum
import functools
import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FINGERPRINT_ABOVE = 4096
"""Bytes per value above which tables keep fingerprints unless told otherwise."""

DIGEST_BYTES = 16
PLAIN = "biuf"  # kinds of dtype whose arrays are hashed as words


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Stands for a value that a table does not keep. Two are equal if their 128 bits are.

    Equal values have equal fingerprints in every process and on every machine of the same byte order. Among n
    different values the chance that any two meet is about n**2 / 2**129 (1e-21 for a billion); it is no protection
    against values made to collide.
    """

    digest: bytes  # 16 bytes
    about: str = field(compare=False)  # what it stands for, for people: "uint8 (84, 84, 4)"

    def __repr__(self) -> str:
        return f"Fingerprint({self.digest.hex()} of {self.about})"


class _NoDigest(Exception):
    """A key holds something that has no canonical bytes."""


def check_fingerprint_above(above: int | None) -> None:
    """Raise unless `above` is None or a number of bytes."""
    if above is not None and (isinstance(above, bool) or not isinstance(above, (int, np.integer))):
        raise TypeError(f"fingerprint_above must be a number of bytes (an int) or None, got {above!r}")
    if above is not None and above < 0:
        raise ValueError(f"fingerprint_above must be 0 bytes or more, or None (never), got {above}")


def size_of(value: Any) -> int:
    """Bytes of content in a value: of arrays, text (UTF-8), bytes and, inside nests, 8 for anything else."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.nbytes if value.dtype.kind != "O" else sum(map(size_of, value.ravel()))
    if isinstance(value, Mapping):
        return sum(map(size_of, value.values()))
    if isinstance(value, (tuple, list, set, frozenset)):
        return sum(map(size_of, value))
    size = getattr(value, "nbytes", 8)  # a torch tensor has it
    return size if isinstance(size, int) else 8


def fingerprint(value: Any, key: Hashable) -> Fingerprint | None:
    """Return the fingerprint of `value`, whose key is `key` (`graphwrap.data.keys.state_key`).

    None if the key holds something without canonical bytes, such as an object of a user's class.
    """
    try:
        return Fingerprint(digest_of_key(key), describe(value))
    except _NoDigest:
        return None


def describe(value: Any) -> str:
    """Return a few words about a value that has a fingerprint."""
    if isinstance(value, str):
        return f"text of {len(value)} characters"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, (Mapping, tuple, list, set, frozenset)):
        kind = "dict" if isinstance(value, Mapping) else type(value).__name__
        return f"{kind} of {len(value)}"
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    return type(value).__name__ if dtype is None else f"{dtype} {tuple(shape or ())}"


def digest_of_key(key: Hashable) -> bytes:
    """Return the 16 bytes that stand for a key."""
    if isinstance(key, tuple) and len(key) > 1 and isinstance(key[0], str):
        kind = key[0]
        if kind == "array" and isinstance(key[3], bytes) and np.dtype(key[1]).kind in PLAIN:
            words = np.zeros((1, -(-len(key[3]) // 8)), np.uint64)
            words.view(np.uint8)[0, : len(key[3])] = np.frombuffer(key[3], np.uint8)
            return digest_words(words, *array_seed(key[1], key[2])).tobytes()
        if kind == "int" and -(1 << 63) <= key[1] < 1 << 63:
            return digest_words(np.array([[key[1]]]).view(np.uint64), *number_seed()).tobytes()
        if kind == "dict":
            parts = sorted((digest_of_key(name), digest_of_key(part)) for name, part in key[1])
            seed = dict_seed([name for name, _ in parts])
            return join_digests(*seed, [_row(part) for _, part in parts]).tobytes()
    if isinstance(key, tuple) and key and key[0] == "tuple":
        return join_digests(
            *tuple_seed(len(key) - 1), [_row(digest_of_key(part)) for part in key[1:]]
        ).tobytes()
    return _blake(_encode(key))


def _row(digest: bytes) -> np.ndarray:
    return np.frombuffer(digest, np.uint64).reshape(1, 2)


def join_digests(first: int, second: int, parts: Sequence[np.ndarray], n: int = 1) -> np.ndarray:
    """Return the digests of n values from those of their parts, each uint64 (n, 2), under a pair of seeds."""
    words = np.concatenate(parts, axis=1) if parts else np.zeros((n, 0), np.uint64)
    return digest_words(words, first, second)


def digest_words(words: np.ndarray, first: int, second: int) -> np.ndarray:
    """Return the digests of rows of words, uint64 (n, width), under a pair of seeds, as uint64 (n, 2)."""
    from graphwrap.data.hashing import digest_rows

    digests = np.empty((len(words), 2), np.uint64)
    digest_rows(np.require(words, np.uint64, ["C", "A", "W"]), np.uint64(first), np.uint64(second), digests)
    return digests


@functools.lru_cache(maxsize=256)
def array_seed(dtype: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the seeds of arrays of one dtype (`dtype.str`) and shape."""
    return _seeds(_encode(("array", dtype, shape)))


@functools.lru_cache(maxsize=1)
def number_seed() -> tuple[int, int]:
    """Return the seeds of Python integers."""
    return _seeds(b"int")


@functools.lru_cache(maxsize=64)
def tuple_seed(length: int) -> tuple[int, int]:
    """Return the seeds of tuples."""
    return _seeds(b"tuple%d" % length)


def dict_seed(names: Sequence[bytes]) -> tuple[int, int]:
    """Return the seeds of dicts whose keys have these digests, in ascending order."""
    return _seeds(b"dict" + b"".join(names))


def _seeds(data: bytes) -> tuple[int, int]:
    digest = _blake(data)
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def _blake(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def _encode(item: Any) -> bytes:
    """Return canonical bytes of a key: a tag, the length of what follows, and what follows."""
    if item is None or isinstance(item, bool):
        tag, data = "b", repr(item).encode()
    elif isinstance(item, str):
        tag, data = "s", item.encode("utf-8", "surrogatepass")
    elif isinstance(item, bytes):
        tag, data = "y", item
    elif isinstance(item, enum.Enum):
        tag, data = "e", item.name.encode()
    elif type(item) is int:
        tag, data = "i", hex(item).encode()
    elif type(item) is float:
        tag, data = "f", item.hex().encode()
    elif isinstance(item, Fingerprint):
        tag, data = "p", item.digest
    elif isinstance(item, type):
        tag, data = "c", f"{item.__module__}.{item.__qualname__}".encode()
    elif isinstance(item, tuple):
        tag, data = "t", b"".join(_part(part) for part in item)
    elif isinstance(item, frozenset):
        tag, data = "z", b"".join(sorted(_part(part) for part in item))
    else:
        raise _NoDigest
    return b"%s%d:%s" % (tag.encode(), len(data), data)


def _part(item: Any) -> bytes:
    """Return the canonical bytes of a part of a key; an array counts by its digest."""
    return _encode(digest_of_key(item) if isinstance(item, tuple) and item and item[0] == "array" else item)
