import copy

import numpy as np
import pytest
import torch
from transformers import GenerationConfig

from graphwrap.agents.engines.base import Sampling
from graphwrap.agents.engines.local import TransformersEngine, choose
from graphwrap.agents.policy import Policy
from graphwrap.agents.settings import LoraSettings
from tests.agents.policies import ARCHITECTURES, alone, make_policy, make_rows, move

pytestmark = pytest.mark.llm


def batch_sizes(policy):
    """The list to which each call of the model adds the shape of its input."""
    shapes = []
    policy.model.register_forward_pre_hook(
        lambda _module, _args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    return shapes


@pytest.mark.parametrize("temperature", [0.4, 1.0, 1.7])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_log_probs_are_the_trainers_at_any_temperature(architecture, temperature):
    policy = make_policy(architecture)
    prompts, _ = make_rows(policy, 24, longest=20)
    prompts += prompts[:8]

    answers = TransformersEngine(policy, max_batch=9).generate(prompts, Sampling(temperature, 8, seed=3))

    responses = [answer.token_ids for answer in answers]
    result = policy.evaluate(prompts, responses, temperature).log_probs.detach().numpy()
    assert len(set(map(len, responses))) > 1
    for row, answer in enumerate(answers):
        assert answer.log_probs.dtype == np.float32
        assert answer.log_probs.shape == (len(answer.token_ids),)
        np.testing.assert_allclose(answer.log_probs, result[row, : len(answer.token_ids)], atol=1e-5)
        full, _ = alone(policy.model, prompts[row], answer.token_ids, temperature)
        single = full[torch.arange(len(answer.token_ids)), torch.tensor(answer.token_ids)]
        np.testing.assert_allclose(answer.log_probs, single.detach().numpy(), atol=1e-5)


def test_with_a_seed_each_answers_do_not_depend_on_their_places():
    policy = make_policy()
    prompts, _ = make_rows(policy, 12, longest=20)
    engine, seeds = TransformersEngine(policy, max_batch=5), tuple(range(12))
    answers = [answer.token_ids for answer in engine.generate(prompts, Sampling(1.0, 6, seeds=seeds))]
    turned = engine.generate(prompts[::-1], Sampling(1.0, 6, seed=9, first=3, seeds=seeds[::-1]))
    assert [answer.token_ids for answer in turned[::-1]] == answers
    (alone_,) = engine.generate(prompts[7:8], Sampling(1.0, 6, seeds=(7,)))
    assert alone_.token_ids == answers[7]
    equal = engine.generate(prompts[:1] * 12, Sampling(1.0, 6, seeds=seeds))
    assert len({answer.token_ids for answer in equal}) > 6
    with pytest.raises(ValueError, match="a seed per prompt, 12, got 3 seeds"):
        engine.generate(prompts, Sampling(1.0, 6, seeds=(1, 2, 3)))


def test_tokens_are_drawn_from_the_distribution():
    policy = make_policy(spread=0.12)
    prompt, count = (5, 9, 12, 4), 6000

    answers = TransformersEngine(policy, max_batch=1000).generate([prompt] * count, Sampling(0.8, 2, seed=1))

    first = np.array([answer.token_ids[0] for answer in answers])
    full, _ = alone(policy.model, prompt, [0], 0.8)
    chances = full[0].exp().detach().numpy()
    seen = np.bincount(first, minlength=len(chances)) / count
    assert (chances > 0.02).sum() > 5
    np.testing.assert_array_less(np.abs(seen - chances), 5 * np.sqrt(chances * (1 - chances) / count) + 1e-9)
    likeliest = int(np.argmax(np.where(np.arange(len(chances)) == 1, 0, chances)))
    second = np.array([answer.token_ids[1] for answer in answers if answer.token_ids[0] == likeliest])
    full, _ = alone(policy.model, [*prompt, likeliest], [0], 0.8)
    chances = full[0].exp().detach().numpy()
    seen = np.bincount(second, minlength=len(chances)) / len(second)
    np.testing.assert_array_less(
        np.abs(seen - chances), 5 * np.sqrt(chances * (1 - chances) / len(second)) + 1e-9
    )


def test_answers_do_not_depend_on_how_prompts_are_batched():
    policy = make_policy()
    prompts, _ = make_rows(policy, 30, longest=25)
    prompts += prompts[:6]
    sampling = Sampling(1.0, 6, seed=8)

    answers = [
        [
            answer.token_ids
            for answer in TransformersEngine(policy, max_batch=size).generate(prompts, sampling)
        ]
        for size in (1, 5, 256)
    ]

    assert answers[0] == answers[1] == answers[2]
    assert len(set(answers[0])) > 20


def test_the_seed_alone_decides_and_global_generators_are_left():
    policy = make_policy()
    engine = TransformersEngine(policy)
    prompts, _ = make_rows(policy, 10)
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)

    first, same, other = (
        [answer.token_ids for answer in engine.generate(prompts, Sampling(1.0, 6, seed))]
        for seed in (4, 4, 5)
    )

    assert torch.equal(torch.rand(1), expected)
    assert first == same != other


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_temperature_zero_takes_the_likeliest_token(architecture):
    policy = make_policy(architecture)
    prompts, _ = make_rows(policy, 6)

    answers = TransformersEngine(policy).generate(prompts, Sampling(0.0, 6))

    for prompt, answer in zip(prompts, answers):
        expected = policy.model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=6,
        )
        assert list(answer.token_ids) == expected[0, len(prompt) :].tolist()
        assert (answer.log_probs == 0).all()


