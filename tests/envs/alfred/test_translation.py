"""From PDDL to a planning task, without that anything else in the process notices."""

from __future__ import annotations

import io
import json
import sys
import threading
from pathlib import Path

import fast_downward
import pytest

from graphwrap.envs.alfred.translation import muted, translated, translated_for_planning

pytestmark = pytest.mark.alfworld


def test_it_is_what_fast_downward_translates(small_games: list[Path]) -> None:
    game = json.loads(small_games[0].read_text())
    texts = game["pddl_domain"], game["pddl_problem"]
    with muted():
        (task, sas), (_, optimized) = (
            fast_downward.pddl2sas(*texts, optimize=option) for option in (False, True)
        )
    found = translated(*texts)
    assert found.sas.decode() == sas
    assert translated_for_planning(*texts).decode() == optimized != sas
    assert found.types == {thing.name: thing.type_name for thing in task.objects}
    assert found.changed & {"holds", "opened", "openable", "cancontain"} == {"holds", "opened"}


def test_output_and_arguments_are_left_alone(
    small_games: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    game = json.loads(small_games[0].read_text())
    before = sys.argv, sys.stdout, list(sys.argv)
    translated(game["pddl_domain"], game["pddl_problem"])
    assert (sys.argv, sys.stdout, list(sys.argv)) == before
    assert capsys.readouterr() == ("", "")


def test_only_the_translators_thread_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    with muted():
        print("not seen", flush=True)
        thread = threading.Thread(target=print, args=("seen",), kwargs={"flush": True})
        thread.start()
        thread.join()
    print("after")
    assert output.getvalue() == "seen\nafter\n"
    assert sys.stdout is output


def test_an_error_leaves_the_output_as_it_was() -> None:
    before = sys.argv, sys.stdout
    with pytest.raises(ValueError, match="fault"):
        translated("(define (domain", "(")
    assert (sys.argv, sys.stdout) == before
