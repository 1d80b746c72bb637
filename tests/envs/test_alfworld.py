"""ALFWorld as a text environment."""

from __future__ import annotations

import json
import shutil
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import graphwrap  # noqa: F401  registers the environments
from graphwrap.envs.alfworld import ALFWorldEnv
from graphwrap.envs.pool import EnvPool, Reset, Step
from graphwrap.envs.text import check_text_env

pytestmark = pytest.mark.alfworld


def kept(observation: str, info: dict[str, Any]) -> tuple[Any, ...]:
    return observation, info["admissible_actions"], info["task"], info["state_key"], info["won"]


def walkthrough(env: ALFWorldEnv, task: str) -> list[str]:
    (game,) = (game for game in env.games if game.name == task)
    return json.loads(game.path.read_text())["walkthrough"]


@pytest.mark.parametrize("observation", ["plain", "enriched"])
def test_gymnasium_and_graphwrap_accept_it(alfworld_data: Path, observation: Any) -> None:
    env = gym.make("graphwrap/ALFWorld-v0", data=str(alfworld_data), observation=observation)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    assert env.spec is not None
    assert json.loads(env.spec.to_json())["kwargs"]["observation"] == observation
    for seed in range(3):
        check_text_env(env, seed=seed)


def test_a_walkthrough_is_given_where_it_is_asked_for(alfworld_data: Path, tmp_path: Path) -> None:
    plain, told = ALFWorldEnv(data=alfworld_data), ALFWorldEnv(data=alfworld_data, walkthrough=True)
    assert "walkthrough" not in plain.reset(seed=0)[1]
    _, info = told.reset(seed=0)
    for command in info["walkthrough"]:
        assert command in info["admissible_actions"]
        _, reward, terminated, _, info = told.step(command)
        assert "walkthrough" not in info
    assert (reward, terminated, info["is_success"]) == (10.0, True, True)
    game = tmp_path / "game.tw-pddl"
    content = json.loads(told.games[0].path.read_text())
    game.write_text(json.dumps({**content, "walkthrough": None}))
    with pytest.raises(ValueError, match="has no walkthrough"):
        told.reset(options={"game": game})


def test_seeds_choose_games(alfworld_data: Path) -> None:
    env, other = (ALFWorldEnv(data=alfworld_data) for _ in range(2))
    count = len(env.games)
    tasks = [env.reset(seed=seed)[1]["task"] for seed in range(2 * count)]
    assert sorted(tasks[:count]) == [game.name for game in env.games]
    assert tasks[count:] == tasks[:count] != sorted(tasks[:count])
    for seed in (4, 1, 10**12 + 1):
        assert other.reset(seed=seed)[1]["task"] == tasks[seed % count]
    env.reset(seed=5)
    other.reset(seed=5)
    drawn = [(one.reset()[1]["task"], two.reset()[1]["task"]) for one, two in [(env, other)] * 8]
    assert all(one == two for one, two in drawn)
    assert len(set(drawn)) > 1


def test_options_choose_games(alfworld_data: Path, tmp_path: Path) -> None:
    env = ALFWorldEnv(data=alfworld_data)
    game = env.games[2]
    copy = shutil.copytree(game.path.parent, tmp_path / "task" / "trial") / "game.tw-pddl"
    found = [env.reset(seed=0, options={"game": chosen}) for chosen in (2, game.name, game.path, str(copy))]
    assert [kept(*seen)[:2] for seen in found[1:]] == [kept(*found[0])[:2]] * 3
    assert [info["task"] for _, info in found[:3]] == [game.name] * 3
    assert found[3][1]["task"].endswith("task/trial")
    for wrong in (6, -1, "no such game", True, None, 1.5):
        with pytest.raises(ValueError, match=r"options\['game'\] is "):
            env.reset(options={"game": wrong})
    with pytest.raises(ValueError, match="options of reset are game, got 'level'"):
        env.reset(options={"level": 1})


@pytest.mark.parametrize(("reward", "success"), [("success", 10.0), ("sparse", 1.0)])
def test_an_episode_that_wins(alfworld_data: Path, reward: Any, success: float) -> None:
    env = ALFWorldEnv("valid_seen", alfworld_data, reward=reward, max_steps=50)
    with pytest.raises(ResetNeeded, match="before the first step"):
        env.step("look")
    observation, info = env.reset(seed=0)
    task, kind, text = info["task"], info["task_type"], info["task_description"]
    assert observation.endswith(f"Your task is to: {text}")
    assert kind == "pick_two_obj_and_place"
    assert "is_success" not in info
    commands = walkthrough(env, task)
    for number, command in enumerate(commands, 1):
        assert command in info["admissible_actions"]
        last = number == len(commands)
        observation, got, terminated, truncated, info = env.step(command)
        assert (got, terminated, truncated) == (success * last, last, False)
        assert (info["won"], info.get("is_success"), info["admissible_actions"] == []) == (
            last,
            last or None,
            last,
        )
        assert (info["task"], info["task_type"], info["task_description"]) == (task, kind, text)
    with pytest.raises(ResetNeeded, match="has ended"):
        env.step("look")


