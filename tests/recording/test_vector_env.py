from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array
from gymnasium.wrappers import vector as vector_wrappers

import graphwrap
from graphwrap.recording.vector_env import CreditVectorEnv
from graphwrap.transitions import Outcome
from tests.helpers import Line, line_vec, make_line

MODES = list(AutoresetMode)


def lines(kind: type, n: int, mode: AutoresetMode, **settings: Any) -> VectorEnv:
    return kind([partial(make_line, **settings) for _ in range(n)], autoreset_mode=mode)


class Lines(VectorEnv):
    """A vector environment of its own making: masks are left out, arrays are used again, infos vary in kind."""

    def __init__(self, n: int, mode: AutoresetMode, **settings: Any) -> None:
        self.envs_ = [Line(**settings) for _ in range(n)]
        self.num_envs, self.mode = n, mode
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space = self.envs_[0].observation_space
        self.single_action_space = self.envs_[0].action_space
        self.observation_space = batch_space(self.single_observation_space, n)
        self.action_space = batch_space(self.single_action_space, n)
        self.batch = create_empty_array(self.single_observation_space, n)
        self.over = np.zeros(n, np.bool_)

    def _stack(self) -> Any:
        self.batch = concatenate(self.single_observation_space, self.last, self.batch)
        return self.batch

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict]:
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_))
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        if not hasattr(self, "last"):
            self.last = [None] * self.num_envs
        levels = np.zeros(self.num_envs, np.int64)
        for i in np.flatnonzero(mask):
            self.last[i], info = self.envs_[i].reset(seed=None if seeds is None else seeds[i])
            levels[i] = info["level"]
        self.over = self.over & ~mask
        return self._stack(), {"level": levels}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict]:
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), np.bool_)
        final = [None] * self.num_envs
        final_infos: list[Any] = [None] * self.num_envs
        for i, env in enumerate(self.envs_):
            if self.mode == AutoresetMode.NEXT_STEP and self.over[i]:
                self.last[i], _ = env.reset()
                continue
            self.last[i], rewards[i], terminated[i], truncated[i], info = env.step(actions[i])
            if self.mode == AutoresetMode.SAME_STEP and (terminated[i] or truncated[i]):
                final[i], final_infos[i] = self.last[i], info
                self.last[i], _ = env.reset()
        self.over = terminated | truncated
        infos: dict[str, Any] = {"frames": 7}
        if self.mode == AutoresetMode.SAME_STEP and self.over.any():
            infos |= {"final_obs": final, "final_info": final_infos}
        elif self.envs_[0].flags and self.over.any():
            infos["is_success"] = np.array([env.place == env.length - 1 for env in self.envs_])
        return self._stack(), rewards, terminated, truncated, infos


MAKERS = {
    "sync": partial(lines, SyncVectorEnv),
    "async": partial(lines, AsyncVectorEnv),
    "custom": Lines,
}


def choose(env: int, episode: int, step: int) -> int:
    """An action that depends on nothing but its place in the run, and leads to successes and failures."""
    return int((7 * env + 3 * episode + step * (episode % 3)) % 5 < 3)


def play(venv: Any, episodes: int, seed: int | None = 5) -> Any:
    """Play until every sub-environment has ended `episodes` episodes; choices depend on their place alone."""
    n = venv.num_envs
    venv.reset(seed=seed)
    count, step = np.zeros((2, n), int)
    idle = np.zeros(n, np.bool_)
    while count.min() < episodes:
        actions = np.array([choose(env, count[env], step[env]) for env in range(n)])
        _, _, terminated, truncated, _ = venv.step(actions)
        step += ~idle
        over = (terminated | truncated) & ~idle
        count += over
        step[over] = 0
        mode = venv.metadata["autoreset_mode"]
        idle = over if mode == AutoresetMode.NEXT_STEP else np.zeros(n, np.bool_)
        if mode == AutoresetMode.DISABLED and over.any():
            venv.reset(options={"reset_mask": over})
    return venv.assign_credit("graph")


def episodes_of(window: Any, envs: Any, count: int) -> list[list[list[tuple]]]:
    """The first episodes of each environment: (state, action, next state, reward, terminated, truncated, outcome)."""
    t = window.transitions
    found: list[list[list[tuple]]] = []
    for env in range(window.rows.shape[1]):
        runs: list[list[tuple]] = []
        for row in window.rows[window.is_step[:, env], env]:
            if t.step[row] == 0:
                runs.append([])
            runs[-1].append(
                (
                    repr(t.state_labels[t.state[row]]),
                    repr(t.action_labels[t.action[row]]),
                    repr(t.state_labels[t.next_state[row]]),
                    float(np.float32(t.reward[row])),
                    bool(t.terminated[row]),
                    bool(t.truncated[row]),
                    int(t.outcome[t.episode[row]]),
                )
            )
        found.append(runs[:count])
    return found


