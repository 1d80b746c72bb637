"""The loop of a training run: collect, update, hand over the weights, validate, save."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from graphwrap._files import whole_file
from graphwrap.agents.distributed import World
from graphwrap.agents.prompting.transcripts import to_markdown
from graphwrap.agents.runs import tracking
from graphwrap.agents.runs.checkpoints import Checkpoint, restore
from graphwrap.agents.runs.config import flat
from graphwrap.agents.runs.run_folder import START, RunFolder, changed_versions, held
from graphwrap.agents.runs.screen import Clock, Screen, stop_on_interrupt
from graphwrap.agents.runs.tracking import Row, Tracker, file_of_update, read_metrics
from graphwrap.agents.seeding import distinct_seeds
from graphwrap.agents.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console

    from graphwrap.agents.playing.episodes import Episode
    from graphwrap.agents.rollout import Batch
    from graphwrap.agents.runs.parts import Parts

VALIDATED = ("success_rate", "env_return", "episode_length", "invalid_share", "truncated", "crashed")
"""Numbers of the held-out episodes that are logged."""


class Interrupted(Exception):
    """The run was asked to stop, and did after a whole update."""


class Trainer:
    """A training run in a folder. The same settings give the same run on a CPU, interrupted or not.

    The folder holds `settings.yaml`, `run.json` (versions, machine, command), `metrics.jsonl` (a row per update),
    `tensorboard/`, `episodes/` (sampled ones to read), `transitions/` (Parquet, of every update) and `checkpoints/`
    (the newest and the best).

    Args:
        settings: Of the run.
        out: Its folder. An earlier run with the same settings is gone on with.
        overwrite: Begin anew instead.
        command: The command line, to be written down.
        console: Where progress is shown; None: nowhere.
        world: The processes, each with a trainer of its own; the main one writes the files and shows the progress.
        start: A folder for the model that is made for this run, to be shared with other runs of one process each that
            differ in nothing that makes it; None: the run makes its own.

    Raises:
        ValueError: The folder holds something else, or a run with other settings. Nothing is changed.
    """

    def __init__(
        self,
        settings: Settings,
        out: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        command: str = "",
        console: Console | None = None,
        world: World | None = None,
        start: Path | None = None,
    ) -> None:
        self.settings = settings
        self.folder = RunFolder(out)
        self.start = start
        self.overwrite = overwrite
        self.command = command
        self.world = world or World()
        self.console = console if self.world.is_main else None
        if self.world.is_main:
            self.folder.check(settings, overwrite)

    def run(self, on_update: Callable[[Row], None] | None = None) -> list[Row]:
        """Train to the end.

        Args:
            on_update: Called with each new row.

        Returns:
            A row per update, those of before an interruption included:

            - `update`, from 1. Numbers of the rollout (`graphwrap.agents.playing.outcomes.statistics`), of the credit
              (`credit/...`, `graphwrap.diagnostics.diagnose`) and of the update (`graphwrap.agents.ppo.PPO.update`).
            - `validation/...` after the updates that were followed by one.
            - `seconds/...`: `rollout` and of it `engine`, `env`, `prompt`, `credit`; `update`, `sync`, `validation`,
              `save` and `total`. `credit_share`: of the total that is credit. `tokens_per_second`: of the rollout.

        Raises:
            Interrupted: Ctrl-C. The run can be gone on with.
            OSError: Something cannot be written. The run can be gone on with from its last checkpoint.
        """
        with ExitStack() as stack:
            checkpoint = None
            if self.world.is_main:
                stack.enter_context(self.folder.held())
                checkpoint = self.folder.open(self.settings, self.command, self.overwrite)
            checkpoint = self.world.share(checkpoint)
            done = 0 if checkpoint is None else checkpoint.update
            if checkpoint is not None:
                self._tell_resumed(checkpoint)
            if done >= self.settings.updates:
                return read_metrics(self.folder.path)
            parts = stack.enter_context(closing(self._make_parts(checkpoint)))
            tracker = None
            if self.world.is_main:
                tracker = stack.enter_context(closing(self._make_tracker(done)))
            screen = stack.enter_context(Screen(self.console, self.settings.updates, done).shown())
            stopped = stack.enter_context(stop_on_interrupt(screen.say))
            for update in range(done + 1, self.settings.updates + 1):
                row, is_last = self._update(update, parts, tracker, screen, stopped)
                if on_update is not None:
                    on_update(row)
                if is_last and update < self.settings.updates:
                    raise Interrupted(f"{update} of {self.settings.updates} updates are done")
            self.world.barrier()  # the main process's files are written
        return read_metrics(self.folder.path)

    def _update(
        self,
        update: int,
        parts: Parts,
        tracker: Tracker | None,
        screen: Screen,
        stopped: Callable[[], bool],
    ) -> tuple[Row, bool]:
        """Do update number `update`, from 1, and write down everything about it.

        Returns:
            Its row, and whether the run stops after it, for which there is a checkpoint.
        """
        settings = self.settings
        clock = Clock()
        screen.begin(update, "rollout")
        batch = parts.rollout.collect(update - 1, screen.progress)
        clock.lap("rollout")
        screen.begin(update, "update")
        if settings.engine.sleep:
            parts.engine.sleep()
        trained = parts.ppo.update(batch.rows, update - 1)
        clock.lap("update")
        screen.begin(update, "sync")
        if settings.engine.sleep:
            parts.engine.wake()
        whole = parts.policy.whole()
        parts.engine.update(whole)
        clock.lap("sync")
        row: Row = {"update": update, **batch.metrics, **trained}
        score: float | None = None
        held_out: list[Episode] = []
        if self._validates(update):
            screen.begin(update, "validation")
            held_out, numbers = self._validate(parts, screen)
            score = numbers["validation/success_rate"]
            score = None if math.isnan(score) else score
            row.update(numbers)
            clock.lap("validation")
        screen.begin(update, "save")
        if tracker is not None:
            self._write_files(update, batch, held_out)
        is_better = self.world.share(self.world.is_main and self._is_better(score))
        is_last = any(self.world.gather(stopped())) or update == settings.updates
        saves = is_last or is_better or update % settings.save_every == 0
        state = parts.ppo.state_dict() if saves else {}
        if saves and self.world.is_main:
            # The row comes before the checkpoint counts: one that is there has its row.
            with self.folder.checkpoints.saving(update, whole, state, settings, score):
                self._log(row, clock, tracker)
        else:
            self._log(row, clock, tracker)
        screen.end(row)
        return row, is_last

    def _is_better(self, score: float | None) -> bool:
        best = self.folder.checkpoints.best
        return score is not None and (best is None or best.score is None or score > best.score)

    def _validates(self, update: int) -> bool:
        validation = self.settings.validation
        if not validation.episodes:
            return False
        return update == self.settings.updates or bool(validation.every and update % validation.every == 0)

    def _validate(self, parts: Parts, screen: Screen) -> tuple[list[Episode], dict[str, float]]:
        """Play the held-out tasks, which are the same for every run."""
        validation = self.settings.validation
        seeds = distinct_seeds(0, "validation", count=validation.episodes)
        episodes, numbers = parts.rollout.play(seeds, validation.temperature, screen.progress)
        logged = {
            name: value for name, value in numbers.items() if name in VALIDATED or name.startswith("success/")
        }
        return episodes, {f"validation/{name}": value for name, value in logged.items()}

    def _write_files(self, update: int, batch: Batch, held_out: list[Episode]) -> None:
        settings, folder = self.settings, self.folder.path
        if settings.save_transitions and batch.credit is not None:
            batch.credit.transitions.save(file_of_update(folder, tracking.TRANSITIONS, update))
        if settings.show_episodes:
            shown = _spread(batch.episodes, settings.show_episodes)
            text = to_markdown(
                [batch.episodes[number] for number in shown],
                f"Update {update}",
                [batch.rows.advantages[batch.rows.episode == number].tolist() for number in shown],
            )
            if held_out:
                some = [held_out[number] for number in _spread(held_out, settings.show_episodes)]
                text += "\n" + to_markdown(some, f"Held out, after update {update}")
            with whole_file(file_of_update(folder, tracking.EPISODES, update)) as file:
                file.write(text.encode("utf-8"))

    def _log(self, row: Row, clock: Clock, tracker: Tracker | None) -> None:
        clock.lap("save")
        total = clock.total()
        row.update({f"seconds/{name}": value for name, value in clock.seconds.items()})
        row["seconds/total"] = total
        row["credit_share"] = row["seconds/credit"] / total
        row["tokens_per_second"] = row["sampled_tokens"] / max(row["seconds/rollout"], 1e-9)
        if tracker is not None:
            tracker.log(row)

    def _make_parts(self, checkpoint: Checkpoint | None) -> Parts:
        from graphwrap.agents.runs.parts import make_parts

        start = self.folder.start if self.start is None else self.start / START
        # The first run that needs a shared model makes it.
        with nullcontext() if self.start is None else held(self.start, wait=True):
            parts = make_parts(self.settings, start, self.folder.engine, self._say, self.world)
        try:
            if checkpoint is not None:
                restore(parts.policy, checkpoint)
                parts.ppo.load_state_dict(checkpoint.trainer_state())
            parts.engine.update(parts.policy.whole())
        except BaseException:
            parts.close()
            raise
        return parts

    def _make_tracker(self, done: int) -> Tracker:
        return Tracker(
            self.folder.path,
            update=done,
            wandb=self.settings.wandb,
            config=flat(self.settings),
            run_id=self.folder.run_id,
        )

    def _tell_resumed(self, checkpoint: Checkpoint) -> None:
        self._say(f"goes on after update {checkpoint.update} of {self.settings.updates}")
        changed = changed_versions(checkpoint)
        if changed:
            self._say(
                f"versions have changed, so numbers may differ from those of one run: {', '.join(changed)}"
            )

    def _say(self, text: str) -> None:
        if self.console is not None:
            self.console.print(text, highlight=False, markup=False)


def _spread(episodes: list[Episode], number: int) -> list[int]:
    """The places of `number` episodes to show: successes and failures in turn, the earliest of each."""
    won = [place for place, episode in enumerate(episodes) if episode.success]
    lost = [place for place, episode in enumerate(episodes) if not episode.success]
    mixed = [place for pair in zip(won, lost) for place in pair]
    rest = won[len(lost) :] + lost[len(won) :]
    return [*mixed, *rest][:number]
