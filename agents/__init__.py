"""Pieces for learners: a features extractor for small grids."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphwrap.agents.features import GridExtractor

__all__ = ["GridExtractor"]


def __getattr__(name: str) -> Any:
    if name == "GridExtractor":  # imported on first use: it needs torch
        from graphwrap.agents.features import GridExtractor

        return GridExtractor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