KINDS = [(maker, kind) for maker in ("sync", "custom") for kind in ("box", "dict", "text", "discrete")]


@pytest.mark.parametrize(("maker", "observations"), [*KINDS, ("async", "box")])
def test_all_modes_and_kinds_record_the_same_episodes(maker: str, observations: str) -> None:
    expected = None
    for mode in MODES:
        venv = graphwrap.wrap(MAKERS[maker](3, mode, observations=observations, flags=True), "graphgpo")
        found = episodes_of(play(venv, 4), venv, 4)
        venv.close()
        expected = expected or found
        assert found == expected
    # The single environment, with the seed that it has among the others.
    for index in range(3):
        env = graphwrap.wrap(Line(observations=observations, flags=True), "graphgpo")
        for episode in range(4):
            env.reset(seed=5 + index if episode == 0 else None)
            over, step = False, 0
            while not over:
                _, _, terminated, truncated, _ = env.step(choose(index, episode, step))
                over, step = terminated or truncated, step + 1
        window = env.assign_credit("graph")
        t = window.transitions
        rewards = [float(np.float32(reward)) for reward in t.reward]
        assert [row[3] for run in expected[index] for row in run] == rewards
        assert [row[0] for run in expected[index] for row in run] == [
            repr(t.state_labels[state]) for state in t.state
        ]
        assert [run[0][6] for run in expected[index]] == t.outcome.tolist()


@pytest.mark.parametrize("group_size", [None, 2])
@pytest.mark.parametrize("maker", MAKERS)
def test_credit_equals_that_of_the_sb3_wrapper(maker: str, group_size: int | None) -> None:
    options: dict[str, Any] = {"credit": graphwrap.GraphGPO(omega=0.8), "group_size": group_size}
    sb3 = graphwrap.wrap(line_vec(4), **options)
    venv = graphwrap.wrap(MAKERS[maker](4, AutoresetMode.SAME_STEP), **options)
    sb3.seed(3)
    sb3_seen = [sb3.reset()]
    seen = [venv.reset(seed=3)[0].copy()]
    rng = np.random.default_rng(0)
    for _ in range(40):
        actions = rng.integers(0, 2, 4)
        sb3_seen.append(sb3.step(actions)[0])
        seen.append(venv.step(actions)[0].copy())
    np.testing.assert_array_equal(sb3_seen, seen)
    one, other = sb3.assign_credit(), venv.assign_credit()
    for name in ("advantages", "mask", "is_step", "episode_finished", "group_complete", "rows"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-5, err_msg=name)
    assert np.count_nonzero(one.advantages) > 10
    assert np.array_equal(one.transitions.task, other.transitions.task)
    venv.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("maker", MAKERS)
def test_groups_share_starts_in_every_mode(maker: str, mode: AutoresetMode) -> None:
    venv = graphwrap.wrap(MAKERS[maker](4, mode), "graphgpo", group_size=4)
    window = play(venv, 5, seed=11)
    t = window.transitions
    starts: dict[int, set] = {}
    for episode in range(t.num_episodes):
        first = t.order[t.episode_offsets[episode]]
        starts.setdefault(t.task_labels[t.episode_task[episode]], set()).add(
            repr(t.state_labels[t.state[first]])
        )
    assert all(len(each) == 1 for each in starts.values())
    assert len(set.union(*starts.values())) > 1
    assert np.bincount(t.episode_task)[:-2].tolist() == [4] * (t.num_tasks - 2)
    venv.close()
    # The starts are those of the tickets, whoever plays them.
    sb3 = graphwrap.wrap(line_vec(4), group_size=4)
    sb3.seed(11)
    sb3.reset()
    for _ in range(60):
        sb3.step(np.ones(4, int))
    other = sb3.assign_credit().transitions
    for label, mine in starts.items():
        if label in other.task_labels:
            task = list(other.task_labels).index(label)
            first = np.flatnonzero((other.task == task) & (other.step == 0))[0]
            assert mine == {repr(other.state_labels[other.state[first]])}


def test_rows_of_a_reset_count_for_nothing() -> None:
    venv = graphwrap.wrap(lines(SyncVectorEnv, 2, AutoresetMode.NEXT_STEP, limit=3), "grpo", task="single")
    venv.reset(seed=0)
    for _ in range(4):
        venv.step(np.array([1, 0]))
    window = venv.assign_credit("graph")
    resets = ~window.is_step
    assert resets.any()
    assert (window.rows[resets] == -1).all()
    assert not window.mask[resets].any()
    assert not window.advantages[resets].any()
    assert not window.episode_finished[resets].any()
    assert np.sort(window.rows[window.is_step]).tolist() == list(range(len(window.transitions)))
    assert window.diagnostics["trainable_share"] == 1.0


