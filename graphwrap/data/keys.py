"""The key of one value: what makes two states, tasks or actions the same."""

from __future__ import annotations

import copy
import enum
import math
import reprlib
from collections.abc import Collection, Hashable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import GraphInstance

from graphwrap.data.fingerprints import Fingerprint, check_fingerprint_above, fingerprint, size_of

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80

ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def check_round(round: int | None) -> None:
    """Raise TypeError unless `round` is None or an int."""
    if round is not None and (isinstance(round, bool) or not isinstance(round, (int, np.integer))):
        raise TypeError(f"round must be a number of decimals (an int) or None, got {round!r}")


def state_key(
    value: Any,
    space: spaces.Space | None = None,
    *,
    round: int | None = None,
    fingerprint_above: int | None = None,
) -> Hashable:
    """Return the key of `value`: two keys are equal if and only if content, dtype and shape are.

    - Python and NumPy scalars count by value: `3` and `np.int64(3)` have one key, `True`, `1` and `1.0` have three.
      -0.0 equals 0.0 and NaN equals NaN, inside arrays too.
    - Arrays count by dtype, shape and content; objects with `__array__` (torch tensors) count as arrays.
    - Tuples, lists, sets and each named tuple class are kinds of their own; the order of a dict does not matter.
    - Anything else hashable counts by its own type and equality.

    Args:
        value: An observation, action or task.
        space: The Gymnasium space it comes from. The value is cast to the space's dtypes first.
        round: Decimals that every float is rounded to, also inside arrays and nests. None: not rounded.
        fingerprint_above: Bytes of content (arrays, text in UTF-8, bytes; 8 for any other part) above which the key is
            a `Fingerprint`. None: never. A value with parts that have no canonical bytes, objects of a user's class,
            keeps its whole key.

    Returns:
        A nest of plain hashable values. It holds no process-dependent number.

    Raises:
        TypeError: The value, or something inside it, is neither of the above nor hashable.
        ValueError: The value does not fit the space's shape, or its dtype cannot hold it; or it holds itself, or is
            nested too deep.
    """
    check_round(round)
    check_fingerprint_above(fingerprint_above)
    value = value if space is None else cast(value, space)
    return key_above(value, round, fingerprint_above)


def key_above(value: Any, decimals: int | None, above: int | None) -> Hashable:
    """Return the key of `value`, its fingerprint where it has more bytes than `above`."""
    try:
        key = _key(value, decimals)
        if above is None or size_of(value) <= above:
            return key
        return fingerprint(value, key) or key
    except RecursionError:
        raise _too_deep(value) from None


def _too_deep(value: Any) -> ValueError:
    return ValueError(
        "a state, action or task must not hold itself, nor be nested hundreds of levels deep, got "
        f"{shorten(value)}; record a flat tuple or an array in its place"
    )


def _key(value: Any, decimals: int | None) -> Hashable:
    kind = type(value)
    if value is None or kind is str or kind is bytes or kind is Fingerprint:
        return value
    if isinstance(value, enum.Enum):
        return (kind, value)
    if isinstance(value, (bool, np.bool_)):
        return ("bool", bool(value))
    if isinstance(value, (int, np.integer)) and not isinstance(value, np.timedelta64):
        return ("int", int(value))
    if isinstance(value, (float, np.floating)):
        return _float_key(value, decimals)
    if isinstance(value, (complex, np.complexfloating)):
        return ("complex", _float_key(value.real, decimals), _float_key(value.imag, decimals))
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, np.void):
        return ("void", _array_key(np.asarray(value), decimals))
    if isinstance(value, np.generic):
        return ("scalar", value.dtype.str, value.tobytes())
    if isinstance(value, Mapping):
        return ("dict", frozenset((_key(k, decimals), _key(v, decimals)) for k, v in value.items()))
    if isinstance(value, tuple):
        named = hasattr(value, "_fields")
        return (kind if named else "tuple", *(_key(item, decimals) for item in value))
    if isinstance(value, list):
        return ("list", *(_key(item, decimals) for item in value))
    if isinstance(value, (set, frozenset)):
        return ("set", isinstance(value, set), frozenset(_key(item, decimals) for item in value))
    if is_array_like(value):
        return _array_key(to_array(value), decimals)
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            "a state, action or task must be made of numbers, text, bytes, None, arrays, dicts, tuples, lists and "
            f"hashable objects, got {shorten(value)} of type {kind.__qualname__}, which has no hash; "
            "pass state= (a function of (obs, info) that returns one of those) or convert it first"
        ) from None
    return (kind, value)


