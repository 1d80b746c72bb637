from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from graphwrap.agents.prompts import PromptTemplate, Turn, parse_action, template_names

TURNS = [Turn("a hall", "go north"), Turn("a cellar", "")]


def filled(template: PromptTemplate, **changes: Any) -> list[str]:
    values = {
        "task": "Find the key.",
        "step": 5,
        "history": TURNS,
        "observation": "an attic",
        "admissible": ["go south", "take key"],
    }
    return [message["content"] for message in template.messages(**{**values, **changes})]


def test_every_slot() -> None:
    template = PromptTemplate.parse(
        "{task}|{step}|{steps_made}|{history_length}|{observation}|{admissible_actions}|{admissible_actions_inline}\n"
        "{history}\n[turn]\n{step}: {observation} -> {action}\n[system]\nDo this: {task}\n"
    )
    assert filled(template) == [
        "Do this: Find the key.",
        "Find the key.|6|5|2|an attic|go south\ntake key|go south, take key\n"
        "4: a hall -> go north\n5: a cellar -> (none)",
    ]
    messages = template.messages(task="", step=0, history=[], observation="o", admissible=None)
    assert messages == [
        {"role": "system", "content": "Do this: "},
        {"role": "user", "content": "|1|0|0|o|(any)|(any)\n"},
    ]


def test_the_first_section_is_for_prompts_without_turns() -> None:
    template = PromptTemplate.parse("[first]\nNew: {observation}\n\n[step]\n{history} Now: {observation}\n")
    assert filled(template, step=0, history=[]) == ["New: an attic"]
    assert filled(template, history=TURNS[:1]) == [
        "Step 5, observation:\na hall\nStep 5, action: go north Now: an attic"
    ]


def test_braces_that_are_no_slots_stay() -> None:
    template = PromptTemplate.parse('{observation} {{task}} {"a": {"b": 1}} {} {a b} }} {{')
    assert filled(template, observation="{task} {{step}} \\1 }") == [
        '{task} {{step}} \\1 } {task} {"a": {"b": 1}} {} {a b} }} {{'
    ]


def test_text_in_brackets_within_a_line_is_no_heading() -> None:
    assert filled(PromptTemplate.parse("Actions: [{admissible_actions}]\n{observation}")) == [
        "Actions: [go south\ntake key]\nan attic"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{observations}",
            r"the slots of \[step\] are .*, got \{observations\}; did you mean \{observation\}\?",
        ),
        (
            "{observation}\n[turn]\n{task}",
            r"the slots of \[turn\] are \{step\}, \{observation\}, \{thought\}, \{action\}, got \{task",
        ),
        ("{observation}\n[system]\n{step}", r"the slots of \[system\] are \{task\}, got \{step\}"),
        ("{task}", r"\[step\] of a template shows the \{observation\}, got '\{task\}'"),
        ("", r"\[step\] of a template shows the \{observation\}, got ''"),
        (
            "{observation}\n[first]\nBegin.",
            r"\[first\] of a template shows the \{observation\}, got 'Begin\.'",
        ),
        ("{observation}\n[user]\nHi", r"a template's sections are options, .*, got \[user\]"),
        ("{observation}\n[step]\n{observation}", r"each section once, got \[step\] twice"),
        (
            "{observation}\n[options]\nthink: maybe",
            "`think: required` or `think: optional`, got 'think: maybe'",
        ),
        ("{observation}\n[options]\nthinking: required", "got 'thinking: required'"),
    ],
)
def test_a_broken_template_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        PromptTemplate.parse(text)
    path = tmp_path / "mine.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"mine\.txt: .*{message}"):
        PromptTemplate.load(path)


def test_options() -> None:
    assert not PromptTemplate.parse("{observation}").think
    assert not PromptTemplate.parse("{observation}\n[options]\nthink: optional").think
    assert PromptTemplate.parse("{observation}\n[options]\n\nthink :required\n").think


def test_a_template_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes("[step]\r\nDu siehst: {observation}…\r\n".encode())
    assert filled(PromptTemplate.load(path)) == ["Du siehst: an attic…"]
    assert filled(PromptTemplate.load(str(path))) == ["Du siehst: an attic…"]


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(
        ValueError,
        match="of brief, react, reflect, reflexion, sokoban, think, tiny or the path of a text file, got 'thinking'",
    ):
        PromptTemplate.load("thinking")


def test_shipped_templates() -> None:
    assert template_names() == ["brief", "react", "reflect", "reflexion", "sokoban", "think", "tiny"]
    assert filled(PromptTemplate.load("tiny")) == ["an attic"]
    assert not PromptTemplate.load("tiny").think
    for name in ("think", "sokoban"):
        template = PromptTemplate.load(name)
        assert template.think
        for history in ([], TURNS):
            text = "\n".join(filled(template, history=history))
            for part in ("Find the key.", "an attic", "go south", "take key", "<think>", "</action>"):
                assert part in text
            assert ("go north" in text) == bool(history)
            assert ("a cellar" in text) == bool(history)
            assert "{" not in text


TRIED = [Turn("a hall", "go north", "the door is north"), Turn("a cellar", "", "")]


def test_the_templates_of_prompting_agents() -> None:
    for name in ("react", "reflexion", "reflect"):
        template = PromptTemplate.load(name)
        assert template.shows_thoughts
        assert not template.think  # models that think apart from their answer are agents, too
        for history in ([], TRIED):
            text = "\n".join(filled(template, history=history, reflections=["look north", "hurry"]))
            assert "Find the key." in text
            assert "an attic" in text
            assert ("you thought: the door is north" in text) == bool(history)
            assert ("you thought: (none)" in text) == bool(history)
            assert ("- look north\n- hurry" in text) == (name != "react")
            assert ("take key" in text) == (name != "reflect")
            assert "{" not in text
        if name != "react":
            assert "(none)" in "\n".join(filled(template))
    for name in ("react", "reflexion"):
        example = PromptTemplate.load(name).system
        actions = ["take coat from chair", "hang coat on hook"]
        for answer, action in zip(
            re.findall(r"^<think>The coat.*?</action>|^<think>Now.*?</action>", example, re.S | re.M),
            actions,
            strict=True,
        ):
            assert parse_action(answer, actions, finished=True, think=True).action == action


def test_the_example_of_the_sokoban_template_is_right() -> None:
    from graphwrap.envs import LevelSet
    from graphwrap.envs.text import TextSokobanEnv
    from graphwrap.envs.xsb import parse_xsb

    system = PromptTemplate.load("sokoban").system
    board, answer = system.split("Example of a board:\n")[1].split("\nExample of an answer:\n")
    parsed = parse_action(answer, ["up", "down", "left", "right"], finished=True, think=True)
    boards, optimal, _ = parse_xsb(board)
    env = TextSokobanEnv(LevelSet("example", boards, optimal))
    assert env.reset(options={"level": 0})[0] == board
    env.step(parsed.action)
    assert env.step(parsed.action)[2]
