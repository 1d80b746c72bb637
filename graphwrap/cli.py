"""The command line `graphwrap`."""

from __future__ import annotations

import os
import sys
from typing import Any

EPILOG = "Every command explains itself: graphwrap compare --help"


def main() -> None:
    """Run the command line; without its packages, say how to install them."""
    try:
        app = make_app()
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "click"):
            raise
        sys.exit(f"The graphwrap command needs {error.name}: pip install 'graphwrap[cli]'")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)  # for environments in modules of the user's own, such as rooms:KeyAndDoor-v0
    app()


def make_app() -> Any:
    """The typer app with all commands. What a command needs is imported when it runs.

    Raises:
        ModuleNotFoundError: typer is missing.
    """
    import typer

    from graphwrap.scripts.alfworld_command import alfworld_games
    from graphwrap.scripts.benchmark import bench
    from graphwrap.scripts.compare import compare
    from graphwrap.scripts.diagnose_command import diagnose
    from graphwrap.scripts.evaluate import evaluate
    from graphwrap.scripts.levels_command import make_levels_app
    from graphwrap.scripts.methods_command import methods
    from graphwrap.scripts.models_command import make_models_app
    from graphwrap.scripts.train_llm import train_llm

    app = typer.Typer(
        name="graphwrap",
        help="Step-level credit for reinforcement learning from the graph of a group's episodes.",
        epilog=EPILOG,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )

    def version(shown: bool) -> None:
        if shown:
            from graphwrap import __version__

            typer.echo(f"graphwrap {__version__}")
            raise typer.Exit()

    @app.callback()
    def options(
        version: bool = typer.Option(
            False, "--version", callback=version, is_eager=True, help="Print the version and leave."
        ),
    ) -> None:
        pass

    app.command()(compare)
    app.add_typer(make_levels_app(), name="levels")
    app.command()(methods)
    app.add_typer(make_models_app(), name="models")
    app.command()(train_llm)
    app.command()(evaluate)
    app.command()(diagnose)
    app.command()(alfworld_games)
    app.command()(bench)

    @app.command()
    def doctor() -> None:
        """Show versions, extras and what works on this machine.

        The exit status is 1 where something that is needed does not work.
        """
        from graphwrap.doctor import examine

        raise typer.Exit(0 if examine() else 1)

    return app


if __name__ == "__main__":
    main()
