"""ALFWorld's games, played quickly: what TextWorld works out again at every step is worked out once.

The states are Fast Downward's and the words those of the game's grammar, as in `textworld.envs.PddlEnv`. Kept are a
game's translation and grammar, the text of each command, and the facts, which are changed and not listed anew. The
outputs are the same, which a test compares; a command's text is only kept where no action can change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from ctypes import CDLL, Array, Structure, byref, c_char, c_int
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple

import numpy as np

from graphwrap.envs.alfred.engine import GameFile, State
from graphwrap.envs.alfred.fact_store import FactStore, Names, Signature
from graphwrap.envs.alfred.facts import USED, read_facts
from graphwrap.envs.alfred.grammar import Bindings, Grammar, read_grammar
from graphwrap.envs.alfred.imports import importing
from graphwrap.envs.alfred.translation import Translation, translated, translated_for_planning

NOTHING_HAPPENS = "Nothing happens."
_REMEMBERED = 128  # games; one of release size that was played for long takes 1 MB
_RELOADED_AFTER = 100_000  # steps; Fast Downward keeps every state it has seen until it reads a game again
_NAME_BYTES = 1024


class _Operator(Structure):
    _fields_ = (("id", c_int), ("name", c_char * _NAME_BYTES), ("num_effects", c_int))


class _Atom(Structure):
    _fields_ = (("name", c_char * _NAME_BYTES),)


_OPERATORS = np.dtype([("id", np.intc), ("name", f"S{_NAME_BYTES}"), ("num_effects", np.intc)])


class Operator(NamedTuple):
    """An action with its arguments."""

    name: str
    action: str
    bound: Bindings
    command: str | None  # None: what it is called depends on the state
    num_effects: int


class Effect(NamedTuple):
    """A fact that becomes true, and its opposite, which no longer is."""

    signature: Signature
    opposite: Signature
    names: Names


class CachedGame:
    """What all engines that play a game share.

    Args:
        domain: PDDL.
        problem: PDDL.
        grammar: TextWorld's.

    Raises:
        ValueError: As of `translated`.
    """

    def __init__(self, domain: str, problem: str, grammar: str) -> None:
        self.domain, self.problem = domain, problem
        self.translation: Translation = translated(domain, problem)
        self.grammar: Grammar = read_grammar(grammar)
        self.operators: dict[int, Operator] = {}  # by Fast Downward's id, those seen so far
        self.effects: dict[bytes, Effect] = {}  # by Fast Downward's name
        self.things: dict[str, Any] = {}  # TextWorld's EntityInfo of each name
        self.names: dict[str, str] = {}  # ALFWorld's of each of Fast Downward's
        self.start: FactStore | None = None  # known as soon as Fast Downward has read the game
        self._subtypes: dict[Signature, list[Signature]] = {}
        self._hierarchy = _hierarchy(self.translation.supertypes)

    def begin(self, atoms: list[bytes]) -> None:
        """Note the facts of the start, which are the translation's and Fast Downward's."""
        start = FactStore(self.translation.types, self.subtypes)
        for predicate, names in self.translation.facts:
            start.add(start.signature(predicate, names), names)
        for atom in atoms:
            effect = self.effect(atom)
            if not effect.signature[0].startswith("not_"):
                start.add(effect.signature, effect.names)
        self.things = _named_things(start, self.translation.types)
        self.names = {name: thing.name for name, thing in self.things.items()}
        self.start = start

    def subtypes(self, signature: Signature) -> list[Signature]:
        """The signatures of all facts that match a placeholder's, in TextWorld's order."""
        if signature not in self._subtypes:
            predicate, types = signature
            several = self._hierarchy.multi_subtypes([self._hierarchy.get(kind) for kind in types])
            self._subtypes[signature] = [(predicate, tuple(kind.name for kind in kinds)) for kinds in several]
        return self._subtypes[signature]

    def effect(self, atom: bytes) -> Effect:
        """Of Fast Downward's name of an atom."""
        if atom not in self.effects:
            kind, _, rest = atom.decode("cp1252").partition(" ")
            predicate, _, inside = rest.partition("(")
            names = tuple(intern(name) for name in inside[:-1].split(", ") if name)
            types = tuple([self.translation.types[name] for name in names])
            opposite = "not_" + predicate
            if kind == "NegatedAtom":
                predicate, opposite = opposite, predicate
            self.effects[atom] = Effect((predicate, types), (opposite, types), names)
        return self.effects[atom]

    def operator(self, found: _Operator) -> Operator:
        """Of Fast Downward's description."""
        if found.id not in self.operators:
            name = found.name.decode("cp1252")
            action, *arguments = name.split()
            bound = dict(zip(self.translation.parameters[action], map(intern, arguments)))
            template = self.grammar.actions[action][0]
            command = None
            if self.grammar.is_fixed(template, self.translation.changed):
                assert self.start is not None
                command = self.command(action, bound, self.start)
            self.operators[found.id] = Operator(name, action, bound, command, found.num_effects)
        return self.operators[found.id]

    def planned(self, step: bytes) -> str:
        """The command of a step of a plan, as TextWorld writes it."""
        name, *arguments = step.decode("cp1252").split()
        template = "go to {r}" if name == "gotolocation" else self.grammar.actions[name][0]
        return template.format(
            **{
                parameter: self.names[argument]
                for (parameter, _), argument in zip(self.translation.parameters[name], arguments)
            }
        )

    def command(self, action: str, bound: Bindings, facts: FactStore) -> str:
        """What a player types."""
        text = self.grammar.derive(self.grammar.actions[action][0], facts, self.things, bound)
        return text.format(**self.names) if "{" in text or "}" in text else text


