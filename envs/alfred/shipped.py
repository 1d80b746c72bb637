"""The small games that come with the package, and how they become folders of games.

A split is one file: what the games are beside ALFWorld's domain and grammar, which the installed alfworld has. They are
unpacked once per user, into the cache folder. A split's file says which command made its games;
``python -m graphwrap.scripts.pack_alfworld`` makes all files anew.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import stat
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

from graphwrap._files import whole_folder
from graphwrap.envs.alfred.folders import RELEASE, GameText, is_whole, move, staging
from graphwrap.envs.alfred.generation import Games
from graphwrap.envs.alfred.tables import SPLITS, domain, grammar

SHIPPED = {
    "train": Games("train", per_type=20),
    "valid_seen": Games("valid_seen", per_type=10),
    "valid_unseen": Games("valid_unseen", per_type=10),
}
"""What is shipped, by split."""


def shipped_games(split: str, cache: Path | str | None = None) -> Path:
    """The folder ``json_2.1.1/SPLIT`` of the shipped games of a split; unpacks them where that was not done yet.

    Any number of processes may call it at once.

    Args:
        split: "train", "valid_seen" or "valid_unseen".
        cache: where to unpack; None: the user's cache folder, or one in the temp folder where there is none.

    Raises:
        ValueError: no such split.
        ModuleNotFoundError: alfworld is missing.
        OSError: there is no place to unpack.
    """
    packed = read_packed(split)
    content = hashlib.sha256(b"\0".join((packed, domain().encode(), grammar().encode()))).hexdigest()
    games = unpack(packed)
    folder = (Path(cache) if cache is not None else cache_folder()) / "alfworld" / f"{split}-{content[:16]}"

    def whole(target: Path) -> bool:
        return all(is_whole(target / RELEASE / split / game.folder) for game in games)

    if not whole(folder):
        with staging(folder.parent) as staged:
            with whole_folder(staged / "games") as made:
                for game in games:
                    place = made / RELEASE / split / game.folder
                    place.mkdir(parents=True)
                    game.write(place)
            move(staged / "games", folder, whole)
    return folder / RELEASE / split


def read_packed(split: str) -> bytes:
    """The shipped file of a split.

    Raises:
        ValueError: no such split.
    """
    if split not in SPLITS:
        raise ValueError(f"split is one of {', '.join(SPLITS)}; got {split!r}.")
    return (files("graphwrap.envs") / "data" / file_name(split)).read_bytes()


def file_name(split: str) -> str:
    """What the shipped file of a split is called."""
    return f"alfworld-small-{split}.json.xz"


def command(games: Games) -> str:
    """The command that makes games, into the folder ``GAMES``."""
    return (
        f"graphwrap alfworld-games GAMES --split {games.split} --per-type {games.per_type} --seed {games.seed} "
        f"--size {games.size}"
    )


def pack(made_by: str, games: Sequence[GameText]) -> bytes:
    """Games as one compressed file, with the command that made them."""
    content = {"made_by": made_by, "games": [asdict(game) for game in games]}
    return lzma.compress(json.dumps(content, separators=(",", ":")).encode(), preset=9 | lzma.PRESET_EXTREME)


def unpack(packed: bytes) -> list[GameText]:
    """The games of `pack`."""
    games = json.loads(lzma.decompress(packed))["games"]
    return [GameText(**{**game, "walkthrough": tuple(game["walkthrough"])}) for game in games]


def made_by(packed: bytes) -> str:
    """The command of `pack`."""
    return str(json.loads(lzma.decompress(packed))["made_by"])


def cache_folder() -> Path:
    """The package's folder among the user's caches, made where it is missing.

    Without a home that can be written to it is one in the temp folder that belongs to the user alone: game files are
    code, so nobody else may be able to put some there.

    Raises:
        OSError: neither is possible.
    """
    if os.name == "nt":
        parent = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        parent = Path.home() / "Library" / "Caches"
    else:
        parent = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        folder = parent / "graphwrap"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return _private_folder()


def _private_folder() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    folder = Path(tempfile.gettempdir()) / f"graphwrap-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if hasattr(os, "getuid"):
        own = stat.S_ISDIR(state.st_mode) and state.st_uid == user and not state.st_mode & 0o022
        if not own:
            raise OSError(
                f"Game files are code, so only their user may write to the folder they are in; {folder} is open to "
                f"others. Remove it, or set XDG_CACHE_HOME to a folder of your own."
            )
    return folder
