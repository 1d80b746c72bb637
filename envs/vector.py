"""Many Sokoban environments stepped together by Numba kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from graphwrap.envs import kernels, resets, rules
from graphwrap.envs.cells import NUM_CODES, SYMBOLS, board_to_text
from graphwrap.envs.draws import Draws
from graphwrap.envs.generator import level_source
from graphwrap.envs.levels import LevelSet, LevelSource
from graphwrap.envs.render import board_to_rgb
from graphwrap.envs.sokoban import SokobanEnv
from graphwrap.envs.xsb import UNKNOWN

_NEWLINE = NUM_CODES  # beside the cell codes
_TEXT = (SYMBOLS + "\n").ljust(256).encode("ascii")  # character of each code, for bytes.translate


class SokobanVectorEnv(VectorEnv[Any, Any, np.ndarray]):
    """A batch of ``SokobanEnv``, equal to ``gymnasium.vector.SyncVectorEnv`` of as many, and far faster.

    Equal in observations, rewards, ends, infos, seeds and autoresets. ``gymnasium.make_vec("graphwrap/Sokoban-v0",
    num_envs=n)`` makes one. Every returned array is the caller's: no later step changes it.

    Args:
        num_envs: sub-environments.
        levels: as for SokobanEnv, and so on to `render_mode`.
        split: "train" or "test".
        obs: "grid", float32 (n, 7, H, W); "codes", uint8 (n, H, W); "text", a tuple of n str; "rgb",
            uint8 (n, 16 H, 16 W, 3).
        reward: "sparse", "success" or "dense".
        actions: "push" or "all".
        max_steps: an episode is truncated at this many steps, unless that step wins.
        render_mode: None, "rgb_array" or "ansi".
        autoreset_mode: of Gymnasium. NEXT_STEP: the step after an episode's last resets it and ignores its action.
            SAME_STEP: the last step resets, and its own observation and info are ``final_obs`` and ``final_info``.
            DISABLED: the caller resets.

    ``reset`` takes a seed (sub-environment i gets ``seed + i``) or a list of int or None, and the options
    ``reset_mask``, bool (n,): reset these only, and ``level``: one number for all, or one per sub-environment.

    The dynamics are deterministic. A sub-environment's generator (``np_random``, ``set_attr("np_random", ...)``)
    chooses levels and nothing else, so giving the members of a group generators of their own changes no episode.

    Raises:
        ValueError: an argument, action, level or mask that is not possible. Nothing has changed then.
        TypeError: a mask that is no bool array.
        gymnasium.error.ResetNeeded: a step of a sub-environment that has not begun or, with DISABLED, has ended.
    """

    def __init__(
        self,
        num_envs: int = 1,
        levels: str | Path | LevelSource = "6x6-1",
        split: str = "train",
        obs: Literal["grid", "codes", "text", "rgb"] = "grid",
        reward: Literal["sparse", "success", "dense"] = "sparse",
        actions: Literal["push", "all"] = "push",
        max_steps: int = 15,
        render_mode: str | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        if isinstance(num_envs, bool) or not isinstance(num_envs, (int, np.integer)) or num_envs < 1:
            raise ValueError(f"num_envs is an integer of at least 1, got {num_envs!r}.")
        rules.check_options(obs, reward, actions, max_steps, render_mode)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.levels = level_source(levels, split)
        self.num_envs = int(num_envs)
        self.max_steps = int(max_steps)
        self.render_mode = render_mode
        self.metadata = {**SokobanEnv.metadata, "autoreset_mode": self.autoreset_mode}
        self._obs = obs

        height, width = self._shape = self.levels.shape
        self._num_actions = rules.ACTIONS[actions]
        self.single_action_space = spaces.Discrete(self._num_actions)
        self.single_observation_space = rules.observation_space(obs, height, width)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

        effects = rules.effects(actions, width)
        self._effects = (np.array([offset for offset, _ in effects]), np.array([push for _, push in effects]))
        self._rules = (min(self.max_steps, 2**62), reward == "dense", rules.idle_reward(reward))
        self._next_step = self.autoreset_mode == AutoresetMode.NEXT_STEP
        self._same_step = self.autoreset_mode == AutoresetMode.SAME_STEP

        self._cells = np.zeros((self.num_envs, height * width), np.uint8)
        self._counters = np.zeros((self.num_envs, kernels.NUM_COUNTERS), np.int64)
        self._phase = np.zeros(self.num_envs, np.uint8)
        self._ended = 0  # episodes that ended in the last step
        self._generated = not isinstance(self.levels, LevelSet)
        self._draws = Draws(self.num_envs, len(self.levels))
        # Where levels are made, or a generator is shared, a level is drawn and made ready at its turn, row by row.
        self._ready = np.full(self.num_envs, kernels.MISSING if self._generated else kernels.DRAW)
        self._rooms = np.zeros_like(self._cells)
        self._lengths = np.full(self.num_envs, UNKNOWN, np.int32)
        self._all_solved = isinstance(self.levels, LevelSet) and int(self.levels.optimal.min()) != UNKNOWN

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode in every sub-environment, or in those of ``options["reset_mask"]``.

        Returns:
            The observations of all sub-environments, and the infos of those that were reset.
        """
        seeds = resets.checked_seeds(seed, self.num_envs)
        others = dict(options or {})
        rows = np.arange(self.num_envs)
        if "reset_mask" in others:
            rows = np.flatnonzero(resets.checked_mask(others.pop("reset_mask"), self.num_envs))
        rules.check_reset_options(others)
        given = resets.checked_levels(self.levels, others["level"], rows, self.num_envs) if others else None
        if len(rows) < self.num_envs:
            never = np.delete(self._phase, rows) == kernels.NEVER
            if never.any():
                raise ResetNeeded("The first reset is of all sub-environments: leave out the reset_mask.")

        seeded = {row: value for row in rows.tolist() if (value := seeds[row]) is not None}
        self._draws.seed(list(seeded), list(seeded.values()))
        self._draws.seed_new()
        self._share()
        levels = self._draws.take(rows) if given is None else given
        boards = self.levels.boards_of(levels).reshape(len(rows), -1)
        kernels.begin(self._cells, self._counters, self._phase, rows, boards)
        self._ended = int((self._phase == kernels.ENDED).sum())

        numbers = np.zeros((2, self.num_envs), np.int64)
        masks = np.zeros((2, self.num_envs), np.bool_)
        numbers[0, rows], masks[0, rows] = levels, True
        lengths = self.levels.optimal_lengths(levels)
        known = lengths != UNKNOWN
        numbers[1, rows[known]], masks[1, rows[known]] = lengths[known], True
        return self._observations(self._cells), self._reset_infos(numbers, masks)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One action in every sub-environment.

        Args:
            actions: integers, (n,).

        Returns:
            Observations; rewards, float64 (n,); terminated and truncated, bool (n,); infos.
        """
        chosen = self._checked_actions(actions)
        refused = kernels.refused_row(self._phase, chosen, self._num_actions, self._next_step)
        if refused >= 0:
            raise self._refusal(refused, np.asarray(actions)[refused])

        begun = self._begin_ended(kernels.BEGUN) if self._ended and self._next_step else {}
        rewards = np.empty(self.num_envs)
        terminated = np.empty(self.num_envs, np.bool_)
        truncated = np.empty(self.num_envs, np.bool_)
        self._ended = kernels.step(
            self._cells,
            self._counters,
            self._phase,
            chosen,
            *self._effects,
            *self._rules,
            rewards,
            terminated,
            truncated,
        )
        infos: dict[str, Any] = {}
        if self._ended:
            over = terminated | truncated
            infos = {"is_success": terminated.copy(), "_is_success": over}
            if self._same_step:
                infos = {**self._final(over), "final_info": infos, "_final_info": over.copy()}
                begun = self._begin_ended(kernels.RUNNING)
        infos.update(begun)
        return self._observations(self._cells), rewards, terminated, truncated, infos

    def render(self) -> tuple[np.ndarray | str | None, ...]:  # type: ignore[override]
        """Per sub-environment the picture, uint8 (16 H, 16 W, 3), or the text of its board, by ``render_mode``."""
        if self.render_mode is None:
            gym.logger.warn(rules.NO_RENDER_MODE)
            return (None,) * self.num_envs
        if (self._phase == kernels.NEVER).any():
            raise ResetNeeded(rules.NOTHING_TO_RENDER)
        boards = self._cells.reshape(-1, *self._shape)
        if self.render_mode == "ansi":
            return tuple(map(board_to_text, boards))
        return tuple(map(board_to_rgb, boards))

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The generators of the sub-environments."""
        generators = tuple(map(self._draws.generator, range(self.num_envs)))
        self._share()
        return generators

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seeds of the sub-environments' generators, -1 where one was set from outside."""
        return tuple(map(self._draws.seed_of, range(self.num_envs)))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of a SokobanEnv, once per sub-environment.

        Raises:
            AttributeError: a SokobanEnv has none of that name, or the batch does not keep it.
        """
        if name in ("np_random", "np_random_seed"):
            return getattr(self, name)
        if name in ("action_space", "observation_space"):
            return (getattr(self, f"single_{name}"),) * self.num_envs
        if name in ("levels", "max_steps", "render_mode"):
            return (getattr(self, name),) * self.num_envs
        if name == "metadata":
            return (SokobanEnv.metadata,) * self.num_envs
        raise AttributeError(
            f"The sub-environments of a {type(self).__name__} are rows of one batch and have the attributes "
            f"action_space, levels, max_steps, metadata, np_random, np_random_seed, observation_space and render_mode; "
            f'got {name!r}. make_vec(..., vectorization_mode="sync") keeps whole environments.'
        )

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls ``render``, or gets an attribute, in every sub-environment.

        Raises:
            AttributeError: see `get_attr`.
        """
        return self.render(*args, **kwargs) if name == "render" else self.get_attr(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Sets ``np_random`` of every sub-environment: one Generator for all, or a list of n.

        Raises:
            AttributeError: another attribute; the sub-environments share them.
            ValueError: a list of another length.
            TypeError: something else than a Generator.
        """
        if name != "np_random":
            raise AttributeError(
                f"np_random can be set; the other attributes are of the whole batch, got {name!r}. Make a new one."
            )
        generators = values if isinstance(values, (list, tuple)) else [values] * self.num_envs
        if len(generators) != self.num_envs:
            raise ValueError(
                f"values has one entry per sub-environment, {self.num_envs}, got {len(generators)}."
            )
        for value in generators:
            if not isinstance(value, np.random.Generator):
                raise TypeError(f"np_random is a numpy.random.Generator, got {value!r}.")
        for row, value in enumerate(generators):
            self._draws.replace(row, value)
        self._share()

    def _begin_ended(self, next_phase: int) -> dict[str, Any]:
        """Starts the ended rows on the levels that are next for them: the infos."""
        numbers = np.zeros((2, self.num_envs), np.int64)
        masks = np.zeros((2, self.num_envs), np.bool_)
        draws = self._draws
        if isinstance(self.levels, LevelSet):
            table = self.levels.boards.reshape(len(self.levels), -1), self.levels.optimal
        else:
            table = self._rooms, self._lengths
        while True:
            row = kernels.begin_ended(
                self._cells,
                self._counters,
                self._phase,
                next_phase,
                draws.streams,
                draws.bound,
                self._ready,
                *table,
                self._generated,
                numbers,
                masks,
            )
            if row < 0:
                return self._reset_infos(numbers, masks)
            level = int(draws.take(np.array([row]))[0])
            if self._generated:
                self._rooms[row] = self.levels.board(level).ravel()
                self._lengths[row] = self.levels.optimal_length(level)
            self._ready[row] = level

    def _share(self) -> None:
        """Lets the rows whose generator is shared draw from it."""
        if not self._generated:
            self._ready = np.where(self._draws.shared, kernels.MISSING, kernels.DRAW)

    def _reset_infos(self, numbers: np.ndarray, masks: np.ndarray) -> dict[str, Any]:
        """The infos of a reset, from levels and optimal lengths, int64 (2, n), and where they are, bool (2, n)."""
        infos = {"level": numbers[0], "_level": masks[0]}
        if self._all_solved or masks[1].any():
            infos["optimal_length"], infos["_optimal_length"] = numbers[1], masks[1]
        return infos

    def _observations(self, cells: np.ndarray) -> Any:
        """The observations of some rows of cells, uint8 (k, H * W)."""
        height, width = self._shape
        if self._obs == "codes":
            return cells.reshape(-1, height, width).copy()
        if self._obs == "grid":
            planes = np.empty((len(cells), NUM_CODES, height * width), np.float32)
            kernels.fill_planes(cells, planes)
            return planes.reshape(-1, NUM_CODES, height, width)
        if self._obs == "rgb":
            return board_to_rgb(cells.reshape(-1, height, width))
        lines = np.full((len(cells), height, width + 1), _NEWLINE, np.uint8)
        lines[:, :, :-1] = cells.reshape(-1, height, width)
        text = lines.tobytes().translate(_TEXT).decode("ascii")
        length = height * (width + 1)
        return tuple([text[start : start + length - 1] for start in range(0, len(text), length)])

    def _final(self, over: np.ndarray) -> dict[str, Any]:
        rows = np.flatnonzero(over)
        final = np.full(self.num_envs, None, dtype=object)
        for row, observation in zip(rows.tolist(), self._observations(self._cells[rows])):
            final[row] = observation
        return {"final_obs": final, "_final_obs": over.copy()}

    def _checked_actions(self, actions: Any) -> np.ndarray:
        given = np.asarray(actions)
        if given.shape != (self.num_envs,):
            raise ValueError(
                f"actions has one integer per sub-environment, shape ({self.num_envs},), got shape {given.shape}."
            )
        if given.dtype.kind not in "iu":
            raise rules.refused_action(given[0], self._num_actions)
        return given.astype(np.int64, copy=False)

    def _refusal(self, row: int, action: Any) -> Exception:
        if self._phase[row] == kernels.NEVER:
            return ResetNeeded(rules.BEFORE_FIRST_RESET)
        if self._phase[row] == kernels.ENDED:
            rows = np.flatnonzero(self._phase == kernels.ENDED).tolist()
            return ResetNeeded(
                f"The episodes of sub-environments {rows} have ended: reset them before the next step, with "
                "options={'reset_mask': terminated | truncated}, or choose another autoreset_mode."
            )
        return rules.refused_action(action, self._num_actions)
