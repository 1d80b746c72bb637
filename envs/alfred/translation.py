"""From a game's PDDL to what Fast Downward plays, by Fast Downward's own translator."""

from __future__ import annotations

import io
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import Any

_lock = threading.Lock()  # the translator's options are global
_TRIVIAL = "Atom dummy(val1)"  # Fast Downward's whole task where nothing has to be done, or nothing can be


@dataclass(frozen=True)
class Translation:
    """A game without its texts."""

    packed: bytes  # the planning task, compressed: it is large, and needed when another game was played
    facts: tuple[
        tuple[str, tuple[str, ...]], ...
    ]  # of the start, which `sas` does not have all: predicate, names
    types: dict[str, str]  # of each name
    parameters: dict[str, tuple[tuple[str, str], ...]]  # of each action: (name, type)
    supertypes: tuple[tuple[str, tuple[str, ...]], ...]  # of each type
    changed: frozenset[str]  # predicates of facts that actions change

    @property
    def sas(self) -> bytes:
        """The planning task, in Fast Downward's format."""
        return zlib.decompress(self.packed)


def translated(domain: str, problem: str) -> Translation:
    """A game to be played, in which no action is left out.

    Raises:
        ValueError: The PDDL has a fault, or no action can reach the goal.
    """
    task, sas = _translate(domain, problem, optimize=False)
    types = {intern(thing.name): thing.type_name for thing in task.objects}
    return Translation(
        zlib.compress(sas, 1),
        tuple(fact for fact in map(_fact, task.init) if fact),
        types,
        {
            action.name: tuple((p.name.strip("?"), p.type_name) for p in action.parameters)
            for action in task.actions
        },
        tuple((kind.name, tuple(kind.supertype_names)) for kind in task.types),
        frozenset(effect.literal.predicate for action in task.actions for effect in action.effects),
    )


@lru_cache(maxsize=8)
def translated_for_planning(domain: str, problem: str) -> bytes:
    """The same game for the planner: without what the goal does not need."""
    return _translate(domain, problem, optimize=True)[1]


def _fact(entry: Any) -> tuple[str, tuple[str, ...]] | None:
    """A fact of the start as TextWorld sees it: distances, costs and equalities are none."""
    predicate = getattr(entry, "predicate", None)
    if predicate is not None:
        return None if predicate == "=" else (intern(predicate), tuple(map(intern, entry.args)))
    value = str(entry.expression.value)
    if entry.fluent.symbol == "total-cost" or value.isdigit():
        return None
    return value, tuple(map(intern, entry.fluent.args))


def _translate(domain: str, problem: str, optimize: bool) -> tuple[Any, bytes]:
    """`fast_downward.pddl2sas`, which also replaces sys.argv for good and takes what other threads print."""
    with muted():
        from fast_downward.translate import normalize, options, translate
        from fast_downward.translate.pddl_parser import lisp_parser, parsing_functions

        options.filter_unimportant_vars = optimize
        options.filter_unreachable_facts = optimize
        options.use_partial_encoding = optimize
        options.skip_variable_reordering = not optimize
        options.add_implied_preconditions = optimize
        options.invariant_generation_max_candidates = 0
        try:
            parsed = [lisp_parser.parse_nested_list(text.split("\n")) for text in (domain, problem)]
            task = parsing_functions.parse_task(*parsed)
            normalize.normalize(task)
            made = translate.pddl_to_sas(task)
            sas = io.StringIO()
            made.output(sas)
        except (Exception, SystemExit) as error:
            raise ValueError(f"the game's PDDL has a fault: {type(error).__name__}: {error}") from error
    if made.variables.value_names[0][0] == _TRIVIAL:
        raise ValueError("no action can reach the goal of the game, or it has no goal")
    return task, sas.getvalue().encode("utf-8")


@contextmanager
def muted() -> Iterator[None]:
    """Let the translator run, which reads sys.argv when it is imported, and prints: one thread at a time."""
    with _lock:
        arguments, output = sys.argv, sys.stdout
        silent: Any = _Muted(output)
        sys.argv, sys.stdout = ["translate.py", "domain", "task"], silent
        try:
            yield
        finally:
            sys.argv = arguments
            if sys.stdout is silent:  # another thread may have put its own there
                sys.stdout = output


class _Muted:
    """An output to which this thread cannot write, and all others can."""

    def __init__(self, output: Any) -> None:
        self._output = output
        self._thread = threading.get_ident()

    def write(self, text: str) -> int:
        if threading.get_ident() == self._thread:
            return len(text)
        return self._output.write(text)

    def flush(self) -> None:
        if threading.get_ident() != self._thread:
            self._output.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)
