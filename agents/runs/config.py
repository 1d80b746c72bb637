"""Settings of a run from a YAML file and overrides of the command line, and back."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from graphwrap.agents.runs.checks import SHAPED_SAMPLING, faults_of, shaped_sampling_fault
from graphwrap.agents.settings import Settings

SHIPPED = "graphwrap.configs"
"""The package that holds the shipped YAML files."""

S = TypeVar("S", bound=Settings)


def shipped_configs() -> list[str]:
    """Names of the shipped settings."""
    files = resources.files(SHIPPED).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def load_settings(config: str | PathLike[str] | None = None, overrides: Sequence[str] = ()) -> Settings:
    """Settings of a training run, see `load_settings_of`."""
    return load_settings_of(Settings, faults_of, config, overrides)


def load_settings_of(
    kind: type[S],
    check: Callable[[S], list[str]],
    config: str | PathLike[str] | None = None,
    overrides: Sequence[str] = (),
) -> S:
    """Settings of a YAML file with `overrides` applied.

    What neither of them sets has its default, see `graphwrap.agents.settings`. An override of `credit.name` drops the
    file's `credit.parameters`, which belong to the file's credit.

    Args:
        kind: Those of a training run, or of what has more.
        check: What is wrong with the values of such settings.
        config: The path of a YAML file, or the name of a shipped one. None: only the overrides.
        overrides: Texts like `credit.name=grpo` and `seed=3`; values are YAML.

    Raises:
        ImportError: omegaconf is missing.
        ValueError: The file cannot be read, or keys or values are wrong. All of them are named, each with the rule, the
            value received and the way out.
    """
    try:
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException
    except ImportError:
        raise ImportError("settings need omegaconf: pip install 'graphwrap[llm]'") from None
    try:
        given = OmegaConf.create({}) if config is None else OmegaConf.create(_text_of(config))
        if not OmegaConf.is_dict(given):
            raise ValueError(f"it must be a mapping of settings, got a {type(given).__name__}")
    except Exception as error:  # also those of OmegaConf's YAML parser
        raise ValueError(f"the settings {config} cannot be read: {error}") from error
    read = [_read_override(text) for text in overrides]
    keys = [key for key, _ in read]
    if (
        "credit.name" in keys
        and OmegaConf.select(given, "credit.name", default=None) != dict(read)["credit.name"]
    ):
        OmegaConf.update(given, "credit.parameters", {}, merge=False, force_add=True)
    try:
        for key, value in read:
            OmegaConf.update(given, key, value, merge=False, force_add=True)
        mapping = OmegaConf.to_container(given, resolve=True)
    except OmegaConfBaseException as error:
        raise ValueError(f"the settings cannot be read: {_first_line(error)}") from error
    source = "these settings" if config is None else f"the settings {config}"
    return mapping_to(kind, check, mapping, source)  # type: ignore[arg-type]


def from_mapping(mapping: Mapping[str, Any], source: str = "these settings") -> Settings:
    """Settings of a training run of nested mappings, checked; see `mapping_to`."""
    return mapping_to(Settings, faults_of, mapping, source)


def mapping_to(kind: type[S], check: Callable[[S], list[str]], mapping: Mapping[str, Any], source: str) -> S:
    """Settings of nested mappings, checked.

    Args:
        kind: As in `load_settings_of`.
        check: As in `load_settings_of`.
        mapping: What differs from the defaults.
        source: Where they come from, for errors.

    Raises:
        ValueError: Keys or values are wrong; all of them are named.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    values: dict[str, Any] = {}
    faults: list[str] = []
    _flatten(mapping, kind, "", values, faults)
    config = OmegaConf.structured(kind)
    hints = _leaves(kind)
    for key, value in values.items():
        if hints[key] is str and value is None:
            value = ""  # `prompt.prefill=` and an empty value in YAML
        try:
            OmegaConf.update(config, key, value, merge=False)
        except OmegaConfBaseException:
            faults.append(f"{key} must be {_kind(hints[key])}, got {value!r}")
    settings = OmegaConf.to_object(config)
    assert isinstance(settings, kind)
    faults += check(settings)
    if faults:
        raise ValueError(f"{source} are wrong:\n  " + "\n  ".join(faults))
    return settings


def to_yaml(settings: Settings) -> str:
    """All settings as YAML; `load_settings` of such a file gives back equal settings."""
    from omegaconf import OmegaConf

    return OmegaConf.to_yaml(OmegaConf.create(dataclasses.asdict(settings)))


def flat(settings: Settings) -> dict[str, Any]:
    """Every setting by its dotted name."""
    values: dict[str, Any] = {}
    _flatten(dataclasses.asdict(settings), type(settings), "", values, [])
    return values


def _text_of(config: str | PathLike[str]) -> str:
    path = Path(config)
    if path.is_file():
        return path.read_text(encoding="utf-8")
    names = shipped_configs()
    if str(config) in names:
        return (resources.files(SHIPPED) / f"{config}.yaml").read_text(encoding="utf-8")
    raise ValueError(
        f"it must be the path of a YAML file, or one of {', '.join(names)}{_near(str(config), names)}"
    )


def _read_override(text: str) -> tuple[str, Any]:
    from omegaconf import OmegaConf

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"an override must look like credit.name=grpo, got {text!r}")
    try:
        return key.strip(), OmegaConf.from_dotlist([f"value={value}"])["value"]
    except Exception as error:  # a YAML parser's
        raise ValueError(
            f"the value of an override must be YAML, got {text!r}: {_first_line(error)}"
        ) from error


def _flatten(
    mapping: Mapping[Any, Any],
    of: type,
    prefix: str,
    values: dict[str, Any],
    faults: list[str],
    root: type | None = None,
) -> None:
    """Put the settings of `mapping` in `values` by dotted name, and what is wrong with its keys in `faults`."""
    hints, root = get_type_hints(of), root or of
    for name, value in mapping.items():
        key = f"{prefix}{name}"
        if name not in hints:
            faults.append(
                shaped_sampling_fault(key) if name in SHAPED_SAMPLING else _unknown(key, prefix, hints, root)
            )
        elif not dataclasses.is_dataclass(hints[name]):
            values[key] = value
        elif isinstance(value, Mapping):
            _flatten(value, hints[name], f"{key}.", values, faults, root)  # type: ignore[arg-type]
        elif value is not None:
            fields = ", ".join(f"{key}.{field}" for field in get_type_hints(hints[name]))
            faults.append(f"{key} must be a mapping, got {value!r}; set one of {fields}")


def _unknown(key: str, prefix: str, hints: Mapping[str, Any], root: type) -> str:
    known = {name.rsplit(".", 1)[-1]: name for name in reversed(_leaves(root))}
    known |= {name: f"{prefix}{name}" for name in hints}  # the section's own names win
    near = difflib.get_close_matches(key.rsplit(".", 1)[-1], known, n=1, cutoff=0.7)
    if near:
        return f"{key} is no setting; did you mean {known[near[0]]}?"
    return f"{key} is no setting: there are {', '.join(f'{prefix}{name}' for name in hints)}"


def _leaves(of: type, prefix: str = "") -> dict[str, Any]:
    """The type of every setting by dotted name."""
    found: dict[str, Any] = {}
    for name, hint in get_type_hints(of).items():
        if dataclasses.is_dataclass(hint):
            found |= _leaves(hint, f"{prefix}{name}.")  # type: ignore[arg-type]
        else:
            found[f"{prefix}{name}"] = hint
    return found


def _near(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _kind(hint: Any) -> str:
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    return kinds.get(hint, "a mapping")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
