"""`graphwrap methods`: what each credit method computes, its parameters and its paper."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from typing import Annotated, Any

import typer


def methods(
    name: Annotated[str | None, typer.Argument(help="A method or preset; without one all are shown.")] = None,
) -> None:
    """Show the credit methods: equation, parameters with their rules and defaults, paper.

    Without a name, all of them.

    Examples:

        graphwrap methods
        graphwrap methods graphgpo
    """
    from rich.console import Console

    from graphwrap.methods import METHODS, PRESETS, credit_names

    console = Console()
    if name is not None and name not in credit_names():
        near = difflib.get_close_matches(name, credit_names(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        typer.echo(f"no credit method {name!r}: the names are {', '.join(credit_names())}{hint}", err=True)
        raise typer.Exit(2)
    for method in [*METHODS, *PRESETS] if name is None else [name]:
        _show(console, method)
    if name is None:
        console.print(
            "A method is used by name or made by hand: graphwrap.make_credit('graphgpo', omega=0.8)"
        )


def _show(console: Any, name: str) -> None:
    from rich.markup import escape
    from rich.padding import Padding
    from rich.table import Table

    from graphwrap.methods import METHODS, PRESETS

    base, preset = PRESETS.get(name, (name, {}))
    method = METHODS[base]
    paper = getattr(method, "paper", "")
    console.print(f"[bold]{name}[/bold]  {method.__name__}{f', {paper}' if paper else ''}", highlight=False)
    if preset:
        settings = ", ".join(f"{key}={value!r}" for key, value in preset.items())
        console.print(f"  {base} with {settings}: as the public code computes it\n", highlight=False)
        return
    for paragraph in (inspect.getdoc(method) or "").split("\n\n"):
        console.print(Padding(escape(" ".join(paragraph.split())), (0, 0, 1, 2)), highlight=False)
    fields = dataclasses.fields(method)
    if fields:
        table = Table(
            "parameter", "default", "allowed", "meaning", box=None, pad_edge=False, padding=(0, 2, 0, 0)
        )
        for field in fields:
            meta = field.metadata
            table.add_row(
                field.name, repr(field.default), escape(meta.get("rule", "")), escape(meta.get("help", ""))
            )
        console.print(table)
    console.print()
