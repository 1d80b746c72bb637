"""Files and folders that are there as a whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
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


@contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a folder beside `path` to fill, which takes its place when the block ends without an error.

    A folder that is there already is replaced. Neither an error nor the end of the process leaves `path` half-written;
    an error leaves nothing else behind either, the end of the process may leave a folder whose name ends in ".part".
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    beside.mkdir()
    try:
        yield beside
        for written in [*beside.rglob("*"), beside]:
            _flush(written)
        if target.exists():
            remove_folder(target)
        os.replace(beside, target)
        _flush(target.parent)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def remove(path: str | os.PathLike[str]) -> None:
    """Remove a file or folder if it is there; of a link only the link."""
    target = Path(path)
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


@contextmanager
def system_errors() -> Iterator[None]:
    """Raise what libraries make of the system's errors, such as of a full disk, as the OSError that it was."""
    try:
        yield
    except Exception as error:
        number = _errno_of(error)
        if number is None or isinstance(error, OSError):
            raise
        raise OSError(number, os.strerror(number)) from error


def remove_folder(path: str | os.PathLike[str]) -> None:
    """Remove a folder so that nothing half-removed is ever at `path`."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    os.replace(target, beside)
    shutil.rmtree(beside)


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":  # which opens no folder
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _errno_of(error: BaseException | None) -> int | None:
    """The system's error number, which libraries put into texts of their own; None if it is no error of the system."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error.errno
        told = re.search(r"os error (\d+)", str(error))  # safetensors
        if told:
            return int(told.group(1))
        if "PytorchStreamWriter failed" in str(error):  # torch, which does not say why
            return errno.ENOSPC
        error = error.__cause__ or error.__context__
    return None
