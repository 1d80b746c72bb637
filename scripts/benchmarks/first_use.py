"""What a user waits for: the import, and the first credit of a process with and without a compile cache."""

from __future__ import annotations

import tempfile

from graphwrap.scripts.benchmarks import Settings
from graphwrap.scripts.benchmarks.processes import run_python
from graphwrap.scripts.benchmarks.ratio import Amount, Measured, Ratio, interleaved

# Programs as text: a module of this package would import graphwrap before its clock starts.
IMPORT = """
import json, sys, time
began = time.perf_counter()
__import__(sys.argv[1])
print(json.dumps({"seconds": time.perf_counter() - began}))
"""
FIRST_USE = """
import json, time, warnings
warnings.simplefilter("ignore")
began = time.perf_counter()
import graphwrap
imported = time.perf_counter()
import numba
with_numba = time.perf_counter()
try:
    import scipy.linalg  # Numba imports it before its first kernel, where it is there
except ImportError:
    pass
with_scipy = time.perf_counter()
transitions = graphwrap.Transitions.from_columns(
    task=[0] * 4,
    episode=[0, 0, 1, 1],
    step=[0, 1, 0, 1],
    state=["start", "door", "start", "wall"],
    action=[0, 1, 1, 0],
    next_state=["door", "goal", "wall", "start"],
    reward=[0.0, 1.0, 0.0, 0.0],
    terminated=[False, True, False, False],
    truncated=[False, False, False, True],
)
credit = graphwrap.GraphGPO()(transitions)
nodes = credit.diagnostics["nodes"]
ended = time.perf_counter()
found = {"seconds": ended - began, "import": imported - began, "numba": with_numba - imported}
print(json.dumps({**found, "scipy": with_scipy - with_numba, "credit": ended - with_scipy, "nodes": nodes}))
"""


def measure(settings: Settings) -> list[Measured]:
    """First use without a cache, first use with one, import."""

    def importing(package: str) -> float:
        return run_python("-c", IMPORT, package)["seconds"]

    cold, cached = [], []
    for _ in range(min(settings.pairs, 3)):  # takes longest, and varies least
        with tempfile.TemporaryDirectory() as folder:
            cold.append(run_python("-c", FIRST_USE, environment={"NUMBA_CACHE_DIR": folder})["seconds"])
            cached += [run_python("-c", FIRST_USE, environment={"NUMBA_CACHE_DIR": folder}) for _ in range(3)]
        settings.on_pair()
    importing("graphwrap")
    importing("gymnasium")
    ours, other = interleaved(
        lambda: importing("graphwrap"), lambda: importing("gymnasium"), settings.pairs, settings.on_pair
    )
    work = "a new process: import graphwrap, two episodes from columns, GraphGPO credit and its diagnostics"
    took = "wall-clock time in the process"
    details = {
        f"seconds for {name}": sorted(one[key] for one in cached)[len(cached) // 2]
        for key, name in (
            ("import", "import graphwrap"),
            ("numba", "import numba"),
            ("scipy", "import scipy.linalg, which Numba does where it is installed"),
            ("credit", "the credit"),
        )
    }
    warm = [one["seconds"] for one in cached]
    return [
        Amount("first use, without a compile cache", work, took, "s", cold, 12.0, True),
        Amount("first use, with a compile cache", work, took, "s", warm, 1.0, True, details=details),
        Ratio(
            "import",
            "the import alone, in new processes",
            "import graphwrap",
            "s",
            ours,
            1.3,
            True,
            "import gymnasium",
            other,
        ),
    ]
