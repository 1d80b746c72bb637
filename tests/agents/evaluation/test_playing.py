"""Episodes of an evaluation: which are played, what the agents are shown, and what is kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphwrap import GraphGPO, Transitions
from graphwrap.agents.engines.chat import Reply
from graphwrap.agents.evaluation.playing import Evaluation
from graphwrap.agents.evaluation.records import Place, Records
from graphwrap.agents.evaluation.summary import summarise
from tests.agents.evaluation.talker import Talker, play, settings_of
from tests.agents.walk import Walk

FORTH = "<think>The goal is ahead.</think><action>forth</action>"


def forth(prompt: str, seed: int) -> str:
    return FORTH


def chance(prompt: str, seed: int) -> str:
    """Depends on the seed of the answer only."""
    said = ["<action>forth</action>", "<action>back</action>", "nothing"][seed % 3]
    return f"<think>hm</think>{said}"


def numbers(plan: Evaluation) -> dict[Place, tuple[Any, ...]]:
    return {
        place: (
            record.seed,
            record.success,
            [(step.observation, step.answer, step.action) for step in record.steps],
        )
        for place, record in sorted(plan.finished.items())
    }


def test_every_task_is_played_once_and_kept_whole(tmp_path: Path):
    plan, broken = play(settings_of(tasks=5), tmp_path, Talker(forth))
    assert (broken, plan.open) == ([], 0)
    assert set(plan.finished) == {Place(task) for task in range(5)}
    again = Records(tmp_path).all()
    assert again == dict(sorted(plan.finished.items()))
    for record in again.values():
        assert record.success
        assert record.task == "walk"
        assert record.task_type == f"length {len(record.steps)}"
        assert [step.action for step in record.steps] == ["forth"] * len(record.steps)
        assert (record.prompt_tokens, record.answer_tokens) == (10 * len(record.steps), 3 * len(record.steps))
        assert record.last_observation == f"at {len(record.steps)} of {len(record.steps)}"
    assert len({record.seed for record in again.values()}) == 5
    text = (tmp_path / Place(0).name / "transcript.md").read_text()
    assert "The goal is ahead." in text
    assert "success in" in text


def test_transitions_of_all_episodes_are_groups_for_credit(tmp_path: Path):
    plan, _ = play(settings_of(tasks=3, repeats=4), tmp_path, Talker(chance))
    places = sorted(plan.finished)
    transitions = Records(tmp_path).transitions(places)
    path = tmp_path / "all.parquet"
    transitions.save(path)
    loaded = Transitions.load(path)
    assert loaded.num_tasks == 3
    assert loaded.num_episodes == 12
    assert loaded.num_rows == sum(len(record.steps) for record in plan.finished.values())
    np.testing.assert_array_equal(loaded.returns(), [plan.finished[place].env_return for place in places])
    assert (loaded.outcome == 0).tolist() == [plan.finished[place].success for place in places]
    assert set(loaded.action_labels) == {"forth", "back", "<invalid>"}
    assert isinstance(loaded.state_labels[0], tuple)  # info["state_key"], not the observation
    assert len(GraphGPO()(loaded).advantages) == loaded.num_rows


def test_neither_the_number_at_a_time_nor_an_interruption_changes_an_episode(tmp_path: Path):
    whole, _ = play(settings_of(tasks=6, repeats=2, parallel=5), tmp_path / "whole", Talker(chance))
    assert len({str(one) for one in numbers(whole).values()}) > 6
    alone, _ = play(settings_of(tasks=6, repeats=2, parallel=1), tmp_path / "alone", Talker(chance))
    assert numbers(alone) == numbers(whole)

    class Failing(Talker):
        def answer(self, prompts, sampling):
            if len(self.samplings) == 7:
                raise RuntimeError("the endpoint has gone")
            return super().answer(prompts, sampling)

    settings = settings_of(tasks=6, repeats=2, parallel=3)
    with pytest.raises(RuntimeError, match="has gone"):
        play(settings, tmp_path / "broken", Failing(chance))
    kept = Records(tmp_path / "broken").all()
    assert 0 < len(kept) < 12
    written = {
        place: (tmp_path / "broken" / place.name / "episode.json").stat().st_mtime_ns for place in kept
    }
    talker = Talker(chance)
    plan, _ = play(settings, tmp_path / "broken", talker)
    assert numbers(plan) == numbers(whole)
    assert len(talker.asked) == sum(
        len(record.steps) for place, record in plan.finished.items() if place not in kept
    )
    for place, time in written.items():
        assert (tmp_path / "broken" / place.name / "episode.json").stat().st_mtime_ns == time


def test_environments_are_never_idle_while_episodes_wait(tmp_path: Path):
    talker = Talker(forth)
    play(settings_of(tasks=9, parallel=3), tmp_path, talker)
    batches = [len(sampling.seeds) for sampling in talker.samplings]
    assert batches[:-3] == [3] * (len(batches) - 3)


def test_more_tasks_go_on_with_those_that_are_there(tmp_path: Path):
    play(settings_of(tasks=3), tmp_path, Talker(chance))
    talker = Talker(chance)
    more, _ = play(settings_of(tasks=5), tmp_path, talker)
    assert len(more.finished) == 5
    whole, _ = play(settings_of(tasks=5), tmp_path / "whole", Talker(chance))
    assert numbers(more) == numbers(whole)
    fewer = Evaluation(settings_of(tasks=2), Records(tmp_path))
    assert (len(fewer.finished), fewer.open) == (2, 0)


def test_react_sees_its_own_thoughts_and_an_example(tmp_path: Path):
    talker = Talker(
        lambda prompt, seed: (
            f"<think>I am\n at it</think> <action>{'forth' if '2' in prompt else 'fly'}</action>"
        )
    )
    play(settings_of("react", tasks=1, parallel=1), tmp_path, talker)
    first, second = talker.asked[:2]
    assert "Step 1" not in first
    assert "Hang the wet coat" in first
    assert "Step 1, you saw:\nat 0 of" in second
    assert "Step 1, you thought: I am at it\n" in second
    assert "Hang the wet coat" in second
    assert re.search(r"Step 1, you did: (forth|\(none\))\n", second)


def test_react_keeps_all_steps_where_zero_shot_keeps_some(tmp_path: Path):
    stuck = "<think>stay</think><action>back</action>"
    for agent, shown in (("react", 3), ("zero-shot", 2)):
        talker = Talker(lambda prompt, seed: stuck)
        play(settings_of(agent, tasks=1, parallel=1), tmp_path / agent, talker)
        assert len(talker.asked) == 4
        assert (
            len(re.findall(r"^Step \d+, (?:observation|you saw):", talker.asked[-1], re.MULTILINE)) == shown
        )


def reflecting(prompt: str, seed: int) -> str:
    """Succeeds once it has two notes."""
    if "Write the note" in prompt:
        return f"<think>hm</think> Note {prompt.count('Note')}:\ngo forth."
    return FORTH if prompt.count("- Note") == 2 else "<think>not yet</think><action>back</action>"


def test_reflexion_takes_its_notes_to_the_next_trial_of_the_same_task(tmp_path: Path):
    talker = Talker(reflecting)
    plan, _ = play(settings_of("reflexion", tasks=2, trials=4), tmp_path, talker)
    for task in range(2):
        trials = [record for place, record in sorted(plan.finished.items()) if place.task == task]
        assert [record.success for record in trials] == [False, False, True]  # and no fourth
        assert [len(record.reflections) for record in trials] == [0, 1, 2]
        assert len({record.seed for record in trials}) == 1
        assert trials[2].reflections[0] == trials[1].reflections[0]
        assert all(note.startswith("Note") and "\n" not in note for note in trials[2].reflections)
    asked = [prompt for prompt in talker.asked if "Write the note" in prompt]
    assert len(asked) == 4
    assert "Step 4, you did: back" in asked[0]
    assert "Step 4, you thought: not yet" in asked[0]
    assert "when the attempt was over without success:\nat 0 of" in asked[0]
    assert sum(f"- {plan.finished[Place(0, 0, 1)].reflections[0]}" in prompt for prompt in asked) >= 1
    assert plan.open == 0
    summary = summarise(plan.finished, 4)
    assert [estimate.value for estimate in summary.success_by_trial] == [0, 0, 1, 1]


def test_reflexion_shows_the_last_notes_only_and_gives_up_after_the_last_trial(tmp_path: Path):
    def never(prompt, seed):
        return f"note {seed}" if "Write the note" in prompt else "<action>back</action>"

    plan, _ = play(settings_of("reflexion", tasks=1, trials=4, reflections=2), tmp_path, Talker(never))
    trials = [record for _, record in sorted(plan.finished.items())]
    assert [len(record.reflections) for record in trials] == [0, 1, 2, 2]
    assert trials[3].reflections[0] == trials[2].reflections[1]
    assert not any(record.success for record in trials)


def test_an_interrupted_reflexion_goes_on_with_the_next_trial(tmp_path: Path):
    whole, _ = play(settings_of("reflexion", tasks=2, trials=3), tmp_path / "whole", Talker(reflecting))

    def until_the_note(prompt, seed):
        if "Write the note" in prompt and "- Note" in prompt:
            raise RuntimeError("gone")
        return reflecting(prompt, seed)

    settings = settings_of("reflexion", tasks=2, trials=3)
    with pytest.raises(RuntimeError, match="gone"):
        play(settings, tmp_path / "broken", Talker(until_the_note))
    kept = len(Records(tmp_path / "broken").all())
    assert kept == 4
    plan, _ = play(settings, tmp_path / "broken", Talker(reflecting))
    assert numbers(plan) == numbers(whole)
    assert [record.reflections for _, record in sorted(plan.finished.items())] == [
        record.reflections for _, record in sorted(whole.finished.items())
    ]


def test_a_crash_is_told_not_counted_and_played_again(tmp_path: Path):
    def burning(prompt, seed):
        return "<think>x</think><action>burn</action>" if "of 3" in prompt else FORTH

    plan, broken = play(settings_of(tasks=8), tmp_path, Talker(burning))
    long = {one.place.task for one in broken}
    assert 0 < len(long) < 8
    assert all("it burns" in one.error for one in broken)
    assert {place.task for place in plan.finished} == set(range(8)) - long
    assert plan.open == len(long)
    again, broken = play(settings_of(tasks=8), tmp_path, Talker(forth))
    assert not broken
    assert len(again.finished) == 8


def test_if_everything_crashes_the_first_error_is_told(tmp_path: Path):
    with pytest.raises(RuntimeError, match="it burns"):
        play(settings_of(), tmp_path, Talker(lambda prompt, seed: "<think>x</think><action>burn</action>"))


class Numbered(Walk):
    """Takes its task by number, of which there are two."""

    def reset(self, *, seed=None, options=None):
        number = (options or {})["game"]
        if number > 1:
            raise IndexError(f"there is no game {number}")
        seen, info = super().reset(seed=number)
        return seen, {**info, "task": f"game {number}"}


class Described(Walk):
    """Its task is a name that would give the solution away."""

    def reset(self, *, seed=None, options=None):
        seen, info = super().reset(seed=seed)
        return seen, {**info, "task": "go-forth-2", "task_description": "get to the end"}


def test_a_description_of_the_task_is_shown_in_place_of_its_name(tmp_path: Path):
    talker = Talker(forth)
    plan, _ = play(settings_of("react", tasks=1), tmp_path, talker, Described)
    assert "Task: get to the end\n" in talker.asked[0]
    assert "go-forth-2" not in talker.asked[0]
    (record,) = plan.finished.values()
    assert (record.task, record.name) == ("get to the end", "go-forth-2")


@pytest.mark.parametrize("processes", [0, 2])
def test_tasks_are_chosen_by_number_where_reset_has_an_option_for_it(tmp_path: Path, processes: int):
    from graphwrap.agents.evaluation.agents import make_agent
    from graphwrap.agents.playing.episodes import Player
    from graphwrap.envs.pool import EnvPool

    settings = settings_of(tasks=3, parallel=3, task_option="game")
    agent = make_agent(settings, None)
    plan = Evaluation(settings, Records(tmp_path))
    with EnvPool(Numbered, 3, processes) as pool:
        broken = plan.run(agent, Player(agent.prompter, Talker(forth), pool))
    assert {place.task: record.task for place, record in plan.finished.items()} == {0: "game 0", 1: "game 1"}
    assert [one.place for one in broken] == [Place(2)]
    assert "there is no game 2" in broken[0].error


def test_a_half_written_or_damaged_episode(tmp_path: Path):
    play(settings_of(tasks=2), tmp_path, Talker(forth))
    (tmp_path / ".task-00009.part").mkdir()
    Records(tmp_path).clean()
    assert not list(tmp_path.glob(".*"))
    (tmp_path / Place(1).name / "episode.json").write_text("{")
    with pytest.raises(ValueError, match=r"task-00001.*is played again"):
        Records(tmp_path).all()


def test_a_reply_is_a_generation_of_the_numbers_it_has():
    reply = Reply((1, 2), np.zeros(2, np.float32), True, "up", 5, 2)
    assert (reply.token_ids, reply.text, reply.prompt_tokens) == ((1, 2), "up", 5)
