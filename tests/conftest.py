"""Fixtures and settings for the whole suite."""

from __future__ import annotations

import json
import os
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
