"""Compares credits: one learner under each of them, several seeds, everything else equal.

Run as ``graphwrap compare`` or ``python scripts/compare.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graphwrap.scripts.comparison import llm
from graphwrap.scripts.comparison.results import command_line
from graphwrap.scripts.comparison.runs import plan_comparison, run_comparison
from graphwrap.scripts.comparison.settings import (
    DEMO_CREDITS,
    LLM,
    SB3,
    SOKOBAN,
    Compared,
    CreditSpec,
    Settings,
    parse_credits,
    parse_kwargs,
    parse_seeds,
    preset_of,
)

DEMO_SIZE = ("3", 60)  # seeds and updates
FULL_SIZE = ("10", 150)
TRAINING, ENVIRONMENT, EVALUATION = "Training, equal for all", "Environment", "Evaluation and report"
AGENT = "LLM agent"
POLICY = "policy"
NEEDED = {"pyarrow": "io", "matplotlib": "plot", "rich": "cli"}
LEARNING = {POLICY: {"stable_baselines3": "sb3"}, LLM: {"transformers": "llm", "omegaconf": "llm"}}
OF_BOTH_AGENTS = {"agent", "credits", "seeds", "updates", "out", "jobs", "resume", "target"}
"""Options that count for both kinds of agents; the others of an LLM agent stand in its config."""


def compare(
    context: typer.Context,
    env: Annotated[str, typer.Option(help="Id of a Gymnasium environment.")] = SOKOBAN,
    credits: Annotated[
        str | None,
        typer.Option(
            help="Credits, by comma; parameters as in graphgpo:omega=0.4. 'outcome' is PPO's own advantage, with "
            f"--agent llm 'ppo'. [default: {','.join(DEMO_CREDITS)}; with --agent llm {','.join(llm.CREDITS)}]"
        ),
    ] = None,
    agent: Annotated[
        str, typer.Option(help="policy, a small network; or llm, what graphwrap train-llm trains.")
    ] = POLICY,
    learner: Annotated[
        str, typer.Option(help="sb3, unmodified Stable-Baselines3 PPO; or ppo, the loop of scripts/ppo.py.")
    ] = SB3,
    seeds: Annotated[
        str | None,
        typer.Option(help="A count (3), a range (3-5) or a list (0,4,7). [default: 3; with --full 10]"),
    ] = None,
    updates: Annotated[
        int | None, typer.Option(help="Rollouts, each followed by training. [default: 60; with --full 150]")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="10 seeds and 150 updates: evidence, not a demo.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the results. [default: results/ and the environment's name]"),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Runs at a time. [default: the cores of this machine]")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--overwrite", help="Keep the finished runs in --out, or begin anew.")
    ] = True,
    num_envs: Annotated[
        int, typer.Option(help="Environments stepped together.", rich_help_panel=TRAINING)
    ] = 128,
    group_size: Annotated[
        int, typer.Option(help="Episodes of the same task that are compared.", rich_help_panel=TRAINING)
    ] = 8,
    n_steps: Annotated[
        int | None,
        typer.Option(
            help="Steps of each environment per update. [default: the episodes' limit, else 128]",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    omega: Annotated[
        float | None,
        typer.Option(
            help="Of every credit that has one. [default: 0.8 for Sokoban, else the method's]",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    learning_rate: Annotated[float, typer.Option(help="Of PPO.", rich_help_panel=TRAINING)] = 1e-3,
    epochs: Annotated[int, typer.Option(help="Passes over each rollout.", rich_help_panel=TRAINING)] = 4,
    batch_size: Annotated[int, typer.Option(help="Rows per gradient step.", rich_help_panel=TRAINING)] = 128,
    entropy: Annotated[float, typer.Option(help="Entropy bonus.", rich_help_panel=TRAINING)] = 0.01,
    gamma: Annotated[float, typer.Option(help="Discount of PPO's returns.", rich_help_panel=TRAINING)] = 0.99,
    gae_lambda: Annotated[float, typer.Option(help="Lambda of PPO's GAE.", rich_help_panel=TRAINING)] = 0.95,
    eval_episodes: Annotated[
        int | None,
        typer.Option(
            help="Held-out episodes. [default: Sokoban's test levels, once each; else 200 seeds]",
            rich_help_panel=EVALUATION,
        ),
    ] = None,
    eval_every: Annotated[
        int,
        typer.Option(
            help="Updates between held-out evaluations; 0: only at the end.", rich_help_panel=EVALUATION
        ),
    ] = 0,
    target: Annotated[
        float,
        typer.Option(help="Training success whose first reaching is reported.", rich_help_panel=EVALUATION),
    ] = 0.2,
    env_kwargs: Annotated[
        str, typer.Option(help="JSON, arguments of the environment.", rich_help_panel=ENVIRONMENT)
    ] = "{}",
    eval_env_kwargs: Annotated[
        str | None,
        typer.Option(
            help="JSON, what differs in the held-out one. [default: Sokoban's test split]",
            rich_help_panel=EVALUATION,
        ),
    ] = None,
    member_noise: Annotated[
        bool,
        typer.Option(
            "--member-noise",
            help="Own noise for each member of a group (stochastic environments).",
            rich_help_panel=ENVIRONMENT,
        ),
    ] = False,
    round: Annotated[
        int | None,
        typer.Option(
            help="Decimals that make two float observations one state.", rich_help_panel=ENVIRONMENT
        ),
    ] = None,
    config: Annotated[
        str, typer.Option(help="YAML file, or the name of a shipped one.", rich_help_panel=AGENT)
    ] = llm.CONFIG,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of it, such as ppo.learning_rate=1e-3.", rich_help_panel=AGENT),
    ] = None,
    success_return: Annotated[
        float | None,
        typer.Option(
            help="Return from which an episode counts as won. [default: as the env says]",
            rich_help_panel=ENVIRONMENT,
        ),
    ] = None,
) -> None:
    """Compare credits: SB3 PPO, a PPO loop of 150 lines, or an LLM agent under each, everything else equal.

    Without options it runs the demo: Sokoban 6x6 under outcome reward and four credits, 3 seeds, some minutes on two
    cores. Finished runs are kept: after an interruption the same command goes on, and more seeds or credits join the
    runs that are there.

    Examples:

        graphwrap compare
        graphwrap compare --full --out results/full
        graphwrap compare --learner ppo
        graphwrap compare --agent llm --config sokoban-tiny --seeds 5
        graphwrap compare --credits outcome,graphgpo,graphgpo:omega=0.4 --seeds 5
        graphwrap compare --env FrozenLake-v1 --member-noise --credits grpo,graphgpo
        graphwrap compare --env CartPole-v1 --env-kwargs '{"max_episode_steps": 200}' --round 1 --success-return 195
    """
    usual_seeds, usual_updates = FULL_SIZE if full else DEMO_SIZE
    made: tuple[Compared, list[CreditSpec], str]
    try:
        if agent not in LEARNING:
            raise ValueError(f"agent must be {' or '.join(map(repr, LEARNING))}, got {agent!r}")
        require_packages(agent)
        if agent == LLM:
            refuse_options_of_others(context)
            made = llm_comparison(config, set_ or [], credits, updates)
        else:
            preset = preset_of(env)
            kwargs = parse_kwargs(env_kwargs, "--env-kwargs")
            limit = look_at_env(env, kwargs, learner)
            settings = Settings(
                env=env,
                learner=learner,
                env_kwargs=kwargs,
                held_out_kwargs=(
                    dict(preset.held_out_kwargs)
                    if eval_env_kwargs is None
                    else parse_kwargs(eval_env_kwargs, "--eval-env-kwargs")
                ),
                updates=updates if updates is not None else usual_updates,
                num_envs=num_envs,
                group_size=group_size,
                n_steps=n_steps if n_steps is not None else limit,
                learning_rate=learning_rate,
                epochs=epochs,
                batch_size=batch_size,
                entropy=entropy,
                gamma=gamma,
                gae_lambda=gae_lambda,
                eval_episodes=eval_episodes,
                eval_every=eval_every,
                member_noise=member_noise,
                round=round,
                success_return=success_return,
            )
            look_at_held_out(settings)
            common = {**preset.credit_parameters, **({} if omega is None else {"omega": omega})}
            specs = parse_credits(credits if credits is not None else ",".join(DEMO_CREDITS), common)
            name = (
                env.rsplit("/", 1)[-1].lower()
                + ("" if learner == SB3 else f"-{learner}")
                + ("-full" if full else "")
            )
            made = settings, specs, name
        chosen_seeds = parse_seeds(seeds if seeds is not None else usual_seeds)
        if not 0 < target <= 1:
            raise ValueError(f"target must be in (0, 1], a share of the episodes, got {target}")
        if jobs is not None and jobs < 1:
            raise ValueError(f"jobs must be at least 1, got {jobs}")
        compared, specs, name = made
        folder = out if out is not None else Path("results") / name
        plan = plan_comparison(
            compared, specs, chosen_seeds, folder, command=command_line("compare"), overwrite=not resume
        )
    except (ValueError, ImportError, OSError) as error:
        typer.echo(f"graphwrap compare: {error}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(run_comparison(plan, processes=jobs, target=target))


def refuse_options_of_others(context: typer.Context) -> None:
    """Check that no option was given that an LLM agent does not have.

    Raises:
        ValueError: one was.
    """
    given = {
        name
        for name in context.params
        if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    }
    others = sorted(given - OF_BOTH_AGENTS - {"config", "set_"})
    if others:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        raise ValueError(f"with --agent llm settings stand in --config and --set, got {names}")


def llm_comparison(
    config: str, overrides: list[str], credits: str | None, updates: int | None
) -> tuple[Compared, list[CreditSpec], str]:
    """What is compared with LLM agents: settings, credits and the name of its folder.

    Raises:
        ValueError: settings or credits that do not exist.
    """
    from graphwrap.agents.runs.config import load_settings
    from graphwrap.agents.settings import CRITIC

    more = [] if updates is None else [f"updates={updates}"]
    # Runs go side by side.
    run = load_settings(config, ["threads=1", *overrides, *more])
    specs = parse_credits(
        credits if credits is not None else ",".join(llm.CREDITS), run.credit.parameters, own=CRITIC
    )
    return llm.LLMSettings(run), specs, Path(config).stem


def require_packages(agent: str) -> None:
    """Check that what a comparison needs is installed.

    Raises:
        ImportError: something is missing; names the command that brings it.
    """
    from importlib.util import find_spec

    missing = {
        name: extra for name, extra in {**LEARNING[agent], **NEEDED}.items() if find_spec(name) is None
    }
    if missing:
        extras = ",".join(dict.fromkeys(missing.values()))
        raise ImportError(f"{', '.join(missing)} missing; install with: pip install 'graphwrap[{extras}]'")


def look_at_env(env: str, kwargs: dict[str, Any], learner: str = SB3) -> int:
    """Make the environment once, and check that the learner can learn in it.

    Returns:
        Steps after which it cuts an episode off, 128 where it does not say.

    Raises:
        ValueError: it cannot be made, or has other spaces.
    """
    from graphwrap.scripts.comparison.environments import check_spaces

    made = _made(env, kwargs)
    limit = getattr(made.unwrapped, "max_steps", None) or (made.spec and made.spec.max_episode_steps)
    made.close()
    check_spaces(learner, made.observation_space, made.action_space)
    return int(limit) if limit else 128


def look_at_held_out(settings: Settings) -> None:
    """Make the held-out environment once, and check that it looks as the training one does.

    Raises:
        ValueError: it cannot be made, or has other spaces.
    """
    from graphwrap.scripts.comparison.evaluation import held_out_kwargs

    training, held_out = (
        _made(settings.env, kwargs) for kwargs in (settings.env_kwargs, held_out_kwargs(settings))
    )
    for what in ("observation_space", "action_space"):
        wanted, there = getattr(training, what), getattr(held_out, what)
        if wanted != there:
            raise ValueError(
                f"the held-out environment must have the {what} that training has, {wanted}, got {there}; give other "
                "--eval-env-kwargs"
            )
    training.close()
    held_out.close()


def _made(env: str, kwargs: dict[str, Any]) -> Any:
    import gymnasium

    import graphwrap

    assert graphwrap.__version__  # registers its environments
    try:
        return gymnasium.make(env, **kwargs)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        raise ValueError(f"the environment {env!r} cannot be made with {kwargs}: {error}") from error


if __name__ == "__main__":
    typer.run(compare)