def _float_key(value: Any, decimals: int | None) -> Hashable:
    number = float(value)
    if math.isnan(number):
        return ("float", "nan")
    if decimals is not None:
        return ("float", float(round_floats(np.float64(number), decimals)))
    if number != value:  # a long double with more digits than a double
        return ("longdouble", repr(value))
    return ("float", number)


def _array_key(array: np.ndarray, decimals: int | None) -> Hashable:
    dtype = array.dtype
    if isinstance(array, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(array)
        data = np.where(mask, np.zeros((), dtype), array.data)
        return ("masked", _array_key(mask, None), _array_key(data, decimals))
    if dtype.names is not None:
        offsets = [dtype.fields[name][1] for name in dtype.names]  # type: ignore[index]
        fields = tuple(_array_key(array[name], decimals) for name in dtype.names)
        return ("array", dtype.itemsize, array.shape, tuple(zip(dtype.names, offsets, fields)))
    if dtype.hasobject or dtype.kind not in "biufcmMSUV":
        return ("array", dtype.str, array.shape, tuple(_key(item, decimals) for item in array.ravel()))
    array = canonical(array, decimals)
    if dtype.char in "gG" and dtype.itemsize > np.dtype("d").itemsize * (1 + (dtype.kind == "c")):
        return (
            "array",
            dtype.str,
            array.shape,
            tuple(repr(item) for item in array.ravel()),
        )  # has padding bytes
    return ("array", dtype.str, array.shape, array.tobytes())


def is_array_like(value: Any) -> bool:
    """Say whether `value` is an array or converts itself to one."""
    return isinstance(value, np.ndarray) or (hasattr(value, "__array__") and not isinstance(value, type))


def to_array(value: Any) -> np.ndarray:
    """Return `value` as an array; a torch tensor is detached and brought to the CPU first."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # NumPy has none; float32 holds it exactly
            value = value.float()
    try:
        return np.asarray(value)
    except np.ma.MAError as error:
        raise TypeError(f"a masked value cannot be part of an array, got {shorten(value)}") from error


def round_floats(values: Any, decimals: int) -> Any:
    """Round floats; a value too large for its dtype to be rounded stays as it is."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.round(values, decimals)
    return np.where(np.isfinite(rounded), rounded, values)


def canonical(array: np.ndarray, decimals: int | None) -> np.ndarray:
    """Give equal numbers equal bytes: floats are rounded, -0.0 becomes 0.0, every NaN the same one."""
    if array.dtype.kind not in "fc":
        return array
    if decimals is not None:
        array = round_floats(array, decimals)
    array = np.add(array, array.dtype.type(0), out=np.empty(array.shape, array.dtype.newbyteorder("=")))
    for part in (array.real, array.imag) if array.dtype.kind == "c" else (array,):
        is_nan = part != part
        if is_nan.any():
            part[is_nan] = np.nan
    return array


def cast_array(value: Any, dtype: np.dtype, shape: tuple[int, ...] | None) -> np.ndarray:
    """Return `value` as an array of `dtype` and `shape` (None: any), or say why it is none."""
    array = to_array(value)
    if isinstance(array, np.ma.MaskedArray):
        if np.ma.is_masked(array):
            raise TypeError(
                f"a value of a space must have all its entries, got {shorten(value)} with masked ones; fill them in, "
                "or pass state= (a function of (obs, info))"
            )
        array = array.data
    if array.dtype != dtype:
        if array.dtype.kind not in "biufc":
            raise TypeError(
                f"a value of a space of dtype {dtype} must be numeric, got {shorten(value)}; make the environment "
                "return what its space says, or pass state= (a function of (obs, info))"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            given, array = array, array.astype(dtype)
        if dtype.kind in "biu" and not (
            np.can_cast(given.dtype, dtype, "safe") or np.array_equal(given, array)
        ):
            raise ValueError(
                f"a value of a space of dtype {dtype} must fit that dtype, got {shorten(value)} of dtype "
                f"{given.dtype}: casting would make different values equal; make the environment return what its "
                "space says, or pass state= (a function of (obs, info))"
            )
    if shape is not None and array.shape != shape:
        if array.size != math.prod(shape) or array.size != max(shape, default=1):
            raise ValueError(
                f"a value of a space must have shape {shape}, got shape {array.shape}; make the environment return "
                "what its space says, or pass state= (a function of (obs, info))"
            )
        array = array.reshape(shape)
    return array


def split(value: Any, names: Collection) -> list[Any]:
    """Return the parts of a nest: those of a dict by their `names`, those of a tuple by their numbers, a range."""
    is_dict = isinstance(value, Mapping)
    if is_dict == isinstance(names, range) or not hasattr(value, "__len__"):
        fits = False
    else:
        fits = set(names) <= set(value) if is_dict else len(names) == len(value)
    if not fits:
        wanted = (
            f"{len(names)} parts" if isinstance(names, range) else f"the parts {', '.join(map(str, names))}"
        )
        kind = "Tuple" if isinstance(names, range) else "Dict"
        raise ValueError(
            f"a value of a {kind} space must have {wanted}, got {shorten(value)}; make the environment return what "
            "its space says, or pass state= (a function of (obs, info))"
        )
    return [value[name] for name in names]


def cast(value: Any, space: spaces.Space, *, stacked: bool = False) -> Any:
    """Cast `value` to the dtypes of `space`; with `stacked`, its arrays have a leading axis of any length."""
    if isinstance(space, ARRAY_SPACES):
        array = cast_array(value, np.dtype(space.dtype), None if stacked else space.shape)
        return int(array) if isinstance(space, spaces.Discrete) and not stacked else array
    if isinstance(space, spaces.Dict):
        inner = space.spaces
        return {
            name: cast(item, inner[name], stacked=stacked) for name, item in zip(inner, split(value, inner))
        }
    if isinstance(space, spaces.Tuple):
        parts = zip(split(value, range(len(space.spaces))), space.spaces)
        return tuple(cast(item, part, stacked=stacked) for item, part in parts)
    if isinstance(space, spaces.Sequence) and not stacked:
        if space.stack:
            return cast(value, space.feature_space, stacked=True)
        return tuple(cast(item, space.feature_space) for item in value)
    if isinstance(space, spaces.OneOf) and not stacked:
        index, item = value
        if not (isinstance(index, (int, np.integer)) and 0 <= index < len(space.spaces)):
            raise ValueError(
                f"a value of a OneOf space must be (number, value), the number from 0 to {len(space.spaces) - 1}, got "
                f"{shorten(value)}; make the environment return what its space says, or pass state= (a function of "
                "(obs, info))"
            )
        return (int(index), cast(item, space.spaces[int(index)]))
    if isinstance(space, spaces.Graph) and not stacked:
        nodes, edges, links = value
        return GraphInstance(
            cast(nodes, space.node_space, stacked=True),
            None
            if edges is None or space.edge_space is None
            else cast(edges, space.edge_space, stacked=True),
            None if links is None else np.asarray(links),
        )
    return value


def snapshot(value: Any, decimals: int | None = None) -> Any:
    """Return a copy of `value` that later changes of the original do not reach, floats rounded.

    Raises:
        ValueError: The value is nested too deep.
    """
    try:
        return _snapshot(value, decimals)
    except RecursionError:
        raise _too_deep(value) from None


def _snapshot(value: Any, decimals: int | None) -> Any:
    if isinstance(value, enum.Enum):
        return value
    if decimals is not None and isinstance(value, (float, np.floating)):
        return float(round_floats(np.float64(value), decimals))
    if isinstance(value, Mapping):
        return {_snapshot(k, decimals): _snapshot(v, decimals) for k, v in value.items()}
    if isinstance(value, tuple):
        items = [_snapshot(item, decimals) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [_snapshot(item, decimals) for item in value]
    if isinstance(value, set):
        return set(value)
    if is_array_like(value) and not isinstance(value, np.generic):
        array = copy.deepcopy(np.array(to_array(value), subok=True))
        if decimals is not None and array.dtype.kind in "fc":
            array = canonical(array, decimals).astype(array.dtype)
        array.flags.writeable = False
        return array
    return value


def shorten(value: Any) -> str:
    """Return a short text of `value` for an error message."""
    return " ".join(_SHORT.repr(value.item() if isinstance(value, np.generic) else value).split())
