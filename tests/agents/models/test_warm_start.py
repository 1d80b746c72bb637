from collections import Counter
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch

from graphwrap.agents.engines.base import Sampling
from graphwrap.agents.engines.local import TransformersEngine
from graphwrap.agents.models.warm_start import prompts_of, random_walks, tiny_policy, vocabulary, warm_start
from graphwrap.agents.policy import Policy
from graphwrap.agents.prompting.answers import parse_action
from graphwrap.agents.prompts import Prompter, PromptTemplate
from graphwrap.agents.runs.config import load_settings
from graphwrap.agents.settings import PromptSettings
from graphwrap.envs.text import TextSokobanEnv
from tests.agents.own_env import KeyAndDoorEnv
from tests.agents.small_runs import SMALL

pytestmark = pytest.mark.llm

ACTIONS = ("up", "down", "left", "right")
SIZES = ("model.tiny.hidden=32", "model.tiny.layers=2", "model.tiny.intermediate=64", "model.tiny.heads=1")


def settings_of(*overrides):
    return load_settings("sokoban-tiny", [*SMALL, *SIZES, *overrides])


def make(env, template, settings, history=0, think=False):
    """Policy, prompter and states for a template of our own."""
    template = PromptTemplate(step=template, think=think)
    states = random_walks(env, 200, seed=3)
    texts = vocabulary(states, template, history)
    policy = Policy.load(settings.model, texts=texts, reference=True)
    return policy, Prompter(template, policy.tokenizer, PromptSettings(history=history)), states


def test_walks_are_episodes_of_admissible_actions():
    states = random_walks(KeyAndDoorEnv, 100, seed=1)

    assert len(states) == 100
    assert {state.task for state in states} == {"Open the door in the hall."}
    for before, state in pairwise(states):
        if state.step:
            assert state.step == before.step + 1 == len(state.history)
            assert state.history[:-1] == before.history
            assert state.history[-1].observation == before.observation
            assert state.history[-1].action in before.admissible
        else:
            assert state.history == ()
    assert sum(state.step == 0 for state in states) > 5


class _Guided(KeyAndDoorEnv):
    def reset(self, **kwargs):
        observation, info = super().reset(**kwargs)
        way = ["go left"] * (self.key - 1) if self.key else ["go right"]
        return observation, {**info, "walkthrough": ["go right"] * self.key + ["take key", *way, "open door"]}


class _Lost(_Guided):
    def reset(self, **kwargs):
        observation, info = super().reset(**kwargs)
        return observation, {**info, "walkthrough": info["walkthrough"][:-1]}


def test_guided_walks_follow_the_walkthrough():
    walks = []
    for state in random_walks(_Guided, 400, seed=1, guided=0.5):
        if not state.step:
            walks.append([])
        walks[-1].append(state)
    guided = [walk for walk in walks[:-1] if walk[0].taught]
    assert 0.3 < len(guided) / len(walks) < 0.7
    for walk in walks[:-1]:
        assert len({bool(state.taught) for state in walk}) == 1
    for walk in guided:
        assert [state.taught for state in walk[:-1]] == [turn.action for turn in walk[-1].history]
        assert walk[-1].taught == "open door"
    assert random_walks(_Guided, 100, 1) == random_walks(KeyAndDoorEnv, 100, 1)


def test_what_is_taught_is_the_only_answer():
    template = PromptTemplate(step="{observation}")
    states = random_walks(_Guided, 200, seed=3, guided=1.0)
    settings = settings_of()
    policy = Policy.load(settings.model, texts=vocabulary(states, template, 0))
    prompter = Prompter(template, policy.tokenizer, settings.prompt)
    losses = warm_start(policy, prompter, states, epochs=8, learning_rate=1e-2, max_tokens=5)
    # "There is a key" is answered with "take key" alone; other admissible actions are not taught.
    seen = [state for state in states if "a key" in state.observation]
    rows = [policy.tokenizer(f"<action>{action}</action>").input_ids for action in ("take key", "go right")]
    with torch.no_grad():
        chances = policy.evaluate(prompts_of(prompter, seen[:1]) * 2, rows, 1.0).log_probs.sum(1).exp()
    assert chances[0] > 0.8
    assert chances[1] < 0.1
    assert losses[-1] < losses[0]


