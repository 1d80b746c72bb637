"""What a comparison is made of: its settings, its credits and what is usual for an environment."""

from __future__ import annotations

import dataclasses
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

OUTCOME = "outcome"
"""The credit that leaves the learner's own advantages as they are."""

SB3, PPO = "sb3", "ppo"
"""Learners: unmodified SB3 PPO, and the PPO of `graphwrap.scripts.ppo`."""

SOKOBAN = "graphwrap/Sokoban-v0"
DEMO_CREDITS = (OUTCOME, "grpo", "gigpo", "graphgpo", "graft")


LLM = "llm"
"""The learner of comparisons of LLM agents, see `graphwrap.scripts.comparison.llm`."""

NAMES = {SB3: "SB3 PPO", PPO: "PPO", LLM: "LLM agent"}

Rows = list[dict[str, float]]
Report = Callable[[dict[str, float]], None]


class Compared(Protocol):
    """Everything that decides a run but its credit and seed; equal for all runs of a comparison."""

    @property
    def updates(self) -> int:
        """Updates of a run."""

    @property
    def update_size(self) -> str:
        """How much one update plays, for people."""

    def check(self) -> None:
        """Look at what no single value shows.

        Raises:
            ValueError: a run could not begin.
        """

    def describe(self) -> dict[str, Any]:
        """All settings by name, plain values; `learner` and `env` among them."""

    def train(
        self, credit: CreditSpec, seed: int, folder: Path, report: Report
    ) -> tuple[Rows, dict[str, Any]]:
        """Do a run; see `graphwrap.scripts.comparison.training.train_run`.

        Args:
            credit: of the run.
            seed: of the run.
            folder: of the comparison; a run may keep files in it that let it go on after an interruption.
            report: called with each row.

        Returns:
            A row per update, and plain facts.
        """


def title_of(settings: dict[str, Any]) -> str:
    """What was compared, for headings: the learner and the environment of a folder's settings."""
    return f"{NAMES[settings.get('learner', SB3)]} on {settings['env']}"


@dataclass(frozen=True)
class EnvPreset:
    """What is usual for an environment."""

    credit_parameters: dict[str, Any] = field(
        default_factory=dict
    )  # for every credit that has such a parameter
    held_out_kwargs: dict[str, Any] = field(
        default_factory=dict
    )  # constructor arguments of the held-out environment


PRESETS = {SOKOBAN: EnvPreset({"omega": 0.8}, {"split": "test"})}
"""Presets by environment id."""


def preset_of(env: str) -> EnvPreset:
    """The preset of an environment id, an empty one where there is none."""
    return PRESETS.get(env, EnvPreset())


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run but its credit and seed; equal for all runs of a comparison."""

    env: str = SOKOBAN
    learner: str = SB3
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    held_out_kwargs: dict[str, Any] = field(default_factory=dict)  # what the held-out environment has instead
    updates: int = 60
    num_envs: int = 128
    group_size: int = 8
    n_steps: int = 15
    learning_rate: float = 1e-3
    epochs: int = 4
    batch_size: int = 128
    entropy: float = 0.01
    gamma: float = 0.99
    gae_lambda: float = 0.95
    eval_episodes: int | None = None  # None: every held-out level, or 200 seeds where there are no levels
    eval_every: int = 0  # updates between held-out evaluations during training; 0: only at the end
    member_noise: bool = False
    round: int | None = None  # decimals that make two float observations the same state
    success_return: float | None = (
        None  # an episode succeeds with at least this return; None: as the environment says
    )

    def __post_init__(self) -> None:
        _require(self.learner in (SB3, PPO), "learner", f"{SB3!r} or {PPO!r}", self.learner)
        at_least = {"updates": 1, "num_envs": 2, "group_size": 2, "n_steps": 1, "epochs": 1, "batch_size": 2}
        for name, low in {**at_least, "eval_every": 0}.items():
            _require(getattr(self, name) >= low, name, f"at least {low}", getattr(self, name))
        if self.eval_episodes is not None:
            _require(self.eval_episodes >= 1, "eval_episodes", "at least 1", self.eval_episodes)
        _require(self.learning_rate > 0, "learning_rate", "above 0", self.learning_rate)
        _require(self.entropy >= 0, "entropy", "at least 0", self.entropy)
        for name in ("gamma", "gae_lambda"):
            _require(0 <= getattr(self, name) <= 1, name, "in [0, 1]", getattr(self, name))
        if self.num_envs % self.group_size:
            raise ValueError(
                f"num_envs must be a multiple of group_size, so that whole groups start together, got {self.num_envs} "
                f"and {self.group_size}"
            )

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one rollout."""
        return self.num_envs * self.n_steps

    @property
    def update_size(self) -> str:
        """How much one update plays, for people."""
        return f"{self.steps_per_update:,} steps"

    def check(self) -> None:
        """Look at the held-out levels; see `Compared`."""
        from graphwrap.scripts.comparison.evaluation import held_out_starts

        held_out_starts(self)

    def describe(self) -> dict[str, Any]:
        """All settings by name."""
        return dataclasses.asdict(self)

    def train(
        self, credit: CreditSpec, seed: int, folder: Path, report: Report
    ) -> tuple[Rows, dict[str, Any]]:
        """Do a run; see `Compared`. It keeps no files."""
        from graphwrap.scripts.comparison.training import train_run

        # 1,920 rows make 7.5 minibatches; SB3 warns of that and means no harm.
        warnings.filterwarnings(
            "ignore", message="You have specified a mini-batch size", category=UserWarning
        )
        result = train_run(self, credit, seed, report)
        return result.rows, result.facts


