"""Trains a language model as an agent in a text environment, with credit by name.

Run as ``graphwrap train-llm`` or ``python scripts/train_llm.py``; on several GPUs as
``accelerate launch --num_processes 4 -m graphwrap.scripts.train_llm``.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from graphwrap.agents.distributed import World
    from graphwrap.agents.settings import Settings

_NO_FOLDER = (errno.ENAMETOOLONG, errno.EACCES, errno.ENOTDIR)
NEEDED = {
    "torch": "llm",
    "transformers": "llm",
    "omegaconf": "llm",
    "tensorboard": "llm",
    "pyarrow": "io",
    "rich": "cli",
}


def train_llm(
    config: Annotated[
        str,
        typer.Argument(help="A YAML file of settings, or the name of a shipped one, such as sokoban-tiny."),
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings to change, such as credit.name=grpo seed=3.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run. [default: results/ and the names of config, credit and seed]"),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume/--overwrite", help="Go on with the run in --out if there is one, or begin anew."
        ),
    ] = True,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Train nothing: check the environment, show a filled prompt, tokens, and the memory of a run.",
        ),
    ] = False,
) -> None:
    """Train a language model by PPO whose steps get their credit from a method by name.

    The settings come from a YAML file; every one can be changed on the command line. An unknown one is refused with the
    nearest name, and all values are checked before anything starts. graphwrap/agents/settings.py explains each.

    A run goes on where it was: after Ctrl-C, a crash or a full disk the same command resumes from the last checkpoint.
    In its folder are metrics.jsonl (a line per update) and TensorBoard's files, sampled episodes to read, a Parquet
    file of the steps of every update, and checkpoints that from_pretrained and vLLM load: checkpoints/latest/model
    and checkpoints/best/model.

    Examples:

        graphwrap train-llm sokoban-tiny
        graphwrap train-llm sokoban-tiny credit.name=grpo seed=3 --out results/grpo-3
        graphwrap train-llm sokoban-tiny updates=3 rollout.tasks=4 --dry-run
        graphwrap train-llm my-run.yaml engine.name=vllm model.lora.rank=16
    """
    from graphwrap.scripts.comparison.results import command_line

    try:
        require_packages()
        from graphwrap.agents.runs.config import load_settings

        settings = load_settings(config, overrides or [])
    except (ValueError, ImportError, OSError) as error:
        _refuse(error)
    from rich.console import Console

    console = Console()
    if dry_run:
        console.quiet = os.environ.get("RANK", "0") != "0"  # one of several processes speaks for all
        try:
            show_plan(settings, console)
        except (ValueError, ImportError, OSError, RuntimeError) as error:
            _refuse(error)
        return
    folder = out if out is not None else default_folder(config, settings)
    raise typer.Exit(
        train(settings, folder, console, overwrite=not resume, command=command_line("train-llm"))
    )


def default_folder(config: str, settings: Settings) -> Path:
    """Where the run of a config is kept."""
    return Path("results") / f"{Path(config).stem}-{settings.credit.name}-seed{settings.seed}"


def require_packages(needed: dict[str, str] = NEEDED) -> None:
    """Check that what a run needs is installed.

    Args:
        needed: The extra that brings each module.

    Raises:
        ImportError: something is missing; names the command that brings it.
    """
    from importlib.util import find_spec

    missing = {name: extra for name, extra in needed.items() if find_spec(name) is None}
    if missing:
        extras = ",".join(dict.fromkeys(missing.values()))
        raise ImportError(f"{', '.join(missing)} missing; install with: pip install 'graphwrap[{extras}]'")


def train(settings: Settings, folder: Path, console: Console, *, overwrite: bool, command: str) -> int:
    """Train, with the other processes if there are some, and say what came of it.

    Returns:
        Exit status: 0; 1 if something could not be written; 2 if nothing could start; 130 if it was interrupted.
    """
    from graphwrap.agents.distributed import joined

    try:
        with joined(settings) as world:
            if not world.is_main:
                console.quiet = True
            return _train(settings, folder, console, overwrite, command, world)
    except (ValueError, ImportError, RuntimeError) as error:
        return _refused(error)


def _train(
    settings: Settings, folder: Path, console: Console, overwrite: bool, command: str, world: World
) -> int:
    """As `train`, in one of the processes of `world`."""
    from graphwrap.agents.runs.parts import describe
    from graphwrap.agents.runs.run_folder import RunFolder
    from graphwrap.agents.runs.trainer import Interrupted, Trainer

    again = "the same command goes on from there"
    checkpoints = RunFolder(folder).checkpoints
    try:
        trainer = Trainer(
            settings, folder, overwrite=overwrite, command=command, console=console, world=world
        )
        for name, value in describe(settings).items():
            console.print(f"{name:<12} {value}", highlight=False, markup=False)
        rows = trainer.run()
    except (Interrupted, KeyboardInterrupt):
        latest = checkpoints.latest
        done = latest.update if latest else 0
        _say(console, f"interrupted: {done} of {settings.updates} updates are kept in {folder}, {again}")
        return 130
    except OSError as error:
        if error.errno is None:
            return _refused(error)
        latest = None if error.errno in _NO_FOLDER else checkpoints.latest
        kept = f"{latest.update} of {settings.updates} updates" if latest else "no update"
        told = error.strerror or str(error)
        _say(console, f"cannot write to {folder}: {told}; {kept} kept there, and once this is mended {again}")
        return 1
    except (ValueError, ImportError, RuntimeError, FloatingPointError) as error:
        return _refused(error)
    if not rows:
        return _refused(ValueError(f"{folder} has checkpoints and no metrics.jsonl; --overwrite begins anew"))
    last = rows[-1]
    _say(console, f"{len(rows)} updates, success {last['success_rate']:.3f} in the last one")
    best = checkpoints.best
    if best is not None:
        _say(console, f"held-out success {best.score:.3f} at best, after update {best.update}")
    for path in ("metrics.jsonl", "episodes", "checkpoints/latest/model", "checkpoints/best/model"):
        if (folder / path).exists():
            _say(console, str(folder / path))
    return 0


def show_plan(settings: Settings, console: Console) -> None:
    """Check the environment, and print a filled prompt, token counts and a memory estimate.

    Raises:
        ValueError, OSError, RuntimeError: The model, the template or the environment cannot be had, or the environment
            breaks a rule.
    """
    from contextlib import closing

    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    from graphwrap.agents.runs.estimates import count_prompts, estimate_memory, shape_of
    from graphwrap.agents.runs.parts import describe, make_prompter
    from graphwrap.envs.pool import env_maker
    from graphwrap.envs.text import check_text_env

    for held_out in (False, True) if settings.env.held_out_kwargs else (False,):
        with closing(env_maker(settings.env, held_out=held_out)()) as env:
            check_text_env(env, episodes=1)
    for name, value in describe(settings).items():
        console.print(f"{name:<12} {value}", highlight=False, markup=False)
    prompter = make_prompter(settings)
    counts = count_prompts(settings, prompter)
    rollout, longest = settings.rollout, int(counts.tokens.max())
    console.print(Panel(Text(counts.first.text), title=f"First prompt, {len(counts.first.token_ids)} tokens"))
    if counts.last is not counts.first:
        console.print(Panel(Text(counts.last.text), title=f"Longest prompt, {longest} tokens"))
    steps = rollout.tasks * rollout.group_size * counts.episode_length
    tokens = Table(
        "", "", title="Tokens, in episodes of random actions", title_justify="left", show_header=False
    )
    limit = settings.prompt.max_tokens
    tokens.add_row("of a prompt", f"{counts.tokens.mean():.0f} on average, {longest} at most; limit {limit}")
    tokens.add_row(
        "prompts without some of their history, to fit", f"{counts.dropped} of {len(counts.tokens)}"
    )
    tokens.add_row("of an answer", f"{rollout.max_tokens} at most")
    tokens.add_row("steps of an episode", f"{counts.episode_length:.1f}")
    tokens.add_row("an update", f"{steps:,.0f} steps, {steps * counts.tokens.mean():,.0f} prompt tokens")
    console.print(tokens)
    estimate = estimate_memory(settings, shape_of(settings, prompter.tokenizer))
    memory = Table("for", "GB", title="Memory, estimated", title_justify="left")
    for name, size in {**estimate.trainer, **estimate.engine}.items():
        memory.add_row(name, f"{size / 1e9:.3f}")
    memory.add_row("[bold]together", f"[bold]{estimate.total / 1e9:.3f}")
    console.print(memory)
    _say(console, f"{estimate.parameters:,} parameters, of which {estimate.trained:,} are trained")


def _say(console: Any, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _refused(error: Exception) -> int:
    typer.echo(f"graphwrap train-llm: {error}", err=True)
    return 2


def _refuse(error: Exception) -> None:
    raise typer.Exit(_refused(error)) from None


if __name__ == "__main__":
    typer.run(train_llm)
