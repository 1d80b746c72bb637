from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwrap.agents.prompting.answers import parse_action

MOVES = ["up", "down", "go north", "Take Key"]
CUT, NO_THINK, NO_ACTION = "cut", "no think", "no action"
SEVERAL, NOT_ADMISSIBLE = "several actions", "not admissible"


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<action>up</action>", "up"),
        ("<action> up </action>", "up"),
        ("  <action>\n\tup\n</action>\n", "up"),
        ("<action>UP</action>", "up"),
        ("<action>take  KEY</action>", "Take Key"),
        ("<action>Go\nNorth</action>", "go north"),
        ("<action>gonorth</action>", "go north"),
        ("<ACTION>down</Action>", "down"),
        ("I go up. <action>up</action>", "up"),
        ("<action>up</action> because down is bad.<|im_end|>", "up"),
        ("<action>up</action></action>", "up"),
        ("<think>down?</think><action>up</action>", "up"),
        ("<think><action>down</action></think><action>up</action>", "up"),
        ("<think>a</think><think>b</think><action>up</action>", "up"),
        ("<action>up</action><think>done</think>", "up"),
        ("</think><action>up</action>", "up"),
    ],
)
@pytest.mark.parametrize("finished", [True, False])
def test_valid_without_think(text: str, action: str, finished: bool) -> None:
    parsed = parse_action(text, MOVES, finished=finished, think=False)
    assert (parsed.action, parsed.valid, parsed.reason) == (action, True, "")


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<think>so</think><action>up</action>", "up"),
        ("<think></think>\n<action>up</action>", "up"),
        ("Well. <THINK>a\nb</THINK> So <action>up</action>", "up"),
        ("<think>not <action>down</action></think><action>up</action>", "up"),
        ("<think>a <think> b</think><action>up</action>", "up"),
    ],
)
def test_valid_with_think(text: str, action: str) -> None:
    parsed = parse_action(text, MOVES, finished=True, think=True)
    assert (parsed.action, parsed.valid, parsed.reason) == (action, True, "")


@pytest.mark.parametrize(
    ("text", "think", "action", "reason", "reason_if_cut"),
    [
        ("", False, "", NO_ACTION, CUT),
        ("up", False, "", NO_ACTION, CUT),
        ("<action>up", False, "", NO_ACTION, CUT),
        ("up</action>", False, "", NO_ACTION, CUT),
        ("</action>up<action>", False, "", NO_ACTION, CUT),
        ("<think><action>up</action></think>", False, "", NO_ACTION, CUT),
        ("<action></action>", False, "", NO_ACTION, NO_ACTION),
        ("<action> \n </action>", False, "", NO_ACTION, NO_ACTION),
        ("<action>up</action><action>up</action>", False, "", SEVERAL, SEVERAL),
        ("<action>up</action> or <action>down", False, "", SEVERAL, SEVERAL),
        ("<action><action>up</action>", False, "", SEVERAL, SEVERAL),
        ("<action>fly</action>", False, "fly", NOT_ADMISSIBLE, NOT_ADMISSIBLE),
        ("<action>up down</action>", False, "up down", NOT_ADMISSIBLE, NOT_ADMISSIBLE),
        ("<action>up.</action>", False, "up.", NOT_ADMISSIBLE, NOT_ADMISSIBLE),
        ("", True, "", NO_THINK, CUT),
        ("<action>up</action>", True, "", NO_THINK, CUT),
        ("<think>so <action>up</action>", True, "", NO_THINK, CUT),
        ("so</think><action>up</action>", True, "", NO_THINK, CUT),
        ("<action>up</action><think>so</think>", True, "", NO_THINK, NO_THINK),
        ("<think>so</think>", True, "", NO_ACTION, CUT),
        ("<think>so</think>up", True, "", NO_ACTION, CUT),
        ("<think>so</think><action>fly</action>", True, "fly", NOT_ADMISSIBLE, NOT_ADMISSIBLE),
        ("<think>so</think><action>up</action><action>down</action>", True, "", SEVERAL, SEVERAL),
    ],
)
def test_invalid(text: str, think: bool, action: str, reason: str, reason_if_cut: str) -> None:
    for finished, expected in ((True, reason), (False, reason_if_cut)):
        parsed = parse_action(text, MOVES, finished=finished, think=think)
        assert (parsed.action, parsed.valid, parsed.reason) == (action, False, expected)


@pytest.mark.parametrize("admissible", [None, []])
def test_without_admissible_actions_any_is(admissible: list[str] | None) -> None:
    parsed = parse_action("<action> Search[the  Moon] </action>", admissible, finished=True, think=False)
    assert (parsed.action, parsed.valid) == ("Search[the Moon]", True)
    assert parse_action("<action> </action>", admissible, finished=True, think=False).reason == NO_ACTION


def test_an_action_inside_a_thought_without_end_is_none() -> None:
    text = "<think>maybe <action>up</action> or"
    assert parse_action(text, ["up"], finished=False, think=False).reason == "cut"
    assert parse_action(text, ["up"], finished=True, think=False).reason == "no action"


def test_what_is_forgiven_must_be_clear() -> None:
    choices = ["Go", "go", "a b", "ab"]

    def action(said: str) -> tuple[str, str]:
        parsed = parse_action(f"<action>{said}</action>", choices, finished=True, think=False)
        return parsed.action, parsed.reason

    assert action("Go") == ("Go", "")
    assert action(" go ") == ("go", "")
    assert action("GO") == ("GO", NOT_ADMISSIBLE)
    assert action("A B") == ("a b", "")
    assert action("AB") == ("ab", "")
    assert action("a  b") == ("a b", "")


def test_an_admissible_action_that_is_listed_twice_or_padded() -> None:
    parsed = parse_action("<action>up</action>", ["up", "up"], finished=True, think=False)
    assert (parsed.action, parsed.reason) == ("up", "")
    parsed = parse_action("<action>up</action>", [" up  "], finished=True, think=False)
    assert (parsed.action, parsed.reason) == (" up  ", "")


@given(
    st.lists(
        st.sampled_from(["<action>", "</action>", "<think>", "</think>", "up", "fly", " ", "\n"]), max_size=12
    ),
    st.booleans(),
    st.booleans(),
)
def test_an_action_is_valid_only_if_admissible(parts: list[str], finished: bool, think: bool) -> None:
    text = "".join(parts)
    parsed = parse_action(text, MOVES, finished=finished, think=think)
    assert parsed.valid == (parsed.reason == "")
    if parsed.valid:
        assert parsed.action in MOVES
        assert "<action>" in text
        assert not think or "</think>" in text
    if finished:
        assert parsed.reason != CUT