@dataclass(frozen=True)
class CreditSpec:
    """One credit of a comparison, with the value of every parameter."""

    label: str  # as it was asked for, such as "graphgpo:omega=0.4"
    name: str  # of `graphwrap.credit_names()`, or "outcome"
    parameters: dict[str, Any]
    title: str  # for tables, such as "graphgpo (omega=0.8)"

    def make(self) -> Any:
        """The credit method; GRPO, whose credit is then not used, for "outcome"."""
        from graphwrap.methods import make_credit

        return make_credit("grpo") if self.name == OUTCOME else make_credit(self.name, **self.parameters)


def parse_credit(text: str, usual: dict[str, Any], own: str = OUTCOME) -> CreditSpec:
    """Read "name" or "name:parameter=value:parameter=value".

    Args:
        text: what was asked for.
        usual: values that take the place of the method's own defaults where it has such a parameter.
        own: the name of the learner's own advantage, which has no parameters.

    Raises:
        ValueError: an unknown name or parameter, or a value out of range; says what is allowed.
    """
    from graphwrap.methods import make_credit

    name, *pairs = text.strip().split(":")
    given: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"a credit's parameters are written name:parameter=value, got {text!r}")
        given[key.strip()] = _value(value.strip())
    if name == own:
        if given:
            raise ValueError(f"{own!r} is the learner's own advantage and has no parameters, got {text!r}")
        return CreditSpec(name, name, {}, name)
    try:
        plain = make_credit(name)
        known = {field.name for field in dataclasses.fields(plain)}
        made = make_credit(name, **{**{key: usual[key] for key in usual if key in known}, **given})
    except (TypeError, ValueError) as error:
        hint = f"; {own!r} is the learner's own advantage" if "the names are" in str(error) else ""
        raise ValueError(f"credit {text!r}: {error}{hint}") from None
    parameters = dataclasses.asdict(made)
    defaults = dataclasses.asdict(plain)
    changed = [f"{key}={value}" for key, value in parameters.items() if value != defaults[key]]
    return CreditSpec(text.strip(), name, parameters, f"{name} ({', '.join(changed)})" if changed else name)


def parse_credits(text: str, usual: dict[str, Any], own: str = OUTCOME) -> list[CreditSpec]:
    """Read credits separated by commas; see `parse_credit`."""
    specs = [parse_credit(part, usual, own) for part in text.split(",") if part.strip()]
    labels = [spec.label for spec in specs]
    if not specs:
        raise ValueError(f"no credit was asked for; name at least one, such as --credits {own},graphgpo")
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"every credit is compared once, {label!r} is there {labels.count(label)} times")
    return specs


def parse_seeds(text: str) -> list[int]:
    """Read seeds: a count ("3" is 0, 1, 2), a range ("3-5") or a list ("0,4,7"; one seed alone is "4,").

    Raises:
        ValueError: anything else, or a seed twice.
    """
    text = text.strip()
    if re.fullmatch(r"\d+", text):
        seeds = list(range(int(text)))
    elif match := re.fullmatch(r"(\d+)-(\d+)", text):
        seeds = list(range(int(match[1]), int(match[2]) + 1))
    elif re.fullmatch(r"\d+(,\d+)*,?", text):
        seeds = [int(part) for part in text.split(",") if part]
    else:
        raise ValueError(
            f"seeds are a count (3), a range (3-5) or a list (0,4,7; one seed alone: 4,), got {text!r}"
        )
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"at least one seed is needed, and each once, got {text!r}")
    return seeds


def parse_kwargs(text: str, option: str) -> dict[str, Any]:
    """Read constructor arguments from a JSON object.

    Raises:
        ValueError: the text is something else.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{option} is a JSON object such as '{{\"max_steps\": 20}}', got {text!r}: {error}"
        ) from None
    if not isinstance(value, dict):
        raise ValueError(f"{option} is a JSON object such as '{{\"max_steps\": 20}}', got {text!r}")
    return value


def _value(text: str) -> Any:
    """A parameter's value: JSON where it is that (numbers, true, false), else the text itself."""
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except json.JSONDecodeError:
        return text


def _require(good: bool, name: str, rule: str, value: Any) -> None:
    if not good:
        raise ValueError(f"{name} must be {rule}, got {value!r}")