def test_a_walkthrough_that_is_missing_or_leads_nowhere_is_refused():
    with pytest.raises(ValueError, match=r"needs info\['walkthrough'\] from reset"):
        random_walks(KeyAndDoorEnv, 10, 0, guided=1.0)
    with pytest.raises(ValueError, match="leads to the end by admissible actions"):
        random_walks(_Lost, 30, 0, guided=1.0)


def test_walks_follow_the_seed():
    assert random_walks(TextSokobanEnv, 60, 1) == random_walks(TextSokobanEnv, 60, 1)
    assert random_walks(TextSokobanEnv, 60, 1) != random_walks(TextSokobanEnv, 60, 2)


def test_the_vocabulary_is_that_of_prompts_and_answers():
    policy, prompter, states = make(
        KeyAndDoorEnv, "{task}\n{history}\n{observation}", settings_of(), 2, think=True
    )
    unknown = policy.tokenizer.unk_token_id
    assert not any(unknown in prompt for prompt in prompts_of(prompter, states))
    assert unknown not in policy.tokenizer("<think></think><action>take key</action>").input_ids


def test_afterwards_answers_are_valid_and_actions_uniform():
    settings = settings_of(
        "model.tiny.warm_start_rows=768",
        "model.tiny.warm_start_epochs=2",
        "model.tiny.warm_start_learning_rate=1.0e-2",
    )
    losses = []

    policy = tiny_policy(settings, TextSokobanEnv, report=lambda epoch, loss: losses.append((epoch, loss)))

    assert [epoch for epoch, _ in losses] == [0, 1]
    assert losses[0][1] > losses[1][1]
    assert losses[1][1] == pytest.approx(np.log(4) / 4, abs=0.02)  # one even choice in four tokens
    states = random_walks(partial(TextSokobanEnv, split="test"), 1000, seed=7)
    prompter = Prompter(PromptTemplate.load("tiny"), policy.tokenizer, settings.prompt)
    prompts = prompts_of(prompter, states)
    assert set(map(len, prompts)) == {37}
    answers = TransformersEngine(policy).generate(prompts, Sampling(1.0, 4, seed=2))
    parsed = [
        parse_action(prompter.decode(answer.token_ids), ACTIONS, finished=answer.finished, think=False)
        for answer in answers
    ]
    assert sum(one.valid for one in parsed) > 0.99 * len(parsed)
    counts = Counter(one.action for one in parsed if one.valid)
    assert all(abs(counts[action] / 1000 - 0.25) < 0.06 for action in ACTIONS)
    tag, *choices = policy.tokenizer("<action> up down left right").input_ids
    rows = [(prompt, (tag, choice)) for prompt in prompts[:50] for choice in choices]
    with torch.no_grad():
        chances = policy.evaluate(*map(list, zip(*rows)), 1.0).log_probs[:, 1].exp()
    assert chances.min() > 0.2
    assert chances.max() < 0.3


def test_the_seed_decides_every_weight():
    settings = settings_of("model.tiny.warm_start_rows=64", "model.tiny.warm_start_epochs=1")
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)

    first, same = (tiny_policy(settings, TextSokobanEnv).model.state_dict() for _ in range(2))

    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(first[name], same[name]) for name in first)
    settings.seed = 1
    other = tiny_policy(settings, TextSokobanEnv).model.state_dict()
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])


