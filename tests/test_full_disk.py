"""A disk that is full, for which a limit on the size of files stands: the same error, from the same calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SAVE = {
    "transitions": """
import numpy as np
from graphwrap import Transitions
def save(path, size):
    n = size
    rows = np.arange(n)
    Transitions.from_columns(
        task=np.zeros(n, int), episode=rows, step=np.zeros(n, int), state=rows, action=rows,
        next_state=rows, reward=np.random.default_rng(0).random(n), terminated=rows >= 0, truncated=rows < 0,
        success=rows >= 0,
    ).save(path)
""",
    "levels": """
from graphwrap.envs import load_levels
def save(path, size):
    load_levels("6x6-1").select(list(range(min(size, 2000)))).save(path)
""",
    "result": """
from pathlib import Path
from graphwrap.scripts.comparison.results import write_parquet
import numpy as np
def save(path, size):
    write_parquet(Path(path), {"value": np.random.default_rng(0).random(size)})
""",
    "json": """
from pathlib import Path
from graphwrap.scripts.comparison.results import write_json
def save(path, size):
    write_json(Path(path), list(range(size)))
""",
    "picture": """
from graphwrap.envs import load_levels
def save(path, size):
    load_levels("6x6-1").draw(path, list(range(min(size, 64))))
""",
}

PROGRAM = """
import resource, signal, sys
from pathlib import Path
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
save(path, 10)
before = path.read_bytes()
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
try:
    save(path, 100_000)
except OSError:
    print("refused, kept" if path.read_bytes() == before else "refused, broken")
"""


@pytest.mark.parametrize("kind", SAVE)
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file.png"
    program = SAVE[kind] + PROGRAM.format(limit=30_000 if kind == "picture" else 20_000)
    command = [sys.executable, "-W", "ignore", "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "refused, kept\n", done.stdout + done.stderr
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.slow
def test_a_comparison_keeps_what_was_written_and_says_how_to_go_on(tmp_path: Path) -> None:
    options = ["compare", "--updates", "1", "--num-envs", "16", "--seeds", "1", "--credits", "grpo,graphgpo"]
    options += ["--eval-episodes", "4", "--jobs", "1", "--out"]
    program = "from graphwrap.cli import main; main()"
    limited = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    # Large enough for the runs, too small for the picture of the report.
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000));"

    def compare(folder: str, prefix: str = "") -> subprocess.CompletedProcess:
        command = [sys.executable, "-W", "ignore", "-c", prefix + program, *options, str(tmp_path / folder)]
        environment = {**os.environ, "COLUMNS": "500"}
        return subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)

    assert compare("first").returncode == 0  # compiles the kernels, whose files are larger
    done = compare("out", limited)
    out = tmp_path / "out"
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "2 finished runs are kept there, and once this is mended the same command goes on" in done.stdout
    assert len(list(out.glob("runs/*.json"))) == 2
    assert not list(out.rglob("*.part"))
    assert not (out / "curves.png").exists()
    assert compare("out").returncode == 0
    assert (out / "curves.png").exists()
