"""The facts of a state, and the queries that a game's grammar makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from graphwrap.envs.alfred.grammar import Bindings, Placeholder, Predicate

Names = tuple[str, ...]
Signature = tuple[str, tuple[str, ...]]  # a predicate and the types of its arguments
Subtypes = Callable[[Signature], Sequence[Signature]]


class FactStore:
    """The facts of a state, by signature.

    Args:
        types: The type of each name.
        subtypes: The signatures of all facts that a placeholder's signature matches, in order.
    """

    def __init__(self, types: Mapping[str, str], subtypes: Subtypes) -> None:
        self._types = types
        self._subtypes = subtypes
        self._facts: dict[Signature, set[Names]] = {}
        self._sorted: dict[Signature, list[Names]] = {}  # of signatures asked for since they changed

    def copy(self) -> FactStore:
        """Another state with the same facts."""
        other = FactStore(self._types, self._subtypes)
        other._facts = {signature: set(facts) for signature, facts in self._facts.items()}
        other._sorted = dict(self._sorted)
        return other

    def signature(self, predicate: str, names: Names) -> Signature:
        """Of a fact."""
        return predicate, tuple([self._types[name] for name in names])

    def add(self, signature: Signature, names: Names) -> None:
        """Make a fact true."""
        self._facts.setdefault(signature, set()).add(names)
        self._sorted.pop(signature, None)

    def remove(self, signature: Signature, names: Names) -> None:
        """Make a fact untrue; it may be untrue already."""
        if signature in self._facts:
            self._facts[signature].discard(names)
            self._sorted.pop(signature, None)

    def of(self, predicates: frozenset[str]) -> Iterator[tuple[str, Names]]:
        """The facts of some predicates, in any order."""
        for (predicate, _), facts in self._facts.items():
            if predicate in predicates:
                for names in facts:
                    yield predicate, names

    def names(self) -> set[str]:
        """What there are facts about."""
        return {name for facts in self._facts.values() for names in facts for name in names}

    def matches(self, query: Sequence[Predicate], bound: Bindings) -> Iterator[Bindings]:
        """Every way to bind the placeholders of `query` to different things so that all of it holds, in order."""
        return self._matches(query, 0, bound, set(bound.values()))

    def _matches(
        self, query: Sequence[Predicate], depth: int, bound: Bindings, used: set[str]
    ) -> Iterator[Bindings]:
        if depth == len(query):
            yield bound
            return
        predicate, placeholders = query[depth]
        for signature in self._subtypes((predicate, tuple([kind for _, kind in placeholders]))):
            for names in self._in_order(signature):
                found = _bound(placeholders, names, bound, used)
                if found is not None:
                    yield from self._matches(query, depth + 1, bound | found, used.union(found.values()))

    def _in_order(self, signature: Signature) -> list[Names]:
        facts = self._sorted.get(signature)
        if facts is None:
            facts = self._sorted[signature] = sorted(self._facts.get(signature, ()))
        return facts


def _bound(
    placeholders: Sequence[Placeholder], names: Names, bound: Bindings, used: set[str]
) -> Bindings | None:
    """What the names of a fact bind in addition; None if they contradict what is bound, or bind one thing twice."""
    found: Bindings = {}
    for placeholder, name in zip(placeholders, names):
        known = bound.get(placeholder) or found.get(placeholder)
        if known is None:
            if name in used or name in found.values():
                return None
            found[placeholder] = name
        elif known != name:
            return None
    return found