@pytest.mark.parametrize("mode", MODES)
def test_what_the_learner_sees_stays_as_it_was(mode: AutoresetMode) -> None:
    plain, wrapped = (lines(SyncVectorEnv, 3, mode, flags=True) for _ in range(2))
    wrapped = graphwrap.wrap(wrapped)
    results = []
    for venv in (plain, wrapped):
        rng = np.random.default_rng(1)
        seen = [venv.reset(seed=2)]
        for _ in range(30):
            seen.append(venv.step(rng.integers(0, 2, 3)))
            over = seen[-1][2] | seen[-1][3]
            if mode == AutoresetMode.DISABLED and over.any():
                seen.append(venv.reset(options={"reset_mask": over}))
        results.append(seen)
    for one, other in zip(*results):
        assert repr(one) == repr(other)  # NumPy compares no arrays inside arrays, as in final_obs
    assert wrapped.unwrapped is wrapped.env


@pytest.mark.parametrize("mode", MODES)
def test_the_observation_of_a_group_is_that_of_its_reset(mode: AutoresetMode) -> None:
    venv = graphwrap.wrap(lines(SyncVectorEnv, 2, mode, observations="text", limit=3), group_size=2)
    observations, infos = venv.reset(seed=4)
    starts = []
    idle = np.zeros(2, np.bool_)
    for _ in range(12):
        observations, _, terminated, truncated, infos = venv.step(np.array([1, 0]))
        over = terminated | truncated
        if mode == AutoresetMode.NEXT_STEP:
            begun, idle = idle, over
        elif mode == AutoresetMode.DISABLED:
            begun = over
            if over.any():
                observations, infos = venv.reset(options={"reset_mask": over})
        else:
            begun = over
        for env in np.flatnonzero(begun):
            starts.append(observations[env])
            assert infos["_level"][env]
            assert observations[env] == f"at {infos['level'][env]}" == f"at {venv.env.envs[env].place}"
    t = venv.assign_credit("graph").transitions
    first = [t.state_labels[t.state[t.order[offset]]] for offset in t.episode_offsets[:-1]]
    assert first[2 : 2 + len(starts)] == starts[: len(first) - 2]
    assert len(starts) >= 4


def test_a_state_function_is_given_the_final_observation_and_info() -> None:
    pairs = []

    def state(observation: Any, info: dict) -> Any:
        pairs.append((int(observation[0]), info.get("place", info.get("level"))))
        return int(observation[0])

    for mode in MODES:
        pairs.clear()
        window = play(graphwrap.wrap(lines(SyncVectorEnv, 2, mode), state=state), 3)
        assert all(place == known for place, known in pairs)
        t = window.transitions
        ends = t.order[t.episode_offsets[1:] - 1][t.outcome == Outcome.SUCCESS]
        assert {t.state_labels[t.next_state[row]] for row in ends} == {6}


def test_tasks_and_outcomes_from_infos_and_functions() -> None:
    def lost(observation: Any, reward: float, terminated: bool, truncated: bool, info: dict) -> bool:
        return bool(info["place"] == observation[0] == 0)

    for mode in MODES:
        venv = graphwrap.wrap(lines(SyncVectorEnv, 3, mode, flags=True), task="level", success="is_success")
        t = play(venv, 4).transitions
        assert set(t.task_labels) <= {2, 3, 4}
        ends = t.order[t.episode_offsets[1:] - 1]
        reached = np.array([t.state_labels[t.next_state[row]][0] for row in ends])
        np.testing.assert_array_equal(reached == 6, t.outcome == Outcome.SUCCESS)
        venv = graphwrap.wrap(
            lines(SyncVectorEnv, 3, mode),
            task=lambda observation, info: (int(observation[0]), int(info["level"])),
            success=lost,
        )
        t = play(venv, 4).transitions
        assert all(a == b for a, b in t.task_labels)
        ends = t.order[t.episode_offsets[1:] - 1]
        reached = np.array([t.state_labels[t.next_state[row]][0] for row in ends])
        np.testing.assert_array_equal(reached == 0, t.outcome == Outcome.SUCCESS)
        assert 0 < np.count_nonzero(t.outcome == Outcome.SUCCESS) < t.num_episodes


