"""A short supervised phase on random actions: afterwards the format of answers is right, and skill is not there.

Where random actions never succeed, some walkthroughs among them make the agent succeed now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from graphwrap.agents.learning.minibatches import micro_batches
from graphwrap.agents.policy import Policy
from graphwrap.agents.prompting.answers import parse_action
from graphwrap.agents.prompts import Prompter, PromptTemplate, Turn
from graphwrap.agents.seeding import seed_of, sequence
from graphwrap.agents.settings import Settings
from graphwrap.envs.hosts import MakeEnv
from graphwrap.envs.pool import Crash, EnvPool
from graphwrap.envs.text import task_text

STREAM = "warm start"
BATCH = 16  # states per gradient step
ANSWERS = (
    4  # to a state, at most: different actions, so that the distribution that is learnt is even per state
)
MAX_GRAD_NORM = 1.0
_CRASHES = 10  # one after the other, without a state in between


@dataclass(frozen=True)
class State:
    """What an agent sees before a step."""

    task: str
    step: int  # steps made before
    history: tuple[Turn, ...]  # of all of them, oldest first
    observation: str
    admissible: tuple[str, ...]
    taught: str = ""  # the one action to answer with; empty: any admissible one


def random_walks(make_env: MakeEnv, count: int, seed: int, guided: float = 0.0) -> list[State]:
    """States of episodes played with uniformly random admissible actions, or along walkthroughs.

    Args:
        make_env: makes a text environment with admissible actions; it is made anew where it crashes.
        count: states.
        seed: of the tasks and the actions.
        guided: share of the episodes that follow info["walkthrough"] of their reset, a list of admissible actions; in
            them, `State.taught` is what it does.

    Raises:
        ValueError: the environment names no admissible actions, or no walkthrough that can be followed.
        RuntimeError: it cannot be made, or crashes in one reset after the other.
    """
    rng = np.random.default_rng(sequence(seed, STREAM, 0))
    states: list[State] = []
    episode = crashes = 0
    with EnvPool(make_env, 1) as pool:
        while len(states) < count:
            walked, crash = _walk(pool, seed_of(seed, STREAM, 1, episode), count - len(states), rng, guided)
            states += walked
            episode += 1
            crashes = crashes + 1 if crash and not walked else 0
            if crashes == _CRASHES:
                raise RuntimeError(
                    f"the environment crashed in {crashes} episodes of the warm start: {crash}"
                )
    return states


def _walk(
    pool: EnvPool, seed: int, count: int, rng: np.random.Generator, guided: float
) -> tuple[list[State], str]:
    """At most `count` states of an episode, and the error that broke it off or ""."""
    states: list[State] = []
    (seen,) = pool.reset([0], [seed])
    if isinstance(seen, Crash):
        return states, seen.error
    observation, info = seen.observation, seen.info
    task, over = task_text(info), False
    plan = _walkthrough(info) if guided and rng.random() < guided else None
    history: list[Turn] = []
    while not over and len(states) < count:
        admissible = tuple(info.get("admissible_actions") or ())
        if not admissible:
            raise ValueError(
                "a warm start answers with admissible actions, and info['admissible_actions'] of the environment "
                f"has none at step {len(history)}: add them, or train a model that knows the format"
            )
        if plan is None:
            taught, action = "", admissible[rng.integers(len(admissible))]
        else:
            taught = action = plan[len(history)] if len(history) < len(plan) else "(nothing more)"
            if action not in admissible:
                raise ValueError(
                    f"info['walkthrough'] leads to the end by admissible actions, got {plan!r}, of which number "
                    f"{len(history)} is not among {admissible!r}"
                )
        states.append(State(task, len(history), tuple(history), observation, admissible, taught))
        history.append(Turn(observation, action))
        (step,) = pool.step([0], [action])
        if isinstance(step, Crash):
            return states, step.error
        observation, info, over = step.observation, step.info, step.ended
    return states, ""


def _walkthrough(info: Mapping[str, Any]) -> list[str]:
    plan = info.get("walkthrough")
    if not plan:
        raise ValueError(
            "model.tiny.warm_start_guided needs info['walkthrough'] from reset, a list of actions that leads to "
            f"success, got {plan!r}: let the environment give one, or set it to 0"
        )
    return list(plan)


def prompts_of(prompter: Prompter, states: Iterable[State]) -> list[tuple[int, ...]]:
    """The token ids of the states' prompts."""
    return [
        prompter.encode(
            task=state.task,
            step=state.step,
            history=state.history,
            observation=state.observation,
            admissible=state.admissible,
        ).token_ids
        for state in states
    ]


def answer_text(action: str, think: bool) -> str:
    """An answer in the format that `parse_action` reads, without reasoning."""
    return f"{'<think></think>' if think else ''}<action>{action}</action>"


def vocabulary(states: Iterable[State], template: PromptTemplate, history: int) -> Iterator[str]:
    """The texts of prompts and answers in these states, for `build_tokenizer`.

    Args:
        states: of random walks.
        template: makes the prompts.
        history: turns in a prompt.
    """
    for state in states:
        for message in template.messages(
            task=state.task,
            step=state.step,
            history=state.history[max(0, len(state.history) - history) :],
            observation=state.observation,
            admissible=state.admissible,
        ):
            yield message["content"]
        for action in state.admissible:
            yield answer_text(action, template.think)


