"""The options of `graphwrap.wrap`, which its wrappers share."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwrap.credit import CreditMethod
from graphwrap.methods import make_credit
from graphwrap.recording.online import OnlinePotential
from graphwrap.recording.reading import Reader
from graphwrap.recording.recorder import Recorder
from graphwrap.states import StateKey


def check_options(
    task: Any, group_size: Any, success: Any, state: Any, member_noise: Any, online: Any, gamma: Any
) -> None:
    """Check the options of `graphwrap.wrap`.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: Options that do not go together, or a group of fewer than two.
    """
    if not isinstance(online, bool):
        raise TypeError(f"online must be True or False, got {online!r}")
    if gamma is not None and not online:
        raise ValueError(f"gamma={gamma!r} is the discount of online=True; give online too, or leave it out")
    if online and group_size is not None:
        raise ValueError(
            "online=True learns from past episodes of a task, and with group_size every group is a new task; leave "
            "group_size out and name the task by task="
        )
    if not (isinstance(task, str) or callable(task)):
        raise TypeError(
            "task must be 'start', 'single', the name of an info entry, or a function of (first observation, info), "
            f"got {task!r}"
        )
    if not (success is None or isinstance(success, str) or callable(success)):
        raise TypeError(
            "success must be None, the name of an info entry, or a function of (observation, reward, terminated, "
            f"truncated, info), got {success!r}"
        )
    if not (state is None or isinstance(state, StateKey) or callable(state)):
        raise TypeError(
            f"state must be None, a StateKey(...), or a function of (observation, info), got {state!r}"
        )
    if not isinstance(member_noise, bool):
        raise TypeError(f"member_noise must be True or False, got {member_noise!r}")
    if group_size is None:
        if member_noise:
            raise ValueError(
                "member_noise=True is for the members of a group; give group_size too, or leave it out"
            )
        return
    if isinstance(group_size, bool) or not isinstance(group_size, (int, np.integer)):
        raise TypeError(f"group_size must be a whole number or None, got {group_size!r}")
    if group_size < 2:
        raise ValueError(
            f"group_size must be at least 2, since a group of one has nothing to compare with, got {group_size}"
        )
    if task != "start":
        raise ValueError(
            f"with group_size the task of an episode is its group, so task={task!r} would be ignored; leave one of "
            "the two out"
        )


def check_whole_groups(num_envs: int, group_size: int | None) -> None:
    """Check that whole groups can start together.

    Raises:
        ValueError: They cannot.
    """
    if group_size is not None and num_envs % group_size:
        fits = [n for n in (num_envs // group_size, num_envs // group_size + 1) if n]
        raise ValueError(
            f"num_envs must be a multiple of group_size, so that whole groups start together, got {num_envs} and "
            f"{group_size}; take {' or '.join(str(n * group_size) for n in fits)} environments, or another group_size"
        )


def make_recorder(
    num_envs: int,
    reader: Reader,
    credit: str | CreditMethod,
    group_size: int | None,
    online: bool,
    gamma: float | None,
) -> Recorder | OnlinePotential:
    """What a wrapper tells of its steps: windows that are credited later, or rewards that are shaped at once.

    Raises:
        ValueError: An unknown credit name; or with `online` a method without a potential, or `gamma` out of range.
    """
    method = make_credit(credit)
    if online:
        gamma = 0.99 if gamma is None else gamma
        return OnlinePotential(method, reader.states, reader.actions, num_envs, gamma=gamma)
    return Recorder(num_envs, reader.states, reader.actions, method, group_size=group_size)
