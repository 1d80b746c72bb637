"""What a training run of an LLM agent depends on; every field can be set in a YAML file or on the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CRITIC = "ppo"
"""The credit that needs a critic: GAE over the steps of an episode."""


@dataclass
class EnvSettings:
    """The text environment."""

    id: str = "graphwrap/TextSokoban-v0"  # "module:id" imports the module first, as in gymnasium.make
    kwargs: dict[str, Any] = field(default_factory=dict)
    held_out_kwargs: dict[str, Any] = field(
        default_factory=dict
    )  # what the validation environment has instead
    processes: int = 0  # worker processes that hold the environments; 0: this process


@dataclass
class TinySettings:
    """A Llama-style model that is built from nothing, with a word-level tokenizer."""

    hidden: int = 128
    layers: int = 4
    heads: int = 4  # hidden / heads must be 32, 64, 80, 96, 112 or 128 for vLLM
    intermediate: int = 512
    max_length: int = 128  # positions
    warm_start_rows: int = 1024  # states of random walks, each answered with random admissible actions
    warm_start_guided: float = 0.0  # share of the walks that follow info["walkthrough"] instead
    warm_start_epochs: int = 2
    warm_start_learning_rate: float = 3e-3


@dataclass
class LoraSettings:
    """Low-rank adapters (PEFT)."""

    rank: int = 0  # 0: train all weights
    alpha: int = 32
    dropout: float = 0.0
    target_modules: str = "all-linear"  # a PEFT name, or module names by comma


@dataclass
class ModelSettings:
    """The language model."""

    path: str = "tiny"  # "tiny", a model folder, or a name on the Hugging Face hub
    dtype: str = "auto"  # auto: float32 on a CPU, bfloat16 on a GPU
    device: str = "auto"
    gradient_checkpointing: bool = False
    tiny: TinySettings = field(default_factory=TinySettings)
    lora: LoraSettings = field(default_factory=LoraSettings)


@dataclass
class PromptSettings:
    """From an observation to token ids, and from an answer to an action."""

    template: str = "think"  # a shipped template's name, or the path of a text file
    history: int = 2  # earlier observations and actions in the prompt
    max_tokens: int = 2048  # of a prompt; earlier steps are left out, oldest first, until it fits
    prefill: str = ""  # the answer's first characters, given to the model


@dataclass
class EngineSettings:
    """What generates the answers."""

    name: str = "transformers"  # or "vllm"
    own_process: bool = False  # vLLM in a process of its own
    max_batch: int = 256  # prompts at a time
    memory_gb: float = 1.0  # vLLM: key-value cache
    tensor_parallel: int = 1  # vLLM: GPUs
    sleep: bool = False  # vLLM on a GPU that the trainer shares: gives its memory back while training
    options: dict[str, Any] = field(default_factory=dict)  # for vllm.LLM


@dataclass
class RolloutSettings:
    """The episodes of one update."""

    tasks: int = 16
    group_size: int = 8
    temperature: float = 1.0
    max_tokens: int = 512  # of an answer
    invalid_penalty: float = 0.1  # taken from the reward of a step whose answer holds no valid action
    dynamic_sampling: bool = False  # sample until enough groups are mixed
    max_attempts: int = 10


@dataclass
class CreditSettings:
    """A credit by name, such as graphgpo; "ppo" is a critic and GAE."""

    name: str = "graphgpo"
    parameters: dict[str, Any] = field(default_factory=dict)
    gamma: float = 0.99  # of "ppo"
    gae_lambda: float = 0.95  # of "ppo"


@dataclass
class PPOSettings:
    """The policy update."""

    learning_rate: float = 1e-6
    schedule: str = "constant"  # or "linear", "cosine": down to 0 over the run
    warmup: int = 0  # updates in which the rate rises from 0
    weight_decay: float = 0.0
    epochs: int = 1
    minibatch: int = 256  # step rows per gradient step
    tokens_per_batch: int = 16384  # tokens that go through the model at once, padding included
    ratio: str = "token"  # or "sequence", the geometric mean over a response's tokens
    clip_low: float = 0.2
    clip_high: float = 0.2
    kl: float = 0.01  # coefficient of the k3 penalty towards the reference; 0: no reference is kept
    entropy: float = 0.0
    value: float = 0.5  # coefficient of the critic's loss, of "ppo"
    max_grad_norm: float = 1.0


@dataclass
class ValidationSettings:
    """Held-out episodes."""

    every: int = 10  # updates; 0: only after the last
    episodes: int = 64
    temperature: float = 0.4


@dataclass
class DistributedSettings:
    """Several GPUs: how the processes of `accelerate launch` share the training. One process ignores it."""

    strategy: str = (
        "ddp"  # every process has all weights; or "fsdp": weights, gradients and moments are divided
    )


@dataclass
class Settings:
    """A whole run."""

    env: EnvSettings = field(default_factory=EnvSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    prompt: PromptSettings = field(default_factory=PromptSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
    credit: CreditSettings = field(default_factory=CreditSettings)
    ppo: PPOSettings = field(default_factory=PPOSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    distributed: DistributedSettings = field(default_factory=DistributedSettings)
    updates: int = 150
    seed: int = 0
    save_every: int = 10  # updates between checkpoints; the last and the best are always kept
    save_transitions: bool = True  # a Parquet file of every update
    show_episodes: int = 2  # written out readable after every update
    wandb: str = ""  # project name; empty: no Weights & Biases
    threads: int = 0  # torch threads; 0: as torch chooses