def test_what_goes_through_the_model_at_once_changes_rounding_alone():
    sizes = []

    def losses(tokens_per_batch):
        template = "{task}\n{history}\n{observation}"  # prompts of many lengths
        policy, prompter, states = make(KeyAndDoorEnv, template, settings_of(), 2)
        evaluate = policy.evaluate
        sizes.clear()

        def counted(prompts, responses, temperature):
            sizes.append(len(prompts))
            return evaluate(prompts, responses, temperature)

        policy.evaluate = counted
        told = warm_start(
            policy,
            prompter,
            states,
            epochs=2,
            learning_rate=1e-2,
            max_tokens=8,
            tokens_per_batch=tokens_per_batch,
        )
        return told, policy

    whole, policy = losses(16384)
    assert len(sizes) == 2 * -(-200 // 16)  # a batch of 16 states at once
    parts, other = losses(64)
    assert max(sizes) < 16
    assert parts == pytest.approx(whole, abs=1e-4)
    for name, weight in policy.model.named_parameters():
        assert torch.allclose(weight, other.model.get_parameter(name), atol=1e-3)


def test_the_reference_is_the_warm_policy():
    policy, prompter, states = make(TextSokobanEnv, "{observation}", settings_of())
    assert policy.has_reference
    warm_start(policy, prompter, states[:32], epochs=1, learning_rate=1e-2, max_tokens=4)

    prompts, answer = prompts_of(prompter, states[:4]), policy.tokenizer("<action> up").input_ids
    own = policy.evaluate(prompts, [answer] * 4, 1.0).log_probs.detach()
    with policy.reference():
        torch.testing.assert_close(policy.evaluate(prompts, [answer] * 4, 1.0).log_probs, own)


def test_answers_of_a_template_that_requires_thoughts():
    policy, prompter, states = make(KeyAndDoorEnv, "{observation}", settings_of(), think=True)

    losses = warm_start(policy, prompter, states, epochs=10, learning_rate=1e-2, max_tokens=7)

    prompts = prompts_of(prompter, states)
    answers = TransformersEngine(policy).generate(prompts, Sampling(1.0, 7))
    valid = [
        parse_action(
            prompter.decode(answer.token_ids), state.admissible, finished=answer.finished, think=True
        ).valid
        for answer, state in zip(answers, states)
    ]
    assert losses[-1] < losses[0]
    assert np.mean(valid) > 0.8


class _Silent(TextSokobanEnv):
    def reset(self, **kwargs):
        observation, info = super().reset(**kwargs)
        del info["admissible_actions"]
        return observation, info


class _Flaky(TextSokobanEnv):
    """Raises in every third step it makes, or in every reset."""

    steps = 0

    def __init__(self, in_reset=False):
        super().__init__()
        self.in_reset = in_reset

    def reset(self, **kwargs):
        if self.in_reset:
            raise FileNotFoundError("the simulator's file is gone")
        return super().reset(**kwargs)

    def step(self, action):
        _Flaky.steps += 1
        if _Flaky.steps % 3 == 0:
            raise KeyError("now and then")
        return super().step(action)


def test_crashes_of_the_environment_are_passed_over_until_there_is_nothing_else():
    states = random_walks(_Flaky, 40, seed=1)
    assert len(states) == 40
    assert max(state.step for state in states) <= 2
    with pytest.raises(
        RuntimeError, match=r"crashed in 10 episodes of the warm start: FileNotFoundError: the sim"
    ):
        random_walks(partial(_Flaky, in_reset=True), 40, seed=1)


def test_an_environment_without_admissible_actions_is_refused():
    with pytest.raises(ValueError, match="admissible"):
        random_walks(_Silent, 10, 0)


def test_answers_that_do_not_fit_are_refused_before_training():
    policy, prompter, states = make(TextSokobanEnv, "{observation}", settings_of())
    before = policy.model.lm_head.weight.detach().clone()
    with pytest.raises(ValueError, match=r"has 4 tokens, rollout.max_tokens is 3"):
        warm_start(policy, prompter, states, epochs=1, learning_rate=1e-2, max_tokens=3)
    assert torch.equal(policy.model.lm_head.weight, before)


def test_adapters_are_refused():
    settings = settings_of()
    settings.model.lora.rank = 2
    policy, prompter, states = make(TextSokobanEnv, "{observation}", settings)
    with pytest.raises(ValueError, match=r"lora\.rank=0"):
        warm_start(policy, prompter, states, epochs=1, learning_rate=1e-2, max_tokens=4)
