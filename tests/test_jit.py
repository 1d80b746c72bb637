"""Kernels run wherever the package lies and whatever the home folder is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import graphwrap

PACKAGE = Path(graphwrap.__file__).parent
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import graphwrap
assert graphwrap.__file__.startswith(sys.argv[1]), graphwrap.__file__
batch = graphwrap.Transitions.from_columns(
    task=[0] * 4, episode=[0, 0, 1, 1], step=[0, 1, 0, 1], state=["a", "b", "a", "c"], action=[0, 0, 1, 0],
    next_state=["b", "g", "c", "x"], reward=[0.0, 1.0, 0.0, 0.0], terminated=[False, True, False, True],
    truncated=[False] * 4,
)
print(graphwrap.make_credit("graphgpo", episode_weight=0.0)(batch).advantages.tolist())
"""


def run(folder: Path, *, home: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)],
        env={**environment, "HOME": home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zip", "read-only"])
def test_without_any_place_for_a_cache(tmp_path, kind):
    if kind == "zip":
        folder = tmp_path / "graphwrap.zip"
        with zipfile.ZipFile(folder, "w") as archive:
            for path in PACKAGE.rglob("*.py"):
                archive.write(path, Path("graphwrap") / path.relative_to(PACKAGE))
    else:
        folder = tmp_path / "tree"
        shutil.copytree(PACKAGE, folder / "graphwrap", ignore=shutil.ignore_patterns("__pycache__"))
        for package in (folder / "graphwrap", folder / "graphwrap" / "methods"):
            (package / "__pycache__").write_text("a file, so that no cache can be made even by root")
    root_half = 0.5**0.5
    expected = [root_half, 0.0, -root_half, 0.0]
    assert eval(run(folder, home="/dev/null/nowhere")) == pytest.approx(expected)


@pytest.mark.slow
def test_a_full_disk_costs_the_cache_only(tmp_path):
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
    for prefix in (limit, ""):
        done = subprocess.run(
            [sys.executable, "-c", prefix + SCRIPT, str(PACKAGE.parent)],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert eval(done.stdout) == pytest.approx([0.5**0.5, 0.0, -(0.5**0.5), 0.0])
    assert not list(tmp_path.rglob("*.tmp.*"))


def test_import_loads_neither_numba_nor_a_learner():
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, graphwrap; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "gymnasium" in loaded
    assert not {"numba", "torch", "stable_baselines3", "pyarrow", "typer", "rich", "matplotlib"} & set(loaded)
