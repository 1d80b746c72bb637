"""Values of one fixed layout (an array, or a nest of arrays) as rows of 64-bit words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from graphwrap.data.fingerprints import (
    Fingerprint,
    array_seed,
    dict_seed,
    digest_of_key,
    digest_words,
    join_digests,
    number_seed,
    tuple_seed,
)
from graphwrap.data.keys import ARRAY_SPACES, canonical, cast_array, split, state_key

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Leaf:
    """One array of a layout."""

    dtype: np.dtype
    shape: tuple[int, ...]
    scalar: bool = False  # read back as a Python number

    @property
    def width(self) -> int:
        """Words per row: the array's bytes, filled up to a multiple of eight."""
        return -(-self.size * self.dtype.itemsize // 8)

    @property
    def size(self) -> int:
        """Numbers per row."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Hashed:
    """In place of a layout: rows are the two words of a `Fingerprint`."""

    about: str  # what the values were


Layout: TypeAlias = "Leaf | dict[str, Layout] | tuple[Layout, ...]"


def layout_of(space: spaces.Space | None) -> Layout | None:
    """Return the layout of an array space or a nest of array spaces, None for any other."""
    if isinstance(space, ARRAY_SPACES):
        leaf = Leaf(np.dtype(space.dtype), tuple(space.shape or ()), isinstance(space, spaces.Discrete))
        return leaf if leaf.dtype.itemsize <= 8 else None  # a long double has padding bytes
    if isinstance(space, spaces.Dict):
        parts = {name: layout_of(inner) for name, inner in space.spaces.items()}
        return None if None in parts.values() else parts  # type: ignore[return-value]
    if isinstance(space, spaces.Tuple):
        items = tuple(layout_of(inner) for inner in space.spaces)
        return None if None in items else items  # type: ignore[return-value]
    return None


def total_width(layout: Layout | Hashed) -> int:
    """Words per row of the whole layout."""
    if isinstance(layout, Leaf):
        return layout.width
    if isinstance(layout, Hashed):
        return 2
    return sum(map(total_width, layout.values() if isinstance(layout, dict) else layout))


def content_bytes(layout: Layout) -> int:
    """Bytes of content per row, as `graphwrap.data.fingerprints.size_of` counts them."""
    if isinstance(layout, Leaf):
        return 8 if layout.scalar else layout.size * layout.dtype.itemsize
    return sum(map(content_bytes, layout.values() if isinstance(layout, dict) else layout))


def hashed(layout: Layout) -> Hashed:
    """Return the layout of the fingerprints of values of `layout`."""
    if isinstance(layout, Leaf):
        return Hashed("int" if layout.scalar else f"{layout.dtype} {layout.shape}")
    return Hashed(f"{type(layout).__name__} of {len(layout)}")


def digest(layout: Layout, batch: Any, n: int, decimals: int | None) -> np.ndarray:
    """Return the fingerprints of `batch`, arrays of shape (n, ...) nested like `layout`, as uint64 (n, 2).

    They are those of the single values (`graphwrap.data.fingerprints.fingerprint`).
    """
    if isinstance(layout, Leaf):
        array = cast_array(batch, layout.dtype, (n, *layout.shape))
        if layout.scalar:
            return digest_words(array.astype(np.int64).view(np.uint64).reshape(n, 1), *number_seed())
        digests = np.empty((n, 2), np.uint64)
        step = max(1, _CHUNK_BYTES // (8 * layout.width + 1))
        seed = array_seed(layout.dtype.str, layout.shape)
        for start in range(0, n, step):
            part = array[start : start + step]
            digests[start : start + step] = digest_words(pack(layout, part, len(part), decimals), *seed)
        return digests
    parts = [digest(inner, part, n, decimals) for inner, part in nested(layout, batch)]
    if not isinstance(layout, dict):
        return join_digests(*tuple_seed(len(parts)), parts, n)
    names = [digest_of_key(state_key(name)) for name in layout]
    order = sorted(range(len(names)), key=names.__getitem__)
    return join_digests(*dict_seed([names[i] for i in order]), [parts[i] for i in order], n)


def pack(layout: Layout, batch: Any, n: int, decimals: int | None) -> np.ndarray:
    """Return `batch`, arrays of shape (n, ...) nested like `layout`, as canonical words: uint64 (n, width)."""
    words = np.zeros((n, total_width(layout)), np.uint64)
    _pack_into(words.view(np.uint8), 0, layout, batch, decimals)
    return words


def _pack_into(target: np.ndarray, start: int, layout: Layout, batch: Any, decimals: int | None) -> int:
    if isinstance(layout, Leaf):
        n = target.shape[0]
        array = canonical(cast_array(batch, layout.dtype, (n, *layout.shape)), decimals)
        if layout.size:
            data = np.ascontiguousarray(array, layout.dtype).reshape(n, layout.size).view(np.uint8)
            target[:, start : start + data.shape[1]] = data
        return start + 8 * layout.width
    for inner, part in nested(layout, batch):
        start = _pack_into(target, start, inner, part, decimals)
    return start


def nested(layout: dict[str, Layout] | tuple[Layout, ...], value: Any) -> Iterator[tuple[Layout, Any]]:
    """Pair the parts of a nested layout with the parts of a value.

    Raises:
        ValueError: The value has other parts.
    """
    if isinstance(layout, dict):
        return zip(layout.values(), split(value, layout))
    return zip(layout, split(value, range(len(layout))))


def unpack(layout: Layout | Hashed, row: np.ndarray) -> Any:
    """Return the value that one row of words stands for; its arrays are read-only copies."""
    return _unpack_from(row.view(np.uint8), 0, layout)[0]


def _unpack_from(data: np.ndarray, start: int, layout: Layout | Hashed) -> tuple[Any, int]:
    if isinstance(layout, Leaf):
        array = np.empty(layout.shape, layout.dtype)
        array.reshape(-1).view(np.uint8)[:] = data[start : start + array.nbytes]
        array.flags.writeable = False
        return array.item() if layout.scalar else array, start + 8 * layout.width
    if isinstance(layout, Hashed):
        return Fingerprint(data[start : start + 16].tobytes(), layout.about), start + 16
    values = []
    for inner in layout.values() if isinstance(layout, dict) else layout:
        value, start = _unpack_from(data, start, inner)
        values.append(value)
    return (dict(zip(layout, values)) if isinstance(layout, dict) else tuple(values)), start


class ArrayLabels(Sequence):
    """A read-only sequence of values of one layout, kept as rows of words and unpacked when looked at.

    Attributes:
        layout: The layout of every value, or `Hashed`.
        rows: uint64 (len, width).
    """

    def __init__(self, layout: Layout | Hashed, rows: np.ndarray) -> None:
        self.layout = layout
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return ArrayLabels(self.layout, self.rows[index])
        return unpack(self.layout, self.rows[index])

    def __iter__(self) -> Iterator[Any]:
        return (unpack(self.layout, row) for row in self.rows)

    def __repr__(self) -> str:
        return f"ArrayLabels({len(self)} values of {self.layout})"

    def take(self, ids: np.ndarray) -> ArrayLabels:
        """Return a copy that holds the values of `ids`, in that order."""
        return ArrayLabels(self.layout, self.rows[ids])
