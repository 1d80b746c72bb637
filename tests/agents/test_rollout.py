"""Rollouts of groups of episodes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from graphwrap import Transitions, make_credit
from graphwrap.agents.engines.local import TransformersEngine
from graphwrap.agents.playing.episodes import INVALID, Episode
from graphwrap.agents.playing.outcomes import is_mixed
from graphwrap.agents.policy import Policy
from graphwrap.agents.ppo import PPO
from graphwrap.agents.prompts import Prompter
from graphwrap.agents.rollout import Batch, Rollout
from graphwrap.agents.settings import CRITIC, Settings
from tests.agents.talk import (
    BACK,
    BURN,
    FLY,
    FORTH,
    Script,
    ScriptedEngine,
    small_policy,
    small_prompter,
    small_settings,
    walks,
)

pytestmark = pytest.mark.llm


def rollout_of(
    settings: Settings, script: Script, method: str | None = "grpo", **options: Any
) -> tuple[Rollout, ScriptedEngine]:
    prompter = small_prompter(settings)
    engine = ScriptedEngine(prompter.tokenizer, script)
    credit = None if method is None else make_credit(method)
    return Rollout(settings, prompter, engine, walks(settings, **options), credit), engine


def always(answer: str) -> Script:
    return lambda call, place, prompt: answer


def half(call: int, place: int, prompt: str) -> str:
    """Of every group of two that still runs, the first goes forth and the second back."""
    return FORTH if place % 2 == 0 else BACK


def actions(episode: Episode) -> list[str]:
    return [step.action for step in episode.steps]


def test_only_running_episodes_are_prompted() -> None:
    settings = small_settings()
    calls: list[list[str]] = []

    def script(call: int, place: int, prompt: str) -> str:
        calls.extend([[]] * (call == len(calls)))
        calls[call] = [*calls[call], prompt]
        return FORTH if "1 of" in prompt or call != 1 else BACK

    progress: list[tuple[int, int, int]] = []
    rollout, engine = rollout_of(settings, script, max_steps=4)
    batch = rollout.collect(0, lambda *seen: progress.append(seen))
    lengths = [len(episode.steps) for episode in batch.episodes]
    assert [size for size, _ in engine.calls] == [
        sum(length > t for length in lengths) for t in range(max(lengths))
    ]
    assert progress == [(t + 1, sum(length <= t + 1 for length in lengths), 4) for t in range(max(lengths))]
    assert all(episode.success for episode in batch.episodes)
    assert sorted(set(lengths)) == sorted({2 + episode.seed % 2 for episode in batch.episodes})
    assert len(batch.rows) == sum(lengths)


def test_the_credit_is_the_methods_on_what_happened() -> None:
    settings = small_settings(tasks=3, group_size=2)
    batch = rollout_of(settings, half, "graphgpo")[0].collect(0)
    rows = [(episode, t, step) for episode in batch.episodes for t, step in enumerate(episode.steps)]
    transitions = Transitions.from_columns(
        task=[episode.group for episode, _, _ in rows],
        episode=[episode.env for episode, _, _ in rows],
        step=[t for _, t, _ in rows],
        state=[step.state for _, _, step in rows],
        action=[step.action for _, _, step in rows],
        next_state=[step.next_state for _, _, step in rows],
        reward=[step.reward for _, _, step in rows],
        terminated=[step.terminated for _, _, step in rows],
        truncated=[step.truncated for _, _, step in rows],
        success=[episode.success for episode, _, _ in rows],
    )
    expected = make_credit("graphgpo")(transitions).advantages
    assert np.abs(expected).max() > 0
    assert batch.rows.advantages.tolist() == pytest.approx(expected.tolist(), abs=1e-12)
    assert batch.rows.mask.all()
    assert batch.rows.episode.tolist() == [batch.episodes.index(episode) for episode, _, _ in rows]
    assert batch.rows.step.tolist() == [t for _, t, _ in rows]
    assert rows[0][2].state == (0, 2 + batch.episodes[0].seed % 2)


def test_an_invalid_answer_costs_and_changes_nothing() -> None:
    settings = small_settings(tasks=1)
    settings.rollout.invalid_penalty = 0.25
    settings.prompt.history = 2
    prompter = small_prompter(settings)
    engine = ScriptedEngine(prompter.tokenizer, lambda call, place, prompt: FLY if call < 2 else FORTH)
    rollout = Rollout(settings, prompter, engine, walks(settings, max_steps=9), make_credit("grpo"))
    batch = rollout.collect(0)
    for episode in batch.episodes:
        assert actions(episode)[:3] == [INVALID, INVALID, "forth"]
        assert [step.reward for step in episode.steps[:3]] == [-0.25, -0.25, 0.0]
        assert {step.reason for step in episode.steps} == {"not admissible", ""}
        assert episode.steps[0].state == episode.steps[0].next_state
        assert episode.env_return == 1.0
    assert batch.rows.valid.tolist() == [action != INVALID for e in batch.episodes for action in actions(e)]
    assert (
        batch.metrics["invalid_share"]
        == batch.metrics["invalid/not admissible"]
        == pytest.approx(4 / len(batch.rows))
    )
    assert batch.credit is not None
    assert INVALID in batch.credit.transitions.action_labels


def test_penalties_do_not_undo_a_success_that_the_environment_does_not_name() -> None:
    settings = small_settings(tasks=1)
    settings.rollout.invalid_penalty = 5.0
    rollout, _ = rollout_of(
        settings, lambda call, place, prompt: FLY if call < place else FORTH, says_success=False, max_steps=9
    )
    batch = rollout.collect(0)
    assert [episode.success for episode in batch.episodes] == [True, True]
    assert batch.metrics["success_rate"] == batch.metrics["env_return"] == 1.0
    assert batch.metrics["mixed_groups"] == 0


def test_answers_that_are_cut_are_invalid() -> None:
    settings = small_settings(tasks=1)
    settings.rollout.max_tokens = 2
    batch = rollout_of(settings, always(FORTH))[0].collect(0)
    assert batch.metrics["invalid/cut"] == 1.0
    assert batch.metrics["response_tokens"] == 2.0
    assert batch.metrics["success_rate"] == 0.0
    assert batch.metrics["truncated"] == 1.0


def burns_once(call: int, place: int, prompt: str) -> str:
    return BURN if (call, place) == (1, 2) else FORTH


def test_a_crash_breaks_off_its_own_episode_only() -> None:
    settings = small_settings(tasks=2, group_size=2)
    rollout, _ = rollout_of(settings, burns_once)
    batch = rollout.collect(0)
    crashed = [episode for episode in batch.episodes if episode.crash]
    assert [episode.env for episode in crashed] == [2]
    assert "it burns" in crashed[0].crash
    assert crashed[0].success is None
    assert actions(crashed[0]) == ["forth"]  # the step that raised led nowhere
    others = [episode for episode in batch.episodes if not episode.crash]
    assert all(episode.success for episode in others)
    assert batch.rows.mask.tolist() == [
        not episode.crash for episode in batch.episodes for _ in episode.steps
    ]
    assert batch.metrics["crashed"] == 1
    assert batch.metrics["complete_groups"] == 1
    assert batch.metrics["success_rate"] == 1.0
    assert batch.metrics["trainable_rows"] == len(batch.rows) - 1
    assert batch.credit is not None
    assert batch.credit.diagnostics["complete_groups"] == 1
    again = rollout.collect(1)  # the environment has been made anew
    assert again.metrics["success_rate"] == 1.0
    assert again.metrics["complete_groups"] == 2


def test_a_crash_in_reset_leaves_an_episode_without_steps() -> None:
    settings = small_settings(tasks=2, group_size=2)
    rollout, _ = rollout_of(settings, always(FORTH))
    pool = rollout.player.pool
    env = pool._hosting._host._envs[1]
    env.unwrapped.reset = lambda **_: 1 / 0
    batch = rollout.collect(0)
    assert [len(episode.steps) > 0 for episode in batch.episodes] == [True, False, True, True]
    assert "division" in batch.episodes[1].crash
    assert batch.metrics["complete_groups"] == 1
    assert set(batch.rows.episode.tolist()) == {0, 2, 3}
    assert batch.rows.mask.all()


def test_an_episode_whose_prompt_is_too_long_is_broken_off() -> None:
    settings = small_settings(tasks=2, group_size=2)
    rollout, _ = rollout_of(settings, always(FORTH))
    env = rollout.player.pool._hosting._host._envs[1].unwrapped
    seen = env.seen
    env.seen = lambda: seen() + (" and at" * 100 if env.place == 1 else "")
    with pytest.warns(
        UserWarning, match=r"an episode is broken off: a prompt has at most prompt\.max_tokens=40"
    ):
        batch = rollout.collect(0)
    assert [bool(episode.crash) for episode in batch.episodes] == [False, True, False, False]
    assert actions(batch.episodes[1]) == ["forth"]
    assert batch.metrics["crashed"] == 1
    assert batch.metrics["complete_groups"] == 1
    assert batch.rows.mask.tolist() == [
        not episode.crash for episode in batch.episodes for _ in episode.steps
    ]
    del env.seen
    assert rollout.collect(1).metrics["complete_groups"] == 2


def test_one_crash_in_the_last_part_of_a_validation_is_no_error() -> None:
    settings = small_settings(tasks=2, group_size=2)

    def burns_last(call: int, place: int, prompt: str) -> str:
        return BURN if len(engine.calls) > 3 else FORTH

    rollout, engine = rollout_of(settings, burns_last)
    episodes, numbers = rollout.play([0, 2, 4, 6, 8], 0.5)  # four environments; two steps to the goal
    assert [bool(episode.crash) for episode in episodes] == [False] * 4 + [True]
    assert (numbers["crashed"], numbers["success_rate"]) == (1, 1.0)
    with pytest.raises(RuntimeError, match="every environment crashed"):
        rollout.play([0, 2], 0.5)


@pytest.mark.parametrize("name", ["success", "won"])
def test_success_by_its_other_names(name) -> None:
    settings = small_settings(tasks=1, group_size=2)
    rollout, _ = rollout_of(settings, always(FORTH), says_success=False)
    for env in rollout.player.pool._hosting._host._envs:
        step = env.unwrapped.step
        env.unwrapped.step = lambda action, step=step: (*step(action)[:4], {**step(action)[4], name: False})
    assert rollout.collect(0).metrics["success_rate"] == 0.0


def test_crashes_all_over_are_an_error() -> None:
    settings = small_settings()
    with pytest.raises(RuntimeError, match=r"every environment crashed; the first one says: .*it burns"):
        rollout_of(settings, always(BURN))[0].collect(0)


def test_members_that_start_apart_are_an_error_before_anything_is_played() -> None:
    settings = small_settings()
    rollout, engine = rollout_of(settings, always(FORTH), alike=False)
    with pytest.raises(ValueError, match="members of a group must start in the same state"):
        rollout.collect(0)
    assert not engine.calls


def dynamic(settings: Settings, mixed: list[int]) -> Rollout:
    """A rollout whose attempts have so many mixed groups at first; the others all fail, or all succeed, in turns."""
    settings.rollout.dynamic_sampling = True
    rollout, engine = rollout_of(settings, half, max_steps=3)
    begin, attempts = rollout.player.begin, iter(mixed)

    def begin_and_watch(*arguments: Any) -> list[Episode]:
        episodes, count = begin(*arguments), next(attempts)

        def script(call: int, place: int, prompt: str) -> str:
            episode = [episode for episode in episodes if not episode.finished][place]
            group, member = divmod(episode.env, settings.rollout.group_size)
            forth = member == 0 if group < count else group % 2
            return FORTH if forth else BACK

        engine.script = script
        return episodes

    rollout.player.begin = begin_and_watch  # type: ignore[method-assign]
    return rollout


def test_groups_are_sampled_until_enough_are_mixed() -> None:
    settings = small_settings(tasks=3, group_size=2)
    batch = dynamic(settings, [1, 0, 3]).collect(0)
    assert batch.metrics["attempts"] == 3
    assert batch.metrics["mixed_groups"] == 4
    assert batch.metrics["kept_groups"] == 3
    assert batch.metrics["complete_groups"] == 9
    assert [episode.group for episode in batch.episodes] == [0, 0, 6, 6, 7, 7]
    assert len({episode.seed for episode in batch.episodes}) == 3
    for first, second in zip(batch.episodes[::2], batch.episodes[1::2]):
        assert [first.success, second.success] == [True, False]
        assert first.seed == second.seed
    # 4 successes of the mixed groups, one group of two in the first attempt and in the second.
    assert batch.metrics["success_rate"] == pytest.approx((4 + 2 + 2) / 18)
    assert len(batch.rows) == sum(len(episode.steps) for episode in batch.episodes)
    assert np.abs(batch.rows.advantages).min() > 0


def test_too_few_mixed_groups_are_trained_on_with_a_warning() -> None:
    settings = small_settings(tasks=3, group_size=2)
    settings.rollout.max_attempts = 2
    with pytest.warns(
        UserWarning, match="found 1 groups with both successes and failures in 2 attempts and 3 are"
    ):
        batch = dynamic(settings, [1, 0]).collect(0)
    assert [episode.group for episode in batch.episodes] == [0, 0]
    assert batch.metrics["kept_groups"] == 1


def test_no_mixed_group_leaves_nothing_to_train_on() -> None:
    settings = small_settings(tasks=3, group_size=2)
    settings.rollout.max_attempts = 1
    with pytest.warns(UserWarning, match="found 0 groups"):
        batch = dynamic(settings, [0]).collect(0)
    assert batch.episodes == []
    assert batch.credit is None
    assert len(batch.rows) == 0
    policy = small_policy(settings, reference=False)
    settings.ppo.kl = 0.0
    with pytest.warns(UserWarning, match="is skipped"):
        assert PPO(policy, settings).update(batch.rows, 0)["gradient_steps"] == 0


def test_a_spread_of_rewards_does_not_make_a_group_mixed() -> None:
    def episode(success: bool | None) -> Episode:
        return Episode(0, 0, 0, success=success)

    assert not is_mixed([episode(False), episode(False)])
    assert not is_mixed([episode(True), episode(None)])
    assert is_mixed([episode(True), episode(None), episode(False)])


def numbers_of(batch: Batch) -> str:
    rows = batch.rows.columns()
    plain = {
        name: np.asarray(values).tolist() if isinstance(values, np.ndarray) else values
        for name, values in rows.items()
    }
    timed = ("seconds", "credit/seconds")
    metrics = {name: value for name, value in batch.metrics.items() if not name.startswith(timed)}
    return json.dumps([plain, metrics, [actions(episode) for episode in batch.episodes]])


def test_equal_seeds_give_equal_rollouts_and_updates() -> None:
    found = []
    for seed, processes in ((0, 0), (0, 2), (1, 0)):
        settings = small_settings(tasks=3, group_size=4)
        settings.seed = seed
        policy = small_policy(settings)
        torch.manual_seed(len(found))  # global generators have no say
        np.random.seed(len(found))  # noqa: NPY002
        with_pool = walks(settings, processes)
        try:
            rollout = Rollout(
                settings,
                small_prompter(settings, policy.tokenizer),
                TransformersEngine(policy),
                with_pool,
                make_credit("graphgpo"),
            )
            ppo = PPO(policy, settings)
            if found:
                rollout.play([1, 2], 0.5)  # what was played before has no say either
            texts = []
            for update in (3, 4):
                batch = rollout.collect(update)
                texts += [numbers_of(batch), json.dumps(ppo.update(batch.rows, update))]
        finally:
            with_pool.close()
        found.append((texts, [weight.detach().clone() for weight in policy.parameters()]))
    assert found[0][0] == found[1][0]
    assert all(map(torch.equal, found[0][1], found[1][1]))
    assert found[0][0][0] != found[2][0][0]
    assert found[0][0][0] != found[0][0][2]


def test_the_engines_log_probabilities_are_the_trainers() -> None:
    settings = small_settings(tasks=2, group_size=4)
    settings.rollout.temperature = 0.7
    policy = small_policy(settings)
    rollout = Rollout(
        settings,
        small_prompter(settings, policy.tokenizer),
        TransformersEngine(policy),
        walks(settings),
        make_credit("grpo"),
    )
    metrics = PPO(policy, settings).update(rollout.collect(0).rows, 0)
    assert metrics["drift_max"] < 1e-5
    assert metrics["engine_ratio"] == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("method", ["graphgpo", CRITIC])
def test_it_learns_to_walk(method: str) -> None:
    settings = small_settings(tasks=4, group_size=8)
    settings.credit.name, settings.ppo.kl, settings.ppo.minibatch = method, 0.0, 32
    settings.ppo.learning_rate, settings.updates = 3e-3, 8
    settings.model.tiny.hidden = 32
    critic = method == CRITIC
    policy = small_policy(settings, reference=False, critic=critic)
    prompter = small_prompter(settings, policy.tokenizer)
    teach_the_format(policy, prompter)
    rollout = Rollout(
        settings,
        prompter,
        TransformersEngine(policy),
        walks(settings, max_steps=3),
        None if critic else make_credit(method),
    )
    ppo = PPO(policy, settings)
    rates = []
    for update in range(settings.updates):
        batch = rollout.collect(update)
        rates.append(batch.metrics["success_rate"])
        assert math.isfinite(ppo.update(batch.rows, update)["loss"])
    assert rates[0] < 0.2
    assert np.mean(rates[-3:]) > 0.6


def teach_the_format(policy: Policy, prompter: Prompter) -> None:
    """Answer every observation with either of the two actions."""
    prompts, answers = [], []
    for length in (2, 3):
        for place in range(length):
            for text in (FORTH, BACK):
                prompt = prompter.encode(
                    task="walk", step=0, history=(), observation=f"at {place} of {length}", admissible=None
                )
                prompts.append(prompt.token_ids)
                answers.append((*policy.tokenizer(text)["input_ids"], policy.eos_ids[0]))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2)
    for _ in range(40):
        (-policy.evaluate(prompts, answers, 1.0).log_probs.sum(1).mean()).backward()
        optimizer.step()
        optimizer.zero_grad()


def test_play_takes_every_seed_once_in_the_held_out_environments() -> None:
    settings = small_settings()
    settings.rollout.invalid_penalty = 0.5
    prompter = small_prompter(settings)
    engine = ScriptedEngine(prompter.tokenizer, always(FORTH))
    with walks(settings, max_steps=2) as pool, walks(settings, max_steps=4) as held_out:
        rollout = Rollout(settings, prompter, engine, pool, make_credit("grpo"), held_out=held_out)
        episodes, metrics = rollout.play([7, 8, 9, 10, 11], 0.4)
    assert [episode.seed for episode in episodes] == [7, 8, 9, 10, 11]
    assert [len(episode.steps) for episode in episodes] == [3, 2, 3, 2, 3]
    assert metrics["success_rate"] == 1.0
    assert metrics["success/length 2"] == metrics["success/length 3"] == 1.0
    assert metrics["complete_groups"] == 5
    assert {sampling.temperature for _, sampling in engine.calls} == {0.4}
    assert len({sampling.seed for _, sampling in engine.calls}) == len(engine.calls)


def test_a_critics_rollout_keeps_the_prompts_that_time_limits_led_to() -> None:
    settings = small_settings(tasks=2, group_size=2)
    settings.credit.name = CRITIC
    policy = small_policy(settings, critic=True)
    prompter = small_prompter(settings, policy.tokenizer)
    rollout = Rollout(
        settings, prompter, ScriptedEngine(policy.tokenizer, half), walks(settings, max_steps=3)
    )
    batch = rollout.collect(0)
    late = [n for n, episode in enumerate(batch.episodes) if not episode.success]
    assert sorted(batch.rows.last_prompts) == late
    assert late
    for number in late:
        text = policy.tokenizer.decode(batch.rows.last_prompts[number])
        assert "at 0 of" in text
    assert not any(name.startswith("credit/") for name in batch.metrics)
    metrics = PPO(policy, settings).update(batch.rows, 0)
    assert metrics["gradient_steps"] == 1
    assert batch.rows.advantages.mean() == pytest.approx(0, abs=1e-9)
    assert batch.rows.advantages.std() == pytest.approx(1)
    assert batch.credit is not None
    assert len(batch.credit.transitions) == len(batch.rows)


def test_rows_go_into_a_table_and_transitions_into_a_file(tmp_path: Path) -> None:
    settings = small_settings()
    batch = rollout_of(settings, half)[0].collect(0)
    table = pa.table(batch.rows.columns())
    assert table.num_rows == len(batch.rows)
    assert table.column("prompt").to_pylist()[0] == list(batch.rows.prompts[0])
    assert table.column("advantage").to_pylist() == batch.rows.advantages.tolist()
    assert batch.credit is not None
    batch.credit.transitions.save(tmp_path / "steps.parquet")
    loaded = Transitions.load(tmp_path / "steps.parquet")
    assert loaded.reward.tolist() == batch.credit.transitions.reward.tolist()
    first = batch.episodes[0].steps[0]
    assert "at 0 of" in first.prompt.text
    assert first.observation in first.prompt.text
    assert first.text.replace(" ", "") == FORTH


def test_what_is_refused() -> None:
    settings = small_settings()
    prompter = small_prompter(settings)
    engine = ScriptedEngine(prompter.tokenizer, half)
    with pytest.raises(ValueError, match="method must be a credit method"):
        Rollout(settings, prompter, engine, walks(settings))
    settings.rollout.tasks = 3
    with pytest.raises(ValueError, match=r"3 \* 2 environments, got 4"):
        Rollout(settings, prompter, engine, walks(small_settings()), make_credit("grpo"))
    rollout, _ = rollout_of(small_settings(), half)
    with pytest.raises(ValueError, match="4 at most, got 5 seeds"):
        rollout.player.begin(range(5), range(5))


def test_statistics_of_nothing_are_not_a_number() -> None:
    settings = small_settings()
    _, metrics = rollout_of(settings, half)[0].play([], 1.0)
    assert math.isnan(metrics["success_rate"])
    assert metrics["sampled_tokens"] == 0
