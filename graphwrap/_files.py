"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file beside `path` for writing, which takes its place when the block ends without an error.

    Neither an error, such as a full disk, nor the end of the process leaves `path` half-written; an error leaves no
    other file behind either.
    """
    target = Path(path)
    beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
