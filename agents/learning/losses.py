"""The terms of the policy's loss, each a sum over response tokens or over step rows.

B rows, R response tokens at most. A sum over a micro-batch is divided by the tokens or rows of its whole minibatch, so
that the loss does not depend on how the minibatch was split.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

RATIOS = ("token", "sequence")
"""What the importance ratio belongs to."""


@dataclass(frozen=True)
class Surrogate:
    """The clipped policy loss of some rows, and what to log about its ratio."""

    loss: Tensor  # scalar
    ratio_sum: Tensor  # scalar, no gradient, as the others
    ratio_max: Tensor  # 0 where there is no ratio
    clipped: Tensor  # how many ratios had their gradient cut


def row_means(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of each row's masked values, (B,); 0 where there is none."""
    return (values * mask).sum(1) / mask.sum(1).clamp(min=1)


def reduce(values: Tensor, mask: Tensor, ratio: str) -> Tensor:
    """Sum (B, R) over all response tokens ("token"), or its row means over the rows ("sequence")."""
    return (values * mask).sum() if ratio == "token" else row_means(values, mask).sum()


def surrogate(
    log_probs: Tensor,
    old_log_probs: Tensor,
    mask: Tensor,
    advantages: Tensor,
    clip_low: float,
    clip_high: float,
    ratio: str,
) -> Surrogate:
    """PPO's clipped loss: the sum of -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A).

    "token" has a ratio r = exp(log_prob - old) per token (Schulman et al., arXiv 1707.06347; GRPO, arXiv 2402.03300),
    "sequence" one per row, the geometric mean of those of its tokens (GSPO, arXiv 2507.18071; GRAFT).

    Args:
        log_probs: (B, R), with gradient.
        old_log_probs: (B, R), of the policy that the steps were made with.
        mask: bool (B, R), the response's tokens.
        advantages: (B,), one per row, for all its tokens and no other's.
        clip_low, clip_high: How far below and above 1 a ratio still has a gradient.
        ratio: One of `RATIOS`.
    """
    shift = torch.where(mask, log_probs - old_log_probs, 0.0)
    if ratio == "token":
        ratios, weight, scale = shift.exp(), advantages[:, None], mask
    else:
        ratios, weight, scale = row_means(shift, mask).exp(), advantages, mask.any(1)
    bounded = ratios.clamp(1.0 - clip_low, 1.0 + clip_high)
    gains = torch.minimum(ratios * weight, bounded * weight)
    with torch.no_grad():
        clipped = ((bounded * weight < ratios * weight) & scale).sum()
        ratio_sum = torch.where(scale, ratios, 0.0).sum()
        ratio_max = torch.where(scale, ratios, 0.0).max() if ratios.numel() else ratios.new_zeros(())
    return Surrogate(-torch.where(scale, gains, 0.0).sum(), ratio_sum, ratio_max, clipped)


def kl_penalty(log_probs: Tensor, reference_log_probs: Tensor, mask: Tensor) -> Tensor:
    """The low-variance estimate k3 of KL(policy || reference) at each token: exp(d) - d - 1, d = reference - policy.

    (J. Schulman, "Approximating KL divergence", 2020.) At least 0. Arguments and result (B, R), 0 outside the mask.
    """
    shift = torch.where(mask, reference_log_probs - log_probs, 0.0)
    return torch.expm1(shift) - shift


def value_loss(values: Tensor, returns: Tensor) -> Tensor:
    """Half the squared error of the critic, summed over the rows, (B,) each."""
    return 0.5 * (values - returns).square().sum()