def test_a_named_success_that_is_missing_is_warned_about_once() -> None:
    venv = graphwrap.wrap(lines(SyncVectorEnv, 2, AutoresetMode.SAME_STEP), success="goal")
    with pytest.warns(UserWarning, match="success='goal' is no entry of the info") as caught:
        play(venv, 3)
    assert sum("success='goal'" in str(each.message) for each in caught) == 1


def test_tuple_spaces_and_nested_actions() -> None:
    class Pair(gymnasium.Env):
        observation_space = spaces.Tuple((spaces.Discrete(9), spaces.Box(-1, 9, (2,), np.float64)))
        action_space = spaces.Dict({"go": spaces.Discrete(2), "much": spaces.Box(0, 1, (1,), np.float32)})

        def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict]:
            super().reset(seed=seed)
            self.place = 3
            return self._see(), {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
            self.place += 1 if action["go"] else -1
            return self._see(), float(self.place == 5), self.place in (1, 5), False, {}

        def _see(self) -> Any:
            return self.place, np.array([self.place, 0.5])

    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        venv = graphwrap.wrap(SyncVectorEnv([Pair] * 2, autoreset_mode=mode), "grpo")
        venv.reset(seed=0)
        actions = {"go": np.array([1, 0]), "much": np.full((2, 1), 0.5, np.float32)}
        for _ in range(2):
            venv.step(actions)
            actions["go"] = actions["go"].copy()
        t = venv.assign_credit().transitions
        assert t.outcome.tolist()[:2] == [Outcome.SUCCESS, Outcome.FAILURE]
        assert [int(t.state_labels[s][0]) for s in t.next_state] == [4, 2, 5, 1]
        assert t.action_labels[0]["go"] == 1
        assert t.action_labels[0]["much"].tolist() == [0.5]


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_member_noise(kind: type) -> None:
    made = [partial(gymnasium.make, "FrozenLake-v1", is_slippery=True)] * 4
    found = {}
    for noise in (False, True):
        venv = graphwrap.wrap(
            kind(made, autoreset_mode=AutoresetMode.NEXT_STEP), group_size=4, member_noise=noise
        )
        venv.reset(seed=1)
        for _ in range(30):
            venv.step(np.full(4, 2))
        t = venv.assign_credit("graph").transitions
        found[noise] = t
        venv.close()

    def alike(noise: bool) -> list[bool]:
        t = found[noise]
        first = t.next_state[t.episode == 0]
        return [np.array_equal(t.next_state[t.episode == episode], first) for episode in range(4)]

    assert alike(False) == [True] * 4
    assert not all(alike(True))


def test_masked_reset_in_mid_episode_leaves_it_unfinished() -> None:
    venv = graphwrap.wrap(lines(SyncVectorEnv, 2, AutoresetMode.DISABLED), "grpo")
    venv.reset(seed=0)
    venv.step(np.array([1, 1]))
    venv.reset(options={"reset_mask": np.array([True, False])})
    venv.step(np.array([1, 1]))
    window = venv.assign_credit("graph")
    assert window.transitions.outcome.tolist() == [Outcome.UNFINISHED] * 3
    assert window.transitions.episode.tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize(
    "mask", [np.array([1, 0]), np.array([True]), np.array([False, False]), [[True, False]]]
)
def test_bad_masks(mask: Any) -> None:
    venv = graphwrap.wrap(lines(SyncVectorEnv, 2, AutoresetMode.DISABLED))
    venv.reset(seed=0)
    with pytest.raises(ValueError, match=r"must be a bool array of shape \(2,\) with a True in it"):
        venv.reset(options={"reset_mask": mask})
    venv.step(np.array([1, 1]))


def test_steps_need_running_episodes() -> None:
    venv = graphwrap.wrap(lines(SyncVectorEnv, 2, AutoresetMode.DISABLED, limit=2))
    with pytest.raises(ResetNeeded, match=r"\[0, 1\] have none"):
        venv.step(np.array([1, 1]))
    venv.reset(seed=0)
    venv.step(np.array([1, 1]))
    _, _, terminated, truncated, _ = venv.step(np.array([1, 1]))
    assert (terminated | truncated).all()
    venv.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ResetNeeded, match=r"\[1\] have none.*reset_mask"):
        venv.step(np.array([1, 1]))
    assert venv.assign_credit("graph").advantages.shape == (2, 2)  # nothing is lost