def test_the_step_limit_truncates(alfworld_data: Path) -> None:
    env = ALFWorldEnv(data=alfworld_data, max_steps=3)
    env.reset(seed=0)
    ends = [env.step(action)[1:] for action in ("look", "nonsense", "inventory")]
    assert [end[:3] for end in ends] == [(0.0, False, False), (0.0, False, False), (0.0, False, True)]
    assert [end[3].get("is_success") for end in ends] == [None, None, False]
    with pytest.raises(ResetNeeded):
        env.step("look")
    game = env.games[0]
    commands = walkthrough(env, game.name)
    exact = ALFWorldEnv(data=alfworld_data, max_steps=len(commands))
    exact.reset(options={"game": 0})
    assert [exact.step(command)[2:4] for command in commands][-1] == (True, False)


@pytest.mark.parametrize(
    "action", ["", "jump", "Look", "go to", "put mug 1 in/on desk 1", "look around", "\ud83d"]
)
def test_an_unknown_action_is_a_step_that_changes_nothing(alfworld_data: Path, action: str) -> None:
    env = ALFWorldEnv(data=alfworld_data, max_steps=2)
    _, before = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(action)
    assert (observation, reward, terminated, truncated) == ("Nothing happens.", 0.0, False, False)
    assert info == before
    assert env.step(action)[3]


def test_white_space_around_a_command_is_nothing(alfworld_data: Path) -> None:
    env = ALFWorldEnv(data=alfworld_data)
    _, info = env.reset(seed=1)
    command = info["admissible_actions"][0]
    expected = env.step(command)
    env.reset(seed=1)
    assert env.step(f" {command}\n") == expected


def test_an_action_that_is_no_str_is_refused(alfworld_data: Path) -> None:
    env = ALFWorldEnv(data=alfworld_data)
    env.reset(seed=0)
    with pytest.raises(TypeError, match=r"An action is a str such as 'go to drawer 1', got 3\."):
        env.step(3)  # type: ignore[arg-type]


def test_the_key_is_what_graphgpo_takes(alfworld_data: Path) -> None:
    env = ALFWorldEnv(data=alfworld_data, task_types=["pick_clean_then_place_in_recep"])
    observation, info = env.reset(seed=0)
    keys = [info["state_key"]]
    assert keys[0] == (observation, (), None, (), tuple(info["admissible_actions"]))
    thing = first = place = ""
    for command in walkthrough(env, info["task"]):
        observation, *_, info = env.step(command)
        seen, location, held, moved, admissible = info["state_key"]
        assert seen == observation
        assert list(admissible) == (info["admissible_actions"] or sorted(admissible))
        verb, _, rest = command.partition(" ")
        if verb == "take":
            thing, _, first = rest.partition(" from ")
            assert (held, moved) == ((thing, ()), ())
        elif verb == "clean":
            assert held == (thing, ("clean",))
            assert "sinkbasin 1" in location
        elif verb == "move":
            place = rest.partition(" to ")[2]
            assert (held, moved) == (None, ((thing, first, place),))
        keys.append(info["state_key"])
    assert place
    assert len(set(keys)) == len(keys)


def test_a_thing_that_is_back_is_not_moved(alfworld_data: Path) -> None:
    env = ALFWorldEnv(data=alfworld_data, task_types=["pick_clean_then_place_in_recep"])
    _, info = env.reset(seed=0)
    for command in walkthrough(env, info["task"]):
        *_, info = env.step(command)
        if command.startswith("take"):
            break
    thing, _, place = command.removeprefix("take ").partition(" from ")
    assert env.step(f"move {thing} to {place}")[-1]["state_key"][2:4] == (None, ())


def test_what_is_added_to_an_enriched_observation(alfworld_data: Path) -> None:
    plain = ALFWorldEnv(data=alfworld_data, task_types=["pick_clean_then_place_in_recep"])
    rich = ALFWorldEnv(
        data=alfworld_data,
        task_types=["pick_clean_then_place_in_recep"],
        observation="enriched",
        render_mode="ansi",
    )
    first, info = plain.reset(seed=0)
    shown, rich_info = rich.reset(seed=0)
    assert rich_info == info
    assert shown == f"{first}\nLocation: the middle of a room\nHolding: nothing\nMoved: nothing"
    for command in walkthrough(plain, info["task"]):
        told, *ends = plain.step(command)
        shown, *rich_ends = rich.step(command)
        assert rich_ends == ends
        assert rich.render() == shown
        _, location, held, moved, _ = ends[-1]["state_key"]
        text, where, holding, history = shown.rsplit("\n", 3)
        assert (text, where) == (told, f"Location: {', '.join(location)}")
        if command.startswith("clean"):
            assert holding == f"Holding: {held[0]} (clean)"
    ((thing, start, end),) = moved
    assert (holding, history) == ("Holding: nothing", f"Moved: {thing} from {start} to {end}")


