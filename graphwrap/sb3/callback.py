"""The callback that trains a learner on its recorded environment's credit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from graphwrap._attributes import replaced
from graphwrap.recording.env_wrapper import CreditEnv
from graphwrap.recording.recorder import Recorder
from graphwrap.recording.vec_env import CreditVecEnv
from graphwrap.recording.windows import WindowCredit
from graphwrap.sb3.minibatches import MaskedGet
from graphwrap.sb3.rollouts import check_rollout, find_recording
from graphwrap.sb3.shaping import (
    RecomputedReturns,
    check_potential,
    reward_scale,
    shaped_return,
    shaping,
    shaping_of_window,
)


class CreditCallback(BaseCallback):
    """Trains an on-policy learner on the credit of its recorded environment.

    At the end of each rollout the advantages in the learner's buffer are replaced by the credit, and the update that
    follows reads only rows with a credit to learn from, each once per epoch. Returns stay the learner's own. For PPO
    and A2C, and for MaskablePPO, RecurrentPPO and TRPO of sb3-contrib:

        venv = graphwrap.wrap(make_vec_env(...), credit="graphgpo", group_size=8)
        PPO("MlpPolicy", venv).learn(100_000, callback=graphwrap.sb3.CreditCallback())

    Every number of `WindowCredit.diagnostics` is logged as `credit/<name>`.

    With `mode="reward"` the learner's own advantages stay. Each reward in its buffer becomes
    r + gamma * Phi(s') - Phi(s), with the learner's gamma and the potential Phi that the credit method gives the states
    of this rollout's graph, and the buffer computes returns and advantages again, with the same values. All rows are
    trained on. For a fixed Phi this leaves the optimal policy as it was (Ng, Harada and Russell 1999). Phi(s') is 0
    where an episode terminated, and stays where it was truncated. With `VecNormalize` Phi is multiplied by what it
    multiplies rewards by at the rollout's end. `credit/shaped_return` is then the mean return with shaping, not
    discounted and not normalised, beside `credit/outcome_return` of the same episodes.

    Args:
        mode: What the credit replaces: "advantage", or "reward" with a method that has a potential, such as GraphGPO.
        apply: False records, resets and logs as ever, and leaves the learner's advantages, their normalisation and its
            rows alone: a baseline that differs from training on credit in nothing else.
        reset: Whether every rollout begins with a reset of the environment. "auto": with `group_size`, so that every
            group is played by one policy; and after a rollout that another callback broke off.
        unfinished: Rows of episodes that the rollout's end cuts: "mask" leaves them out, "graph" trains on the credit
            that the graph gives them.
        normalize_advantage: None switches the learner's own normalisation of advantages per minibatch off while it
            trains on credit; "keep" leaves the learner's setting, as mode "reward" always does.
        verbose: As in any callback.

    Raises:
        ValueError: An argument is something else.
    """

    def __init__(
        self,
        *,
        mode: str = "advantage",
        apply: bool = True,
        reset: bool | str = "auto",
        unfinished: str = "mask",
        normalize_advantage: str | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        if mode not in ("advantage", "reward"):
            raise ValueError(f"mode must be 'advantage' or 'reward', got {mode!r}")
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
        self.mode = mode
        self.apply = apply
        self.reset = reset
        self.unfinished = unfinished
        self.normalize_advantage = normalize_advantage
        self._source: CreditEnv | CreditVecEnv | None = None
        self._warned = False
        self._computed: RecomputedReturns | None = None

    @property
    def recorder(self) -> Recorder:
        """The recorder of the environment that is trained on."""
        if self._source is None:
            raise RuntimeError("CreditCallback knows its recorder once training has started")
        recorder = self._source.recorder
        if not isinstance(recorder, Recorder):
            raise ValueError(
                "CreditCallback found an environment made with online=True, whose rewards hold the credit already; "
                "leave one of the two out"
            )
        return recorder

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
        method = self.recorder.method
        if self.mode == "reward":
            check_potential(method)
        if self.apply and self._switches_off():
            self.logger.info(
                "graphwrap: normalize_advantage is off while training on credit, which is normalised by groups already"
            )

    def _on_rollout_start(self) -> None:
        recorder, buffer = self.recorder, self.model.rollout_buffer  # type: ignore[attr-defined]
        broken_off = recorder.num_steps > 0 or not recorder.is_recording
        recorder.drop_window()
        self._stop_watching()
        always = self.reset is True or (self.reset == "auto" and recorder.group_size is not None)
        if always or (self.reset == "auto" and broken_off):
            self._reset()
        if isinstance(self._source, CreditVecEnv):
            self._source.resets_after = buffer.buffer_size if always else None
        if self.mode == "reward" and self.apply:
            self._computed = RecomputedReturns(buffer)

    def _reset(self) -> None:
        model: Any = self.model
        if isinstance(self._source, CreditEnv):
            self._source.abandon_groups()
        model._last_obs = model.env.reset()
        model._last_episode_starts = np.ones(model.env.num_envs, np.bool_)
        if model.get_vec_normalize_env() is not None:
            model._last_original_obs = model.get_vec_normalize_env().get_original_obs()

    def _on_training_end(self) -> None:
        self._stop_watching()
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
        numbers = dict(credit.diagnostics)
        valid = np.ones_like(credit.mask)
        if self.mode == "reward":
            numbers["shaped_return"] = self._shape(credit)
        elif self.apply:
            buffer.advantages[:] = credit.advantages
            valid = credit.mask
        if self.apply:
            valid = valid & np.isfinite(buffer.returns) & np.isfinite(buffer.advantages)
            if self.mode == "advantage" or not valid.all():
                self._prepare_training(valid)
        numbers["trainable_share"] = float(valid.mean())
        for name, value in numbers.items():
            if np.isfinite(value):
                self.logger.record(f"credit/{name}", value)

    def _shape(self, credit: WindowCredit) -> float:
        """Shape the rewards in the buffer; returns the mean shaped return."""
        model: Any = self.model
        graph = credit.credit.graph
        potential = self.recorder.method.potential(graph.union)  # type: ignore[attr-defined]
        shaped = shaping(graph, potential, model.gamma)
        if self._computed is not None:
            model.rollout_buffer.rewards += reward_scale(model.env) * shaping_of_window(credit, shaped)
            self._computed.again()
        return shaped_return(credit, shaped)

    def _stop_watching(self) -> None:
        if self._computed is not None:
            self._computed.stop()
            self._computed = None

    def _switches_off(self) -> bool:
        return (
            self.mode == "advantage"
            and self.normalize_advantage is None
            and bool(getattr(self.model, "normalize_advantage", False))
        )

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