def test_vector_envs_that_ignore_the_mask_or_seeds_are_refused() -> None:
    cartpole = graphwrap.wrap(gymnasium.make_vec("CartPole-v1", num_envs=4), group_size=4)
    with pytest.raises(ValueError, match="vectorization_mode='sync'"):
        cartpole.reset(seed=0)

    class Forgetful(Lines):
        def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict]:
            return super().reset(seed=seed, options=None)

    forgetful = graphwrap.wrap(Forgetful(4, AutoresetMode.NEXT_STEP), group_size=4)
    with pytest.raises(ValueError, match="Forgetful does not do that"):
        forgetful.reset(seed=0)
    graphwrap.wrap(gymnasium.make_vec("CartPole-v1", num_envs=4)).reset(seed=0)


def test_what_cannot_be_wrapped() -> None:
    made = lines(SyncVectorEnv, 4, AutoresetMode.NEXT_STEP)
    with pytest.raises(ValueError, match=r"wrapped by graphwrap\.wrap already"):
        graphwrap.wrap(VectorWrapper(graphwrap.wrap(made)))
    inner = SyncVectorEnv([lambda: graphwrap.wrap(Line())])
    with pytest.raises(ValueError, match="sub-environments are wrapped"):
        graphwrap.wrap(inner)
    with pytest.raises(ValueError, match=r"wrap first, then normalise: NormalizeObservation\("):
        graphwrap.wrap(vector_wrappers.NormalizeObservation(made))
    with pytest.raises(ValueError, match="take 3 or 6 environments"):
        graphwrap.wrap(made, group_size=3)
    with pytest.raises(ValueError, match="member_noise=True gives each sub-environment a generator"):
        graphwrap.wrap(Lines(4, AutoresetMode.NEXT_STEP), group_size=2, member_noise=True)
    grouped = graphwrap.wrap(made, group_size=2)
    with pytest.raises(TypeError, match="the seed must be one whole number"):
        grouped.reset(seed=[1, 2, 3, 4])


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_episode_statistics_are_right_with_groups(mode: AutoresetMode, inside: bool) -> None:
    made: Any = lines(SyncVectorEnv, 2, mode, limit=5)
    if inside:
        made = vector_wrappers.RecordEpisodeStatistics(made)
    venv = graphwrap.wrap(made, "grpo", group_size=2)
    outermost = venv if inside else vector_wrappers.RecordEpisodeStatistics(venv)
    outermost.reset(seed=0)
    lengths = []
    rng = np.random.default_rng(0)
    for _ in range(40):
        _, _, terminated, truncated, infos = outermost.step(rng.integers(0, 2, 2))
        if "episode" in infos:
            lengths += infos["episode"]["l"][infos["_episode"]].tolist()
        over = terminated | truncated
        if mode == AutoresetMode.DISABLED and over.any():
            outermost.reset(options={"reset_mask": over})
    t = venv.assign_credit().transitions
    finished = t.outcome != Outcome.UNFINISHED
    assert sorted(np.diff(t.episode_offsets)[finished].tolist()) == sorted(lengths)
    assert len(lengths) > 10


def test_an_error_in_a_step_keeps_what_was_recorded() -> None:
    venv = graphwrap.wrap(
        lines(SyncVectorEnv, 2, AutoresetMode.NEXT_STEP, length=30, fails_at=3), "grpo", task="single"
    )
    venv.reset(seed=0)
    for _ in range(3):
        venv.step(np.array([1, 0]))
    with pytest.raises(RuntimeError, match="simulator crashed"):
        venv.step(np.array([1, 0]))
    with pytest.raises(ResetNeeded):
        venv.step(np.array([1, 0]))
    venv.env.envs[0].fails_at = venv.env.envs[1].fails_at = -1
    venv.reset()
    venv.step(np.array([1, 0]))
    window = venv.assign_credit("graph")
    assert window.advantages.shape == (4, 2)
    assert Outcome.UNFINISHED in window.transitions.outcome


def test_a_dead_worker_is_named_and_what_was_recorded_stays() -> None:
    venv = graphwrap.wrap(lines(AsyncVectorEnv, 3, AutoresetMode.NEXT_STEP), "grpo", task="single")
    venv.reset(seed=0)
    for _ in range(3):
        venv.step(np.array([1, 0, 1]))
    worker = venv.env.processes[1]
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    with pytest.raises(RuntimeError, match=r"worker process of AsyncVectorEnv has died: 1 \(exit code -9\)"):
        venv.step(np.array([1, 0, 1]))
    window = venv.assign_credit("graph")
    assert window.advantages.shape == (3, 3)
    venv.env.close(terminate=True)


def test_wrap_keeps_the_mode_and_the_spaces() -> None:
    made = lines(SyncVectorEnv, 2, AutoresetMode.SAME_STEP)
    venv = graphwrap.wrap(made)
    assert isinstance(venv, CreditVectorEnv)
    assert venv.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert venv.observation_space == made.observation_space
    assert venv.num_envs == 2
