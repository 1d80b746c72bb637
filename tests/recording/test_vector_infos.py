from __future__ import annotations

import numpy as np

from graphwrap.recording.vector_infos import InfoRows, gathered, put_info_rows

NONE, FIRST, LAST = np.array([False] * 3), np.array([True, False, False]), np.array([False, False, True])


def test_rows_are_put_where_they_belong() -> None:
    infos = {
        "level": np.array([1, 2, 0]),
        "_level": np.array([True, True, False]),
        "episode": {"r": np.array([0.0, 0.0, 5.0]), "_r": LAST},
        "_episode": LAST,
        "frames": 7,
    }
    fresh = {
        "level": np.array([0, 0, 9]),
        "_level": LAST,
        "name": np.array([None, None, "c"], object),
        "_name": LAST,
        "inner": {"x": np.array([0, 0, 4]), "_x": LAST},
        "_inner": LAST,
    }
    merged = put_info_rows(infos, fresh, LAST, 3)
    rows = InfoRows(merged, 3)
    assert [rows[env] for env in range(3)] == [
        {"level": 1, "frames": 7},
        {"level": 2, "frames": 7},
        {"level": 9, "episode": {"r": 5.0}, "frames": 7, "name": "c", "inner": {"x": 4}},
    ]
    assert infos["level"].tolist() == [1, 2, 0]
    assert InfoRows(put_info_rows({}, fresh, LAST, 3), 3)[2] == {"level": 9, "name": "c", "inner": {"x": 4}}
    assert InfoRows(put_info_rows(infos, {}, LAST, 3), 3)[0] == rows[0]


def test_other_dtypes_meet_in_objects() -> None:
    merged = put_info_rows({"a": np.array([1, 2])}, {"a": np.array([0.5, 1.5])}, np.array([True, False]), 2)
    assert merged["a"].tolist() == [0.5, 2]
    merged = put_info_rows({"a": np.zeros((2, 3))}, {"a": np.ones((2, 1))}, np.array([True, False]), 2)
    assert [len(each) for each in merged["a"]] == [1, 3]


def test_infos_of_single_environments_are_gathered() -> None:
    found = gathered([None, {"won": True}, {"won": False, "n": 3}], [1, 2])
    rows = InfoRows(found, 3)
    assert [rows[env] for env in range(3)] == [{}, {"won": True}, {"won": False, "n": 3}]
    assert InfoRows({}, 3)[1] == {}
    assert InfoRows(found, 3, {1: {"other": 1}})[1] == {"other": 1}
    assert len(rows) == 3
