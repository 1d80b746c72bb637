"""A game's grammar: read once for all games, and what it says in a state.

The rules are TextWorld's (`textworld.envs.pddl.textgen`), and so is the parser. What is left out is its copying of
whole contexts at every symbol and its reading of the same rules at every step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any, Protocol

Placeholder = tuple[str, str]  # name and type
Predicate = tuple[str, tuple[Placeholder, ...]]
Bindings = dict[Placeholder, str]  # the thing that each placeholder stands for

TASK = re.compile(r'"Your task is to: ([\w ,.\'-]+)"', re.ASCII)
_SOME_TASK = "UNKNOWN GOAL."


class Facts(Protocol):
    """What a query asks."""

    def matches(self, query: Sequence[Predicate], bound: Bindings) -> Iterator[Bindings]:
        """Every way to bind the placeholders of `query` so that it holds."""


@dataclass(frozen=True)
class Terminal:
    """Text."""

    text: str


@dataclass(frozen=True)
class Nonterminal:
    """What a rule is about."""

    name: str


@dataclass(frozen=True)
class Eval:
    """A Python expression of things."""

    code: CodeType


@dataclass(frozen=True)
class Conditional:
    """A symbol for each way in which a query holds; without one, the symbol."""

    symbol: Nonterminal | Eval
    query: tuple[Predicate, ...] | None


@dataclass(frozen=True)
class Listing:
    """The same as a list in words."""

    symbol: Conditional


Symbol = Terminal | Nonterminal | Eval | Conditional | Listing


@dataclass(frozen=True)
class Rule:
    """What may stand for a nonterminal where `condition` holds."""

    symbols: tuple[Symbol, ...]
    condition: tuple[Predicate, ...] | None


@dataclass(frozen=True)
class Grammar:
    """All rules, and each action's command and feedback."""

    rules: Mapping[str, tuple[Rule, ...]]
    actions: Mapping[str, tuple[str, str]]  # template of the command, feedback
    symbols: dict[str, tuple[Symbol, ...]] = field(
        default_factory=dict, compare=False
    )  # of texts seen so far

    def derive(self, text: str, facts: Facts, things: Mapping[str, Any], bound: Bindings) -> str:
        """The text that `text` becomes.

        Args:
            text: Symbols, such as "#intro#".
            facts: What holds.
            things: An `EntityInfo` per name.
            bound: What the placeholders of an action stand for.

        Raises:
            KeyError: There is no rule for a nonterminal.
        """
        if text not in self.symbols:
            self.symbols[text] = _read(text)
        variables = {name: things[thing] for (name, _), thing in bound.items()}
        stack = [(symbol, variables, bound) for symbol in reversed(self.symbols[text])]
        said: list[str] = []
        while stack:
            symbol, variables, bound = stack.pop()
            if isinstance(symbol, Terminal):
                said.append(symbol.text)
            elif isinstance(symbol, Eval):
                said.append(str(eval(symbol.code, {}, variables)))
            elif isinstance(symbol, Nonterminal):
                rule = self._rule(symbol.name, facts, bound)
                stack += [(part, variables, bound) for part in reversed(rule.symbols)]
            else:
                one = symbol.symbol if isinstance(symbol, Listing) else symbol
                assert isinstance(one, Conditional)
                parts: list[Any] = [(one.symbol, variables, bound)]
                if one.query:
                    parts = [
                        (
                            one.symbol,
                            variables | {name: things[thing] for (name, _), thing in found.items()},
                            found,
                        )
                        for found in facts.matches(one.query, bound)
                    ]
                if isinstance(symbol, Listing):
                    parts = _listed(parts, variables, bound)
                stack += reversed(parts)
        return "".join(said)

    def is_fixed(self, text: str, changed: frozenset[str]) -> bool:
        """Whether what `text` becomes depends on what is bound alone, if only facts of predicates `changed` change."""
        if text not in self.symbols:
            self.symbols[text] = _read(text)
        for symbol in self.symbols[text]:
            one = symbol.symbol if isinstance(symbol, Listing) else symbol
            inner = one.symbol if isinstance(one, Conditional) else one
            if isinstance(inner, Nonterminal):
                return False
            asked = (one.query or ()) if isinstance(one, Conditional) else ()
            if any(name.removeprefix("not_") in changed for name, _ in asked):
                return False
        return True

    def _rule(self, name: str, facts: Facts, bound: Bindings) -> Rule:
        for rule in self.rules[name]:
            if rule.condition is None or next(iter(facts.matches(rule.condition, bound)), None) is not None:
                return rule
        raise IndexError(f"no rule of #{name}# holds")

    def with_task(self, task: str) -> Grammar:
        """The same grammar with another task."""
        rules = {
            name: tuple(
                Rule(
                    tuple(
                        Terminal(symbol.text.replace(_SOME_TASK, task))
                        if isinstance(symbol, Terminal)
                        else symbol
                        for symbol in rule.symbols
                    ),
                    rule.condition,
                )
                for rule in several
            )
            for name, several in self.rules.items()
        }
        return Grammar(rules, self.actions, self.symbols)


