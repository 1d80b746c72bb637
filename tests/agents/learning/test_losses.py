"""The terms of the policy's loss, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from graphwrap.agents.learning.losses import kl_penalty, reduce, surrogate, value_loss

pytestmark = pytest.mark.llm

MASK = torch.tensor([[True, True, True], [True, False, False]])
# Ratios 1.5, 0.5, 1.1 and 2; what stands where padded is never read.
OLD = torch.tensor([[-1.0, -2.0, -3.0], [-1.0, math.nan, 7.0]], dtype=torch.float64)
RATIOS = torch.tensor([[1.5, 0.5, 1.1], [2.0, 3.0, 4.0]], dtype=torch.float64)


def new_log_probs() -> torch.Tensor:
    return (torch.where(MASK, OLD, 0.0) + RATIOS.log()).requires_grad_()


def test_token_ratios_are_clipped_where_that_is_the_worse() -> None:
    new = new_log_probs()
    result = surrogate(new, OLD, MASK, torch.tensor([2.0, -1.0]).double(), 0.2, 0.3, "token")
    # min(1.5, 1.3) 2, min(0.5, 0.8) 2, 1.1 * 2; and min(2 * -1, 1.3 * -1).
    assert result.loss.item() == pytest.approx(-(2.6 + 1.0 + 2.2 - 2.0), rel=1e-12)
    result.loss.backward()
    assert new.grad is not None
    expected = torch.tensor([[0.0, -1.0, -2.2], [2.0, 0.0, 0.0]], dtype=torch.float64)
    assert torch.allclose(new.grad, expected, rtol=1e-12, atol=0)
    assert result.clipped.item() == 1
    assert result.ratio_sum.item() == pytest.approx(5.1, rel=1e-12)
    assert result.ratio_max.item() == pytest.approx(2.0, rel=1e-12)


def test_a_sequence_has_the_geometric_mean_of_its_tokens_ratios() -> None:
    new = new_log_probs()
    result = surrogate(new, OLD, MASK, torch.tensor([2.0, -1.0]).double(), 0.2, 0.3, "sequence")
    mean = (1.5 * 0.5 * 1.1) ** (1 / 3)
    assert result.loss.item() == pytest.approx(-(2 * mean - 2.0), rel=1e-12)
    result.loss.backward()
    assert new.grad is not None
    third = -2 * mean / 3
    expected = torch.tensor([[third, third, third], [2.0, 0.0, 0.0]], dtype=torch.float64)
    assert torch.allclose(new.grad, expected, rtol=1e-12, atol=0)
    assert result.clipped.item() == 0
    assert result.ratio_sum.item() == pytest.approx(mean + 2.0, rel=1e-12)


@pytest.mark.parametrize("ratio", ["token", "sequence"])
@pytest.mark.parametrize(("advantage", "clipped"), [(1.0, True), (-1.0, False)])
def test_a_ratio_below_the_range_is_cut_for_bad_steps_only(
    ratio: str, advantage: float, clipped: bool
) -> None:
    old = torch.zeros(1, 1, dtype=torch.float64)
    new = torch.full_like(old, math.log(0.5)).requires_grad_()
    weight = torch.tensor([-advantage]).double()
    result = surrogate(new, old, torch.ones(1, 1, dtype=torch.bool), weight, 0.2, 0.3, ratio)
    result.loss.backward()
    assert new.grad is not None
    assert result.clipped.item() == clipped
    assert new.grad.item() == (0.0 if clipped else pytest.approx(-0.5))


def test_k3_and_its_gradient() -> None:
    new = torch.tensor([[-1.0, -2.0, 0.0]], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([[-1.5, -2.0, math.inf]], dtype=torch.float64)
    mask = torch.tensor([[True, True, False]])
    penalty = kl_penalty(new, reference, mask)
    assert penalty.tolist() == [[pytest.approx(math.exp(-0.5) + 0.5 - 1, rel=1e-12), 0.0, 0.0]]
    penalty.sum().backward()
    assert new.grad is not None
    assert new.grad.tolist() == [[pytest.approx(1 - math.exp(-0.5), rel=1e-12), 0.0, 0.0]]


def test_token_sums_and_sequence_means() -> None:
    values = torch.tensor([[1.0, 2.0, 6.0], [5.0, 100.0, 100.0]])
    assert reduce(values, MASK, "token").item() == 14.0
    assert reduce(values, MASK, "sequence").item() == 3.0 + 5.0


@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_a_row_without_a_token_counts_for_nothing(ratio: str) -> None:
    new = torch.zeros(1, 2, requires_grad=True)
    result = surrogate(new, new.detach(), torch.zeros(1, 2, dtype=torch.bool), torch.ones(1), 0.2, 0.2, ratio)
    result.loss.backward()
    assert new.grad is not None
    assert [result.loss.item(), result.ratio_sum.item(), result.clipped.item()] == [0.0, 0.0, 0]
    assert new.grad.tolist() == [[0.0, 0.0]]


def test_value_loss() -> None:
    assert value_loss(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 5.0])).item() == 0.5 * (1 + 9)
