"""Ten million transitions: time and memory, each size in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from graphwrap.scripts.benchmarks import Settings
from graphwrap.scripts.benchmarks.processes import run_python
from graphwrap.scripts.benchmarks.ratio import Amount, Measured, Ratio

ROWS_PER_TASK = 1000
LINEAR = 1.25
"""How much more a row of the large batch may cost than a row of the small one."""


def measure(settings: Settings) -> list[Measured]:
    """Bytes per transition, and how time and memory per transition grow from 2.5 to ten million.

    Time is that of the program's own instructions. What the system takes to hand out fresh memory comes on top; it
    depends on what ran before, up to tenfold in a virtual machine, and is given beside it.
    """
    many, few = settings.sized(10_000_000, 200_000), settings.sized(2_500_000, 50_000)
    times = 1 if settings.quick else settings.pairs
    large: list[dict[str, Any]] = []
    small: list[dict[str, Any]] = []
    for _ in range(times):
        for found, rows in ((small, few), (large, many)):
            found.append(run_python("-m", __spec__.name, str(rows)))
            settings.on_pair()
    work = f"{many:,} integer-state transitions in {many // ROWS_PER_TASK:,} tasks"

    def each(name: str, found: list[dict[str, Any]]) -> list[float]:
        # The system counts processor time in ticks: of a quick run it may see none.
        return [max(one[name], 1e-6) / one["rows"] for one in found]

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
                "seconds for all": float(np.median([one["seconds"] for one in large])),
                "of them the system's, to hand out memory": float(
                    np.median([one["system"] for one in large])
                ),
            },
        ),
        growth("user", "time is linear", "user CPU s"),
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
    import resource
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
    used = resource.getrusage(resource.RUSAGE_SELF)
    transitions = Transitions.from_columns(**columns)
    made = resident("VmHWM") - before
    credit = method(transitions)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    arrays = [value for value in vars(transitions).values() if hasattr(value, "nbytes")]
    return {
        "rows": len(transitions),
        "seconds": seconds,
        "user": after.ru_utime - used.ru_utime,
        "system": after.ru_stime - used.ru_stime,
        "peak": resident("VmHWM") - before,
        "peak_of_transitions": made,
        "kept": resident("VmRSS") - before,
        "transitions": sum(array.nbytes for array in arrays),
        "columns": sum(column.nbytes for column in columns.values()),
        "credit": float(credit.advantages[0]),
    }


if __name__ == "__main__":
    print(json.dumps(measure_once(int(sys.argv[1]))))
