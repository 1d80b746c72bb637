"""Makes the parts of a training run from its settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphwrap._files import system_errors
from graphwrap.agents.distributed import World
from graphwrap.agents.settings import CRITIC, Settings
from graphwrap.envs.pool import EnvPool, env_maker

if TYPE_CHECKING:
    from graphwrap.agents.engines import Engine
    from graphwrap.agents.policy import Policy
    from graphwrap.agents.ppo import PPO
    from graphwrap.agents.prompts import Prompter
    from graphwrap.agents.rollout import Rollout

TINY = "tiny"

Say = Callable[[str], None]


@dataclass
class Parts:
    """What a run is made of."""

    policy: Policy
    engine: Engine
    rollout: Rollout
    ppo: PPO
    pools: list[EnvPool]

    def close(self) -> None:
        """End the engine and the worker processes."""
        try:
            self.engine.close()
        finally:
            for pool in self.pools:
                pool.close()


def make_parts(
    settings: Settings,
    start: Path,
    engine_folder: Path,
    say: Say = print,
    world: World | None = None,
) -> Parts:
    """Make the parts of a run at its beginning.

    Args:
        settings: Of the run.
        start: Where a model that is made for the run is kept; one that is there already is used.
        engine_folder: Where weights lie while they are handed over to an engine.
        say: Is told what goes on.
        world: The processes; each makes its own parts.

    Raises:
        ImportError: A package is missing; names the extra.
        ValueError: Settings that do not fit each other.
        RuntimeError: An environment cannot be made.
    """
    import torch
    from transformers.utils import logging

    from graphwrap.agents.ppo import PPO
    from graphwrap.agents.rollout import Rollout
    from graphwrap.methods import make_credit

    logging.disable_progress_bar()  # it writes a line for every file
    if settings.threads:
        torch.set_num_threads(settings.threads)
    world = world or World()
    pools: list[EnvPool] = []
    engine = None
    try:
        pools += make_pools(settings, world.size)
        policy, prompter = _make_shared_policy(settings, start, say, world)
        if world.size > 1:
            engine_folder = engine_folder / str(world.rank)
        _check_positions(settings, policy)
        engine = make_engine(settings, policy.whole(), engine_folder, say)
        critic = settings.credit.name == CRITIC
        method = None if critic else make_credit(settings.credit.name, **settings.credit.parameters)
        rollout = Rollout(settings, prompter, engine, pools[0], method, held_out=pools[-1], world=world)
        return Parts(policy, engine, rollout, PPO(policy, settings, world), pools)
    except BaseException:
        if engine is not None:
            engine.close()
        for pool in pools:
            pool.close()
        raise


def _check_positions(settings: Settings, policy: Policy) -> None:
    longest = settings.prompt.max_tokens + settings.rollout.max_tokens
    if policy.max_length is not None and longest > policy.max_length:
        raise ValueError(
            f"prompt.max_tokens + rollout.max_tokens must be at most {policy.max_length}, the positions of "
            f"{settings.model.path}, got {settings.prompt.max_tokens} + {settings.rollout.max_tokens}: lower one"
        )


def make_pools(settings: Settings, processes: int = 1) -> list[EnvPool]:
    """The environments of training, and those of validation where they are others; the share of one process."""
    env, rollout = settings.env, settings.rollout
    num_envs = rollout.tasks * rollout.group_size // processes
    pools = [EnvPool(env_maker(env), num_envs, env.processes)]
    if env.held_out_kwargs and settings.validation.episodes:
        try:
            held_out = min(num_envs, -(-settings.validation.episodes // processes))
            pools.append(EnvPool(env_maker(env, held_out=True), held_out, env.processes))
        except BaseException:
            pools[0].close()
            raise
    return pools


def _make_shared_policy(settings: Settings, start: Path, say: Say, world: World) -> tuple[Policy, Prompter]:
    """As `make_policy`, in each of several processes; sharded where settings ask for it."""
    is_sharded = world.size > 1 and settings.distributed.strategy == "fsdp"
    if is_sharded:
        from graphwrap.agents.models.loading import choose_device, choose_dtype

        device = choose_device(settings.model.device)
        dtype = str(choose_dtype(settings.model.dtype, device)).removeprefix("torch.")
        # A model that has to be sharded may be too large for one device.
        settings = replace(settings, model=replace(settings.model, device="cpu", dtype=dtype))
    if not world.is_main:
        world.barrier()  # the main process makes what the others read
    policy, prompter = make_policy(settings, start, say)
    if world.is_main:
        world.barrier()
    if is_sharded:
        from graphwrap.agents.models.sharding import ShardedPolicy

        policy = ShardedPolicy(policy, device, settings.engine.name == "transformers")
    return policy, prompter


def make_policy(settings: Settings, start: Path, say: Say = print) -> tuple[Policy, Prompter]:
    """The policy with the weights that the run starts from, which are its reference, and what makes its prompts."""
    from graphwrap.agents.models.warm_start import tiny_policy
    from graphwrap.agents.policy import Policy
    from graphwrap.agents.prompts import Prompter, PromptTemplate
    from graphwrap.agents.seeding import seed_of

    template = PromptTemplate.load(settings.prompt.template)
    critic = settings.credit.name == CRITIC
    if settings.model.path != TINY:
        say(f"loads {settings.model.path}")
        policy = Policy.load(settings.model, critic=critic, seed=seed_of(settings.seed, "model"))
    elif start.is_dir():
        say("loads the tiny model that the run starts from")
        policy = Policy.load(replace(settings.model, path=str(start)), critic=critic)
        policy.restore(start)
    else:
        guided, epochs = settings.model.tiny.warm_start_guided, settings.model.tiny.warm_start_epochs
        say(f"makes a tiny model, which learns from random actions{' and walkthroughs' if guided else ''}")

        def report(epoch: int, loss: float) -> None:
            say(f"warm start: epoch {epoch + 1} of {epochs}, {loss:.3f} nats per token")

        policy = tiny_policy(settings, env_maker(settings.env), critic=critic, report=report)
        with system_errors():
            policy.save(start)
    if settings.ppo.kl:
        policy.freeze_reference()
    return policy, Prompter(template, policy.tokenizer, settings.prompt)


def make_prompter(settings: Settings) -> Prompter:
    """What makes the prompts, without a model.

    Raises:
        OSError: There is no such model.
        ValueError: There is no such template.
    """
    from graphwrap.agents.models.loading import load_tokenizer
    from graphwrap.agents.prompts import Prompter, PromptTemplate

    template = PromptTemplate.load(settings.prompt.template)
    texts = _texts(settings) if settings.model.path == TINY else ()
    return Prompter(template, load_tokenizer(settings.model, texts), settings.prompt)


def _texts(settings: Settings) -> list[str]:
    """Texts that hold the vocabulary of the environment, the same ones as in the tiny model's warm start."""
    from graphwrap.agents.models.warm_start import random_walks, vocabulary
    from graphwrap.agents.prompts import PromptTemplate

    template = PromptTemplate.load(settings.prompt.template)
    tiny = settings.model.tiny
    make_env = env_maker(settings.env)
    states = random_walks(make_env, tiny.warm_start_rows, settings.seed, tiny.warm_start_guided)
    return list(vocabulary(states, template, settings.prompt.history))


def make_engine(settings: Settings, policy: Policy, folder: Path, say: Say = print) -> Engine:
    """The engine of the settings, with the policy's weights."""
    if settings.engine.name == "vllm":
        from graphwrap.agents.engines.vllm import VLLMEngine

        say("starts vLLM")
        max_length = settings.prompt.max_tokens + settings.rollout.max_tokens
        return VLLMEngine(policy, settings.engine, folder, max_length=max_length)
    from graphwrap.agents.engines.local import TransformersEngine

    return TransformersEngine(policy, max_batch=settings.engine.max_batch)


def describe(settings: Settings) -> dict[str, Any]:
    """A few words about a run, for its heading."""
    rollout = settings.rollout
    return {
        "model": settings.model.path
        + (f" with LoRA of rank {settings.model.lora.rank}" if settings.model.lora.rank else ""),
        "environment": settings.env.id,
        "credit": settings.credit.name,
        "engine": settings.engine.name,
        "episodes": f"{rollout.tasks} tasks x {rollout.group_size} episodes, {settings.updates} updates",
    }
