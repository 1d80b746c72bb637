"""The one way kernels are compiled: nopython, GIL released, cached on disk where a disk can be had."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile `function` with Numba in nopython mode, without the GIL.

    The machine code is cached next to the source or in the user's cache folder. Where neither can be written (a
    zipped or read-only package with no usable home) the kernel is compiled in memory, once per process.

    `parallel=True` is left out on purpose: its thread pool aborts the process when the process forks, and vector
    environments fork.
    """
    try:
        cached = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # Numba found no place for a cache
        cached = None
    if cached is None or not _writable(
        cached.stats.cache_path
    ):  # Numba does not try the one of a zipped package
        return cast(F, numba.njit(nogil=True)(function))
    _keep_running_where_saving_fails(cached)
    return cast(F, cached)


def _keep_running_where_saving_fails(dispatcher: Any) -> None:
    """Let a kernel whose machine code cannot be saved (a full disk) run all the same, compiled anew in each process."""
    cache: Any = getattr(dispatcher, "_cache", None)
    if not hasattr(cache, "save_overload"):
        return
    save = cache.save_overload

    def save_overload(*arguments: Any) -> None:
        with contextlib.suppress(OSError):
            save(*arguments)

    cache.save_overload = save_overload


@functools.cache
def _writable(folder: str) -> bool:
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