@pytest.mark.parametrize(("mode", "how"), [("sync", {}), ("async", {"shared_memory": False})])
def test_several_at_once_are_each_like_one_alone(
    alfworld_data: Path, mode: str, how: dict[str, bool]
) -> None:
    """TextWorld's own batch plays all rows with the names of the last row's game."""
    alone = [ALFWorldEnv(data=alfworld_data) for _ in range(3)]
    name, data = "graphwrap/ALFWorld-v0", str(alfworld_data)
    envs = gym.make_vec(name, num_envs=3, vectorization_mode=mode, vector_kwargs=how, data=data)
    observations, infos = envs.reset(seed=0)
    starts = [env.reset(seed=seed) for seed, env in enumerate(alone)]
    assert list(observations) == [observation for observation, _ in starts]
    assert list(infos["task"]) == [info["task"] for _, info in starts]
    for number in range(6):
        actions = [info["admissible_actions"][number % 3] for _, info in starts]
        observations, _, _, _, infos = envs.step(actions)
        results = [env.step(action) for env, action in zip(alone, actions)]
        starts = [(result[0], result[-1]) for result in results]
        assert list(observations) == [observation for observation, _ in starts]
        assert list(infos["task"]) == [info["task"] for _, info in starts]
    envs.close()


def test_processes_give_the_same(alfworld_data: Path) -> None:
    make = partial(ALFWorldEnv, data=alfworld_data, max_steps=4)
    with EnvPool(make, 3, processes=2) as pool:
        alone = [make() for _ in range(3)]
        replies = pool.reset([0, 1, 2], [0, 1, 0])
        expected = [env.reset(seed=seed) for env, seed in zip(alone, [0, 1, 0])]
        assert [(reply.observation, reply.info) for reply in replies if isinstance(reply, Reset)] == expected
        for number in range(4):
            actions = [info["admissible_actions"][number] for *_, info in expected]
            steps = pool.step([0, 1, 2], actions)
            expected = [env.step(action) for env, action in zip(alone, actions)]
            found = [step for step in steps if isinstance(step, Step)]
            assert [
                (one.observation, one.reward, one.terminated, one.truncated, one.info) for one in found
            ] == expected
        assert all(one.truncated for one in found)


def test_textworlds_own_code_gives_the_same(alfworld_data: Path) -> None:
    quick, plain = (ALFWorldEnv(data=alfworld_data, cache=cache) for cache in (True, False))
    seen, expected = quick.reset(seed=2), plain.reset(seed=2)
    assert seen == expected
    for number in range(10):
        actions = expected[-1]["admissible_actions"]
        action = actions[number * 7 % len(actions)]
        seen, expected = quick.step(action), plain.step(action)
        assert seen == expected


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("observation", "rich", "observation is one of 'plain', 'enriched', got 'rich'"),
        ("reward", "dense", "reward is one of 'success', 'sparse', got 'dense'"),
        ("max_steps", 0, "max_steps is an integer of at least 1, got 0"),
        ("max_steps", True, "max_steps is an integer of at least 1, got True"),
        ("render_mode", "human", "render_mode is one of None, 'ansi', got 'human'"),
        ("task_types", ["cook"], "task_types are some of"),
    ],
)
def test_wrong_arguments_are_refused(alfworld_data: Path, argument: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ALFWorldEnv(**{"data": alfworld_data, argument: value})


def test_without_games_it_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no game that can be won"):
        gym.make("graphwrap/ALFWorld-v0", data=str(tmp_path))


def test_a_game_that_breaks_ends_the_episode_and_not_the_environment(
    alfworld_data: Path, tmp_path: Path
) -> None:
    env = ALFWorldEnv(data=alfworld_data)
    env.reset(seed=0)
    broken = tmp_path / "game.tw-pddl"
    broken.write_text("{}")
    with pytest.raises(ValueError, match="is not"):
        env.reset(options={"game": broken})
    with pytest.raises(ResetNeeded):
        env.step("look")
    env.reset(seed=0)
    assert env.step("look")[0]


def test_closing_twice_is_fine(alfworld_data: Path) -> None:
    env = ALFWorldEnv(data=alfworld_data)
    env.reset(seed=0)
    env.close()
    env.close()
    with pytest.raises(RuntimeError, match="closed"):
        env.reset(seed=0)
