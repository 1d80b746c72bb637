"""The policy update, against a computation of its own."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from graphwrap.agents.playing.rows import StepRows
from graphwrap.agents.policy import Policy
from graphwrap.agents.ppo import PPO
from graphwrap.agents.settings import CRITIC, Settings
from tests.agents.talk import small_policy, small_settings

pytestmark = pytest.mark.llm

PROMPTS = [(5, 6, 7, 8), (9,), (10, 11)]
RESPONSES = [(4, 12), (4, 13, 5, 1), (1,)]
ADVANTAGES = [1.5, -0.7, 0.4]


def make_rows(
    prompts: Sequence[tuple[int, ...]] = PROMPTS,
    responses: Sequence[tuple[int, ...]] = RESPONSES,
    advantages: Sequence[float] = ADVANTAGES,
    **columns: Any,
) -> StepRows:
    count = len(prompts)
    usual: dict[str, Any] = {
        "log_probs": [np.full(len(tokens), -2.0, np.float32) for tokens in responses],
        "mask": np.ones(count, np.bool_),
        "rewards": np.zeros(count),
        "terminated": np.ones(count, np.bool_),
        "truncated": np.zeros(count, np.bool_),
        "valid": np.ones(count, np.bool_),
        "episode": np.arange(count),
        "step": np.zeros(count, np.int64),
    }
    return StepRows(list(prompts), list(responses), advantages=np.array(advantages), **{**usual, **columns})


def random_rows(count: int, seed: int = 0) -> StepRows:
    rng = np.random.default_rng(seed)
    prompts = [tuple(rng.integers(4, 14, rng.integers(1, 6)).tolist()) for _ in range(count)]
    responses = [tuple(rng.integers(4, 14, rng.integers(1, 4)).tolist()) for _ in range(count)]
    return make_rows(prompts, responses, rng.normal(size=count).tolist())


def weights(policy: Policy) -> list[Tensor]:
    return [weight.detach().clone() for weight in policy.parameters()]


def same(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


# The loss, written down a second time: row by row, token by token, without padding, in float64.


def log_softmax(model: Any, prompt: tuple[int, ...], response: tuple[int, ...], temperature: float) -> Tensor:
    """float64 (response tokens, vocabulary)."""
    logits = model(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
    scaled = logits / temperature
    return scaled - scaled.exp().sum(-1, keepdim=True).log()


def token_log_probs(model: Any, temperature: float) -> list[Tensor]:
    return [
        log_softmax(model, prompt, response, temperature)[range(len(response)), list(response)]
        for prompt, response in zip(PROMPTS, RESPONSES)
    ]


def clipped(ratio: Tensor, advantage: float, settings: Settings) -> Tensor:
    low, high = 1 - settings.ppo.clip_low, 1 + settings.ppo.clip_high
    if advantage > 0 and ratio > high:
        return torch.tensor(high * advantage, dtype=torch.float64)
    if advantage < 0 and ratio < low:
        return torch.tensor(low * advantage, dtype=torch.float64)
    return ratio * advantage


def hand_written_loss(model: Any, old: list[Tensor], reference: list[Tensor], settings: Settings) -> Tensor:
    temperature, of_tokens = settings.rollout.temperature, settings.ppo.ratio == "token"
    per_row, lengths = [], [len(response) for response in RESPONSES]
    for row, (prompt, response) in enumerate(zip(PROMPTS, RESPONSES)):
        full = log_softmax(model, prompt, response, temperature)
        terms, ratios = [], []
        for token, (name, before, there) in enumerate(zip(response, old[row], reference[row])):
            log_prob = full[token, name]
            ratios.append(torch.exp(log_prob - before))
            term = settings.ppo.kl * (torch.exp(there - log_prob) - (there - log_prob) - 1)
            term = term + settings.ppo.entropy * sum(p.exp() * p for p in full[token])
            if of_tokens:
                term = term - clipped(ratios[-1], ADVANTAGES[row], settings)
            terms.append(term)
        total = sum(terms)
        if of_tokens:
            per_row.append(total / sum(lengths))
        else:
            mean = math.prod(ratios) ** (1 / len(response))
            per_row.append((total / len(response) - clipped(mean, ADVANTAGES[row], settings)) / len(lengths))
    return sum(per_row)  # type: ignore[return-value]


@pytest.mark.parametrize("budget", [1, 9, 1000])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_loss_and_gradients_are_those_of_a_hand_written_computation(
    ratio: str, temperature: float, budget: int
) -> None:
    settings = small_settings()
    settings.rollout.temperature = temperature
    ppo_settings = settings.ppo
    ppo_settings.ratio, ppo_settings.tokens_per_batch = ratio, budget
    ppo_settings.kl, ppo_settings.entropy = 0.3, 0.2
    ppo_settings.clip_low, ppo_settings.clip_high = (0.2, 0.3) if ratio == "token" else (0.02, 0.03)
    ppo_settings.epochs = 2  # in the second, ratios are not 1
    policy = double_policy(settings)
    shift(policy, 0)
    policy.freeze_reference()
    with torch.no_grad():
        reference = token_log_probs(policy.base, temperature)
        shift(policy, 1)
        old = token_log_probs(policy.base, temperature)
    ppo = PPO(policy, settings)
    taken: list[tuple[Any, list[Tensor]]] = []

    def step() -> float:
        """Note the model and its gradient, and go elsewhere."""
        taken.append((copy.deepcopy(policy.base), [weight.grad.clone() for weight in policy.parameters()]))
        ppo.optimizer.forget()
        shift(policy, 2)
        return 1.0

    ppo.optimizer.step = step  # type: ignore[method-assign]
    metrics = ppo.update(make_rows(), 0)

    losses = []
    for model, gradients in taken:
        loss = hand_written_loss(model, old, reference, settings)
        own = torch.autograd.grad(loss, list(model.parameters()))
        for mine, theirs in zip(gradients, own, strict=True):
            assert torch.allclose(mine, theirs, rtol=1e-9, atol=1e-13)
            assert theirs.abs().max() > 0
        losses.append(loss.item())
    assert len(losses) == 2
    assert metrics["loss"] == pytest.approx(np.mean(losses), rel=1e-11)
    assert 0 < metrics["clip_fraction"] < 1
    check_slope(*taken[1], old, reference, settings)


def double_policy(settings: Settings, critic: bool = False) -> Policy:
    """A Llama that computes in float64 all through; transformers' own norm does so in float32."""
    loaded = small_policy(settings)
    for layer in loaded.model.modules():
        for name, norm in list(layer.named_children()):
            if isinstance(norm, LlamaRMSNorm):
                own = torch.nn.RMSNorm(norm.weight.shape, norm.variance_epsilon)
                setattr(layer, name, own)
    policy = Policy(loaded.model.double(), loaded.tokenizer, torch.float64, critic)
    if policy.value_head is not None:
        policy.value_head.double()
    return policy


