"""The text of prompts, as files with slots."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SLOTS = (
    "task",
    "step",  # the number of the step to make, from 1
    "steps_made",
    "history",  # the turns that are shown, oldest first
    "history_length",
    "observation",
    "admissible_actions",  # one a line
    "admissible_actions_inline",  # parted by commas
    "reflections",  # what the agent noted after earlier trials of the task, oldest first
)
TURN_SLOTS = ("step", "observation", "thought", "action")
_SECTIONS = ("options", "system", "first", "step", "turn")
_TURN = "Step {step}, observation:\n{observation}\nStep {step}, action: {action}"
_ANYTHING = "(any)"
_NOTHING = "(none)"

_TEMPLATES = Path(__file__).parents[1] / "templates"
_HEADING = re.compile(r"\[(\w+)\]\s*")
_SLOT = re.compile(r"\{(\w+)\}|\{(\{\w+\})\}")


@dataclass(frozen=True)
class Turn:
    """An earlier step: what the agent saw, and what it did then ("": nothing that was an action)."""

    observation: str
    action: str
    thought: str = ""  # what it thought before, kept for templates that show it


def template_names() -> list[str]:
    """The templates that come with graphwrap."""
    return sorted(path.stem for path in _TEMPLATES.glob("*.txt"))


@dataclass(frozen=True)
class PromptTemplate:
    """The text of a prompt with slots such as ``{observation}``; see `SLOTS`.

    Its file has sections, each under a line with its name in brackets:

    - ``[step]``: the user message. Text above the first heading is this section too.
    - ``[first]``: the user message where there is no turn to show. Without it, `step`.
    - ``[system]``: the system message, without slots but ``{task}``.
    - ``[turn]``: an earlier step in ``{history}``, with ``{step}``, ``{observation}``, ``{thought}`` and ``{action}``.
    - ``[options]``: ``think: required`` if an answer without <think>...</think> is invalid.

    Other braces stay as they are; ``{{task}}`` is a slot's name in braces.
    """

    step: str
    first: str = ""
    system: str = ""
    turn: str = _TURN
    think: bool = False

    def __post_init__(self) -> None:
        for section, text, slots in (
            ("step", self.step, SLOTS),
            ("first", self.first, SLOTS),
            ("system", self.system, ("task",)),
            ("turn", self.turn, TURN_SLOTS),
        ):
            for name in _slots(text):
                if name not in slots:
                    raise ValueError(_unknown_slot(section, name, slots))
        for section, text in (("step", self.step), ("first", self.first or self.step)):
            if "observation" not in _slots(text):
                raise ValueError(f"[{section}] of a template shows the {{observation}}, got {text!r}")

    @property
    def shows_thoughts(self) -> bool:
        """Whether an earlier step is shown with what the agent thought."""
        return "thought" in _slots(self.turn)

    @classmethod
    def load(cls, name_or_path: str | Path) -> PromptTemplate:
        """The template of a shipped name or of a text file.

        Raises:
            ValueError: There is neither; lists the names. Or the file breaks a rule.
        """
        shipped = template_names()
        path = _TEMPLATES / f"{name_or_path}.txt" if str(name_or_path) in shipped else Path(name_or_path)
        if not path.is_file():
            raise ValueError(
                f"a template is one of {', '.join(shipped)} or the path of a text file, got {str(name_or_path)!r}"
            )
        try:
            return cls.parse(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @classmethod
    def parse(cls, text: str) -> PromptTemplate:
        """The template that a file's text describes.

        Raises:
            ValueError: An unknown section, slot or option, or no ``{observation}``.
        """
        sections = _sections(text)
        think = _think(sections.pop("options", ""))
        return cls(**{"step": "", **sections}, think=think)

    def messages(
        self,
        *,
        task: str,
        step: int,
        history: Sequence[Turn],
        observation: str,
        admissible: Sequence[str] | None,
        reflections: Sequence[str] = (),
    ) -> list[dict[str, str]]:
        """The chat: a system message, if the template has one, and a user message.

        Args:
            task: What is to be done.
            step: Steps that were made before, 0 at first.
            history: The last of these, oldest first; all of it is shown.
            observation: What the agent sees.
            admissible: Actions. None or empty: any.
            reflections: Notes of earlier trials, oldest first.
        """
        turns = [
            _filled(
                self.turn,
                {
                    "step": str(step - len(history) + place + 1),
                    "observation": turn.observation,
                    "thought": turn.thought or _NOTHING,
                    "action": turn.action or _NOTHING,
                },
            )
            for place, turn in enumerate(history)
        ]
        values = {
            "task": task,
            "step": str(step + 1),
            "steps_made": str(step),
            "history": "\n".join(turns),
            "history_length": str(len(turns)),
            "observation": observation,
            "admissible_actions": "\n".join(admissible or [_ANYTHING]),
            "admissible_actions_inline": ", ".join(admissible or [_ANYTHING]),
            "reflections": "\n".join(f"- {note}" for note in reflections) or _NOTHING,
        }
        body = self.step if turns or not self.first else self.first
        system = [{"role": "system", "content": _filled(self.system, values)}] if self.system else []
        return [*system, {"role": "user", "content": _filled(body, values)}]


def _sections(text: str) -> dict[str, str]:
    lines: dict[str, list[str]] = {"step": []}
    section = "step"
    for line in text.splitlines():
        heading = _HEADING.fullmatch(line)
        if heading is None:
            lines[section].append(line)
            continue
        section = heading[1]
        if section not in _SECTIONS:
            raise ValueError(f"a template's sections are {', '.join(_SECTIONS)}, got [{section}]")
        if any(line.strip() for line in lines.setdefault(section, [])):
            raise ValueError(f"a template has each section once, got [{section}] twice")
    joined = {name: "\n".join(content).strip("\n") for name, content in lines.items()}
    return {name: content for name, content in joined.items() if content.strip()}


def _think(options: str) -> bool:
    think = False
    for line in filter(str.strip, options.splitlines()):
        name, _, value = (part.strip() for part in line.partition(":"))
        if name != "think" or value not in ("required", "optional"):
            raise ValueError(
                f"[options] of a template is `think: required` or `think: optional`, got {line.strip()!r}"
            )
        think = value == "required"
    return think


def _unknown_slot(section: str, name: str, slots: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, slots, 1)
    hint = f"; did you mean {{{near[0]}}}?" if near else "."
    known = ", ".join(f"{{{slot}}}" for slot in slots)
    return f"the slots of [{section}] are {known}, got {{{name}}}{hint} Write {{{{{name}}}}} for the text {{{name}}}"


def _slots(text: str) -> list[str]:
    return [match[1] for match in _SLOT.finditer(text) if match[1]]


def _filled(text: str, values: dict[str, str]) -> str:
    """`text` with the values of its slots; braces in a value stay as they are."""
    return _SLOT.sub(lambda match: values[match[1]] if match[1] else match[2], text)
