"""A causal language model as a policy: log-probabilities of answers, a frozen reference, weights for engines."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from graphwrap._files import whole_folder
from graphwrap.agents.models.batches import check_rows, distinct
from graphwrap.agents.models.forward import Predictions, predict, predict_shared, recomputing
from graphwrap.agents.models.loading import choose_device, choose_dtype, load_model, load_tokenizer
from graphwrap.agents.models.weights import full_weights, is_peft, restore_model, save_model
from graphwrap.agents.settings import ModelSettings

VALUE_HEAD = "value_head.safetensors"
SHARE = 0.75
"""Prompts are computed apart from the responses where at most this share of the rows have prompts of their own."""


@dataclass
class Evaluation:
    """What the policy says about B responses of at most R tokens."""

    log_probs: torch.Tensor  # float32 or wider (B, R), of logits / temperature; 0 where padded
    mask: torch.Tensor  # bool (B, R), True on the responses' tokens
    entropies: torch.Tensor | None = None  # float32 (B, R), of the same distributions; 0 where padded
    values: torch.Tensor | None = None  # float32 (B,), of the prompts


class Policy:
    """A causal language model that is trained, wholly or by LoRA adapters.

    The model stays in eval mode: dropout would make the ratio of equal weights differ from 1.

    Args:
        model: a Hugging Face causal LM, or one with PEFT's adapters, on its device.
        tokenizer: its tokenizer.
        dtype: what it computes in; with weights in another precision through autocast.
        critic: adds a value head, which starts at 0.

    Attributes:
        model: the module that `evaluate` runs; may be replaced by a wrapper of it, such as accelerate's.
        value_head: nn.Linear (1, hidden) in float32, or None.
        pad_id: fills padding; may equal an end-of-sequence id.
        eos_ids: every id that ends an answer, by the generation config, the model's config and the tokenizer.
        max_length: positions of the model, or None where it names no limit.
        share_prompts: compute equal prompts once, which takes two forward calls where many are equal.
    """

    def __init__(self, model: Any, tokenizer: Any, dtype: torch.dtype = torch.float32, critic: bool = False):
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.dtype = dtype
        self.share_prompts = True
        base = self.base
        self.device = next(base.parameters()).device
        self.config = base.config.get_text_config()
        self.eos_ids = _eos_ids(base, tokenizer)
        self.pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self.eos_ids[0]
        self.max_length: int | None = getattr(self.config, "max_position_embeddings", None)
        self.value_head: nn.Linear | None = None
        if critic:
            self.value_head = nn.Linear(self.config.hidden_size, 1, device=self.device)
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)
        self._slices_logits = "logits_to_keep" in inspect.signature(base.forward).parameters
        self._checkpointing = bool(getattr(base, "is_gradient_checkpointing", False))
        self._frozen: Any = None  # a copy of the model, where there are no adapters to leave out
        self._in_reference = False

    @classmethod
    def load(
        cls,
        settings: ModelSettings,
        *,
        critic: bool = False,
        reference: bool = False,
        texts: Iterable[str] = (),
        seed: int = 0,
    ) -> Policy:
        """Load a model folder or a name on the hub, or make the tiny model.

        Args:
            settings: which, and how.
            critic: with a value head.
            reference: keep the weights as they are now for `reference()`.
            texts: prompts and answers that hold the tiny model's vocabulary.
            seed: of weights that are made.
        """
        device = choose_device(settings.device)
        tokenizer = load_tokenizer(settings, texts)
        model = load_model(settings, tokenizer, seed)
        policy = cls(model, tokenizer, choose_dtype(settings.dtype, device), critic)
        if reference:
            policy.freeze_reference()
        return policy

    @property
    def base(self) -> Any:
        """The Hugging Face model below adapters and wrappers."""
        model = self.model
        while not is_peft(model) and hasattr(model, "module"):
            model = model.module
        return model.get_base_model() if is_peft(model) else model

    @property
    def has_adapters(self) -> bool:
        """True where LoRA adapters are trained and the other weights are frozen."""
        return any("lora_" in name for name, _ in self.base.named_parameters())

    def parameters(self) -> list[nn.Parameter]:
        """The weights that are trained, the value head's last."""
        head = self.value_head.parameters() if self.value_head is not None else ()
        return [weight for weight in (*self.model.parameters(), *head) if weight.requires_grad]

    def precision(self) -> AbstractContextManager[Any]:
        """Within this context the model computes in `dtype`, whatever its weights are stored in."""
        if self.dtype in (torch.float32, torch.float64):
            return nullcontext()
        return torch.autocast(self.device.type, self.dtype)

    def evaluate(
        self,
        prompts: Sequence[Sequence[int]],
        responses: Sequence[Sequence[int]],
        temperature: float,
        *,
        entropy: bool = False,
        values: bool = False,
    ) -> Evaluation:
        """Log-probabilities of the responses' tokens, with gradients where those are enabled.

        Equal rows are computed once, and equal prompts where that saves much; a row's result does not depend on
        the other rows beyond rounding.

        Args:
            prompts: B rows of token ids.
            responses: B rows of token ids, as sampled.
            temperature: above 0; log-probabilities and entropies are of softmax(logits / temperature).
            entropy: also the entropies.
            values: also the critic's values of the prompts.

        Raises:
            ValueError: an empty prompt or response, a temperature that is not above 0, or values without a critic.
        """
        check_rows(prompts, responses)
        if not temperature > 0:
            raise ValueError(f"temperature is above 0, got {temperature}")
        if values and (self.value_head is None or self._in_reference):
            raise ValueError(
                "values come from a critic: load the policy with critic=True, outside reference()"
            )
        rows, places = distinct(
            (tuple(prompt), tuple(response)) for prompt, response in zip(prompts, responses)
        )
        predictions = self._predict(
            [prompt for prompt, _ in rows], [response for _, response in rows], values
        )
        logits, tokens, mask = predictions.logits, predictions.tokens, predictions.mask
        logits = (logits if logits.dtype == torch.float64 else logits.float()) / temperature
        if entropy:
            full = torch.log_softmax(logits, -1)
            log_probs = full.gather(-1, tokens[..., None])[..., 0]
            entropies = -(full.exp() * full).sum(-1).masked_fill(~mask, 0.0)
        else:
            log_probs = logits.gather(-1, tokens[..., None])[..., 0] - logits.logsumexp(-1)
        result = Evaluation(log_probs.masked_fill(~mask, 0.0), mask)
        if entropy:
            result.entropies = entropies
        if values:
            assert self.value_head is not None
            assert predictions.hidden is not None
            result.values = self.value_head(predictions.hidden.to(self.value_head.weight.dtype))[:, 0]
        return result if len(rows) == len(prompts) else _gathered(result, places)

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Within this context `evaluate` uses the reference: the adapters left out, or the frozen copy.

        Raises:
            ValueError: there are no adapters, and no copy was made.
        """
        if self._frozen is None and not self.has_adapters:
            raise ValueError("the policy has no reference: load it with reference=True")
        model = self.model
        self._in_reference = True
        try:
            if self._frozen is not None:
                self.model = self._frozen
                yield
            else:
                with self._adapted().disable_adapter():
                    yield
        finally:
            self.model = model
            self._in_reference = False

    def freeze_reference(self) -> None:
        """Make the weights of now the reference; adapters need no copy."""
        if self.has_adapters:
            return
        frozen = copy.deepcopy(self.base).to(self.dtype)
        self._frozen = frozen.requires_grad_(False).eval()

    @property
    def has_reference(self) -> bool:
        """True where `reference()` works."""
        return self._frozen is not None or self.has_adapters

    def whole(self) -> Policy:
        """This policy with all its weights in this process; itself, where they are."""
        return self

    def named_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Full weights for engines, in `dtype`, under Hugging Face names, a tied one once, adapters merged in."""
        for name, weight in full_weights(self._adapted() if self.has_adapters else self.base):
            yield name, weight.to(self.dtype)

    def save(self, folder: str | Path, merged: bool = False) -> None:
        """Write a folder that `from_pretrained` loads, with the tokenizer, and the critic's head in a file beside.

        The folder is there as a whole or not at all; one that exists is replaced.

        Args:
            folder: where.
            merged: with adapters, the whole model with them merged in; otherwise the adapters alone are written.
        """
        with whole_folder(folder) as beside:
            save_model(self._adapted() if self.has_adapters else self.base, beside, merged)
            self.tokenizer.save_pretrained(beside)
            if self.value_head is not None:
                from safetensors.torch import save_file

                save_file(self.value_head.state_dict(), beside / VALUE_HEAD)

    def restore(self, folder: str | Path) -> None:
        """Read the weights that `save` wrote (not merged ones of adapters) into this policy, in place.

        Raises:
            FileNotFoundError: the folder does not hold what this policy has.
            ValueError: it holds another model.
        """
        folder = Path(folder)
        if self.value_head is not None and not (folder / VALUE_HEAD).exists():
            raise FileNotFoundError(
                f"{folder / VALUE_HEAD} does not exist: the folder is of a policy without critic"
            )
        restore_model(self._adapted() if self.has_adapters else self.base, folder)
        if self.value_head is not None:
            from safetensors.torch import load_file

            self.value_head.load_state_dict(load_file(folder / VALUE_HEAD))

    def run(self, **inputs: Any) -> Any:
        """The model's output for `inputs`, whose logits_to_keep says of how many last positions there are logits."""
        keep = inputs.pop("logits_to_keep")
        if self._slices_logits:
            return self.model(**inputs, logits_to_keep=keep)
        output = self.model(**inputs)
        output.logits = output.logits[:, -keep:]
        return output

    def _predict(
        self, prompts: list[tuple[int, ...]], responses: list[tuple[int, ...]], hidden: bool
    ) -> Predictions:
        shared, owners = distinct(prompts)
        training = torch.is_grad_enabled() and self._checkpointing
        with self.precision():
            if self.share_prompts and not training and len(shared) <= SHARE * len(prompts):
                return predict_shared(
                    self.run, self.config, shared, owners, responses, self.pad_id, self.device, hidden
                )
            with recomputing(self.base, training):
                return predict(self.run, prompts, responses, self.pad_id, self.device, hidden)

    def _adapted(self) -> Any:
        """The PEFT model, below wrappers."""
        model = self.model
        while not is_peft(model):
            model = model.module
        return model


def _gathered(result: Evaluation, places: Any) -> Evaluation:
    index = torch.from_numpy(places).to(result.log_probs.device)
    entropies, values = (
        None if one is None else one.index_select(0, index) for one in (result.entropies, result.values)
    )
    return Evaluation(
        result.log_probs.index_select(0, index), result.mask.index_select(0, index), entropies, values
    )


def _eos_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Every id that ends an answer, the tokenizer's first.

    Raises:
        ValueError: there is none.
    """
    found: list[int] = []
    for ids in (
        tokenizer.eos_token_id,
        getattr(getattr(model, "generation_config", None), "eos_token_id", None),
        getattr(model.config, "eos_token_id", None),
    ):
        found += [] if ids is None else [ids] if isinstance(ids, int) else ids
    if not found:
        raise ValueError("nothing ends an answer: set tokenizer.eos_token or generation_config.eos_token_id")
    return tuple(dict.fromkeys(found))
