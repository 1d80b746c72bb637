"""gym-sokoban 0.0.6 without old gym: its room generator, and its environment class as an oracle for tests.

gym-sokoban's ``__init__`` imports old gym and pkg_resources. Its own modules need NumPy only, or can be given
gymnasium in gym's place, so they are loaded from their files, as private copies.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

from graphwrap.envs.cells import NUM_CODES

VERSION = "0.0.6"
_ALIASES = {"gym": "gymnasium"} | {
    f"gym.{name}": f"gymnasium.{name}" for name in ("utils", "utils.seeding", "spaces", "spaces.discrete")
}


def generate_room(
    seed: int,
    size: tuple[int, int] = (6, 6),
    boxes: int = 1,
    num_steps: int | None = None,
    tries: int = 100,
) -> np.ndarray:
    """A room of gym-sokoban's generator, the same for the same arguments in every process.

    The generator draws from the global generators of ``random`` and NumPy; here it gets generators of its own
    with the same streams, so that nothing outside is touched or read.

    Args:
        seed: at least 0. Where a try fails ("Not enough free spots"), the next one gets a sub-seed of it.
        size: rows and columns, at least 3 each.
        boxes: number of boxes, at least 1.
        num_steps: length of the random walk that digs the room; None: gym-sokoban's ``int(1.7 * (H + W))``.
        tries: failures before giving up.

    Returns:
        uint8 (H, W), codes 0 wall, 1 floor, 2 target, 4 box, 5 player. Solvable by construction.

    Raises:
        ImportError: gym-sokoban is missing.
        ValueError: an argument out of its range.
        RuntimeError: all tries failed.
    """
    for name, value, least in (
        ("seed", seed, 0),
        ("size", min(size), 3),
        ("boxes", boxes, 1),
        ("tries", tries, 1),
    ):
        if value < least:
            raise ValueError(f"{name} is at least {least}, got {size if name == 'size' else value}.")
    utils, numpy = _room_utils()
    walk = int(1.7 * sum(size)) if num_steps is None else num_steps
    reason: Exception | None = None
    for attempt in range(tries):
        sub_seed = int(np.random.SeedSequence([seed, attempt]).generate_state(1)[0])
        utils.random = random.Random(sub_seed)
        numpy.random = np.random.RandomState(sub_seed)  # the stream gym-sokoban expects
        try:
            _, room, _ = utils.generate_room(dim=tuple(size), num_steps=walk, num_boxes=boxes)
        except (RuntimeError, RuntimeWarning) as error:
            reason = error
            continue
        assert room.max() < NUM_CODES
        return room.astype(np.uint8)
    raise RuntimeError(
        f"gym-sokoban made no room of size {tuple(size)} with {boxes} boxes and num_steps={walk} in {tries} tries "
        f"from seed {seed}; its last word: {reason}. Ask for a larger room, fewer boxes or more num_steps."
    )


def load_env_class() -> type[Any]:
    """gym-sokoban's own ``SokobanEnv``, on gymnasium's base class, from a private package.

    Raises:
        ImportError: gym-sokoban is missing.
    """
    folder = _folder()
    name = "_graphwrap_gym_sokoban"
    if f"{name}.sokoban_env" not in sys.modules:
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        resources = types.ModuleType("pkg_resources")
        resources.resource_filename = lambda _, path: str(folder / path)  # type: ignore[attr-defined]
        stand_ins = {alias: importlib.import_module(real) for alias, real in _ALIASES.items()}
        stand_ins |= {"pkg_resources": resources}
        if importlib.util.find_spec("imageio") is None:
            stand_ins["imageio"] = types.ModuleType("imageio")  # reads the tiles of pictures nobody asks for
        before = {key: sys.modules.get(key) for key in stand_ins}
        sys.modules[name] = package
        sys.modules.update(stand_ins)
        try:
            importlib.import_module(f"{name}.sokoban_env")
        finally:
            for key, module in before.items():
                if module is None:
                    del sys.modules[key]
                else:
                    sys.modules[key] = module
    return sys.modules[f"{name}.sokoban_env"].SokobanEnv


def require_gym_sokoban() -> None:
    """Raises the ImportError that says how to install gym-sokoban, where it is missing."""
    _folder()


def _folder() -> Path:
    spec = importlib.util.find_spec("gym_sokoban")  # finds, does not import
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            f"Making rooms needs gym-sokoban: pip install --no-deps gym-sokoban=={VERSION} (or, with the old gym it "
            f"depends on, pip install 'graphwrap[sokoban]'). Shipped levels need neither."
        )
    return Path(next(iter(spec.submodule_search_locations))) / "envs"


def _room_utils() -> tuple[Any, Any]:
    """A fresh copy of gym-sokoban's ``room_utils`` (its search keeps state in module globals) and the NumPy it sees."""
    spec = importlib.util.spec_from_file_location("_graphwrap_room_utils", _folder() / "room_utils.py")
    assert spec is not None
    assert spec.loader is not None
    utils: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(utils)
    numpy: Any = types.ModuleType("numpy")
    numpy.__dict__.update(np.__dict__)
    utils.np = numpy
    return utils, numpy
