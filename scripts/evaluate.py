"""Evaluates an agent in a text environment: a trained checkpoint, a prompted model, any endpoint.

Run as ``graphwrap evaluate`` or ``python scripts/evaluate.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from graphwrap.agents.evaluation.settings import EvaluationSettings

NEEDED = {"omegaconf": "openai", "pyarrow": "io", "rich": "cli"}
NEEDED_BY_ENGINE = {
    "openai": {"openai": "openai"},
    "transformers": {"torch": "llm", "transformers": "llm"},
    "vllm": {"torch": "llm", "transformers": "llm", "vllm": "vllm"},
}


def evaluate(
    config: Annotated[
        str,
        typer.Argument(
            help="The folder of a training run, whose checkpoint is evaluated; a YAML file of settings; or the name of "
            "a shipped one, such as sokoban-tiny."
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Settings to change, such as agent.name=react evaluation.tasks=140."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="The environment's argument `split`, short for env.kwargs.split. [default: that of validation]"
        ),
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="Of a run's folder: best or latest.")] = "best",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the evaluation. [default: results/ and the names of config, agent and model]"
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume/--overwrite", help="Play only what --out does not have yet, or begin anew."),
    ] = True,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Ask no model: check the environment, show a filled prompt, tokens, and the cost.",
        ),
    ] = False,
) -> None:
    """Play an agent in a text environment, and say how often it succeeds, by task type and overall.

    The agent (agent.name): zero-shot answers the prompt of training (prompt.template); react sees a worked example and
    its own thoughts of earlier steps; reflexion does that, and after a failed attempt writes itself a note for the next
    one, up to agent.trials.

    The model (engine.name): transformers and vllm load model.path; openai asks any OpenAI-compatible endpoint at
    openai.base_url for the model of that name, with the key in the environment variable that openai.key_variable names.
    graphwrap/agents/evaluation/settings.py explains every setting.

    An episode is kept when it ends: after Ctrl-C, a crash or a failing endpoint the same command plays the others. The
    folder has result.json and result.md, episodes/ with a transcript of each, and transitions.parquet for
    graphwrap.Transitions.load.

    Examples:

        graphwrap evaluate results/sokoban-tiny-graphgpo-seed0

        graphwrap evaluate results/sokoban-tiny-graphgpo-seed0 --checkpoint latest --split train

        graphwrap evaluate sokoban-smollm2 agent.name=react engine.name=transformers evaluation.tasks=8

        graphwrap evaluate my.yaml engine.name=openai model.path=gpt-4o-mini agent.name=reflexion --dry-run

        graphwrap evaluate my.yaml engine.name=openai openai.base_url=http://localhost:8000/v1 openai.key_variable=
    """
    from graphwrap.scripts.comparison.results import command_line
    from graphwrap.scripts.train_llm import require_packages

    try:
        require_packages(NEEDED)
        from graphwrap.agents.evaluation.settings import load_evaluation

        given = [*(overrides or [])]
        if split is not None:
            given.append(f"env.kwargs.split={split}")
        settings = load_evaluation(config, given, checkpoint)
        require_packages(NEEDED_BY_ENGINE[settings.engine.name])
    except (ValueError, ImportError, OSError) as error:
        raise typer.Exit(_refused(error)) from None
    from rich.console import Console

    console = Console()
    if dry_run:
        try:
            show_plan(settings, console)
        except (ValueError, ImportError, OSError, RuntimeError) as error:
            raise typer.Exit(_refused(error)) from None
        return
    folder = out if out is not None else default_folder(config, settings)
    command = command_line("evaluate")
    raise typer.Exit(run(settings, folder, console, overwrite=not resume, command=command))


def default_folder(config: str, settings: EvaluationSettings) -> Path:
    """Where an evaluation is kept."""
    path = Path(config)
    name = f"{path.name if path.is_dir() else path.stem}-{settings.agent.name}"
    if not Path(settings.model.path).is_dir():
        name += "-" + settings.model.path.replace("/", "-")
    return Path("results") / "evaluations" / name


def run(
    settings: EvaluationSettings, folder: Path, console: Console, *, overwrite: bool, command: str
) -> int:
    """Evaluate, and say what came of it.

    Returns:
        Exit status: 0; 1 if something could not be written, or episodes broke off; 2 if nothing could be done; 130 if
        it was interrupted.
    """
    from graphwrap.agents.evaluation.folder import EvaluationFolder
    from graphwrap.agents.evaluation.report import describe, to_tables
    from graphwrap.agents.evaluation.run import evaluate

    again = "the same command plays the others"
    for name, value in describe(settings).items():
        _say(console, f"{name:<12} {value}")
    try:
        outcome = evaluate(settings, folder, overwrite=overwrite, command=command, console=console)
    except KeyboardInterrupt:
        kept = len(EvaluationFolder(folder).records.all())
        _say(console, f"interrupted: {kept} finished episodes are kept in {folder}, {again}")
        return 130
    except OSError as error:
        if error.errno is None:
            return _refused(error)
        typer.echo(f"graphwrap evaluate: {error}; finished episodes are kept in {folder}, {again}", err=True)
        return 1
    except (ValueError, ImportError, RuntimeError, FloatingPointError) as error:
        return _refused(error)
    for table in to_tables(outcome):
        console.print(table)
    for path in ("result.md", "result.json", "episodes", "transitions.parquet"):
        _say(console, str(folder / path))
    if outcome.broken:
        told = f"{len(outcome.broken)} episodes broke off and are not counted; the first one says: "
        typer.echo(f"graphwrap evaluate: {told}{outcome.broken[0].error}; {again}", err=True)
        return 1
    return 0


def show_plan(settings: EvaluationSettings, console: Console) -> None:
    """Check the environment, and print a filled prompt, token counts and what an endpoint would cost.

    Raises:
        ValueError, OSError, RuntimeError: The tokenizer, a template or the environment cannot be had, or the
            environment breaks a rule.
    """
    from contextlib import closing

    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    from graphwrap.agents.engines.limits import Usage
    from graphwrap.agents.evaluation.parts import make_agent_alone
    from graphwrap.agents.evaluation.report import describe
    from graphwrap.agents.evaluation.settings import OPENAI, trials_of
    from graphwrap.agents.runs.estimates import count_prompts
    from graphwrap.envs.pool import env_maker
    from graphwrap.envs.text import check_text_env

    with closing(env_maker(settings.env)()) as env:
        check_text_env(env, episodes=1)
    for name, value in describe(settings).items():
        _say(console, f"{name:<12} {value}")
    agent = make_agent_alone(settings)
    counts = count_prompts(settings, agent.prompter)
    about, longest = ("about " if settings.engine.name == OPENAI else ""), int(counts.tokens.max())
    console.print(
        Panel(Text(_shown(counts.first)), title=f"First prompt, {about}{counts.first.length} tokens")
    )
    if counts.last is not counts.first:
        console.print(Panel(Text(_shown(counts.last)), title=f"Longest prompt, {about}{longest} tokens"))
    play, endpoint = settings.evaluation, settings.openai
    steps = play.tasks * play.repeats * counts.episode_length * trials_of(settings)
    numbers = Table("", "", title="In episodes of random actions", title_justify="left", show_header=False)
    numbers.add_row(
        "tokens of a prompt",
        f"{about}{counts.tokens.mean():.0f} on average, {longest} at most; limit {settings.prompt.max_tokens}",
    )
    numbers.add_row("prompts without some history, to fit", f"{counts.dropped} of {len(counts.tokens)}")
    numbers.add_row("tokens of an answer", f"{settings.rollout.max_tokens} at most")
    numbers.add_row("steps of an episode", f"{counts.episode_length:.1f}")
    prompts, answers = steps * counts.tokens.mean(), steps * settings.rollout.max_tokens
    numbers.add_row(
        "all episodes",
        f"{steps:,.0f} steps, {prompts:,.0f} prompt tokens, {answers:,.0f} answer tokens at most",
    )
    if endpoint.prompt_price or endpoint.answer_price:
        tokens = Usage(prompt_tokens=round(prompts), answer_tokens=round(answers))
        cost = tokens.cost(endpoint.prompt_price, endpoint.answer_price)
        numbers.add_row("cost, by the prices given", f"about {cost:.2f} at most")
    console.print(numbers)


def _shown(prompt: object) -> str:
    messages = getattr(prompt, "messages", ())
    if not messages:
        return str(getattr(prompt, "text", ""))
    return "\n\n".join(f"[{role}]\n{content}" for role, content in messages)


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _refused(error: Exception) -> int:
    typer.echo(f"graphwrap evaluate: {error}", err=True)
    return 2


if __name__ == "__main__":
    typer.run(evaluate)
