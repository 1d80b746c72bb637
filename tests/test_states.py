from __future__ import annotations

import pytest

from graphwrap.states import FINGERPRINT_ABOVE, StateKey, intern_columns, make_table, state_key


def test_round_must_be_an_int():
    assert StateKey(round=2).round == 2
    for wrong in (True, 1.5, "2"):
        with pytest.raises(TypeError, match=r"round must be a number of decimals \(an int\) or None"):
            StateKey(round=wrong)
        with pytest.raises(TypeError, match="round"):
            make_table(round=wrong)


def test_history_is_a_number_of_observations():
    assert (StateKey().history, StateKey(history=3).history) == (0, 3)
    for wrong in (True, 1.0, None):
        with pytest.raises(TypeError, match=r"history must be a number of observations \(an int\), got"):
            StateKey(history=wrong)
    with pytest.raises(ValueError, match="history must be 0 observations or more, got -1"):
        StateKey(history=-1)


def test_fingerprints_begin_above_a_number_of_bytes():
    assert StateKey().fingerprint_above == FINGERPRINT_ABOVE == 4096
    assert StateKey(fingerprint_above=None).fingerprint_above is None
    takers = (
        StateKey,
        make_table,
        lambda fingerprint_above: state_key(1, fingerprint_above=fingerprint_above),
        lambda fingerprint_above: intern_columns([1], fingerprint_above=fingerprint_above),
    )
    for take in takers:
        for wrong in (True, 1.5, "4096"):
            with pytest.raises(
                TypeError, match=r"fingerprint_above must be a number of bytes \(an int\) or None"
            ):
                take(fingerprint_above=wrong)
        with pytest.raises(ValueError, match="fingerprint_above must be 0 bytes or more, or None"):
            take(fingerprint_above=-1)
