"""Draw the pictures of the documentation: `python scripts/figures.py` writes docs/images/two-trajectories.png."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from graphwrap import GraphGPO, Transitions

# The two episodes of docs/concepts.md: one wins on a detour, one takes the better first step and fails.
WIN = ["s1", "s21", "s2", "s4", "s2", "goal"]
LOSS = ["s1", "s2", "s22", "s3"]
PLACES = {
    "s1": (0.0, 0.0),
    "s21": (1.0, 0.9),
    "s2": (2.0, 0.0),
    "s4": (2.0, 1.5),
    "goal": (3.6, 0.55),
    "s22": (2.7, -1.0),
    "s3": (3.9, -1.0),
}


def two_episodes() -> Transitions:
    """The eight steps of the two episodes."""
    rows = [("win", k, *pair) for k, pair in enumerate(itertools.pairwise(WIN))]
    rows += [("loss", k, *pair) for k, pair in enumerate(itertools.pairwise(LOSS))]
    episode, step, state, next_state = zip(*rows)
    won = [s == "goal" for s in next_state]
    return Transitions.from_columns(
        task=["t"] * len(rows),
        episode=episode,
        step=step,
        state=state,
        action=[f"to {s}" for s in next_state],
        next_state=next_state,
        reward=[10.0 * w for w in won],
        terminated=won,
        truncated=[s == "s3" for s in next_state],
        success=[e == "win" for e in episode],
    )


def draw_two_trajectories(path: Path) -> None:
    """Outcome credit and graph credit of the same eight steps, side by side."""
    import matplotlib.pyplot as plt

    batch = two_episodes()
    credit = GraphGPO()(batch)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), constrained_layout=True)
    panels = [
        ("Outcome credit (GRPO): one number per episode", credit.episode_advantages),
        ("Graph credit (GraphGPO): one number per step", credit.step_advantages),
    ]
    for ax, (title, values) in zip(axes, panels):
        _draw(ax, batch, values)
        ax.set_title(title, fontsize=12, loc="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw(ax: Any, batch: Transitions, values: Any) -> None:
    good, bad, neutral = "#0072B2", "#D55E00", "#888888"
    for row in range(len(batch)):
        state = batch.state_labels[batch.state[row]]
        after = batch.state_labels[batch.next_state[row]]
        value = float(values[row])
        colour = neutral if abs(value) < 0.005 else good if value > 0 else bad
        won = batch.episode_labels[batch.episode[row]] == "win"
        (x0, y0), (x1, y1) = PLACES[state], PLACES[after]
        ax.annotate(
            "",
            xy=(x1, y1),
            xytext=(x0, y0),
            arrowprops={
                "arrowstyle": "-|>",
                "color": colour,
                "lw": 1.4 + 1.6 * min(abs(value), 1.2),
                "linestyle": "-" if won else (0, (4, 2)),
                "shrinkA": 15,
                "shrinkB": 15,
                "connectionstyle": "arc3,rad=0.22",
            },
        )
        dx, dy = x1 - x0, y1 - y0
        length = (dx * dx + dy * dy) ** 0.5
        beside = 0.11 + 0.26 / length  # the arc's middle lies 0.11 lengths aside
        ax.text(
            (x0 + x1) / 2 + beside * dy,
            (y0 + y1) / 2 - beside * dx,
            f"{value:+.2f}" if abs(value) >= 0.005 else "0",
            color=colour,
            fontsize=11,
            ha="center",
            va="center",
        )
    for name, (x, y) in PLACES.items():
        face = "#FFF4CC" if name == "goal" else "white"
        ax.scatter([x], [y], s=900, facecolor=face, edgecolor="#333333", zorder=2)
        ax.text(x, y, name, ha="center", va="center", fontsize=11, zorder=3)
    ax.plot([], [], color=neutral, lw=1.8, label="the episode that won")
    ax.plot([], [], color=neutral, lw=1.8, linestyle=(0, (4, 2)), label="the episode that failed")
    ax.legend(loc="lower left", frameon=False, fontsize=10)
    ax.set_xlim(-0.45, 4.4)
    ax.set_ylim(-1.6, 2.0)
    ax.set_aspect("equal")
    ax.axis("off")


if __name__ == "__main__":
    draw_two_trajectories(Path(__file__).parents[1] / "docs" / "images" / "two-trajectories.png")
