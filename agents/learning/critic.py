"""Advantages from a critic: generalised advantage estimation over the steps of an episode.

This is the baseline "ppo". The value head reads V(s_t) at the last token of step t's prompt. With discount gamma and
lambda (Schulman et al., arXiv 1506.02438)

    delta_t = r_t + gamma V(s_{t+1}) - V(s_t)
    A_t = delta_t + gamma lambda A_{t+1}

V(s_{t+1}) is 0 after a step that terminated. After one that was truncated by a time limit it is the value of the
prompt of the state that the step led to: the limit is not the environment's, and the agent is not punished for it.
A_{t+1} is 0 after an episode's last step in both cases. The critic's target is A_t + V(s_t). The policy's advantages
are centred and divided by their standard deviation over all rows of the update, as usual for PPO; every token of a step
has its step's advantage.
"""

from __future__ import annotations

import numpy as np

from graphwrap.agents.playing.rows import StepRows

_TINY = 1e-8


def estimate(
    rows: StepRows,
    chosen: np.ndarray,
    values: np.ndarray,
    last_values: dict[int, float],
    gamma: float,
    gae_lambda: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return (advantages, returns) of some rows, float64 (n,) each; the advantages are not normalised.

    Args:
        rows: The steps.
        chosen: int64 (n,), ascending; rows of whole, finished episodes.
        values: float64 (n,), V of each one's state.
        last_values: By episode, V of the state in which a time limit cut it off.
        gamma: The discount.
        gae_lambda: Lambda.

    Raises:
        ValueError: An episode that was truncated has no last value, or one has no end.
    """
    advantages = np.zeros(len(chosen))
    following = 0.0
    for i in range(len(chosen) - 1, -1, -1):
        row = int(chosen[i])
        episode = int(rows.episode[row])
        if i + 1 < len(chosen) and rows.episode[chosen[i + 1]] == episode:
            next_value = values[i + 1]
        else:
            following = 0.0
            next_value = _last_value(rows, row, episode, last_values)
        delta = rows.rewards[row] + gamma * next_value - values[i]
        advantages[i] = following = delta + gamma * gae_lambda * following
    return advantages, advantages + values


def _last_value(rows: StepRows, row: int, episode: int, last_values: dict[int, float]) -> float:
    if rows.terminated[row]:
        return 0.0
    if rows.truncated[row] and episode in last_values:
        return last_values[episode]
    raise ValueError(
        f"the last step of an episode must be terminated, or truncated with a prompt of the state it led to, but "
        f"episode {episode} is neither; mask it out, or give StepRows(last_prompts=)"
    )


def normalised(advantages: np.ndarray) -> np.ndarray:
    """Centre, and divide by the standard deviation; equal values become 0."""
    centred = advantages - advantages.mean()
    deviation = centred.std()
    return centred / deviation if deviation > _TINY else np.zeros_like(centred)


def explained_variance(values: np.ndarray, returns: np.ndarray) -> float:
    """1 - Var(returns - values) / Var(returns); NaN where the returns are all equal."""
    variance = returns.var()
    return float(1.0 - (returns - values).var() / variance) if variance > _TINY else float("nan")