def test_an_answer_ends_with_any_id_that_ends_answers():
    policy = make_policy(spread=0.01)
    policy.model.generation_config = GenerationConfig(eos_token_id=[7, 8])
    policy = Policy(policy.model, policy.tokenizer)
    policy.pad_id = 7  # ends an answer and fills padding
    assert policy.eos_ids == (1, 7, 8)

    answers = TransformersEngine(policy).generate(make_rows(policy, 200)[0], Sampling(1.0, 12))

    assert {answer.token_ids[-1] for answer in answers if answer.finished} == {1, 7, 8}
    for answer in answers:
        assert not {1, 7, 8} & set(answer.token_ids[:-1])
        assert answer.finished == (answer.token_ids[-1] in (1, 7, 8))
        assert answer.finished or len(answer.token_ids) == 12
    assert not all(answer.finished for answer in answers)


def test_equal_prompts_are_computed_once_and_answered_differently():
    policy = make_policy()
    shapes = batch_sizes(policy)

    answers = TransformersEngine(policy).generate([(5, 6, 7), (8, 9)] * 10, Sampling(1.5, 3))

    assert shapes[:2] == [(2, 3), (20, 1)]
    assert len({answer.token_ids for answer in answers[::2]}) > 1


def test_prompts_that_come_later_are_drawn_as_if_the_earlier_ones_were_there():
    policy = make_policy(spread=0.12)
    prompts = make_rows(policy, 20)[0]
    engine = TransformersEngine(policy)

    together = engine.generate(prompts, Sampling(1.0, 6, seed=3))
    apart = engine.generate(prompts[7:], Sampling(1.0, 6, seed=3, first=7))

    assert [answer.token_ids for answer in apart] == [answer.token_ids for answer in together[7:]]


def test_rows_that_ended_leave_the_batch():
    policy = make_policy(spread=0.01)
    policy.eos_ids = tuple(range(8))  # about a third of the tokens end an answer
    shapes = batch_sizes(policy)
    prompts = make_rows(policy, 64, longest=3)[0]

    answers = TransformersEngine(policy).generate(prompts, Sampling(1.0, 30))

    longest = max(len(answer.token_ids) for answer in answers)
    sizes = [rows for rows, _ in shapes]
    assert len(sizes) == longest  # nothing is computed after the last end
    running = [sum(len(answer.token_ids) > step for answer in answers) for step in range(longest)]
    assert all(size <= max(1, active / 0.75) for size, active in zip(sizes[1:], running[1:]))
    assert sizes[-1] < 8


