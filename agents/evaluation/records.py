"""Finished episodes of an evaluation, as files that are read again."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphwrap._files import whole_folder
from graphwrap.agents.prompting.answers import thought_of
from graphwrap.agents.prompting.templates import Turn
from graphwrap.transitions import Transitions

if TYPE_CHECKING:
    from graphwrap.agents.playing.episodes import Episode

RECORD, TRANSITIONS, TRANSCRIPT = "episode.json", "transitions.parquet", "transcript.md"


@dataclass(frozen=True, order=True)
class Place:
    """Which episode of an evaluation; all from 0."""

    task: int
    repeat: int = 0
    trial: int = 0

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"task-{self.task:05d}-repeat-{self.repeat:02d}-trial-{self.trial:02d}"


@dataclass(frozen=True)
class StepRecord:
    """One step."""

    observation: str  # before it
    answer: str  # what the model said
    action: str  # the parsed action, or INVALID
    reason: str  # why the answer is invalid; empty if it is not
    reward: float  # the environment's

    @property
    def turn(self) -> Turn:
        """As prompts show it."""
        return Turn(self.observation, "" if self.reason else self.action, thought_of(self.answer))


@dataclass(frozen=True)
class Record:
    """One finished episode."""

    place: Place
    seed: int  # that the environment was reset with
    task: str  # what was to be done
    name: str  # info["task"], such as the file of a game
    task_type: str
    success: bool
    truncated: bool  # a time limit ended it
    prompt_tokens: int
    answer_tokens: int
    last_observation: str  # what the last step led to
    reflections: tuple[str, ...] = ()  # that it was played with
    steps: tuple[StepRecord, ...] = field(default=(), repr=False)

    @property
    def env_return(self) -> float:
        """The undiscounted sum of rewards."""
        return math.fsum(step.reward for step in self.steps)

    @property
    def invalid(self) -> int:
        """Steps without a valid action."""
        return sum(bool(step.reason) for step in self.steps)

    @property
    def reasons(self) -> Counter[str]:
        """How often answers were invalid, by reason."""
        return Counter(step.reason for step in self.steps if step.reason)

    @property
    def turns(self) -> list[Turn]:
        """Its steps as prompts show them."""
        return [step.turn for step in self.steps]

    @classmethod
    def of(cls, episode: Episode, place: Place) -> Record:
        """The record of a finished episode, played without penalties."""
        return cls(
            place=place,
            seed=episode.seed,
            task=episode.task,
            name=episode.name,
            task_type=episode.task_type,
            success=bool(episode.success),
            truncated=bool(episode.steps[-1].truncated),
            prompt_tokens=sum(step.answer.prompt_tokens for step in episode.steps),
            answer_tokens=sum(step.answer.answer_tokens for step in episode.steps),
            last_observation=episode.last_observation,
            reflections=episode.reflections,
            steps=tuple(
                StepRecord(step.observation, step.text, step.action, step.reason, float(step.reward))
                for step in episode.steps
            ),
        )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Record:
        """What `to_json` gave."""
        steps = tuple(StepRecord(**step) for step in values["steps"])
        told = {
            **values,
            "place": Place(**values["place"]),
            "reflections": tuple(values["reflections"]),
            "steps": steps,
        }
        return cls(**told)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


class Records:
    """The finished episodes in a folder. Each has a folder, which is there as a whole or not at all.

    It holds `episode.json`, `transcript.md` and `transitions.parquet`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def clean(self) -> None:
        """Remove what a killed process left half-written."""
        import shutil

        for path in self.folder.glob(".*.part"):
            shutil.rmtree(path, ignore_errors=True)

    def all(self) -> dict[Place, Record]:
        """Every finished episode, in order.

        Raises:
            ValueError: One cannot be read; it is named.
        """
        found = {}
        for path in sorted(self.folder.glob("task-*")):
            try:
                record = Record.from_json(json.loads((path / RECORD).read_text(encoding="utf-8")))
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{path / RECORD} must be what this program wrote, but cannot be read ({error!r}): remove the "
                    f"folder {path}, and its episode is played again"
                ) from error
            found[record.place] = record
        return dict(sorted(found.items()))

    def save(self, record: Record, transitions: Transitions, transcript: str) -> None:
        """Write a finished episode."""
        with whole_folder(self.folder / record.place.name) as folder:
            text = json.dumps(record.to_json(), ensure_ascii=False, indent=1)
            (folder / RECORD).write_text(text + "\n", encoding="utf-8")
            (folder / TRANSCRIPT).write_text(transcript, encoding="utf-8")
            transitions.save(folder / TRANSITIONS)

    def transitions(self, places: Sequence[Place]) -> Transitions:
        """The steps of some finished episodes, one after the other."""
        return Transitions.concat(
            [Transitions.load(self.folder / place.name / TRANSITIONS) for place in places]
        )


def transitions_of(episode: Episode, place: Place) -> Transitions:
    """The steps of a finished episode; the task's number is their task, so that its episodes are a group."""
    steps = episode.steps
    return Transitions.from_columns(
        task=[place.task] * len(steps),
        episode=[f"{place.repeat}-{place.trial}"] * len(steps),
        step=list(range(len(steps))),
        state=[step.state for step in steps],
        action=[step.action for step in steps],
        next_state=[step.next_state for step in steps],
        reward=[step.reward for step in steps],
        terminated=[step.terminated for step in steps],
        truncated=[step.truncated for step in steps],
        success=[episode.success] * len(steps),
    )
