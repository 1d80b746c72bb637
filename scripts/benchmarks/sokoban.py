"""The batched Sokoban against as many environments of gym-sokoban."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwrap.scripts.benchmarks import Settings
from graphwrap.scripts.benchmarks.ratio import Measured, Ratio, interleaved, seconds

ENV_ID = "graphwrap/Sokoban-v0"


def measure(settings: Settings) -> list[Measured]:
    """Steps per second of a batch with observations of cell codes, against gym-sokoban's step without rendering.

    gym-sokoban's own class is stepped as it is, but for the frame it draws in every step, which is left out. Rooms are
    made beforehand on its side, since a room takes longer than an episode; on ours resets are part of the time.
    """
    import gymnasium

    import graphwrap

    assert graphwrap.__version__
    num_envs, steps, their_steps = settings.sized(256, 8), settings.sized(4000, 50), settings.sized(30, 5)
    batch = gymnasium.make_vec(ENV_ID, num_envs=num_envs, obs="codes")
    rng = np.random.default_rng(0)
    actions = rng.integers(batch.single_action_space.n, size=(64, num_envs))  # type: ignore[attr-defined]
    theirs = _gym_sokoban_envs(num_envs)
    their_actions = rng.integers(9, size=(their_steps, num_envs)).tolist()

    def ours() -> float:
        def walk() -> None:
            for i in range(steps):
                batch.step(actions[i % len(actions)])

        batch.reset(seed=0)
        return steps * num_envs / seconds(walk)

    def other() -> float:
        def walk() -> None:
            for row in their_actions:
                for env, action in zip(theirs, row):
                    env.step(action)

        return their_steps * num_envs / seconds(walk)

    ours()
    other()
    ours_each, other_each = interleaved(ours, other, settings.pairs, settings.on_pair)
    batch.close()
    return [
        Ratio(
            "sokoban",
            f"{num_envs} environments of 6x6 rooms with one box, random actions",
            "graphwrap/Sokoban-v0, one batch, observations of cell codes, resets included",
            "steps/s",
            ours_each,
            200.0,
            False,
            "gym-sokoban, one after the other, without rendering",
            other_each,
        )
    ]


def _gym_sokoban_envs(count: int) -> list[Any]:
    """Environments of gym-sokoban with a room each that do not draw."""
    from graphwrap.envs.gym_sokoban import generate_room, load_env_class

    class Undrawn(load_env_class()):  # type: ignore[misc]
        def render(self, *_: Any, **__: Any) -> None:
            return None

    envs = []
    for seed in range(count):
        room = generate_room(seed)
        env = Undrawn(dim_room=room.shape, max_steps=10**9, num_boxes=1, reset=False)
        env.room_fixed = np.where(room == 2, 2, np.where(room == 0, 0, 1))
        env.room_state = room.astype(int)
        env.player_position = np.argwhere(room == 5)[0]
        env.num_env_steps = env.reward_last = env.boxes_on_target = 0  # as its reset() does
        envs.append(env)
    return envs