def shift(policy: Policy, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in policy.parameters():
            weight += 0.05 * torch.randn(weight.shape, generator=generator, dtype=torch.float64)


def check_slope(
    model: Any, gradients: list[Tensor], old: list[Tensor], reference: list[Tensor], settings: Settings
) -> None:
    """The gradient along a random direction is the loss's slope there."""
    generator = torch.Generator().manual_seed(3)
    direction = [torch.randn(part.shape, generator=generator, dtype=torch.float64) for part in gradients]
    ends = []
    with torch.no_grad():
        for step in (1e-6, -2e-6):
            for weight, part in zip(model.parameters(), direction):
                weight += step * part
            ends.append(hand_written_loss(model, old, reference, settings).item())
    slope = sum((mine * part).sum().item() for mine, part in zip(gradients, direction))
    assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(slope, rel=1e-5)


def test_the_critics_gradient_is_that_of_its_squared_error() -> None:
    settings = small_settings()
    settings.credit.name, settings.ppo.kl, settings.ppo.value = CRITIC, 0.0, 0.3
    settings.ppo.tokens_per_batch = 1
    settings.ppo.epochs = 1
    policy = double_policy(settings, critic=True)
    shift(policy, 0)
    ppo = PPO(policy, settings)
    seen: list[list[Tensor]] = []
    ppo.optimizer.step = lambda: seen.append([w.grad.clone() for w in policy.parameters()]) or 1.0  # type: ignore[method-assign,func-returns-value]
    rows = make_rows(
        rewards=np.array([1.0, 0.0, 2.0]),
        terminated=np.array([True, False, False]),
        truncated=np.array([False, False, True]),
        episode=np.array([0, 1, 1]),
        last_prompts={1: (7, 9)},
    )
    metrics = ppo.update(rows, 0)

    def value(prompt: tuple[int, ...]) -> Tensor:
        hidden = policy.base.model(torch.tensor([prompt])).last_hidden_state[0, -1]
        return policy.value_head(hidden)[0]  # type: ignore[misc]

    values = [value(prompt) for prompt in PROMPTS]
    with torch.no_grad():
        gamma, decay = settings.credit.gamma, settings.credit.gamma * settings.credit.gae_lambda
        last = 2.0 + gamma * value((7, 9)) - values[2]
        first = 0.0 + gamma * values[2] - values[1] + decay * last
        advantages = torch.stack([1.0 - values[0], first, last])
        returns = advantages + torch.stack(values)
        weight = (advantages - advantages.mean()) / advantages.std(correction=0)
    assert rows.advantages.tolist() == pytest.approx(weight.tolist(), rel=1e-9)
    log_probs = token_log_probs(policy.base, 1.0)
    ratio = sum((torch.exp(own - own.detach()) * a).sum() for own, a in zip(log_probs, weight))
    squared = 0.5 * sum((own - wanted) ** 2 for own, wanted in zip(values, returns)) / 3
    loss = -ratio / sum(map(len, RESPONSES)) + 0.3 * squared
    for mine, theirs in zip(seen[0], torch.autograd.grad(loss, policy.parameters()), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-9, atol=1e-13)
    assert metrics["loss"] == pytest.approx(loss.item(), rel=1e-9)
    assert metrics["value_loss"] == pytest.approx(squared.item(), rel=1e-9)


@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_ratios_are_exactly_one_while_the_weights_are_equal(ratio: str) -> None:
    settings = small_settings()
    settings.ppo.ratio, settings.rollout.temperature = ratio, 0.7
    settings.ppo.minibatch, settings.ppo.tokens_per_batch = 7, 20
    settings.ppo.learning_rate = 1e-30  # too small to change a weight
    metrics = PPO(small_policy(settings), settings).update(random_rows(24), 0)
    assert metrics["gradient_steps"] == 4
    assert metrics["ratio_mean"] == metrics["ratio_max"] == 1.0
    assert metrics["clip_fraction"] == 0.0
    assert metrics["kl"] == pytest.approx(0.0, abs=1e-12)


def test_good_answers_get_likelier_and_bad_ones_less_likely() -> None:
    settings = small_settings()
    settings.ppo.kl = 0.0
    policy = small_policy(settings, reference=False)
    with torch.no_grad():
        before = policy.evaluate(PROMPTS, RESPONSES, 1.0).log_probs.sum(1)
    PPO(policy, settings).update(make_rows(), 0)
    with torch.no_grad():
        after = policy.evaluate(PROMPTS, RESPONSES, 1.0).log_probs.sum(1)
    assert ((after > before) == torch.tensor(ADVANTAGES).gt(0)).all()


@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_a_last_minibatch_of_one_row_is_a_step(ratio: str) -> None:
    settings = small_settings()
    settings.ppo.minibatch, settings.ppo.ratio, settings.ppo.entropy = 4, ratio, 0.1
    policy = small_policy(settings)
    metrics = PPO(policy, settings).update(random_rows(5), 0)
    assert metrics["gradient_steps"] == 2
    assert metrics["skipped_steps"] == 0
    assert all(map(math.isfinite, metrics.values()))
    assert all(bool(weight.isfinite().all()) for weight in policy.parameters())


def test_rows_that_are_masked_out_never_enter() -> None:
    settings = small_settings()
    settings.ppo.minibatch = 2
    out_of_vocabulary = (10**6,)
    more = make_rows(
        [PROMPTS[0], out_of_vocabulary, *PROMPTS[1:]],
        [RESPONSES[0], out_of_vocabulary, *RESPONSES[1:]],
        [ADVANTAGES[0], math.nan, *ADVANTAGES[1:]],
        mask=np.array([True, False, True, True]),
    )
    found = []
    for rows in (make_rows(), more):
        policy = small_policy(settings)
        metrics = PPO(policy, settings).update(rows, 0)
        found.append((metrics, weights(policy)))
    assert found[0][0] == found[1][0]
    assert same(found[0][1], found[1][1])
    assert found[0][0]["trained_rows"] == 3
    assert found[0][0]["trained_tokens"] == 7


def test_without_a_row_nothing_is_done_and_that_is_said() -> None:
    settings = small_settings()
    policy = small_policy(settings)
    before = weights(policy)
    with pytest.warns(UserWarning, match="update 3 has no step to train on and is skipped"):
        metrics = PPO(policy, settings).update(make_rows(mask=np.zeros(3, np.bool_)), 3)
    assert same(before, weights(policy))
    assert metrics == {
        "gradient_steps": 0.0,
        "skipped_steps": 0.0,
        "trained_rows": 0.0,
        "trained_tokens": 0.0,
        "learning_rate": 0.01,
    }


def test_a_step_that_is_not_finite_is_skipped_and_counted() -> None:
    settings = small_settings()
    settings.ppo.minibatch = 1
    policy = small_policy(settings)
    rows = make_rows(advantages=[1.0, math.inf, 0.5])
    with pytest.warns(UserWarning, match="1 of 3 gradient steps of update 0 were skipped"):
        metrics = PPO(policy, settings).update(rows, 0)
    assert metrics["skipped_steps"] == 1
    assert metrics["gradient_steps"] == 2
    assert math.isfinite(metrics["loss"])
    assert all(bool(weight.isfinite().all()) for weight in policy.parameters())


@pytest.mark.parametrize("critic", [False, True])
def test_broken_weights_are_an_error(critic: bool) -> None:
    settings = small_settings()
    settings.credit.name = CRITIC if critic else "grpo"
    policy = small_policy(settings, critic=critic)
    with torch.no_grad():
        policy.parameters()[0].fill_(math.nan)
    before = weights(policy)
    with pytest.raises(FloatingPointError, match="its weights are broken"):
        PPO(policy, settings).update(make_rows(), 0)
    assert all(one.equal(other) or one.isnan().all() for one, other in zip(before, weights(policy)))


def test_drift_is_the_engines_distance_from_the_trainer() -> None:
    settings = small_settings()
    settings.ppo.kl = 0.0
    policy = small_policy(settings, reference=False)
    with torch.no_grad():
        evaluation = policy.evaluate(PROMPTS, RESPONSES, settings.rollout.temperature)
    own = [values[mask].numpy() for values, mask in zip(evaluation.log_probs, evaluation.mask)]
    engine = [values.copy() for values in own]
    engine[1][2] -= 0.5
    metrics = PPO(policy, settings).update(make_rows(log_probs=engine), 0)
    assert metrics["drift_max"] == pytest.approx(0.5, abs=1e-5)
    assert metrics["drift_mean"] == pytest.approx(0.5 / 7, abs=1e-5)
    assert metrics["engine_ratio"] == pytest.approx((6 + math.exp(0.5)) / 7, abs=1e-5)


def test_equal_seeds_give_equal_updates_and_others_do_not() -> None:
    settings = small_settings()
    settings.ppo.minibatch = 5
    found = []
    for seed in (0, 0, 1):
        settings.seed = seed
        policy = small_policy(settings)
        torch.manual_seed(len(found))  # global generators have no say
        metrics = PPO(policy, settings).update(random_rows(20), 2)
        found.append((json.dumps(metrics), weights(policy)))
    assert found[0][0] == found[1][0]
    assert same(found[0][1], found[1][1])
    assert not same(found[0][1], found[2][1])


def test_a_resumed_run_goes_on_alike() -> None:
    settings = small_settings()
    settings.ppo.minibatch, settings.ppo.schedule = 5, "cosine"
    policy = small_policy(settings)
    ppo = PPO(policy, settings)
    ppo.update(random_rows(20, 0), 0)
    saved, state = weights(policy), copy.deepcopy(ppo.state_dict())
    ppo.update(random_rows(20, 1), 1)

    other = small_policy(settings)
    with torch.no_grad():
        for weight, value in zip(other.parameters(), saved):
            weight.copy_(value)
    resumed = PPO(other, settings)
    resumed.load_state_dict(state)
    resumed.update(random_rows(20, 1), 1)
    assert same(weights(policy), weights(other))


def test_adapters_alone_are_trained_and_their_reference_is_the_model_without_them() -> None:
    settings = small_settings()
    settings.model.lora.rank, settings.ppo.epochs, settings.ppo.kl = 2, 3, 0.1
    policy = small_policy(settings, reference=False)
    frozen = {name: weight.clone() for name, weight in policy.model.named_parameters() if "lora" not in name}
    with torch.no_grad(), policy.reference():
        before = policy.evaluate(PROMPTS, RESPONSES, 1.0).log_probs
    ppo = PPO(policy, settings)
    ppo.update(make_rows(), 0)
    metrics = ppo.update(make_rows(), 1)
    assert metrics["gradient_steps"] == 3
    assert metrics["kl"] > 1e-6
    for name, weight in policy.model.named_parameters():
        assert ("lora" in name) == (name not in frozen)
        assert name not in frozen or weight.equal(frozen[name])
    with torch.no_grad(), policy.reference():
        assert policy.evaluate(PROMPTS, RESPONSES, 1.0).log_probs.equal(before)


def test_what_is_refused() -> None:
    settings = small_settings()
    policy = small_policy(settings)
    settings.credit.name = CRITIC
    with pytest.raises(ValueError, match="needs a policy with a value head"):
        PPO(policy, settings)
    settings.credit.name = "grpo"
    with pytest.raises(ValueError, match=r"ppo\.kl=0\.01 needs a policy with a reference"):
        PPO(small_policy(settings, reference=False), settings)
    settings.ppo.ratio = "row"
    with pytest.raises(ValueError, match="token, sequence, got 'row'"):
        PPO(policy, settings)
