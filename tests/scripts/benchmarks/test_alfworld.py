from __future__ import annotations

import numpy as np
import pytest

from graphwrap.scripts.benchmarks import BENCHMARKS, Ratio, Settings

pytestmark = pytest.mark.alfworld


def test_it_measures() -> None:
    pairs: list[int] = []
    found = BENCHMARKS["alfworld"].measure(Settings(1, quick=True, on_pair=lambda: pairs.append(1)))
    assert [one.name for one in found] == ["alfworld, steps, small", "alfworld, resets, small"]
    assert len(pairs) == 2
    for one in found:
        assert isinstance(one, Ratio)
        assert len(one.ours_each) == len(one.other_each) == 1
        assert np.isfinite(one.figure)
        assert one.figure > 1
