"""What finished episodes say about an agent, with 95% intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from graphwrap.agents.evaluation.records import Place, Record

Z = 1.959963984540054  # the normal distribution's 97.5% quantile
RESAMPLES = 10_000


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval; NaN where there is none."""

    value: float
    low: float
    high: float
    count: int  # tasks, or episodes, that it comes from

    def text(self, form: str = ".3f") -> str:
        """Such as "0.52 [0.40, 0.64]"."""
        if math.isnan(self.value):
            return "–"
        if math.isnan(self.low):
            return format(self.value, form)
        return f"{self.value:{form}} [{self.low:{form}}, {self.high:{form}}]"


def wilson(successes: int, count: int) -> Estimate:
    """A share of independent trials, with Wilson's score interval (Wilson, 1927)."""
    if not count:
        return Estimate(math.nan, math.nan, math.nan, 0)
    share = successes / count
    middle = (share + Z**2 / (2 * count)) / (1 + Z**2 / count)
    half = Z * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2)) / (1 + Z**2 / count)
    # At the ends rounding could put the share itself outside.
    return Estimate(share, min(max(0.0, middle - half), share), max(min(1.0, middle + half), share), count)


def bootstrap_ratio(tops: Sequence[float], bottoms: Sequence[float], seed: int = 0) -> Estimate:
    """sum(tops) / sum(bottoms) with a percentile bootstrap interval over the pairs, which are independent.

    With all bottoms 1 it is a mean. The interval depends on the pairs alone; of fewer than two pairs there is none.
    """
    pairs = np.array([tops, bottoms], np.float64).T
    if not len(pairs):
        return Estimate(math.nan, math.nan, math.nan, 0)
    value = math.fsum(pairs[:, 0]) / math.fsum(pairs[:, 1])  # exact, so in any order
    if len(pairs) < 2:
        return Estimate(value, math.nan, math.nan, len(pairs))
    pairs = pairs[np.lexsort(pairs.T)]
    rng = np.random.default_rng(seed)
    # A resample is how often each pair is in it.
    times = rng.multinomial(len(pairs), np.full(len(pairs), 1 / len(pairs)), size=RESAMPLES)
    sums = times @ pairs
    low, high = np.percentile(sums[:, 0] / sums[:, 1], [2.5, 97.5])
    return Estimate(value, float(low), float(high), len(pairs))


@dataclass(frozen=True)
class Summary:
    """What an evaluation found. An episode that counts is the last trial of its task."""

    success: Estimate
    success_by_type: dict[str, Estimate]  # by info["task_type"]; empty without
    success_by_trial: list[Estimate]  # after so many trials; one entry where there is a single trial
    steps: Estimate  # of an episode
    steps_of_successes: Estimate  # of a successful one
    invalid_share: Estimate  # of all steps
    env_return: Estimate  # of an episode
    truncated: Estimate  # share of episodes that a time limit ended
    invalid: dict[str, float]  # share of all steps, by reason
    prompt_tokens: float  # mean of a step
    answer_tokens: float  # mean of a step
    episodes: int
    trials: int  # played, those that do not count included
    played_steps: int

    def as_json(self) -> dict[str, Any]:
        """Plain values; None in the place of NaN."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


def last_trials(records: Mapping[Place, Record], trials: int) -> dict[Place, Record]:
    """The episodes that count: of each task and repeat the last trial, where no other follows."""
    last: dict[tuple[int, int], Record] = {}
    for place, record in sorted(records.items()):
        last[place.task, place.repeat] = record
    return {
        record.place: record for record in last.values() if record.success or record.place.trial + 1 >= trials
    }


def summarise(records: Mapping[Place, Record], trials: int = 1) -> Summary:
    """Numbers of finished episodes.

    Success has Wilson's interval, or with repeats, whose episodes of one task depend on each other, a bootstrap
    interval over tasks; all other numbers have bootstrap intervals over tasks.

    Args:
        records: Finished episodes.
        trials: Attempts that a task has at most.
    """
    counted = list(last_trials(records, trials).values())
    kinds = sorted({record.task_type for record in counted} - {""})
    steps = sum(len(record.steps) for record in counted)
    reasons: Counter[str] = sum((record.reasons for record in counted), Counter())
    played = list(records.values())
    played_steps = sum(len(record.steps) for record in played)
    won = [record for record in counted if record.success]
    return Summary(
        success=_share(counted, [record.success for record in counted]),
        success_by_type={
            kind: _share(some, [record.success for record in some])
            for kind in kinds
            for some in [[record for record in counted if record.task_type == kind]]
        },
        success_by_trial=[
            _share(counted, [record.success and record.place.trial <= trial for record in counted])
            for trial in range(trials)
        ],
        steps=_mean(counted, [len(record.steps) for record in counted]),
        steps_of_successes=_mean(won, [len(record.steps) for record in won]),
        invalid_share=_ratio(
            counted, [record.invalid for record in counted], [len(record.steps) for record in counted]
        ),
        env_return=_mean(counted, [record.env_return for record in counted]),
        truncated=_share(counted, [record.truncated for record in counted]),
        invalid={reason: count / steps for reason, count in sorted(reasons.items())},
        prompt_tokens=sum(record.prompt_tokens for record in played) / max(1, played_steps),
        answer_tokens=sum(record.answer_tokens for record in played) / max(1, played_steps),
        episodes=len(counted),
        trials=len(played),
        played_steps=played_steps,
    )


def _share(records: Sequence[Record], flags: Sequence[bool]) -> Estimate:
    if len({record.place.task for record in records}) == len(records):
        return wilson(sum(flags), len(flags))
    return _mean(records, flags)


def _mean(records: Sequence[Record], values: Sequence[float]) -> Estimate:
    return _ratio(records, values, [1.0] * len(values))


def _ratio(records: Sequence[Record], tops: Sequence[float], bottoms: Sequence[float]) -> Estimate:
    """The ratio of sums, resampled by task."""
    by_task: dict[int, list[float]] = {}
    for record, top, bottom in zip(records, tops, bottoms):
        sums = by_task.setdefault(record.place.task, [0.0, 0.0])
        sums[0] += top
        sums[1] += bottom
    pairs = list(by_task.values())
    return bootstrap_ratio([top for top, _ in pairs], [bottom for _, bottom in pairs])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value
