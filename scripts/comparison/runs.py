"""Does the runs of a comparison that are missing, and reports on all of them."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphwrap._progress import progress_bars
from graphwrap.scripts.comparison.settings import Compared, CreditSpec, Report, Rows, title_of

if TYPE_CHECKING:
    from rich.console import Console

    from graphwrap.scripts.comparison.results import Folder


@dataclass(frozen=True)
class Plan:
    """A comparison that can be begun."""

    settings: Compared
    folder: Folder
    runs: int  # asked for
    missing: list[tuple[CreditSpec, int]]  # those of them that are still to do


def plan_comparison(
    settings: Compared,
    credits: list[CreditSpec],
    seeds: list[int],
    out: Path,
    *,
    command: str,
    overwrite: bool = False,
) -> Plan:
    """Check the settings and open the folder `out`.

    Raises:
        ValueError: the folder holds another comparison, or a setting does not fit the environment.
    """
    from graphwrap.doctor import machine, versions
    from graphwrap.scripts.comparison.results import Folder

    settings.check()
    folder = Folder(out)
    environment = {"versions": versions(), "machine": machine(), "command": command}
    missing = folder.open(settings, credits, seeds, environment, overwrite)
    return Plan(settings, folder, len(credits) * len(seeds), missing)


def run_comparison(plan: Plan, *, processes: int | None = None, target: float = 0.2) -> int:
    """Do the runs that are missing, then report on all that are in the folder.

    Args:
        plan: what to do.
        processes: runs at a time; None: as many as there are cores.
        target: training success whose first reaching is reported.

    Returns:
        Exit status: 0, 1 if a run failed, 130 if it was interrupted.
    """
    from rich.console import Console

    from graphwrap.doctor import cores

    console = Console()
    settings, folder, missing = plan.settings, plan.folder, plan.missing
    console.print(
        f"[bold]{title_of(settings.describe())}[/bold]: {plan.runs} runs of {settings.updates} updates, "
        f"{settings.update_size} each",
        highlight=False,
    )
    if len(missing) < plan.runs:
        console.print(
            f"{plan.runs - len(missing)} of {plan.runs} runs are in {folder.path} already", highlight=False
        )
    failures: list[str] = []
    if missing:
        try:
            failures = do_runs(settings, missing, folder, processes or cores(), console)
        except KeyboardInterrupt:
            kept = len(folder.runs())
            console.print(
                f"interrupted: {kept} finished runs are kept in {folder.path}, the same command goes on from there"
            )
            return 130
        except OSError as error:
            return _cannot_write(error, folder, console)
    if folder.runs():
        try:
            write_report(folder, console, target)
        except OSError as error:
            return _cannot_write(error, folder, console)
    if failures:
        console.print(
            f"[red]failed:[/red] {', '.join(failures)}; the same command tries again", highlight=False
        )
    return 1 if failures else 0


def _cannot_write(error: OSError, folder: Folder, console: Console) -> int:
    kept = len(folder.runs())
    console.print(
        f"[red]cannot write to {folder.path}:[/red] {error.strerror or error}; {kept} finished runs are kept there, "
        "and once this is mended the same command goes on from there",
        highlight=False,
    )
    return 1


def do_runs(
    settings: Compared,
    missing: list[tuple[CreditSpec, int]],
    folder: Folder,
    processes: int,
    console: Console,
) -> list[str]:
    """Run what is missing in parallel processes, with progress bars; every finished run is saved at once.

    Returns:
        The names of the runs that failed.
    """
    from rich.markup import escape

    from graphwrap.scripts.comparison.jobs import run_jobs

    def name_of(job: int) -> str:
        return f"{missing[job][0].title} seed {missing[job][1]}"

    failures: list[str] = []
    shown: set[str] = set()  # warnings and errors
    jobs = [(settings, spec, seed, folder.path) for spec, seed in missing]
    with ExitStack() as stack:
        progress = stack.enter_context(progress_bars(console))
        overall = progress.add_task("[bold]updates of all runs", total=len(jobs) * settings.updates, says="")
        bars: dict[int, Any] = {}
        events = stack.enter_context(closing(run_jobs(_train, jobs, processes)))
        for event in events:
            if event.kind == "started":
                bars[event.job] = progress.add_task(name_of(event.job), total=settings.updates, says="starts")
            elif event.kind == "update":
                progress.update(bars[event.job], advance=1, says=f"success {event.value['success']:.3f}")
                progress.advance(overall)
            elif event.kind == "warning":
                if event.value not in shown:
                    shown.add(event.value)
                    progress.console.print(f"[yellow]{escape(event.value)}[/yellow] ({name_of(event.job)})")
            else:
                progress.remove_task(bars.pop(event.job))
                if event.kind == "done":
                    rows, facts = event.value
                    folder.save(*missing[event.job], rows, facts)
                    progress.console.print(
                        f"{name_of(event.job)}: success {rows[-1]['success']:.3f}, held-out {facts['held_out']:.3f}, "
                        f"{facts['seconds']:.0f} s",
                        highlight=False,
                    )
                else:
                    told = "the same error" if event.value in shown else escape(event.value)
                    shown.add(event.value)
                    failures.append(name_of(event.job))
                    progress.console.print(f"[red]{name_of(event.job)} failed[/red]: {told}", highlight=False)
    return failures


def _train(
    settings: Compared, credit: CreditSpec, seed: int, folder: Path, report: Report
) -> tuple[Rows, dict[str, Any]]:
    """A run as a job of `graphwrap.scripts.comparison.jobs`."""
    return settings.train(credit, seed, folder, report)


def write_report(folder: Folder, console: Console, target: float) -> None:
    """Write and print the report of a folder's finished runs."""
    from graphwrap.scripts.comparison import report, report_tables
    from graphwrap.scripts.comparison.curves import draw
    from graphwrap.scripts.comparison.results import REPORT_FILES, write_bytes, write_json, write_parquet

    runs = folder.runs()
    about = folder.settings()
    summary = report.summarise(runs, target)
    write_parquet(folder.path / "comparison.parquet", report.comparison_columns(runs))
    write_parquet(folder.path / "summary.parquet", report.summary_columns(summary))
    write_json(folder.path / "summary.json", report.summary_json(summary))
    write_bytes(folder.path / "summary.md", report_tables.to_markdown(summary, about).encode("utf-8"))
    draw(runs, folder.path / "curves.png", title_of(about["settings"]))
    report_tables.to_terminal(summary, console)
    console.print("\n".join(str(folder.path / name) for name in REPORT_FILES), highlight=False)
