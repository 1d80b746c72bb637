"""The policy update: a clipped surrogate, a penalty towards a reference, an entropy bonus, and a critic if wanted.

Minibatches are step rows in random order. The loss of a minibatch is, over all its response tokens (`ratio: token`),
the mean of

    -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A) + kl k3(policy, reference) - entropy H

where A is the advantage of the token's step. With `ratio: sequence`, r is one number per step, the geometric mean over
its response's tokens, k3 and H are means over them, and the loss is the mean over steps. Padding counts for nothing,
and how a minibatch is split to fit into memory changes nothing. All probabilities are those of logits / temperature,
which is what the answers were drawn from. The old log-probabilities in r are the trainer's own from before the first
gradient step, so that r is exactly 1 there; how far the engine's are from them is logged as drift.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from graphwrap.agents.distributed import World
from graphwrap.agents.learning import critic, losses
from graphwrap.agents.learning.minibatches import Minibatch, minibatches, share_minibatch
from graphwrap.agents.learning.optimizer import Optimizer
from graphwrap.agents.learning.totals import Totals
from graphwrap.agents.playing.rows import StepRows, Tokens
from graphwrap.agents.policy import Evaluation, Policy
from graphwrap.agents.seeding import sequence
from graphwrap.agents.settings import CRITIC, Settings


class PPO:
    """Trains a policy on the steps of rollouts.

    Args:
        policy: The policy, with the weights that training starts from; with a value head for `credit.name` "ppo", and a
            reference if `ppo.kl` is not 0.
        settings: The run's settings.
        world: The processes, all of which have the same policy and call every method with the same arguments; they
            divide the rows of each minibatch. Metrics are those of one process.

    Raises:
        ValueError: The policy lacks a value head or a reference that is wanted, or a setting does not exist.
    """

    def __init__(self, policy: Policy, settings: Settings, world: World | None = None) -> None:
        self.policy = policy
        self.settings = settings
        self.has_critic = settings.credit.name == CRITIC
        if self.has_critic and policy.value_head is None:
            raise ValueError(
                f"credit.name={CRITIC} needs a policy with a value head: Policy.load(critic=True)"
            )
        if settings.ppo.kl and not policy.has_reference:
            raise ValueError(
                f"ppo.kl={settings.ppo.kl} needs a policy with a reference: Policy.load(reference=True), or ppo.kl=0"
            )
        if settings.ppo.ratio not in losses.RATIOS:
            raise ValueError(
                f"ppo.ratio must be one of {', '.join(losses.RATIOS)}, got {settings.ppo.ratio!r}"
            )
        self.world = world or World()
        self.optimizer = Optimizer(policy.parameters(), settings.ppo, settings.updates, self.world)

    def update(self, rows: StepRows, update: int) -> dict[str, float]:
        """Train on the rows of one rollout.

        A minibatch whose loss or gradient is not finite makes no step; it is counted and warned about.

        Args:
            rows: The steps. With a critic, their advantages are filled in.
            update: The update's number, from 0: it decides the learning rate and the order of the rows.

        Returns:
            Means over the gradient steps, or over the rows or tokens they used:

            - `loss`, `policy_loss`, `kl` (k3 to the reference), `entropy` (of the policy; where `ppo.entropy` is 0
              estimated by the sampled tokens' -log-probability), `value_loss`, `explained_variance`.
            - `ratio_mean`, `ratio_max`, `clip_fraction` (share of ratios whose gradient was cut), `grad_norm`.
            - `drift_mean`, `drift_max`: |trainer's - engine's log-probability| of the trained tokens;
              `engine_ratio`: mean of exp(trainer's - engine's).
            - `gradient_steps`, `skipped_steps`, `trained_rows`, `trained_tokens` (of responses, one epoch),
              `learning_rate`.

            Without a row to train on, only the last line: nothing was done.

        Raises:
            FloatingPointError: The policy's log-probabilities are not finite before the first step.

        Warns:
            UserWarning: There is no row to train on, or a step was skipped.
        """
        chosen = np.flatnonzero(rows.mask)
        rate = self.optimizer.begin(update)
        totals = Totals()
        if len(chosen):
            self._train(rows, chosen, update, totals)
        else:
            warnings.warn(
                f"update {update} has no step to train on and is skipped: no group is left, or every episode was "
                "broken off",
                UserWarning,
                stacklevel=2,
            )
        metrics = totals.metrics()
        metrics["trained_rows"] = float(len(chosen))
        metrics["trained_tokens"] = float(sum(len(rows.responses[row]) for row in chosen.tolist()))
        metrics["learning_rate"] = rate
        if totals.skipped:
            warnings.warn(
                f"{totals.skipped} of {totals.skipped + totals.steps} gradient steps of update {update} were skipped: "
                "their loss or gradient was not finite. If this repeats, lower ppo.learning_rate",
                UserWarning,
                stacklevel=2,
            )
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs beside the policy's weights."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`, after the policy has got its weights.

        Raises:
            ValueError: It is of another model.
        """
        self.optimizer.load_state_dict(state)

    def _train(self, rows: StepRows, chosen: np.ndarray, update: int, totals: Totals) -> None:
        settings = self.settings.ppo
        plan = self._plan(rows, chosen, update, 0)
        frozen = _Frozen(len(rows), self.policy.device)
        self._freeze(rows, plan, frozen)
        if self.has_critic:
            self._criticise(rows, chosen, frozen, totals)
        for epoch in range(settings.epochs):
            for minibatch in plan if epoch == 0 else self._plan(rows, chosen, update, epoch):
                self._step(rows, minibatch, frozen, totals)
        totals.drift(frozen.old, rows, chosen)

    def _plan(self, rows: StepRows, chosen: np.ndarray, update: int, epoch: int) -> list[Minibatch]:
        rng = np.random.default_rng(sequence(self.settings.seed, "minibatches", update, epoch))
        return [
            self._share(chosen[part], rows.prompts, rows.responses)
            for part in minibatches(len(chosen), self.settings.ppo.minibatch, rng)
        ]

    def _share(
        self, numbers: np.ndarray, prompts: Sequence[Tokens], responses: Sequence[Tokens]
    ) -> Minibatch:
        budget = self.settings.ppo.tokens_per_batch
        return share_minibatch(numbers, prompts, responses, budget, self.world.rank, self.world.size)

    def _evaluate(self, rows: StepRows, part: np.ndarray, **wanted: bool) -> Evaluation:
        numbers = part.tolist()
        return self.policy.evaluate(
            [rows.prompts[row] for row in numbers],
            [rows.responses[row] for row in numbers],
            self.settings.rollout.temperature,
            **wanted,
        )

    @torch.no_grad()
    def _freeze(self, rows: StepRows, plan: Sequence[Minibatch], frozen: _Frozen) -> None:
        """Compute what must not change with the steps, in the micro-batches of the first epoch, so that ratios are 1.

        The first minibatch's old log-probabilities are those that its own step computes.
        """
        for number, minibatch in enumerate(plan):
            for part in minibatch.parts:
                if number or self.has_critic:
                    evaluation = self._evaluate(rows, part, values=self.has_critic)
                    frozen.keep(frozen.old, part, evaluation.log_probs, rows)
                    if evaluation.values is not None:
                        frozen.values[part] = evaluation.values.double().cpu().numpy()
                if self.settings.ppo.kl:
                    with self.policy.reference():
                        evaluation = self._evaluate(rows, part)
                    frozen.keep(frozen.reference, part, evaluation.log_probs, rows)
        frozen.exchange(self.world, plan)

    def _criticise(self, rows: StepRows, chosen: np.ndarray, frozen: _Frozen, totals: Totals) -> None:
        """Fill in advantages and returns."""
        credit = self.settings.credit
        values = frozen.values[chosen]
        episodes = sorted(set(rows.last_prompts) & set(rows.episode[chosen].tolist()))
        last = self._values([rows.last_prompts[episode] for episode in episodes])
        advantages, returns = critic.estimate(
            rows, chosen, values, dict(zip(episodes, last)), credit.gamma, credit.gae_lambda
        )
        rows.advantages[chosen] = critic.normalised(advantages)
        frozen.returns[chosen] = returns
        totals.explained_variance = critic.explained_variance(values, returns)

    @torch.no_grad()
    def _values(self, prompts: Sequence[Tokens]) -> list[float]:
        """The critic's values of some prompts."""
        values = np.zeros(len(prompts))
        answer = (self.policy.pad_id,)  # the value is read before it
        if not prompts:
            return []
        share = self._share(np.arange(len(prompts)), prompts, [answer] * len(prompts))
        for part in share.parts:
            evaluation = self.policy.evaluate(
                [prompts[row] for row in part.tolist()],
                [answer] * len(part),
                self.settings.rollout.temperature,
                values=True,
            )
            assert evaluation.values is not None
            values[part] = evaluation.values.double().cpu().numpy()
        for known in self.world.gather({row: values[row] for part in share.own for row in part.tolist()}):
            values[list(known)] = list(known.values())
        return values.tolist()

    def _step(self, rows: StepRows, minibatch: Minibatch, frozen: _Frozen, totals: Totals) -> None:
        """Sum the gradients of a minibatch's micro-batches and take one step."""
        is_first = totals.steps + totals.skipped == 0
        terms = [
            self._backward(rows, part, frozen, minibatch, is_first, number >= len(minibatch.own))
            for number, part in enumerate(minibatch.parts)
        ]
        if is_first:
            frozen.exchange(self.world, [minibatch])
        summed = {name: torch.stack([part[name] for part in terms]) for name in terms[0]}
        shares = self.world.gather(
            {
                name: float(values.max() if name == "ratio_max" else values.sum())
                for name, values in summed.items()
            }
        )
        numbers = {
            name: (max if name == "ratio_max" else sum)(share[name] for share in shares) for name in summed
        }
        if not math.isfinite(numbers["loss"]):
            self.optimizer.forget()
            totals.skipped += 1
            return
        norm = self.optimizer.step()
        if not math.isfinite(norm):
            totals.skipped += 1
            return
        totals.add(numbers, self._scale(minibatch), norm)

    def _scale(self, minibatch: Minibatch) -> int:
        """What the loss is a mean over."""
        return minibatch.num_tokens if self.settings.ppo.ratio == "token" else minibatch.num_rows

    def _backward(
        self,
        rows: StepRows,
        part: np.ndarray,
        frozen: _Frozen,
        minibatch: Minibatch,
        is_first: bool,
        is_filler: bool,
    ) -> dict[str, Tensor]:
        """Add a micro-batch's share of the minibatch's gradient, a filler's 0; returns its share of what is logged."""
        settings = self.settings.ppo
        evaluation = self._evaluate(rows, part, entropy=settings.entropy != 0, values=self.has_critic)
        log_probs, mask = evaluation.log_probs, evaluation.mask
        if is_first:
            if not bool(torch.isfinite(log_probs).all()):
                raise FloatingPointError(
                    "the policy's log-probabilities must be finite before the first gradient step of an update, but "
                    "some are not: its weights are broken. Resume from an earlier checkpoint with a lower "
                    "ppo.learning_rate"
                )
            frozen.keep(frozen.old, part, log_probs.detach(), rows)
        scale = self._scale(minibatch)
        surrogate = losses.surrogate(
            log_probs,
            frozen.take(frozen.old, part),
            mask,
            torch.from_numpy(rows.advantages[part]).to(log_probs),
            settings.clip_low,
            settings.clip_high,
            settings.ratio,
        )
        policy_loss = loss = surrogate.loss / scale
        terms = {
            "ratio": surrogate.ratio_sum,
            "ratio_max": surrogate.ratio_max,
            "clipped": surrogate.clipped.to(loss),
        }
        if settings.kl:
            penalty = losses.kl_penalty(log_probs, frozen.take(frozen.reference, part), mask)
            terms["kl"] = losses.reduce(penalty, mask, settings.ratio) / scale
            loss = loss + settings.kl * terms["kl"]
        entropies = evaluation.entropies if evaluation.entropies is not None else -log_probs.detach()
        terms["entropy"] = losses.reduce(entropies, mask, settings.ratio) / scale
        if settings.entropy:
            loss = loss - settings.entropy * terms["entropy"]
        if evaluation.values is not None:
            returns = torch.from_numpy(frozen.returns[part]).to(evaluation.values)
            terms["value_loss"] = losses.value_loss(evaluation.values, returns) / minibatch.num_rows
            loss = loss + settings.value * terms["value_loss"]
        (loss * 0.0 if is_filler else loss).backward()
        terms.update(loss=loss, policy_loss=policy_loss)
        return {
            name: torch.zeros_like(value) if is_filler else value.detach() for name, value in terms.items()
        }


class _Frozen:
    """What is computed before the first gradient step, by row."""

    def __init__(self, num_rows: int, device: torch.device) -> None:
        self.device = device
        self.old: list[Tensor | None] = [None] * num_rows
        self.reference: list[Tensor | None] = [None] * num_rows
        self.values = np.zeros(num_rows)
        self.returns = np.zeros(num_rows)

    @staticmethod
    def keep(column: list[Tensor | None], part: np.ndarray, log_probs: Tensor, rows: StepRows) -> None:
        """Note the log-probabilities (B, R) of the rows `part`."""
        for row, values in zip(part.tolist(), log_probs):
            column[row] = values[: len(rows.responses[row])]

    def exchange(self, world: World, plan: Sequence[Minibatch]) -> None:
        """Tell the other processes about the rows that this one has computed, and learn theirs."""
        if world.size == 1:
            return
        own = [row for minibatch in plan for part in minibatch.own for row in part.tolist()]
        columns = (self.old, self.reference)
        known = [[None if column[row] is None else column[row].cpu() for row in own] for column in columns]
        for number, (numbers, theirs, values) in enumerate(world.gather((own, known, self.values[own]))):
            if number == world.rank:
                continue
            self.values[numbers] = values
            for column, kept in zip(columns, theirs):
                for row, log_probs in zip(numbers, kept):
                    column[row] = None if log_probs is None else log_probs.to(self.device)

    @staticmethod
    def take(column: list[Tensor | None], part: np.ndarray) -> Tensor:
        """The log-probabilities of the rows `part`, (B, R), 0 where padded."""
        known = [values for row in part.tolist() if (values := column[row]) is not None]
        assert len(known) == len(part)
        return pad_sequence(known, batch_first=True)
