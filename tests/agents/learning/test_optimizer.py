"""The learning rate over a run, and steps."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from graphwrap.agents.learning.optimizer import Optimizer, rate_factor
from graphwrap.agents.settings import PPOSettings

pytestmark = pytest.mark.llm


@pytest.mark.parametrize(
    ("schedule", "warmup", "expected"),
    [
        ("constant", 0, [1, 1, 1, 1]),
        ("constant", 2, [1 / 3, 2 / 3, 1, 1]),
        ("linear", 0, [1, 0.75, 0.5, 0.25]),
        ("linear", 2, [1 / 3, 2 / 3, 1, 0.5]),
        ("cosine", 0, [1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125)]),
        ("linear", 9, [0.1, 0.2, 0.3, 0.4]),
    ],
)
def test_rates(schedule: str, warmup: int, expected: list[float]) -> None:
    settings = PPOSettings(learning_rate=2.0, schedule=schedule, warmup=warmup)
    assert [rate_factor(settings, update, 4) for update in range(4)] == pytest.approx(expected, rel=1e-12)
    optimizer = Optimizer([nn.Parameter(torch.zeros(1))], settings, 4)
    assert optimizer.begin(1) == pytest.approx(2 * expected[1], rel=1e-12)


def test_a_step_is_adamw_on_the_clipped_gradient() -> None:
    own, other = (nn.Parameter(torch.tensor([1.0, -2.0])) for _ in range(2))
    optimizer = Optimizer([own], PPOSettings(learning_rate=0.1, max_grad_norm=1.0), 3)
    reference = torch.optim.AdamW([other], lr=0.1, weight_decay=0.0)
    for gradient in ([3.0, 4.0], [0.3, 0.4]):
        optimizer.begin(0)
        own.grad = torch.tensor(gradient)
        norm = math.hypot(*gradient)
        other.grad = own.grad / max(norm, 1.0)
        assert optimizer.step() == pytest.approx(norm)
        reference.step()
        assert own.grad is None
        assert own.tolist() == pytest.approx(other.tolist(), rel=1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_makes_no_step(bad: float) -> None:
    weight = nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = Optimizer([weight], PPOSettings(learning_rate=0.1), 3)
    weight.grad = torch.tensor([bad, 1.0])
    assert not math.isfinite(optimizer.step())
    assert weight.tolist() == [1.0, -2.0]
    assert weight.grad is None
    assert not optimizer.state_dict()["state"]


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="got none"):
        Optimizer([], PPOSettings(), 3)
    with pytest.raises(ValueError, match=r"constant, linear, cosine, got 'step'"):
        Optimizer([nn.Parameter(torch.zeros(1))], PPOSettings(schedule="step"), 3)
    with pytest.raises(ValueError, match=r"must be float32, got torch\.bfloat16"):
        Optimizer([nn.Parameter(torch.zeros(1, dtype=torch.bfloat16))], PPOSettings(), 3)
