"""Plays what an evaluation asks for, and keeps every episode when it ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphwrap.agents.engines import Sampling
from graphwrap.agents.evaluation.agents import Agent
from graphwrap.agents.evaluation.records import Place, Record, Records, transitions_of
from graphwrap.agents.evaluation.settings import EvaluationSettings, trials_of
from graphwrap.agents.playing.episodes import Episode, Player
from graphwrap.agents.prompting.transcripts import to_markdown
from graphwrap.agents.seeding import seed_of

STREAM = "evaluation"
_TASK, _ANSWER, _REFLECTION = range(3)

Report = Callable[[Record | None], None]
"""Called with every episode that has ended, and with None after every step."""


@dataclass(frozen=True)
class Broken:
    """An episode that its environment broke off."""

    place: Place
    error: str


class Evaluation:
    """Plays episodes until every task has its last trial. As one ends another begins in its environment.

    An answer depends on its prompt and on the episode's own seed, so neither `evaluation.parallel` nor an interruption
    changes what is played, but for rounding, and for endpoints without seeds.

    Args:
        settings: Of the evaluation.
        records: Where finished episodes are kept; those that are there are not played again.

    Attributes:
        finished: The finished episodes, by place.
        open: How many of the `total` are not finished.
    """

    def __init__(self, settings: EvaluationSettings, records: Records) -> None:
        self.settings = settings
        self.records = records
        self.trials = trials_of(settings)
        self.finished = {
            place: record for place, record in records.all().items() if place.task < settings.evaluation.tasks
        }
        self.open = len(self.missing())

    @property
    def total(self) -> int:
        """Episodes that count: one for each task and repeat."""
        return self.settings.evaluation.tasks * self.settings.evaluation.repeats

    def missing(self) -> list[Place]:
        """What can be played now: of each task and repeat the first trial that is not there and not in vain."""
        found = []
        for task in range(self.settings.evaluation.tasks):
            for repeat in range(self.settings.evaluation.repeats):
                place: Place | None = Place(task, repeat)
                while place in self.finished:
                    place = self._next(self.finished[place])
                if place is not None:
                    found.append(place)
        return found

    def run(self, agent: Agent, player: Player, report: Report = lambda record: None) -> list[Broken]:
        """Play what is missing.

        Args:
            agent: What is asked.
            player: Plays, with `agent.prompter` and without penalties.
            report: Is told about every episode and step.

        Returns:
            The episodes that broke off; they are missing still.

        Raises:
            RuntimeError: Every episode broke off; the first error is quoted.
            OSError: An episode cannot be written. Those before it are kept.
        """
        todo = deque(self.missing())
        free = list(range(player.pool.num_envs))
        places: dict[int, Place] = {}  # of the running episodes, by environment
        active: list[Episode] = []
        broken: list[Broken] = []
        any_ended = bool(self.finished)
        while todo or active:
            if todo and free:
                count = min(len(todo), len(free))
                starts = [todo.popleft() for _ in range(count)]
                episodes = self._begin(agent, player, starts, [free.pop() for _ in range(count)])
                places |= {episode.env: place for episode, place in zip(episodes, starts)}
                active += episodes
            begun = [episode for episode in active if episode.begun]
            going = player.advance(begun, self._sampling(begun, places)) if begun else []
            running = {id(episode) for episode in going}
            for episode in active:
                if id(episode) in running:
                    continue
                place = places.pop(episode.env)
                free.append(episode.env)
                if episode.crash:
                    broken.append(Broken(place, episode.crash))
                    continue
                any_ended = True
                record = self._keep(episode, place)
                following = self._next(record)
                if following is not None:
                    todo.append(following)
                else:
                    self.open -= 1
                report(record)
            active = going
            report(None)
        if broken and not any_ended:
            raise RuntimeError(f"every episode broke off; the first one says: {broken[0].error}")
        return broken

    def _next(self, record: Record) -> Place | None:
        """The trial that follows, if one does."""
        place = record.place
        if record.success or place.trial + 1 >= self.trials:
            return None
        return Place(place.task, place.repeat, place.trial + 1)

    def _begin(
        self, agent: Agent, player: Player, places: Sequence[Place], envs: Sequence[int]
    ) -> list[Episode]:
        settings = self.settings.evaluation
        notes = self._reflections(agent, player, places)
        episodes = [
            Episode(
                env,
                group=place.task,
                seed=seed_of(settings.seed, STREAM, _TASK, place.task),
                reflections=notes[place],
            )
            for env, place in zip(envs, places)
        ]
        option = settings.task_option
        player.enter(episodes, [{option: place.task} if option else None for place in places])
        return episodes

    def _reflections(
        self, agent: Agent, player: Player, places: Sequence[Place]
    ) -> dict[Place, tuple[str, ...]]:
        """What each trial is told of those before it; the last one is thought about now."""
        later = [place for place in places if place.trial]
        earlier = [self.finished[Place(place.task, place.repeat, place.trial - 1)] for place in later]
        found: dict[Place, tuple[str, ...]] = dict.fromkeys(places, ())
        if not later:
            return found
        prompts = [
            agent.reflection_prompt(record.task, record.turns, record.last_observation, record.reflections)
            for record in earlier
        ]
        seeds = tuple(self._seed(_REFLECTION, place) for place in later)
        sampling = Sampling(
            self.settings.evaluation.temperature, self.settings.agent.reflect_max_tokens, seeds=seeds
        )
        for place, record, reply in zip(later, earlier, player.chat.answer(prompts, sampling)):
            found[place] = agent.with_reflection(record.reflections, reply.text)
        return found

    def _sampling(self, active: Sequence[Episode], places: dict[int, Place]) -> Sampling:
        settings = self.settings
        seeds = tuple(self._seed(_ANSWER, places[episode.env], len(episode.steps)) for episode in active)
        return Sampling(settings.evaluation.temperature, settings.rollout.max_tokens, seeds=seeds)

    def _seed(self, purpose: int, place: Place, step: int = 0) -> int:
        settings = self.settings.evaluation
        return seed_of(settings.seed, STREAM, purpose, place.task, place.repeat, place.trial, step)

    def _keep(self, episode: Episode, place: Place) -> Record:
        record = Record.of(episode, place)
        title = f"Task {place.task}, repeat {place.repeat}, trial {place.trial}"
        self.records.save(record, transitions_of(episode, place), to_markdown([episode], title))
        self.finished[place] = record
        return record
