"""Python in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def run_python(*arguments: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Run Python in a new process and return the JSON object that its last line is.

    Args:
        arguments: what comes after ``python``.
        environment: variables that differ.

    Raises:
        RuntimeError: It failed; with the end of what it said.
    """
    result = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise RuntimeError(
            f"python {arguments[0]} {arguments[1][:60]} failed: {result.stderr.strip()[-1000:]}"
        )
    return json.loads(result.stdout.strip().splitlines()[-1])
