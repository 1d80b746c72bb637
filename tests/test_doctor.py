"""What `graphwrap doctor` finds."""

from __future__ import annotations

import platform

from graphwrap import __version__, doctor


def test_versions_name_what_is_installed_and_what_is_not(monkeypatch):
    monkeypatch.setattr(doctor, "PACKAGES", ("numpy", "no-such-package"))
    import numpy

    assert doctor.versions() == {
        "python": platform.python_version(),
        "graphwrap": __version__,
        "numpy": numpy.__version__,
        "no-such-package": None,
    }


def test_extras_are_those_of_the_package(monkeypatch):
    monkeypatch.setattr(
        doctor.metadata,
        "requires",
        lambda name: ["numpy>=1", 'numpy>=1; extra == "plot"', "no-such-package>=2; extra == 'plot'"],
    )
    assert doctor.missing_of_extra("plot") == ["no-such-package"]
    assert doctor.missing_of_extra("plo") == []


def test_kernels_are_right():
    check = doctor.check_kernels()
    assert check.works
    assert check.says == "the credit of a known graph is right"


def test_the_cache_is_found_where_it_is():
    doctor.check_kernels()
    check = doctor.check_cache()
    assert check.works
    assert "pycache" in check.says or "numba" in check.says.lower()


def test_sokoban_runs():
    assert doctor.check_sokoban().works


def test_the_machine_is_described():
    assert f"{doctor.cores()} cores" in doctor.machine()
