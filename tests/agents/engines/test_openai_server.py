"""OpenAIEngine against vLLM's own server: the answers of the model that it serves, and a whole evaluation."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from graphwrap import Transitions
from graphwrap.agents.engines import Sampling
from graphwrap.agents.engines.chat import TokenChat
from graphwrap.agents.engines.local import TransformersEngine
from graphwrap.agents.engines.openai import EndpointError, OpenAIEngine
from graphwrap.agents.evaluation.settings import EndpointSettings
from graphwrap.agents.prompts import Prompter, PromptTemplate
from graphwrap.agents.settings import PromptSettings
from graphwrap.cli import make_app
from tests.agents.endpoint import KEY
from tests.agents.small_runs import small_policy

pytestmark = pytest.mark.vllm

BOARDS = ("######\n#@$. #\n######", "######\n#.$@ #\n######", "######\n# *+ #\n######")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A tiny policy, and a server of its weights."""
    folder = tmp_path_factory.mktemp("served")
    policy = small_policy("model.tiny.max_length=1024")
    with torch.no_grad():
        for weight in policy.model.parameters():
            if weight.ndim == 2:
                weight.mul_(2)  # so that it says other things to other prompts
    policy.save(folder / "model")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder / "model")]
    command += [
        "--served-model-name",
        "small-model",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--dtype",
        "float32",
    ]
    command += ["--enforce-eager", "--max-model-len", "1024", "--max-num-seqs", "8", "--block-size", "32"]
    command += ["--kv-cache-memory-bytes", str(2**26), "--generation-config", "vllm"]
    environment = {**os.environ, "VLLM_API_KEY": KEY, "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    log = folder / "server.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 900  # seconds where the cores are free
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            try:
                with urllib.request.urlopen(f"{url}/health", timeout=5):
                    break
            except OSError:
                time.sleep(0.2)
        yield SimpleNamespace(policy=policy, url=f"{url}/v1")
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also what the server has started
        process.wait()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", KEY)


def endpoint(served, **changes) -> OpenAIEngine:
    # The tiny model says special tokens, which a server leaves out unless it is told not to.
    options = {"skip_special_tokens": False, "spaces_between_special_tokens": True}
    settings = {"base_url": served.url, "key_variable": "SERVER_KEY", "options": options, **changes}
    return OpenAIEngine("small-model", EndpointSettings(**settings))


def test_it_answers_as_the_local_engine_does(served):
    template, settings = PromptTemplate.parse("{observation}"), PromptSettings()
    local = Prompter(template, served.policy.tokenizer, settings)
    remote = Prompter(template, None, settings)
    seen = [
        {"task": "push", "step": 0, "history": [], "observation": board, "admissible": ["up", "down", "left"]}
        for board in BOARDS
    ]
    sampling = Sampling(0.0, 12)
    expected = TokenChat(TransformersEngine(served.policy), local).answer(
        [local.encode(**one) for one in seen], sampling
    )
    engine = endpoint(served)
    got = engine.answer([remote.encode(**one) for one in seen], sampling)
    engine.close()
    assert len({reply.text for reply in expected}) == 3
    assert [reply.text.split() for reply in got] == [reply.text.split() for reply in expected]
    assert [reply.finished for reply in got] == [reply.finished for reply in expected]
    # The server's chat template gives the tokens that the prompter counts.
    assert [reply.prompt_tokens for reply in got] == [reply.prompt_tokens for reply in expected]
    assert [reply.answer_tokens for reply in got] == [reply.answer_tokens for reply in expected]
    assert engine.usage.prompt_tokens == sum(reply.prompt_tokens for reply in expected)


def test_seeds_draw_the_same_answers_in_another_order(served):
    prompter = Prompter(PromptTemplate.load("think"), None, PromptSettings(max_tokens=900))
    prompts = [
        prompter.encode(task="push", step=0, history=[], observation=board, admissible=["up"])
        for board in BOARDS
    ]
    engine = endpoint(served, seed=True)
    first = engine.answer(prompts, Sampling(1.0, 8, seeds=(1, 2, 3)))
    again = engine.answer(prompts[::-1], Sampling(1.0, 8, seeds=(3, 2, 1)))
    other = engine.answer(prompts, Sampling(1.0, 8, seeds=(4, 5, 6)))
    engine.close()
    assert [reply.text for reply in again[::-1]] == [reply.text for reply in first]
    assert [reply.text for reply in other] != [reply.text for reply in first]


def test_a_wrong_key_and_a_wrong_model_are_told(served, monkeypatch):
    prompter = Prompter(PromptTemplate.parse("{observation}"), None, PromptSettings())
    prompts = [prompter.encode(task="", step=0, history=[], observation="#", admissible=None)]
    nameless = endpoint(served)
    nameless.model = "another"
    with pytest.raises(EndpointError, match=r"model\.path"):
        nameless.answer(prompts, Sampling(0.0, 4))
    nameless.close()
    monkeypatch.setenv("SERVER_KEY", "sk-wrong-key")
    engine = endpoint(served)
    with pytest.raises(EndpointError, match="SERVER_KEY") as caught:
        engine.answer(prompts, Sampling(0.0, 4))
    engine.close()
    assert "401" in str(caught.value)
    assert "sk-wrong-key" not in str(caught.value)


def test_a_prompt_that_is_too_long_is_told(served):
    prompter = Prompter(PromptTemplate.parse("{observation}"), None, PromptSettings(max_tokens=9999))
    prompts = [prompter.encode(task="", step=0, history=[], observation="# " * 2000, admissible=None)]
    engine = endpoint(served)
    with pytest.raises(EndpointError, match="400"):
        engine.answer(prompts, Sampling(0.0, 4))
    engine.close()


@pytest.mark.parametrize("agent", ["zero-shot", "react", "reflexion"])
def test_an_evaluation(served, tmp_path: Path, agent: str):
    command = [
        *("sokoban-tiny", "prompt.template=think", "prompt.max_tokens=900", "rollout.max_tokens=12"),
        *(
            "engine.name=openai",
            "model.path=small-model",
            f"openai.base_url={served.url}",
            "openai.key_variable=SERVER_KEY",
        ),
        *("openai.prompt_price=1", "openai.answer_price=2", f"agent.name={agent}", "agent.trials=2"),
        *("agent.reflect_max_tokens=12", "agent.history=2", "evaluation.tasks=3", "env.kwargs.max_steps=3"),
    ]
    result = CliRunner().invoke(make_app(), ["evaluate", *command, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    told = json.loads((tmp_path / "out" / "result.json").read_text())
    reflections = told["trials"] - 3
    assert told["episodes"] == 3
    assert told["usage"]["requests"] == told["played_steps"] + reflections
    assert told["usage"]["estimated"] == 0
    assert told["cost"] > 0
    assert reflections == 0 or agent == "reflexion"
    assert Transitions.load(tmp_path / "out" / "transitions.parquet").num_rows == told["played_steps"]
    assert KEY not in result.output
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()
