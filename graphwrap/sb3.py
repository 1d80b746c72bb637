"""Graph credit for unmodified Stable-Baselines3 learners."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from gymnasium import spaces

try:
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv, VecEnvWrapper
except ModuleNotFoundError as error:
    raise ImportError("graphwrap.sb3 needs Stable-Baselines3: pip install 'graphwrap[sb3]'") from error

from graphwrap.minibatches import MaskedGet
from graphwrap.recording.env_wrapper import CreditEnv, find_credit_env
from graphwrap.recording.recorder import Recorder
from graphwrap.recording.vec_env import CreditVecEnv


class CreditCallback(BaseCallback):
    """Trains an on-policy learner on the credit of its recorded environment.

    At the end of each rollout the advantages in the learner's buffer are replaced by the credit, and the update that
    follows reads only rows with a credit to learn from, each once per epoch. Returns stay the learner's own. For PPO
    and A2C, and for MaskablePPO, RecurrentPPO and TRPO of sb3-contrib:

        venv = graphwrap.wrap(make_vec_env(...), credit="graphgpo", group_size=8)
        PPO("MlpPolicy", venv).learn(100_000, callback=graphwrap.sb3.CreditCallback())

    Every number of `WindowCredit.diagnostics` is logged as `credit/<name>`.

    Args:
        apply: False records, resets and logs as ever, and leaves the learner's advantages, their normalisation and its
            rows alone: a baseline that differs from training on credit in nothing else.
        reset: Whether every rollout begins with a reset of the environment. "auto": with `group_size`, so that every
            group is played by one policy; and after a rollout that another callback broke off.
        unfinished: Rows of episodes that the rollout's end cuts: "mask" leaves them out, "graph" trains on the credit
            that the graph gives them.
        normalize_advantage: None switches the learner's own normalisation of advantages per minibatch off while it
            trains on credit; "keep" leaves the learner's setting.
        verbose: As in any callback.

    Raises:
        ValueError: An argument is something else.
    """

    def __init__(
        self,
        *,
        apply: bool = True,
        reset: bool | str = "auto",
        unfinished: str = "mask",
        normalize_advantage: str | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        if not isinstance(apply, bool):
            raise ValueError(f"apply must be True or False, got {apply!r}")
        if not (isinstance(reset, bool) or reset == "auto"):
            raise ValueError(f"reset must be True, False or 'auto', got {reset!r}")
        if unfinished not in ("mask", "graph"):
            raise ValueError(f"unfinished must be 'mask' or 'graph', got {unfinished!r}")
        if normalize_advantage not in (None, "keep"):
            raise ValueError(
                "normalize_advantage must be None (off while training on credit) or 'keep', got "
                f"{normalize_advantage!r}"
            )
        self.apply = apply
        self.reset = reset
        self.unfinished = unfinished
        self.normalize_advantage = normalize_advantage
        self._source: CreditEnv | CreditVecEnv | None = None
        self._warned = False

    @property
    def recorder(self) -> Recorder:
        """The recorder of the environment that is trained on."""
        if self._source is None:
            raise RuntimeError("CreditCallback knows its recorder once training has started")
        return self._source.recorder

    def _on_training_start(self) -> None:
        if self.parent is not None:
            raise ValueError(
                f"CreditCallback inside {type(self.parent).__name__} hears of no rollout's end and changes nothing; "
                "put it into the list of callbacks: learn(..., callback=[CreditCallback(), ...])"
            )
        model: Any = self.model
        if not hasattr(model, "rollout_buffer"):
            raise TypeError(
                f"CreditCallback needs an on-policy learner, one with a rollout buffer, such as PPO or A2C, not "
                f"{type(model).__name__}"
            )
        self._source = find_recording(self.training_env)
        if self.apply and self._switches_off():
            self.logger.info(
                "graphwrap: normalize_advantage is off while training on credit, which is normalised by groups already"
            )

    def _on_rollout_start(self) -> None:
        recorder, buffer = self.recorder, self.model.rollout_buffer  # type: ignore[attr-defined]
        broken_off = recorder.num_steps > 0 or not recorder.is_recording
        recorder.drop_window()
        always = self.reset is True or (self.reset == "auto" and recorder.group_size is not None)
        if always or (self.reset == "auto" and broken_off):
            self._reset()
        if isinstance(self._source, CreditVecEnv):
            self._source.resets_after = buffer.buffer_size if always else None

    def _reset(self) -> None:
        model: Any = self.model
        if isinstance(self._source, CreditEnv):
            self._source.abandon_groups()
        model._last_obs = model.env.reset()
        model._last_episode_starts = np.ones(model.env.num_envs, np.bool_)
        if model.get_vec_normalize_env() is not None:
            model._last_original_obs = model.get_vec_normalize_env().get_original_obs()

    def _on_training_end(self) -> None:
        if isinstance(self._source, CreditVecEnv):
            self._source.resets_after = None
        if not self.recorder.is_recording:
            self._reset()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        model: Any = self.model
        buffer = model.rollout_buffer
        check_rollout(self.recorder, buffer, model)
        credit = self.recorder.assign_credit(self.unfinished)
        valid = np.ones_like(credit.mask)
        if self.apply:
            buffer.advantages[:] = credit.advantages
            valid = credit.mask & np.isfinite(buffer.returns) & np.isfinite(buffer.advantages)
            self._prepare_training(valid)
        for name, value in {**credit.diagnostics, "trainable_share": float(valid.mean())}.items():
            if np.isfinite(value):
                self.logger.record(f"credit/{name}", value)

    def _switches_off(self) -> bool:
        return self.normalize_advantage is None and bool(getattr(self.model, "normalize_advantage", False))

    def _prepare_training(self, valid: np.ndarray) -> None:
        """Let the next `model.train()`, and no other, read the valid rows only."""
        model: Any = self.model
        buffer = model.rollout_buffer
        rollout = buffer.rewards  # another array after buffer.reset()
        keeps_normalising = not self._switches_off() and getattr(model, "normalize_advantage", False)
        needed = 2 if keeps_normalising else 1  # one row has no standard deviation
        excluded = model._excluded_save_params()
        originals = {name: vars(model).get(name) for name in ("train", "_excluded_save_params")}

        def train() -> None:
            for name, original in originals.items():
                vars(model).pop(name, None)
                if original is not None:
                    setattr(model, name, original)
            if buffer.rewards is not rollout:
                model.train()
            elif np.count_nonzero(valid) < needed:
                self._warn_of_empty_rollout(buffer.buffer_size)
            else:
                with replaced(buffer, "get", MaskedGet(buffer, valid)), self._normalisation_off():
                    model.train()

        model.train = train
        # A checkpoint made between here and the update must not hold the two attributes.
        model._excluded_save_params = lambda: [*excluded, *originals]

    @contextmanager
    def _normalisation_off(self) -> Iterator[None]:
        if self._switches_off():
            with replaced(self.model, "normalize_advantage", False):
                yield
        else:
            yield

    def _warn_of_empty_rollout(self, n_steps: int) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"a rollout of n_steps={n_steps} had no row to train on, so its update is skipped: no episode ended "
                "within it. Set n_steps to at least the episodes' length limit, or CreditCallback(unfinished='graph')",
                UserWarning,
                stacklevel=2,
            )


@contextmanager
def replaced(target: Any, name: str, value: Any) -> Iterator[None]:
    """Give `target` an instance attribute for the duration."""
    had, old = name in vars(target), vars(target).get(name)
    setattr(target, name, value)
    try:
        yield
    finally:
        if had:
            setattr(target, name, old)
        else:
            delattr(target, name)


def find_recording(env: Any) -> CreditEnv | CreditVecEnv:
    """Return what `graphwrap.wrap` made, somewhere inside a learner's VecEnv.

    Raises:
        ValueError: There is none, or one for each of several sub-environments.
    """
    inner = env
    while isinstance(inner, VecEnvWrapper):
        if isinstance(inner, CreditVecEnv):
            return inner
        inner = inner.venv
    found = [find_credit_env(sub) for sub in inner.envs] if isinstance(inner, DummyVecEnv) else [None]
    if found == [None] * len(found):
        raise ValueError(
            "CreditCallback found no recorded environment: make the learner with one, "
            "PPO('MlpPolicy', graphwrap.wrap(venv, ...))"
        )
    if len(found) > 1:
        raise ValueError(
            f"each of the {len(found)} sub-environments records on its own, so groups cannot form: wrap the VecEnv "
            "instead, graphwrap.wrap(make_vec_env(...))"
        )
    assert found[0] is not None
    return found[0]


def check_rollout(recorder: Recorder, buffer: Any, model: Any) -> None:
    """Check that the recorder saw exactly the steps that are in the buffer.

    Raises:
        RuntimeError: It did not. The first difference is named; nothing has changed.
    """
    shape = (buffer.buffer_size, buffer.n_envs)
    recorded = (recorder.num_steps, recorder.num_envs)
    advice = (
        "Only the learner may step the recorded environment: give EvalCallback and other users one of their own, and "
        "put wrappers that skip or repeat steps inside graphwrap.wrap"
    )
    if not recorder.num_steps:
        raise RuntimeError(
            "the rollout's steps were credited before this CreditCallback came to them: give learn() one "
            "CreditCallback, and leave assign_credit() to it"
        )
    if shape != recorded:
        raise RuntimeError(
            f"the rollout has {shape[0]} steps of {shape[1]} environments, but {recorded[0]} of {recorded[1]} were "
            f"recorded. {advice}"
        )
    _check_equal(recorder.episode_starts, buffer.episode_starts > 0.5, "starts of episodes", advice)
    actions = _sent_actions(buffer.actions, model).reshape(-1, *model.action_space.shape)
    ids = recorder.actions.intern_batch(actions, len(actions)).reshape(shape)
    _check_equal(recorder.action_ids, ids, "actions", advice)


def _check_equal(recorded: np.ndarray, expected: np.ndarray, what: str, advice: str) -> None:
    if not np.array_equal(recorded, expected):
        t, env = np.argwhere(recorded != expected)[0].tolist()
        raise RuntimeError(
            f"the recorded {what} differ from the rollout buffer's, first at step {t} of environment {env}. {advice}"
        )


def _sent_actions(actions: np.ndarray, model: Any) -> np.ndarray:
    """Return what the learner sent to the environment for the actions in its buffer, as it computes that itself."""
    space = model.action_space
    if not isinstance(space, spaces.Box):
        return actions
    actions = actions.astype(np.float32).reshape(-1, *space.shape)
    if model.policy.squash_output:
        unscale: Callable[[np.ndarray], np.ndarray] = model.policy.unscale_action
        return unscale(actions)
    return np.clip(actions, space.low, space.high)


__all__ = ["CreditCallback"]
