"""The steps of a rollout as rows that a policy is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphwrap.agents.playing.episodes import INVALID, Episode
from graphwrap.recording.recorder import WindowCredit

Tokens = tuple[int, ...]


@dataclass(eq=False)
class StepRows:
    """N steps; an episode's rows are neighbours, in order."""

    prompts: list[Tokens]
    responses: list[Tokens]
    log_probs: list[np.ndarray]  # float32 (response tokens,), the engine's
    advantages: np.ndarray  # float64 (N,); those of a critic are filled in by the update
    mask: np.ndarray  # bool (N,), rows to train on: False for steps of episodes that were broken off
    rewards: np.ndarray  # float64 (N,), penalties taken off
    terminated: np.ndarray  # bool (N,)
    truncated: np.ndarray  # bool (N,)
    valid: np.ndarray  # bool (N,), whether the answer held a valid action
    episode: np.ndarray  # int64 (N,), the place of the row's episode in the rollout's list
    step: np.ndarray  # int64 (N,), from 0 within the episode
    last_prompts: dict[int, Tokens] = field(default_factory=dict)  # by episode, where a time limit cut it off

    def __len__(self) -> int:
        return len(self.prompts)

    def columns(self) -> dict[str, Any]:
        """Return everything but `last_prompts` as columns that `pyarrow.table` takes."""
        return {
            "episode": self.episode,
            "step": self.step,
            "prompt": [list(tokens) for tokens in self.prompts],
            "response": [list(tokens) for tokens in self.responses],
            "log_probs": [values.tolist() for values in self.log_probs],
            "reward": self.rewards,
            "advantage": self.advantages,
            "mask": self.mask,
            "valid": self.valid,
            "terminated": self.terminated,
            "truncated": self.truncated,
        }


def rows_of(episodes: Sequence[Episode], credit: WindowCredit | None) -> StepRows:
    """Return the steps of some episodes.

    Args:
        episodes: E of them.
        credit: Their credit, as `credit_of` gives it; None: 0, of a critic's run.
    """
    steps = [step for episode in episodes for step in episode.steps]
    lengths = [len(episode.steps) for episode in episodes]
    number = np.repeat(np.arange(len(episodes)), lengths)
    place = np.concatenate([np.arange(length) for length in lengths]) if lengths else np.zeros(0, np.int64)
    if credit is None:
        advantages = np.zeros(len(steps))
        mask = np.repeat(np.array([episode.scored for episode in episodes], np.bool_), lengths)
    else:
        advantages, mask = credit.advantages[place, number], credit.mask[place, number]
    return StepRows(
        prompts=[step.prompt.token_ids for step in steps],
        responses=[step.answer.token_ids for step in steps],
        log_probs=[step.answer.log_probs for step in steps],
        advantages=advantages,
        mask=mask,
        rewards=np.array([step.reward for step in steps], np.float64),
        terminated=np.array([step.terminated for step in steps], np.bool_),
        truncated=np.array([step.truncated for step in steps], np.bool_),
        valid=np.array([step.action != INVALID for step in steps], np.bool_),
        episode=number,
        step=place,
        last_prompts={
            i: episode.last_prompt for i, episode in enumerate(episodes) if episode.last_prompt is not None
        },
    )
