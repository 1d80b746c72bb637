"""Imports of the engine's packages, which change the process when they are imported."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

_PACKAGES = ("textworld", "fast_downward", "alfworld")
_DATA = "ALFWORLD_DATA"
OWN_DATA = Path("~/.cache/alfworld")
"""Where alfworld looks for data if the variable ALFWORLD_DATA is not set; its import sets it, to this."""


def require_engine() -> None:
    """See that the engine's packages are there.

    Raises:
        ModuleNotFoundError: One is not; says what to install.
    """
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"ALFWorld's engine needs {', '.join(missing)}: pip install 'graphwrap[alfworld]'",
            name=missing[0],
        )


@contextmanager
def importing() -> Iterator[None]:
    """Import within this block: alfworld makes a folder and sets ALFWORLD_DATA, the translator replaces sys.argv."""
    arguments, data = sys.argv, os.environ.get(_DATA)
    if data is None:
        try:
            OWN_DATA.expanduser().mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError):  # there is no home to write to
            os.environ[_DATA] = tempfile.gettempdir()
    try:
        yield
    finally:
        sys.argv = arguments
        if data is None:
            os.environ.pop(_DATA, None)
        else:
            os.environ[_DATA] = data
