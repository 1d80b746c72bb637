"""How fast this machine moves memory: what a kernel that only streams cannot beat."""

from __future__ import annotations

import time

import numpy as np

from graphwrap._jit import jit


@jit
def _triad(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """STREAM's triad on one core: two reads and one write a number."""
    for i in range(len(a)):
        a[i] = b[i] + 3.0 * c[i]


def measure_bandwidth(megabytes: int = 256, times: int = 5) -> dict[str, float]:
    """Bytes per second in GB/s, the best of several: one core's triad, and NumPy's copy.

    Args:
        megabytes: of each array, well above what the caches hold.
        times: how often.
    """
    size = megabytes * 2**20 // 8
    a, b, c = np.zeros(size), np.ones(size), np.ones(size)
    _triad(a[:1], b[:1], c[:1])
    triads, copies = [], []
    for _ in range(times):
        began = time.perf_counter()
        _triad(a, b, c)
        triads.append(time.perf_counter() - began)
        began = time.perf_counter()
        np.copyto(a, b)
        copies.append(time.perf_counter() - began)
    return {"triad GB/s": 3 * a.nbytes / min(triads) / 1e9, "copy GB/s": 2 * a.nbytes / min(copies) / 1e9}