class CachedPlayer:
    """Plays games in a library of Fast Downward.

    Args:
        library: Nobody else uses it.
    """

    def __init__(self, library: CDLL) -> None:
        self._library = library
        self._game: CachedGame | None = None
        self._facts = FactStore({}, list)
        self._start_id = self._steps = 0
        self._possible: dict[str, tuple[Operator, int]] = {}  # with Fast Downward's id, by command
        self._operators = (_Operator * 256)()
        self._numbers = _numbers(self._operators)
        self._effects = (_Atom * 16)()

    def reset(self, game: GameFile) -> State:
        """Begin a game."""
        return self._reset(cached_game(game.pddl_domain, game.pddl_problem, game.grammar))

    def _reset(self, game: CachedGame) -> State:
        library = self._library
        if game is self._game and self._steps < _RELOADED_AFTER:
            library.set_state_id(self._start_id)
        else:
            self._game = None  # until this one is there
            library.load_sas(game.translation.sas)
            self._start_id, self._steps = library.get_state_id(), 0
            if game.start is None:
                atoms = (_Atom * library.get_state_size())()
                library.get_state(byref(atoms))
                game.begin([atom.name for atom in atoms])
            self._game = game
        assert game.start is not None
        self._facts = game.start.copy()
        return self._state(game, game.grammar.derive("#intro#", self._facts, game.things, {}))

    def step(self, command: str) -> State:
        """One command; one that is not possible changes nothing."""
        game = self._game
        assert game is not None
        found = self._possible.get(command.strip())
        if found is None:
            return self._state(game, NOTHING_HAPPENS)
        operator, number = found
        self._steps += 1
        if operator.num_effects > len(self._effects):
            self._effects = (_Atom * operator.num_effects)()
        self._library.apply_operator(number, byref(self._effects))
        for row in range(operator.num_effects):
            effect = game.effect(self._effects[row].name)
            self._facts.remove(effect.opposite, effect.names)
            self._facts.add(effect.signature, effect.names)
        feedback = game.grammar.actions[operator.action][1]
        return self._state(game, game.grammar.derive(feedback, self._facts, game.things, operator.bound))

    def plan(self) -> list[str]:
        """The planner's commands from here to the goal; none if it finds no way."""
        game, library = self._game, self._library
        assert game is not None
        library.load_sas_replan(translated_for_planning(game.domain, game.problem))
        if not library.replan(False):
            return []
        steps = (_Operator * library.get_last_plan_length())()
        library.get_last_plan(byref(steps))
        return [game.planned(step.name) for step in steps]

    def _state(self, game: CachedGame, observation: str) -> State:
        library = self._library
        count = library.get_applicable_operators_count()
        if count > len(self._operators):
            self._operators = (_Operator * (2 * count))()
            self._numbers = _numbers(self._operators)
        library.get_applicable_operators(byref(self._operators))
        possible: dict[str, tuple[Operator, int]] = {}
        seen = set()
        for row, number in enumerate(self._numbers["id"][:count].tolist()):
            operator = game.operators.get(number) or game.operator(self._operators[row])
            if operator.name not in seen:  # an action with two ways to be possible is there twice
                seen.add(operator.name)
                text = operator.command
                if text is None:
                    text = game.command(operator.action, operator.bound, self._facts)
                possible.setdefault(text, (operator, number))  # the first of two with one text is done
        self._possible = possible
        return State(
            observation,
            tuple(sorted(possible)),
            library.check_goal(),
            read_facts(self._facts.of(USED), game.names),
        )


def _numbers(operators: Array[_Operator]) -> np.ndarray:
    """The same memory, of which a column is read at once."""
    return np.frombuffer(memoryview(operators).cast("B"), _OPERATORS)


@lru_cache(maxsize=_REMEMBERED)
def cached_game(domain: str, problem: str, grammar: str) -> CachedGame:
    """The game of these texts, which all engines of the process share."""
    return CachedGame(domain, problem, grammar)


def _hierarchy(supertypes: tuple[tuple[str, tuple[str, ...]], ...]) -> Any:
    from textworld.logic import Type, TypeHierarchy

    hierarchy = TypeHierarchy()
    for name, above in supertypes:
        with suppress(ValueError):  # "object" is there twice
            hierarchy.add(Type(name, above))
    return hierarchy


def _named_things(facts: FactStore, types: Mapping[str, str]) -> dict[str, Any]:
    """TextWorld's descriptions of all things, with ALFWorld's names."""
    with importing():
        from alfworld.agents.utils.misc import Demangler
        from textworld.generator.game import EntityInfo

    things = {name: EntityInfo(name, types[name]) for name in sorted(facts.names())}
    demangler = Demangler(game_infos=things)
    for thing in things.values():
        thing.name = demangler.demangle_alfred_name(thing.id)
        thing.definite, thing.indefinite = "the", "a"
    return things
