"""Attributes of one object, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(target: Any, name: str, value: Any) -> Iterator[None]:
    """Give `target` an instance attribute for the duration."""
    had, old = name in vars(target), vars(target).get(name)
    setattr(target, name, value)
    try:
        yield
    finally:
        if had:
            setattr(target, name, old)
        else:
            delattr(target, name)
