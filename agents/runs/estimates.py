"""What a run would need: its prompts counted in tokens, its memory estimated from the model's shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphwrap.agents.settings import Settings
from graphwrap.envs.text import task_text

if TYPE_CHECKING:
    from graphwrap.agents.prompts import Prompt, Prompter

SAMPLED_EPISODES = 8
_MOST_STEPS = 200  # of a sampled episode


@dataclass(frozen=True)
class PromptCounts:
    """Prompts of episodes of random admissible actions."""

    first: Prompt
    last: Prompt  # of the longest prompt's step
    tokens: np.ndarray  # int64 (prompts,)
    dropped: int  # prompts that left out earlier steps to fit
    episode_length: float  # mean steps


def count_prompts(settings: Settings, prompter: Prompter) -> PromptCounts:
    """Play some episodes with random admissible actions and count the tokens of their prompts.

    Raises:
        ValueError: A prompt does not fit into prompt.max_tokens.
        RuntimeError: The environment cannot be made, or raises.
    """
    from graphwrap.agents.prompts import Turn
    from graphwrap.envs.pool import Crash, EnvPool, env_maker

    rng = np.random.default_rng(settings.seed)
    prompts: list[Prompt] = []
    lengths = []
    with EnvPool(env_maker(settings.env), 1) as pool:
        for seed in range(SAMPLED_EPISODES):
            (seen,) = pool.reset([0], [seed])
            task, step = "", 0
            turns: list[Turn] = []
            while True:
                if isinstance(seen, Crash):
                    raise RuntimeError(f"the environment raised: {seen.error}")
                task = task_text(seen.info) if step == 0 else task
                if getattr(seen, "ended", False) or step >= _MOST_STEPS:
                    break
                admissible = seen.info.get("admissible_actions")
                prompts.append(
                    prompter.encode(
                        task=task,
                        step=step,
                        history=turns,
                        observation=seen.observation,
                        admissible=admissible,
                    )
                )
                action = str(rng.choice(list(admissible))) if admissible else ""
                turns.append(Turn(seen.observation, action))
                (seen,) = pool.step([0], [action])
                step += 1
            lengths.append(step)
    tokens = np.array([prompt.length for prompt in prompts])
    dropped = sum(prompt.dropped > 0 for prompt in prompts)
    return PromptCounts(prompts[0], prompts[int(tokens.argmax())], tokens, dropped, float(np.mean(lengths)))


def shape_of(settings: Settings, tokenizer: Any) -> Any:
    """The model of the settings without memory for its weights (device "meta"), adapters included.

    Raises:
        OSError: There is no such model.
    """
    import torch

    from graphwrap.agents.models.loading import add_adapters, choose_device, choose_dtype

    model_settings = settings.model
    compute = choose_dtype(model_settings.dtype, choose_device(model_settings.device))
    stored = compute if model_settings.lora.rank else torch.float32
    if model_settings.path == "tiny":
        from graphwrap.agents.models.tiny import build_model

        model = build_model(model_settings.tiny, tokenizer).to("meta", stored)
    else:
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.from_pretrained(model_settings.path)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, dtype=stored)
    return add_adapters(model, model_settings.lora, 0) if model_settings.lora.rank else model


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes, by what they are for. What training and the engine hold at different times is marked."""

    parameters: int  # count
    trained: int  # count
    trainer: dict[str, int]
    engine: dict[str, int]

    @property
    def total(self) -> int:
        """Everything at once."""
        return sum(self.trainer.values()) + sum(self.engine.values())


def estimate_memory(settings: Settings, model: Any) -> MemoryEstimate:
    """Estimate what a run needs at its peak; weights, gradients and optimizer are exact, the rest is a rule of thumb.

    Args:
        settings: Of the run.
        model: As `shape_of` gives it.
    """
    from graphwrap.agents.models.loading import choose_device, choose_dtype
    from graphwrap.agents.settings import CRITIC

    compute = choose_dtype(settings.model.dtype, choose_device(settings.model.device)).itemsize
    config = model.config.get_text_config()
    weights = list(model.parameters())
    count = sum(weight.numel() for weight in weights)
    trained = sum(weight.numel() for weight in weights if weight.requires_grad)
    if settings.credit.name == CRITIC:
        trained += config.hidden_size + 1
    layers, hidden, vocabulary = config.num_hidden_layers, config.hidden_size, config.vocab_size
    longest = settings.prompt.max_tokens + settings.rollout.max_tokens
    tokens = max(settings.ppo.tokens_per_batch, longest)
    answered = tokens * settings.rollout.max_tokens // longest
    # Per token and layer: inputs of two norms and of seven linear maps, queries, keys, values, and the gated product.
    within = 8 * hidden + 4 * getattr(config, "intermediate_size", 4 * hidden)
    kept = layers * hidden + within if settings.model.gradient_checkpointing else layers * within
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head = getattr(config, "head_dim", None) or hidden // config.num_attention_heads
    cached = 2 * layers * heads * head * compute  # per token
    copies = 5 if settings.ppo.entropy else 3  # of logits in float32: scaled, exponentials, gradient
    trainer = {
        "weights": sum(weight.numel() * weight.element_size() for weight in weights),
        "gradients": 4 * trained,
        "optimizer, two moments": 8 * trained,
    }
    if settings.ppo.kl and not settings.model.lora.rank:
        trainer["reference"] = count * compute
    if compute < 4 and not settings.model.lora.rank:
        trainer["weights as computed with"] = count * compute
    trainer[f"activations of {tokens:,} tokens"] = tokens * kept * compute
    trainer[f"logits of {answered:,} answer tokens"] = answered * vocabulary * (compute + 4 * copies)
    if settings.engine.name == "vllm":
        engine = {
            "weights of the engine": count * compute,
            "key-value cache": int(settings.engine.memory_gb * 2**30),
        }
    else:
        rows = min(settings.engine.max_batch, settings.rollout.tasks * settings.rollout.group_size)
        engine = {f"key-value cache of {rows} answers": rows * longest * cached}
    return MemoryEstimate(count, trained, trainer, engine)
