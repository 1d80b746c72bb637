"""From a model's answer to an action."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_OPEN = re.compile("<action>", re.IGNORECASE)
_ACTION = re.compile("<action>(.*?)</action>", re.IGNORECASE | re.DOTALL)
_THINK = re.compile("<think>.*?</think>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile("</?(?:think|action)>", re.IGNORECASE)
_UNSAID = re.compile("<think>.*?(?:</think>|$)", re.IGNORECASE | re.DOTALL)

CUT = "cut"
NO_THINK = "no think"
NO_ACTION = "no action"
SEVERAL = "several actions"
NOT_ADMISSIBLE = "not admissible"


@dataclass(frozen=True)
class Parsed:
    """What an answer says."""

    action: str  # as in the admissible actions if it is one of them, else as written; "" if there is none
    reason: str = ""  # why it is invalid: one of this module's constants; "" if it is valid

    @property
    def valid(self) -> bool:
        """Whether it holds one admissible action, in the format."""
        return not self.reason


def parse_action(text: str, admissible: Sequence[str] | None, *, finished: bool, think: bool) -> Parsed:
    """The action of an answer such as ``<think>...</think> <action>go north</action>``.

    Tags count in any case. White space in the action and its case are forgiven where that makes it an admissible
    one, and only one. Tags inside of <think>...</think>, or of a <think> that does not end, are thoughts. Text around
    the tags is ignored, also after </action>; so an answer that was cut after it is valid.

    Args:
        text: The answer, with what of it was given to the model.
        admissible: Actions. None or empty: any.
        finished: Whether the answer ended by itself; False: it was cut by the length limit.
        think: Whether <think>...</think> before the action is required.

    Returns:
        The action, and the first of these reasons that holds: "cut", a required part is missing in an answer that was
        cut; "no think", also where it comes after the action; "no action", no <action>...</action> or nothing in it;
        "several actions"; "not admissible".
    """
    thought = _THINK.search(text)
    if think and thought is None:
        return Parsed("", NO_THINK if finished else CUT)
    if think and thought and _OPEN.search(text, 0, thought.start()):
        return Parsed("", NO_THINK)
    said = _UNSAID.sub(" ", text)
    found = _ACTION.findall(said)
    if not found:
        return Parsed("", NO_ACTION if finished else CUT)
    if len(_OPEN.findall(said)) > 1:
        return Parsed("", SEVERAL)
    action = _spaced(found[0])
    if not action:
        return Parsed("", NO_ACTION)
    if not admissible:
        return Parsed(action)
    for plain in (str, _spaced, _folded, _dense):
        same = {choice for choice in admissible if plain(choice) == plain(found[0])}
        if len(same) == 1:
            return Parsed(same.pop())
    return Parsed(action, NOT_ADMISSIBLE)


def thought_of(text: str) -> str:
    """What an answer says before its action, on one line and without tags; "" if it says nothing."""
    said = _OPEN.split(text, maxsplit=1)[0]
    thoughts = _THINK.findall(text)
    return _spaced(_TAG.sub(" ", thoughts[0] if thoughts else said))


def without_thoughts(text: str) -> str:
    """What an answer says beside its thoughts, on one line; the thoughts where it says nothing else."""
    return _spaced(_THINK.sub(" ", text)) or thought_of(text)


def _spaced(action: str) -> str:
    return " ".join(action.split())


def _folded(action: str) -> str:
    return _spaced(action).casefold()


def _dense(action: str) -> str:
    """Decoding a word-level tokenizer's ids puts spaces where there were none."""
    return "".join(action.split()).casefold()
