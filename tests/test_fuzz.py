"""A short run of the fuzzer, always the same; `python -m tests.fuzz --minutes 10` is the long one."""

from __future__ import annotations

import pytest

from .fuzz import Fault, cases, generator, try_case
from .fuzz.targets import ACCEPTED, REFUSED, TARGETS

CASES = {"columns": 60, "keys": 60, "parquet": 40, "levels": 100, "results": 60}


@pytest.mark.parametrize("name", TARGETS)
def test_only_documented_errors(name):
    found = [result for _, result in cases({name: TARGETS[name]}, seed=1, each=CASES[name])]
    for result in found:
        assert not isinstance(result, Fault), result
    assert {ACCEPTED, REFUSED} <= set(found)


def test_a_fault_is_found_and_can_be_repeated():
    def faulty(rng):
        if rng.random() < 0.2:
            raise KeyError("nobody documents this")
        return ACCEPTED

    found = dict(enumerate(result for _, result in cases({"faulty": faulty}, seed=3, each=50)))
    faults = {case: result for case, result in found.items() if isinstance(result, Fault)}
    assert 0 < len(faults) < 50
    for case, fault in faults.items():
        assert (fault.case, fault.seed) == (case, 3)
        assert "KeyError: 'nobody documents this'" in str(fault)
        assert f"python -m tests.fuzz --only faulty --seed 3 --case {case}" in str(fault)
        assert isinstance(try_case("faulty", faulty, 3, case), Fault)
    assert generator("a", 0, 0).random() != generator("b", 0, 0).random()
