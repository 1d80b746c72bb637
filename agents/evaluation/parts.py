"""Makes the parts of an evaluation from its settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphwrap.agents.engines.limits import Usage
from graphwrap.agents.evaluation.agents import Agent, make_agent
from graphwrap.agents.evaluation.folder import ENGINE, START
from graphwrap.agents.evaluation.settings import OPENAI, REFLEXION, EvaluationSettings
from graphwrap.agents.playing.episodes import Player
from graphwrap.agents.runs.parts import Say, make_engine, make_policy, make_prompter
from graphwrap.agents.settings import CreditSettings, Settings
from graphwrap.envs.pool import EnvPool, env_maker

if TYPE_CHECKING:
    from graphwrap.agents.engines import Engine
    from graphwrap.agents.engines.openai import OpenAIEngine


@dataclass
class Parts:
    """What an evaluation is made of."""

    agent: Agent
    engine: Engine | OpenAIEngine
    player: Player

    def close(self) -> None:
        """End the engine and the worker processes."""
        try:
            self.engine.close()
        finally:
            self.player.pool.close()


def make_parts(
    settings: EvaluationSettings, folder: Path, usage: Usage, envs: int, say: Say = print
) -> Parts:
    """Make them.

    Args:
        settings: Of the evaluation.
        folder: Its folder.
        usage: Where an endpoint's tokens are counted.
        envs: Episodes at a time.
        say: Is told what goes on.

    Raises:
        ImportError: A package is missing; names the extra.
        ValueError: Settings that do not fit each other, or no key.
        OSError: There is no such model.
        RuntimeError: An environment cannot be made.
    """
    engine: Engine | OpenAIEngine | None = None
    pool = EnvPool(env_maker(settings.env), envs, settings.env.processes)
    try:
        if settings.engine.name == OPENAI:
            from graphwrap.agents.engines.openai import OpenAIEngine

            agent = make_agent(settings, None)
            engine = OpenAIEngine(settings.model.path, settings.openai, usage)
        else:
            agent, engine = _make_token_parts(settings, folder, say)
        return Parts(agent, engine, Player(agent.prompter, engine, pool))
    except BaseException:
        if engine is not None:
            engine.close()
        pool.close()
        raise


def make_agent_alone(settings: EvaluationSettings) -> Agent:
    """The agent without a model: to see its prompts.

    Raises:
        OSError: There is no such model, whose tokenizer is needed.
        ValueError: There is no such template.
    """
    tokenizer = None if settings.engine.name == OPENAI else make_prompter(settings).tokenizer
    return make_agent(settings, tokenizer)


def _make_token_parts(settings: EvaluationSettings, folder: Path, say: Say) -> tuple[Agent, Engine]:
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()  # it writes a line for every file
    if settings.threads:
        torch.set_num_threads(settings.threads)
    policy, _ = make_policy(_untrained(settings), folder / START, say)
    # Nothing is trained, so the weights need no more digits than the computation.
    policy.base.to(policy.dtype)
    longest = settings.rollout.max_tokens
    if settings.agent.name == REFLEXION:
        longest = max(longest, settings.agent.reflect_max_tokens)
    asked = replace(settings, rollout=replace(settings.rollout, max_tokens=longest))
    return make_agent(settings, policy.tokenizer), make_engine(asked, policy, folder / ENGINE, say)


def _untrained(settings: EvaluationSettings) -> Settings:
    """Settings with which a policy has neither reference nor critic; for vLLM, which has a copy, in main memory."""
    model = settings.model
    if settings.engine.name == "vllm":
        from graphwrap.agents.models.loading import choose_device, choose_dtype

        dtype = choose_dtype(model.dtype, choose_device(model.device))
        model = replace(model, device="cpu", dtype=str(dtype).removeprefix("torch."))
    return replace(settings, model=model, credit=CreditSettings(), ppo=replace(settings.ppo, kl=0.0))
