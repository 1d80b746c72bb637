"""The picture of a comparison: learning curves, and the area under each seed's curve."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphwrap._files import whole_file
from graphwrap.scripts.comparison.report import SMOOTHING, area, bootstrap, smoothed
from graphwrap.scripts.comparison.results import Run

# Okabe and Ito's colours, told apart by colour-blind readers too; grey for plain outcome reward.
COLOURS = {
    "outcome": "#6E6E6E",
    "grpo": "#E69F00",
    "gigpo": "#56B4E9",
    "graft": "#009E73",
    "graphgpo": "#D55E00",
    "rloo": "#CC79A7",
    "salt": "#0072B2",
    "rtmc": "#8C6D31",
    "rewardflow": "#7B4FA3",
}
INK, FAINT = "#333333", "#8A8A8A"


def draw(runs: Sequence[Run], path: str | Path, title: str) -> None:
    """Draw the picture.

    Args:
        runs: of one comparison.
        path: image file; the suffix decides the format.
        title: of the picture.

    Raises:
        ImportError: matplotlib is missing; says how to get it.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the picture needs matplotlib: pip install 'graphwrap[plot]'") from error
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.credit, []).append(run)
    colours = _colours(list(groups))
    names = _short_names(groups)

    figure = Figure(figsize=(11.5, 5.0), dpi=160, facecolor="white")
    left, right = figure.subplots(
        1,
        2,
        width_ratios=(1.75, 1.15),
        gridspec_kw={"left": 0.06, "right": 0.985, "top": 0.84, "bottom": 0.18, "wspace": 0.42},
    )
    _learning_curves(left, groups, colours, names)
    _areas(right, groups, colours, names)
    seeds = sorted({len(group) for group in groups.values()})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    figure.text(0.06, 0.945, title, size=14, weight="bold", color=INK)
    figure.text(
        0.06,
        0.025,
        f"{count} seed{'' if count == '1' else 's'} per credit, everything else equal. Curves: mean over seeds of a "
        f"trailing mean of {SMOOTHING} updates, band: 95% bootstrap interval over seeds.\n"
        "Success counts complete groups only. Right: a dot per seed, runs of equal seed joined; bar: mean and 95% "
        "bootstrap interval.",
        size=8,
        color=FAINT,
        linespacing=1.4,
    )
    with whole_file(path) as file:
        figure.savefig(file, format=Path(path).suffix[1:])


def _learning_curves(
    axes: Any, groups: dict[str, list[Run]], colours: dict[str, str], names: dict[str, str]
) -> None:
    ends = {}
    for label, group in groups.items():
        updates = min(len(run.curve["steps"]) for run in group)
        steps = group[0].curve["steps"][:updates]
        curves = np.array([smoothed(run.curve["success"])[:updates] for run in group])
        shown = ~np.isnan(curves).any(axis=0)
        if not shown.any():
            continue
        steps, curves = steps[shown], curves[:, shown]
        band = np.array([bootstrap(column) for column in curves.T])
        axes.plot(steps, band[:, 0], color=colours[label], linewidth=2.2, solid_capstyle="round", zorder=3)
        if len(group) > 1:
            axes.fill_between(
                steps, band[:, 1], band[:, 2], color=colours[label], alpha=0.16, linewidth=0, zorder=2
            )
        ends[label] = (steps[-1], band[-1, 0])
    axes_style(axes, "Training success")
    axes.set_xlabel("environment steps", color=INK, size=9.5)
    axes.set_ylim(bottom=0.0)
    axes.set_xlim(left=0.0, right=max((end[0] for end in ends.values()), default=1.0))
    axes.xaxis.set_major_formatter(
        lambda value, _: f"{value / 1000:,.0f}k" if value >= 1000 else f"{value:.0f}"
    )
    _direct_labels(axes, ends, colours, names)


