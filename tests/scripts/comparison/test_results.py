"""The folder of a comparison."""

from __future__ import annotations

import json

import numpy as np
import pytest

from graphwrap.scripts.comparison.results import Folder, Mismatch
from graphwrap.scripts.comparison.settings import Settings, parse_credits

ENVIRONMENT = {
    "versions": {"numpy": "2.0", "scipy": "1.0"},
    "machine": "this one",
    "command": "graphwrap compare",
}
ROWS = [{"update": 1.0, "success": 0.25}, {"update": 2.0, "success": float("nan")}]


def begun(
    folder, credits="grpo,graphgpo", seeds=(0, 1), settings=None, overwrite=False, environment=ENVIRONMENT
):
    specs = parse_credits(credits, {})
    return Folder(folder).open(settings or Settings(), specs, list(seeds), environment, overwrite)


def test_missing_runs_come_seed_by_seed(tmp_path):
    missing = begun(tmp_path / "new")
    assert [(spec.label, seed) for spec, seed in missing] == [
        ("grpo", 0),
        ("graphgpo", 0),
        ("grpo", 1),
        ("graphgpo", 1),
    ]
    assert json.loads((tmp_path / "new" / "settings.json").read_text())["settings"]["updates"] == 60


def test_a_finished_run_is_not_missing_and_comes_back_as_it_was(tmp_path):
    (spec, seed), *_ = begun(tmp_path)
    Folder(tmp_path).save(spec, seed, ROWS, {"held_out": 0.5})
    assert [(spec.label, seed) for spec, seed in begun(tmp_path)] == [
        ("graphgpo", 0),
        ("grpo", 1),
        ("graphgpo", 1),
    ]
    (run,) = Folder(tmp_path).runs()
    assert (run.credit, run.seed, run.facts) == ("grpo", 0, {"held_out": 0.5})
    np.testing.assert_array_equal(run.curve["success"], [0.25, np.nan])
    assert not list(tmp_path.rglob("*.part"))


def test_half_a_run_is_missing(tmp_path):
    (spec, seed), *_ = begun(tmp_path)
    Folder(tmp_path).save(spec, seed, ROWS, {})
    (tmp_path / "runs" / "grpo-seed0.json").unlink()
    assert (tmp_path / "runs" / "grpo-seed0.parquet").exists()
    assert len(begun(tmp_path)) == 4
    assert Folder(tmp_path).runs() == []


def test_a_folder_grows_by_seeds_and_credits(tmp_path):
    for spec, seed in begun(tmp_path, "grpo", [0]):
        Folder(tmp_path).save(spec, seed, ROWS, {})
    assert [(spec.label, seed) for spec, seed in begun(tmp_path, "graft", [3])] == [("graft", 3)]
    about = Folder(tmp_path).settings()
    assert (list(about["credits"]), about["seeds"]) == (["grpo", "graft"], [0, 3])
    assert [run.credit for run in Folder(tmp_path).runs()] == ["grpo"]


def test_other_settings_are_refused_by_name(tmp_path):
    begun(tmp_path)
    with pytest.raises(Mismatch) as refusal:
        begun(tmp_path, settings=Settings(updates=90, entropy=0.02))
    text = str(refusal.value)
    assert "updates: 60 there, 90 asked for" in text
    assert "entropy: 0.01 there, 0.02 asked for" in text
    assert "gamma" not in text
    assert "--overwrite" in text


def test_other_parameters_of_a_credit_are_refused(tmp_path):
    begun(tmp_path)
    with pytest.raises(Mismatch, match=r"graphgpo omega: 0\.1 there, 0\.8 asked for"):
        Folder(tmp_path).open(Settings(), parse_credits("graphgpo", {"omega": 0.8}), [0], ENVIRONMENT)


def test_only_versions_that_change_curves_are_compared(tmp_path):
    begun(tmp_path)
    begun(tmp_path, environment={**ENVIRONMENT, "versions": {"numpy": "2.0", "scipy": "2.0"}})
    with pytest.raises(Mismatch, match=r"numpy 2\.0 there, 3\.0 here"):
        begun(tmp_path, environment={**ENVIRONMENT, "versions": {"numpy": "3.0"}})


def test_overwrite_removes_what_the_comparison_left_and_nothing_else(tmp_path):
    (spec, seed), *_ = begun(tmp_path)
    Folder(tmp_path).save(spec, seed, ROWS, {})
    (tmp_path / "summary.md").write_text("old")
    (tmp_path / "notes.txt").write_text("mine")
    assert len(begun(tmp_path, settings=Settings(updates=90), overwrite=True)) == 4
    assert not (tmp_path / "summary.md").exists()
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert Folder(tmp_path).runs() == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_something_else_is_left_alone(tmp_path, overwrite):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match="holds no comparison: choose another --out"):
        begun(tmp_path, overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_labels_with_parameters_make_file_names(tmp_path):
    ((spec, seed),) = begun(tmp_path, "graphgpo:omega=0.4", [7])
    Folder(tmp_path).save(spec, seed, ROWS, {})
    assert (tmp_path / "runs" / "graphgpo_omega=0.4-seed7.parquet").exists()
    assert Folder(tmp_path).runs()[0].credit == "graphgpo:omega=0.4"
