"""Fixtures and settings for the whole suite."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

# Small networks are quicker on one thread, and test processes share the cores. Read when torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

from graphwrap import Transitions

HERE = Path(__file__).parent
# A folder of goldens beside the checkout wins over the copy that the project ships.
GOLDENS = next(
    folder
    for folder in (HERE.parents[1] / "shared" / "goldens", HERE / "goldens")
    if any(folder.glob("*.json"))
)
GOLDEN_NAMES = sorted(path.stem for path in GOLDENS.glob("*.json"))

# Tests of LLM agents and of ALFWorld run in environments of their own (see `make help`); elsewhere they cannot even be
# imported.
MISSING = tuple(
    f"pytest.mark.{marker}"
    for marker, package in (("llm", "transformers"), ("vllm", "vllm"), ("alfworld", "textworld"))
    if find_spec(package) is None
)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the files of tests whose packages are not there."""
    if MISSING and collection_path.suffix == ".py":
        text = collection_path.read_text(encoding="utf-8")
        if collection_path != Path(__file__) and any(mark in text for mark in MISSING):
            return True
    return None


settings.register_profile(
    "graphwrap", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("graphwrap")


@pytest.fixture(params=GOLDEN_NAMES)
def golden(request: pytest.FixtureRequest) -> dict:
    """One golden case: `name`, `about`, `transitions` (columns), `expected`."""
    return json.loads((GOLDENS / f"{request.param}.json").read_text())


@pytest.fixture
def golden_transitions(golden: dict) -> Transitions:
    """The transitions of `golden`."""
    return Transitions.from_columns(**golden["transitions"])


@pytest.fixture
def load_golden():
    """A function: name of a golden case -> the case."""
    return lambda name: json.loads((GOLDENS / f"{name}.json").read_text())