def _direct_labels(axes: Any, ends: dict[str, Any], colours: dict[str, str], names: dict[str, str]) -> None:
    """Write each name beside its line's end, moved apart where they would touch."""
    bottom, top = axes.get_ylim()
    gap = 0.055 * (top - bottom)
    labels = sorted(ends, key=lambda label: ends[label][1])
    heights = np.array([ends[label][1] for label in labels], np.float64)
    for _ in range(200):
        for low in range(len(heights) - 1):
            overlap = gap - (heights[low + 1] - heights[low])
            if overlap > 1e-12:
                heights[low] -= overlap / 2
                heights[low + 1] += overlap / 2
        heights[:1] = np.maximum(heights[:1], bottom)
    for label, height in zip(labels, heights):
        axes.annotate(
            f"{names[label]}  {ends[label][1]:.2f}",
            (ends[label][0], height),
            xytext=(6, 0),
            textcoords="offset points",
            color=colours[label],
            size=10,
            weight="bold",
            va="center",
            annotation_clip=False,
        )


def _areas(axes: Any, groups: dict[str, list[Run]], colours: dict[str, str], names: dict[str, str]) -> None:
    areas = {
        label: {run.seed: area(run.curve["success"]) for run in group} for label, group in groups.items()
    }
    places = {label: place for place, label in enumerate(groups)}
    for seed in sorted({run.seed for group in groups.values() for run in group}):
        joined = [(places[label], values[seed]) for label, values in areas.items() if seed in values]
        axes.plot(*zip(*joined), color="#BBBBBB", linewidth=0.8, zorder=1)
    for label, values in areas.items():
        known = np.array([value for value in values.values() if not np.isnan(value)])
        if not len(known):
            continue
        mean, low, high = bootstrap(known)
        place = places[label]
        axes.scatter(
            [place] * len(known), known, s=26, color=colours[label], alpha=0.55, linewidth=0, zorder=3
        )
        if len(known) > 1:
            axes.plot([place + 0.22] * 2, [low, high], color=colours[label], linewidth=2.2, zorder=4)
        axes.plot([place + 0.12, place + 0.32], [mean, mean], color=colours[label], linewidth=2.2, zorder=4)
        axes.annotate(
            f"{mean:.3f}",
            (place + 0.22, mean if np.isnan(high) else high),
            xytext=(0, 5),
            textcoords="offset points",
            color=colours[label],
            size=8.5,
            weight="bold",
            ha="center",
        )
    axes_style(axes, "Area under the training curve")
    axes.set_xticks(list(places.values()), [names[label] for label in places])
    axes.set_xlim(-0.4, len(places) - 0.4)
    axes.margins(y=0.12)
    axes.set_ylim(bottom=0.0)
    for tick, label in zip(axes.get_xticklabels(), places):
        tick.set_color(colours[label])
        tick.set_weight("bold")
    if len(places) > 5 or max(map(len, names.values())) > 9:
        axes.tick_params(axis="x", rotation=25)


def axes_style(axes: Any, title: str) -> None:
    """The look that all pictures have."""
    axes.set_title(title, loc="left", size=11, color=INK, pad=10)
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.8, zorder=0)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#BBBBBB")
    axes.tick_params(colors=INK, labelsize=9, length=0)


def _colours(labels: list[str]) -> dict[str, str]:
    """A colour for each label: its method's own, or the next one that nobody has."""
    chosen: dict[str, str] = {}
    free = [colour for name, colour in COLOURS.items() if name not in labels]
    for label in labels:
        own = COLOURS.get(label.split(":", 1)[0])
        if own in chosen.values() or own is None or (own not in free and label not in COLOURS):
            own = next((colour for colour in free if colour not in chosen.values()), INK)
        chosen[label] = own
    return chosen


def _short_names(groups: dict[str, list[Run]]) -> dict[str, str]:
    """The method's name where that tells the credits apart, else the label."""
    methods = [label.split(":", 1)[0] for label in groups]
    return {label: name if methods.count(name) == 1 else label for label, name in zip(groups, methods)}