def warm_start(
    policy: Policy,
    prompter: Prompter,
    states: Sequence[State],
    *,
    epochs: int,
    learning_rate: float,
    max_tokens: int,
    tokens_per_batch: int = 16384,
    seed: int = 0,
    report: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Train the policy to answer each state with what is taught there, or else with up to four admissible actions,
    drawn uniformly in every epoch.

    Args:
        policy: whose full weights are trained, by AdamW with a rate that falls to 0; its reference, if it has one,
            is then made of the new weights.
        prompter: makes the prompts.
        states: of random walks.
        epochs: passes over the states.
        learning_rate: of the first step.
        max_tokens: that an answer may have.
        tokens_per_batch: that go through the model at once, padding included; it changes nothing else.
        seed: of the actions and the order of the rows.
        report: called after each epoch with its number and mean loss.

    Returns:
        The mean loss per token of each epoch, in nats.

    Raises:
        ValueError: the policy has adapters, or an answer is longer than max_tokens or invalid once decoded.
    """
    if policy.has_adapters:
        raise ValueError(
            "a warm start trains all weights, the policy has adapters: use lora.rank=0, save, then load the folder"
        )
    prompts = prompts_of(prompter, states)
    answers = _Answers(policy, prompter, max_tokens)
    weights = policy.parameters()
    optimizer = torch.optim.AdamW(weights, lr=learning_rate, weight_decay=0.0)
    steps = epochs * -(-len(states) // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, max(1, steps))
    losses = []
    for epoch in range(epochs):
        rng = np.random.default_rng(sequence(seed, STREAM, 2, epoch))
        chosen = [answers(state, rng) for state in states]
        order = rng.permutation(len(states))
        total = tokens = 0.0
        for start in range(0, len(order), BATCH):
            rows = [(prompts[row], answer) for row in order[start : start + BATCH] for answer in chosen[row]]
            asked, answered = [prompt for prompt, _ in rows], [answer for _, answer in rows]
            count = sum(map(len, answered))
            optimizer.zero_grad()
            for part in micro_batches(np.arange(len(rows)), asked, answered, tokens_per_batch):
                part.sort()
                result = policy.evaluate([asked[row] for row in part], [answered[row] for row in part], 1.0)
                loss = -result.log_probs.sum() / count
                loss.backward()
                total += loss.item() * count
            torch.nn.utils.clip_grad_norm_(weights, MAX_GRAD_NORM)
            optimizer.step()
            schedule.step()
            tokens += count
        losses.append(total / tokens)
        if report is not None:
            report(epoch, losses[-1])
    if policy.has_reference:
        policy.freeze_reference()
    return losses


def tiny_policy(
    settings: Settings,
    make_env: MakeEnv,
    *,
    critic: bool = False,
    reference: bool = False,
    report: Callable[[int, float], None] | None = None,
) -> Policy:
    """The tiny model over the environment's vocabulary, warm-started; all of it follows from settings.seed.

    Args:
        settings: of the run; model.path is "tiny".
        make_env: makes a text environment of the training tasks.
        critic: with a value head.
        reference: keep the warm-started weights for `Policy.reference`.
        report: called after each epoch with its number and mean loss.

    Raises:
        ValueError: as `random_walks` and `warm_start`.
        RuntimeError: as `random_walks`.
    """
    tiny = settings.model.tiny
    template = PromptTemplate.load(settings.prompt.template)
    states = random_walks(make_env, tiny.warm_start_rows, settings.seed, tiny.warm_start_guided)
    policy = Policy.load(
        settings.model,
        critic=critic,
        reference=reference,
        texts=vocabulary(states, template, settings.prompt.history),
        seed=seed_of(settings.seed, "model"),
    )
    warm_start(
        policy,
        Prompter(template, policy.tokenizer, settings.prompt),
        states,
        epochs=tiny.warm_start_epochs,
        learning_rate=tiny.warm_start_learning_rate,
        max_tokens=settings.rollout.max_tokens,
        tokens_per_batch=settings.ppo.tokens_per_batch,
        seed=settings.seed,
        report=report,
    )
    return policy


class _Answers:
    """Token ids of the answers to a state, each checked once."""

    def __init__(self, policy: Policy, prompter: Prompter, max_tokens: int):
        self._policy = policy
        self._prompter = prompter
        self._max_tokens = max_tokens
        self._known: dict[tuple[str, tuple[str, ...]], tuple[int, ...]] = {}

    def __call__(self, state: State, rng: np.random.Generator) -> list[tuple[int, ...]]:
        actions = (state.taught,) if state.taught else state.admissible
        drawn = rng.choice(len(actions), min(len(actions), ANSWERS), replace=False)
        keys = [(actions[place], state.admissible) for place in drawn]
        for key in keys:
            if key not in self._known:
                self._known[key] = self._encode(*key)
        return [self._known[key] for key in keys]

    def _encode(self, action: str, admissible: tuple[str, ...]) -> tuple[int, ...]:
        think = self._prompter.template.think
        text = answer_text(action, think).removeprefix(self._prompter.opening)
        ids = self._policy.tokenizer(text, add_special_tokens=False)["input_ids"]
        ids = (*ids, self._policy.eos_ids[0])
        if len(ids) > self._max_tokens:
            raise ValueError(
                f"the answer {text!r} has {len(ids)} tokens, rollout.max_tokens is {self._max_tokens}: raise it"
            )
        decoded = self._prompter.decode(ids)
        parsed = parse_action(decoded, admissible, finished=True, think=think)
        if parsed.action != action:
            raise ValueError(
                f"the action {action!r} is {decoded!r} once tokenized and decoded, which is no answer: name actions "
                "in words with single spaces between them"
            )
        return ids
