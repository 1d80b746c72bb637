"""Ten million transitions: time and memory, each size in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from graphwrap.scripts.benchmarks import Settings
from graphwrap.scripts.benchmarks.processes import run_python
from graphwrap.scripts.benchmarks.ratio import Amount, Measured, Ratio

ROWS_PER_TASK = 1000
LINEAR = 1.25
"""How much more a row of ten million may cost than a row of a million."""


def measure(settings: Settings) -> list[Measured]:
    """Bytes per transition, and how time and memory per transition grow from a million to ten million."""
    many, few = settings.sized(10_000_000, 200_000), settings.sized(1_000_000, 20_000)
    times = 1 if settings.quick else 3
    large: list[dict[str, Any]] = []
    small: list[dict[str, Any]] = []
    for _ in range(times):
        for found, rows in ((small, few), (large, many)):
            found.append(run_python("-m", __spec__.name, str(rows)))
            settings.on_pair()
    work = f"{many:,} integer-state transitions in {many // ROWS_PER_TASK:,} tasks"

    def each(name: str, found: list[dict[str, Any]]) -> list[float]:
        return [one[name] / one["rows"] for one in found]

    def growth(name: str, what: str, unit: str) -> Ratio:
        return Ratio(
            f"memory, {what}",
            work,
            f"{unit} per transition, of {many:,}",
            unit,
            each(name, large),
            LINEAR,
            True,
            f"{unit} per transition, of {few:,}",
            each(name, small),
        )

    return [
        Amount(
            "memory, bytes per transition",
            work,
            "columns to Transitions.from_columns, graph, GraphGPO credit: most memory above that of the columns",
            "bytes",
            each("peak", large),
            100.0,
            True,
            details={
                "bytes of the columns": large[0]["columns"] / many,
                "bytes of Transitions": large[0]["transitions"] / many,
                "bytes kept at the end": large[0]["kept"] / many,
                "most bytes in from_columns": large[0]["peak_of_transitions"] / many,
                "seconds for all": large[0]["seconds"],
            },
        ),
        growth("seconds", "time is linear", "seconds"),
        growth("peak", "memory is linear", "bytes"),
    ]


def resident(name: str) -> int:
    """VmRSS or VmHWM of this process in bytes."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


def measure_once(rows: int) -> dict[str, float]:
    """Credit `rows` transitions once, in this process, which should be a new one.

    Raises:
        OSError: Not on Linux, which alone counts the pages of a process this way.
    """
    import warnings

    from graphwrap import GraphGPO, Transitions
    from graphwrap.scripts.benchmarks.walks import random_columns

    warnings.simplefilter("ignore")
    method = GraphGPO(omega=0.8)
    method(Transitions.from_columns(**random_columns(2000, 2)))  # compiles
    columns = random_columns(rows, max(rows // ROWS_PER_TASK, 1))
    before = resident("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the peak starts anew
    began = time.perf_counter()
    transitions = Transitions.from_columns(**columns)
    made = resident("VmHWM") - before
    credit = method(transitions)
    seconds = time.perf_counter() - began
    arrays = [value for value in vars(transitions).values() if hasattr(value, "nbytes")]
    return {
        "rows": len(transitions),
        "seconds": seconds,
        "peak": resident("VmHWM") - before,
        "peak_of_transitions": made,
        "kept": resident("VmRSS") - before,
        "transitions": sum(array.nbytes for array in arrays),
        "columns": sum(column.nbytes for column in columns.values()),
        "credit": float(credit.advantages[0]),
    }


if __name__ == "__main__":
    print(json.dumps(measure_once(int(sys.argv[1]))))