def test_prompts_of_like_length_go_together():
    policy = make_policy()
    shapes = batch_sizes(policy)
    prompts = [tuple(range(4, 4 + length)) for length in (3, 15, 4, 14, 3, 15)]

    TransformersEngine(policy, max_batch=3).generate(prompts, Sampling(1.0, 1))

    assert shapes == [(2, 4), (2, 15)]


def test_no_prompts_have_no_answers():
    assert TransformersEngine(make_policy()).generate([], Sampling()) == []


@pytest.mark.parametrize(
    ("prompts", "sampling", "message"),
    [
        ([[5], []], Sampling(max_tokens=2), "prompt 1 has none"),
        ([[5]], Sampling(-0.1, 2), "at least 0, got -0.1"),
        ([[5]], Sampling(1.0, 0), "at least 1, got 0"),
        ([[5], [6] * 60], Sampling(1.0, 5), "at most 64 tokens in this model, prompt 1 has 60"),
    ],
)
def test_what_generate_refuses(prompts, sampling, message):
    with pytest.raises(ValueError, match=message):
        TransformersEngine(make_policy()).generate(prompts, sampling)


def test_a_batch_of_none_is_refused():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        TransformersEngine(make_policy(), max_batch=0)


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=4)])
def test_changed_weights_act_at_once(lora):
    policy = make_policy(lora=lora)
    engine = TransformersEngine(policy)
    prompts, _ = make_rows(policy, 12)
    engine.generate(prompts, Sampling(1.0, 6))
    move(policy)

    engine.update(policy)
    answers = engine.generate(prompts, Sampling(1.0, 6))

    result = (
        policy.evaluate(prompts, [answer.token_ids for answer in answers], 1.0).log_probs.detach().numpy()
    )
    for row, answer in enumerate(answers):
        np.testing.assert_allclose(answer.log_probs, result[row, : len(answer.token_ids)], atol=1e-5)


def test_another_policy_is_refused():
    policy = make_policy()
    with pytest.raises(ValueError, match="make a new engine"):
        TransformersEngine(policy).update(copy.copy(policy))


def test_a_policy_with_gradient_checkpointing_generates_the_same():
    policy = make_policy()
    prompts, _ = make_rows(policy, 8)
    before = TransformersEngine(policy).generate(prompts, Sampling(1.0, 6))
    policy.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    policy = Policy(policy.model, policy.tokenizer)
    policy.evaluate(prompts, [answer.token_ids for answer in before], 1.0).log_probs.sum().backward()

    after = TransformersEngine(policy).generate(prompts, Sampling(1.0, 6))

    assert [answer.token_ids for answer in before] == [answer.token_ids for answer in after]


def test_broken_weights_are_an_error():
    policy = make_policy()
    with torch.no_grad():
        policy.model.lm_head.weight[3] = torch.nan
    for temperature in (0.0, 1.0):
        with pytest.raises(FloatingPointError, match="not finite"):
            TransformersEngine(policy).generate([[5, 6]], Sampling(temperature, 2))


def test_choose_takes_the_token_whose_share_holds_the_draw():
    logits = torch.log(torch.tensor([[0.2, 0.0, 0.5, 0.3]])).expand(6, 4)
    draws = torch.tensor([0.0, 0.1999, 0.2001, 0.6999, 0.7001, 1 - 2**-53], dtype=torch.float64)

    chosen, log_probs = choose(logits, 1.0, draws)

    assert chosen.tolist() == [0, 0, 2, 2, 3, 3]
    np.testing.assert_allclose(log_probs.exp(), [0.2, 0.2, 0.5, 0.5, 0.3, 0.3], atol=1e-6)
