"""What a person sees of a training run, and how they stop it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from graphwrap._progress import progress_bars
from graphwrap.agents.runs.tracking import Row

if TYPE_CHECKING:
    from rich.console import Console


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.began = self.last = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        """Count the time since the last lap for `phase`."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self.last
        self.last = now

    def total(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self.began


class Screen:
    """Progress bars: one of the updates, one of what goes on in the running one."""

    def __init__(self, console: Console | None, updates: int, done: int) -> None:
        self._bars = progress_bars(console)
        self._updates = self._bars.add_task("[bold]updates", total=updates, completed=done, says="")
        self._phase = self._bars.add_task("starts", total=None, says="")

    @contextmanager
    def shown(self) -> Iterator[Screen]:
        """Show the bars within this context."""
        with self._bars:
            yield self
            self._bars.remove_task(self._phase)

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        if not self._bars.disable:
            self._bars.console.print(text, highlight=False, markup=False)

    def begin(self, update: int, phase: str) -> None:
        """Show that a phase begins."""
        self._bars.reset(self._phase, total=None, description=f"{phase} of update {update}", says="")

    def progress(self, step: int, ended: int, episodes: int) -> None:
        """Show how far the episodes are."""
        self._bars.update(self._phase, completed=ended, total=episodes, says=f"step {step}")

    def end(self, row: Row) -> None:
        """Show that an update is done."""
        said = f"success {row['success_rate']:.3f}"
        if "validation/success_rate" in row:
            held_out = f"held-out {row['validation/success_rate']:.3f}"
            self.say(
                f"update {row['update']}: {said}, {held_out}, invalid {row['invalid_share']:.3f}, "
                f"{row['seconds/total']:.1f} s"
            )
        self._bars.update(self._updates, advance=1, says=said)


@contextmanager
def stop_on_interrupt(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a wish that the loop asks for; a second one interrupts at once."""
    wished = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield wished.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def note(*_: Any) -> None:
        wished.set()
        signal.signal(signal.SIGINT, before)
        say("stops after this update; Ctrl-C again stops now, and this update will be done anew")

    signal.signal(signal.SIGINT, note)
    try:
        yield wished.is_set
    finally:
        signal.signal(signal.SIGINT, before)
