"""Sampled episodes as text that people read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphwrap.agents.playing.episodes import Episode


def to_markdown(
    episodes: Sequence[Episode], title: str, advantages: Sequence[Sequence[float]] | None = None
) -> str:
    """Write episodes out: how each ended, and for every step the observation, the answer, and what it was worth.

    Args:
        episodes: To show.
        title: The heading.
        advantages: Of every step of every episode; None: there are none.
    """
    parts = [f"# {title}\n"]
    for number, episode in enumerate(episodes):
        parts.append(f"\n## Task {episode.group}, {_ending(episode)}\n")
        parts.append(f"\nSeed {episode.seed}, return {episode.env_return:g} without penalties.\n")
        if episode.task:
            parts.append(f"\n{_fenced(episode.task)}")
        if episode.steps:
            parts.append(f"\nThe first prompt, {episode.steps[0].answer.prompt_tokens} tokens:\n")
            parts.append(f"\n{_fenced(episode.steps[0].prompt.text)}")
        for t, step in enumerate(episode.steps):
            credit = None if advantages is None else advantages[number][t]
            says = [f"action {step.action}" if not step.reason else f"invalid: {step.reason}"]
            says.append(f"reward {step.reward:g}")
            says += [] if credit is None else [f"advantage {credit:+.3f}"]
            parts.append(f"\n### Step {t + 1}: {', '.join(says)}\n")
            parts.append(f"\n{_fenced(step.observation)}\n{_fenced(step.text)}")
    return "".join(parts)


def _ending(episode: Episode) -> str:
    steps = f"{len(episode.steps)} step{'' if len(episode.steps) == 1 else 's'}"
    if episode.crash:
        return f"broken off after {steps}: {episode.crash.strip().splitlines()[-1]}"
    return f"{'success' if episode.success else 'failure'} in {steps}"


def _fenced(text: str) -> str:
    """A code block that no text can leave."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}\n"
