"""How groups of episodes ended, and numbers about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwrap.agents.playing.episodes import INVALID, Episode


def is_mixed(group: Sequence[Episode]) -> bool:
    """Whether a group has both a success and a failure among its finished, scored episodes."""
    return len({episode.success for episode in group if episode.scored}) == 2


def statistics(episodes: Sequence[Episode], group_size: int) -> dict[str, float]:
    """Numbers about some groups of episodes.

    Args:
        episodes: Whole groups, one after the other.
        group_size: Episodes of a group.

    Returns:
        NaN where a mean has no base.

        - `success_rate`, `success/<task type>`, `env_return`: over the scored episodes of the groups in which every
          episode finished. Among the rest, short episodes would weigh too much. Rewards are the environment's own.
        - `complete_groups`, `mixed_groups`, `crashed` (episodes broken off), `truncated` (their share of the finished).
        - `steps`: of all episodes. `episode_length`: steps, over the same episodes as `success_rate`.
        - `invalid_share`, `invalid/<reason>`: share of all steps.
        - `prompt_tokens`, `prompt_tokens_max`, `response_tokens`: per step. `sampled_tokens`: their sum.
        - `history_dropped_share`: share of steps whose prompt left out earlier steps to fit.
    """
    groups = [episodes[begin : begin + group_size] for begin in range(0, len(episodes), group_size)]
    complete = [group for group in groups if all(episode.finished for episode in group)]
    scored = [episode for group in complete for episode in group if episode.scored]
    finished = [episode for episode in episodes if episode.finished]
    steps = [step for episode in episodes for step in episode.steps]
    prompts = [len(step.prompt.token_ids) for step in steps]
    responses = [len(step.answer.token_ids) for step in steps]
    reasons = Counter(step.reason for step in steps if step.reason)
    metrics = {
        "success_rate": _mean([episode.success for episode in scored]),
        "env_return": _mean([episode.env_return for episode in scored]),
        "steps": float(len(steps)),
        "episode_length": _mean([len(episode.steps) for episode in scored]),
        "complete_groups": float(len(complete)),
        "mixed_groups": float(sum(map(is_mixed, groups))),
        "crashed": float(sum(bool(episode.crash) for episode in episodes)),
        "truncated": _mean([episode.steps[-1].truncated for episode in finished]),
        "invalid_share": _mean([step.action == INVALID for step in steps]),
        "prompt_tokens": _mean(prompts),
        "prompt_tokens_max": float(max(prompts, default=0)),
        "response_tokens": _mean(responses),
        "sampled_tokens": float(sum(responses)),
        "history_dropped_share": _mean([step.prompt.dropped > 0 for step in steps]),
    }
    for kind in sorted({episode.task_type for episode in scored} - {""}):
        metrics[f"success/{kind}"] = _mean([e.success for e in scored if e.task_type == kind])
    for reason, count in sorted(reasons.items()):
        metrics[f"invalid/{reason}"] = count / len(steps)
    return metrics


def _mean(values: Sequence[Any]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