_EMPTY, _COMMA, _AND = (Nonterminal(f"list_{name}") for name in ("empty", "separator", "last_separator"))


def _listed(parts: list[Any], variables: Any, bound: Any) -> list[Any]:
    if len(parts) < 2:
        return parts or [(_EMPTY, variables, bound)]
    listed = [parts[0]]
    for part in parts[1:-1]:
        listed += [(_COMMA, variables, bound), part]
    return [*listed, (_AND, variables, bound), parts[-1]]


def read_grammar(document: str) -> Grammar:
    """The grammar of a game file, of which only the task differs between games.

    Raises:
        ValueError: It has a fault.
    """
    found = TASK.findall(document)
    if len(found) != 1:
        return _grammar(document)
    start, end = TASK.search(document).span(1)  # type: ignore[union-attr]
    return _grammar(document[:start] + _SOME_TASK + document[end:]).with_task(found[0])


@lru_cache(maxsize=8)
def _grammar(document: str) -> Grammar:
    from textworld.envs.pddl.logic import _parse_and_convert

    try:
        actions, grammar = _parse_and_convert(document, rule_name="pddlStart")
    except Exception as error:  # the parsers have errors of their own
        raise ValueError(f"the grammar has a fault: {error}") from error
    return Grammar(
        {
            name: tuple(
                Rule(_converted(rule.rhs), _query(rule.condition) if rule.condition else None)
                for rule in rules
            )
            for name, rules in grammar._rules.items()
        },
        {name: (action.template, action.feedback_rule) for name, action in actions.items()},
    )


def _read(text: str) -> tuple[Symbol, ...]:
    from textworld.envs.pddl.textgen import _parse_and_convert

    return _converted(_parse_and_convert(text, rule_name="symbols"))


def _converted(symbols: Sequence[Any]) -> tuple[Symbol, ...]:
    return tuple(map(_convert, symbols))


def _convert(symbol: Any) -> Any:
    from textworld.envs.pddl import textgen

    if isinstance(symbol, textgen.TerminalSymbol):
        return Terminal(str(symbol.symbol))
    if isinstance(symbol, textgen.NonterminalSymbol):
        return Nonterminal(str(symbol.symbol))
    if isinstance(symbol, textgen.EvalSymbol):
        return Eval(compile(symbol.expression.strip(), "<grammar>", "eval"))
    if isinstance(symbol, textgen.ConditionalSymbol):
        return Conditional(_convert(symbol.expression), _query(symbol.given) if symbol.given else None)
    if isinstance(symbol, textgen.ListSymbol):
        return Listing(_convert(symbol.symbol))
    raise ValueError(
        f"a symbol of a grammar is text, a name, an expression, a condition or a list, got {symbol!r}"
    )


@lru_cache(maxsize=1024)
def _query(text: str) -> tuple[Predicate, ...]:
    from textworld.logic import Rule as Query

    query = Query.parse_conjunctive_query(text)
    return tuple(
        (one.name, tuple((part.name, part.type) for part in one.parameters)) for one in query.preconditions
    )
