"""A Gymnasium vector environment as a `VecEnv` of Stable-Baselines3."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from stable_baselines3.common.vec_env import VecEnv

from graphwrap.recording.online import OUTCOME_REWARD
from graphwrap.recording.reading import row
from graphwrap.sb3.observations import batch_of, check_spaces, put_rows
from graphwrap.sb3.sub_envs import SubEnvs
from graphwrap.vector_envs import MaskedReset, as_seed, autoreset_mode, info_rows, own


def as_vec_env(env: VectorEnv) -> VecEnv:
    """Make a Gymnasium vector environment a `VecEnv`, which any Stable-Baselines3 learner takes.

    Step for step equal to a `DummyVecEnv` of the same sub-environments, whatever the autoreset mode:

        venv = as_vec_env(gymnasium.make_vec("graphwrap/Sokoban-v0", num_envs=128))
        PPO("MlpPolicy", graphwrap.wrap(venv, group_size=8)).learn(100_000, callback=CreditCallback())

    Args:
        env: Any vector environment; in NEXT_STEP and DISABLED mode one that can reset sub-environments by mask.

    Returns:
        A `VecEnv`. Attributes and methods of sub-environments are within its reach as far as they are in that of `env`.

    Raises:
        TypeError: `env` is no vector environment.
        ValueError: Stable-Baselines3 has no use for a space of `env`, or its metadata name an unknown autoreset mode.
    """
    if not isinstance(env, VectorEnv):
        raise TypeError(
            f"as_vec_env takes a gymnasium.vector.VectorEnv, got {type(env).__module__}.{type(env).__qualname__}; "
            "for single environments Stable-Baselines3 has make_vec_env(id, n_envs=8)"
        )
    return VectorEnvAdapter(env)


class VectorEnvAdapter(VecEnv):
    """What `as_vec_env` returns."""

    def __init__(self, env: VectorEnv) -> None:
        check_spaces(env.single_observation_space, env.single_action_space)
        self.vector_env = env
        self._same_step = autoreset_mode(env) is AutoresetMode.SAME_STEP
        self._masked_reset = MaskedReset(env)
        self._sub_envs = SubEnvs(env)
        self._started = False
        self._actions: Any = None
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)
        self.metadata = env.metadata

    def reset(self) -> Any:
        """Reset every sub-environment, with the seeds and options that were set; they are used once.

        Raises:
            ValueError: The vector environment cannot reset single sub-environments, and would have to.
        """
        seeds, options = self._seeds, self._options
        self._reset_seeds()
        self._reset_options()
        alike = _alike(options)
        observations, infos = self._reset_all(seeds, options[0])
        batch = batch_of(self.observation_space, observations, self.num_envs)
        self.reset_infos = info_rows(infos, range(self.num_envs), self.num_envs)
        for envs in alike[1:]:
            self._put(batch, envs, *self._reset_some(envs, [seeds[env] for env in envs], options[envs[0]]))
        return batch

    def _reset_all(
        self, seeds: Sequence[int | None] | None, options: dict[str, Any] | None
    ) -> tuple[Any, dict[str, Any]]:
        if self._started or self._same_step:
            result = self.vector_env.reset(seed=as_seed(seeds), options=copy.deepcopy(options) or None)
        else:  # by a mask of all, which shows before the first step whether the environment looks at masks
            result = self._masked_reset(np.ones(self.num_envs, np.bool_), seeds, options)
        self._started = True
        return result

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = np.asarray(actions)

    def step_wait(self) -> Any:
        """Step every sub-environment, and reset those whose episode ended.

        Raises:
            ValueError: The vector environment cannot reset them alone.
        """
        observations, rewards, terminated, truncated, vector_infos = self.vector_env.step(self._actions)
        terminated, truncated = np.asarray(terminated, np.bool_), np.asarray(truncated, np.bool_)
        dones = terminated | truncated
        batch = batch_of(self.observation_space, observations, self.num_envs)
        ended = np.flatnonzero(dones).tolist()
        finals: list[Any] = []
        if ended and self._same_step:
            infos, finals = self._split(vector_infos, ended)
        else:
            infos = info_rows(vector_infos, range(self.num_envs), self.num_envs)
        for info, flag in zip(infos, (truncated & ~terminated).tolist()):
            info["TimeLimit.truncated"] = flag
        if ended and not self._same_step:
            if "final_obs" in vector_infos:
                raise ValueError(
                    f"{type(self.vector_env.unwrapped).__name__} gives final_obs, as in SAME_STEP mode, but its "
                    f"metadata['autoreset_mode'] is {self.vector_env.metadata.get('autoreset_mode')!r}; set it to what "
                    "the environment does"
                )
            finals = [row(self.observation_space, batch, env) for env in ended]
            self._put(batch, ended, *self._reset_some(ended))
        for env, final in zip(ended, finals):
            infos[env]["terminal_observation"] = final
        return batch, np.array(rewards, np.float32).reshape(self.num_envs), dones, infos

    def _split(self, vector_infos: dict[str, Any], ended: list[int]) -> tuple[list[dict], list[Any]]:
        """Return the infos of the steps and the last observations of `ended`, where `env` has reset these already."""
        final = {key: vector_infos[key] for key in ("final_obs", "final_info") if key in vector_infos}
        if "final_obs" not in final:
            raise ValueError(
                f"{type(self.vector_env.unwrapped).__name__} is in SAME_STEP mode, so its infos need final_obs when an "
                f"episode ends, and have {sorted(map(str, vector_infos))}"
            )
        left_out = {*final, *(f"_{key}" for key in final)}
        others = {key: value for key, value in vector_infos.items() if key not in left_out}
        infos = info_rows(others, range(self.num_envs), self.num_envs)
        given = final.get("final_info", {})
        if isinstance(given, dict):
            final_infos = info_rows(given, ended, self.num_envs)
        else:  # one info for each sub-environment
            final_infos = [own(given[env]) or {} for env in ended]
        for env, info in zip(ended, final_infos):
            self.reset_infos[env] = infos[env]
            for key in ("episode", OUTCOME_REWARD):  # what wrappers add to the infos of the step itself
                if key in infos[env] and key not in info:
                    info[key] = infos[env].pop(key)
            infos[env] = info
        last = final["final_obs"]
        if isinstance(last, (dict, tuple)):
            return infos, [row(self.observation_space, last, env) for env in ended]
        return infos, [own(last[env]) for env in ended]

    def _reset_some(
        self,
        envs: Sequence[int],
        seeds: Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Reset `envs`; returns a batch in which their rows count, and an info for each of them."""
        mask = np.zeros(self.num_envs, np.bool_)
        mask[envs] = True
        of_all: list[int | None] | None = None
        if seeds is not None:
            of_all = [None] * self.num_envs
            for env, seed in zip(envs, seeds):
                of_all[env] = seed
        if mask.all():
            observations, infos = self._reset_all(of_all, options)
        elif self._started:
            observations, infos = self._masked_reset(mask, of_all, options)
        else:
            raise RuntimeError("single sub-environments can be reset once all have been: call reset() first")
        return observations, info_rows(infos, envs, self.num_envs)

    def reset_envs(
        self,
        indices: Sequence[int],
        seeds: Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[list[Any], list[dict[str, Any]]]:
        """Reset some sub-environments in one call.

        Args:
            indices: Sub-environments, each once.
            seeds: A seed or None for each of them. None: no seeds.
            options: Options of the reset, the same for all of them.

        Returns:
            Their observations and their infos. What the next `step` returns for them follows from these.

        Raises:
            ValueError: A sub-environment is named twice, or the vector environment ignores the reset mask.
            RuntimeError: `reset` has not been called, and not all sub-environments are named.
        """
        envs = [range(self.num_envs)[index] for index in indices]
        if len(set(envs)) < len(envs):
            raise ValueError(f"indices must name each sub-environment once, got {list(indices)}")
        if seeds is not None and len(seeds) != len(envs):
            raise ValueError(f"seeds must be as many as indices, got {len(seeds)} and {len(envs)}")
        if not envs:
            return [], []
        observations, infos = self._reset_some(envs, seeds, options)
        batch = batch_of(self.observation_space, observations, self.num_envs)
        return [row(self.observation_space, batch, env) for env in envs], infos

    def _put(self, batch: Any, envs: list[int], starts: Any, infos: list[dict[str, Any]]) -> None:
        """Write the first observations of `envs` into a batch, and keep the infos of their resets."""
        put_rows(self.observation_space, batch, envs, starts)
        for env, info in zip(envs, infos):
            self.reset_infos[env] = info

    @property
    def processes(self) -> Sequence[Any]:
        """The worker processes of the vector environment; () where it has none."""
        return getattr(self.vector_env.unwrapped, "processes", ())

    def close(self) -> None:
        """Close the vector environment."""
        self.vector_env.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return a picture of each sub-environment, of the render mode "rgb_array"."""
        return self._render()

    def _render(self) -> list[Any]:
        pictures = self.vector_env.render()
        return [None] * self.num_envs if pictures is None else list(pictures)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of sub-environments.

        Raises:
            AttributeError: They have none of that name, or are out of reach.
        """
        envs = list(self._get_indices(indices))
        if attr_name == "render_mode":
            return [self.vector_env.render_mode] * len(envs)
        return self._sub_envs.get(attr_name, envs)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of sub-environments where it is, under their wrappers too.

        Raises:
            AttributeError: They are out of reach.
        """
        self._sub_envs.set(attr_name, value, list(self._get_indices(indices)))

    def has_attr(self, attr_name: str) -> bool:
        """Return whether every sub-environment has an attribute."""
        return attr_name == "render_mode" or self._sub_envs.have(attr_name, list(range(self.num_envs)))

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list:
        """Call a method of sub-environments; `reset(seed=, options=)` works for any vector environment.

        Raises:
            AttributeError: They have none of that name, or are out of reach.
        """
        envs = list(self._get_indices(indices))
        if method_name == "reset":
            return self._reset_alike(envs, *method_args, **method_kwargs)
        if method_name == "render" and len(envs) == self.num_envs:
            return self._render()
        return self._sub_envs.call(method_name, envs, *method_args, **method_kwargs)

    def _reset_alike(
        self, envs: list[int], *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> list[tuple[Any, dict[str, Any]]]:
        return list(zip(*self.reset_envs(envs, [seed] * len(envs), options)))

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: Any = None) -> list[bool]:
        """Return whether sub-environments are inside a wrapper; False where that cannot be seen from outside."""
        return self._sub_envs.are_wrapped(wrapper_class, list(self._get_indices(indices)))


def _alike(options: Sequence[dict[str, Any]]) -> list[list[int]]:
    """Return the sub-environments with the same options together."""
    groups: list[list[int]] = []
    for env, own_options in enumerate(options):
        for group in groups:
            if own_options is options[group[0]] or _equal(own_options, options[group[0]]):
                group.append(env)
                break
        else:
            groups.append([env])
    return groups


def _equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    try:
        return bool(one == other)
    except ValueError:  # arrays in them: apart does no harm
        return False
