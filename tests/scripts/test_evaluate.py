"""The command that evaluates agents."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from graphwrap import Transitions
from graphwrap.agents.evaluation.settings import load_evaluation
from graphwrap.cli import make_app
from tests.agents.endpoint import KEY, completion, failure, serving
from tests.agents.runs.test_trainer import RUN
from tests.agents.small_runs import SMALL, random_model

pytestmark = pytest.mark.llm

ROOT = Path(__file__).parents[2]
PLAY = (
    "evaluation.tasks=5",
    "evaluation.parallel=3",
    "env.kwargs.max_steps=4",
    "env.held_out_kwargs={split: test}",
)


def invoke(*arguments: str):
    return CliRunner().invoke(
        make_app(), ["evaluate", *arguments], env={"COLUMNS": "200", "TERMINAL_WIDTH": "120"}
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return random_model(tmp_path_factory.mktemp("model") / "random")


def small(model: str, *overrides: str) -> list[str]:
    return ["sokoban-tiny", *SMALL, *PLAY, f"model.path={model}", *overrides]


def result_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "result.json").read_text())


NUMBERS = (
    *(
        "success",
        "success_by_type",
        "success_by_trial",
        "steps",
        "invalid_share",
        "env_return",
        "truncated",
        "invalid",
    ),
    *("prompt_tokens", "answer_tokens", "episodes", "trials", "played_steps"),
)


def answers_of(folder: Path) -> dict[str, list[str]]:
    """What was answered at every step, by episode."""
    return {
        path.parent.name: [step["answer"] for step in json.loads(path.read_text())["steps"]]
        for path in folder.glob("episodes/*/episode.json")
    }


def numbers_of(folder: Path) -> dict[str, Any]:
    told = result_of(folder)
    return {name: told[name] for name in NUMBERS}


def test_help_teaches():
    result = invoke("--help")
    assert result.exit_code == 0
    examples = [line for line in result.output.splitlines() if "  graphwrap evaluate " in line]
    assert len(examples) >= 4
    assert all(line.count("graphwrap") == 1 for line in examples)


def test_an_evaluation_and_the_same_command_again(model, tmp_path):
    out = tmp_path / "out"
    command = [*small(model), "--out", str(out)]
    result = invoke(*command)
    assert result.exit_code == 0, result.output
    told = result_of(out)
    episodes = [json.loads(path.read_text()) for path in sorted(out.glob("episodes/*/episode.json"))]
    assert len(episodes) == 5
    won = sum(episode["success"] for episode in episodes)
    steps = [len(episode["steps"]) for episode in episodes]
    assert told["success"]["value"] == won / 5
    assert told["success"]["low"] <= won / 5 <= told["success"]["high"]
    assert list(told["success_by_type"]) == ["1 box"]
    assert told["steps"]["value"] == pytest.approx(np.mean(steps))
    invalid = sum(bool(step["reason"]) for episode in episodes for step in episode["steps"])
    assert told["invalid_share"]["value"] == pytest.approx(invalid / sum(steps))
    assert told["settings"]["evaluation.temperature"] == 0.4
    assert told["settings"]["env.kwargs"]["split"] == "test"
    assert told["versions"]["graphwrap"]
    assert "evaluate" in told["command"]
    assert f"{won / 5:.3f} [" in result.output
    report = (out / "result.md").read_text()
    assert f"| all | 5 | {won / 5:.3f} [" in report
    assert "evaluation.tasks: 5" in report
    transitions = Transitions.load(out / "transitions.parquet")
    assert transitions.num_rows == sum(steps)
    assert transitions.num_episodes == 5
    assert "### Step 1" in next(out.glob("episodes/*/transcript.md")).read_text()

    written = {path: path.stat().st_mtime_ns for path in out.glob("episodes/*/*")}
    assert len(written) == 15
    again = invoke(*command)
    assert again.exit_code == 0
    assert "5 episodes are finished, 0 tasks are to be played on" in again.output
    assert {path: path.stat().st_mtime_ns for path in out.glob("episodes/*/*")} == written
    assert numbers_of(out) == {name: told[name] for name in NUMBERS}
    assert len(result_of(out)["starts"]) == 2

    more = invoke(*command, "evaluation.tasks=7", "evaluation.parallel=2")  # free ones
    assert more.exit_code == 0, more.output
    assert result_of(out)["episodes"] == 7
    assert {path: path.stat().st_mtime_ns for path in written} == written

    for override in (
        "evaluation.temperature=1.0",
        "rollout.max_tokens=5",
        "env.kwargs.max_steps=5",
        "agent.name=react",
    ):
        other = invoke(*command, override)
        assert other.exit_code == 2
        name = "env.kwargs" if "kwargs" in override else override.partition("=")[0]
        assert f"{name}: " in other.output
        assert "there, " in other.output
    assert {path: path.stat().st_mtime_ns for path in written} == written
    anew = invoke(*command, "evaluation.tasks=2", "evaluation.temperature=1.0", "--overwrite")
    assert anew.exit_code == 0, anew.output
    assert result_of(out)["episodes"] == 2
    assert len(list(out.glob("episodes/*"))) == 2


def test_a_changed_template_is_refused(model, tmp_path):
    template = tmp_path / "own.txt"
    template.write_text("{observation}")
    command = [
        *small(model, "evaluation.tasks=1", f"prompt.template={template}"),
        "--out",
        str(tmp_path / "out"),
    ]
    assert invoke(*command).exit_code == 0
    template.write_text("{observation} {task}")
    result = invoke(*command)
    assert result.exit_code == 2
    assert "the text of the template for the action" in result.output


def test_a_killed_evaluation_goes_on_and_ends_like_a_whole_one(model, tmp_path):
    settings = small(
        model, "evaluation.tasks=40", "evaluation.parallel=2", "env.kwargs.max_steps=15", "threads=1"
    )
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "scripts/evaluate.py", *settings, "--out", str(out)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    deadline = time.monotonic() + 120
    while len(list(out.glob("episodes/task-*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = {path: path.stat().st_mtime_ns for path in out.glob("episodes/task-*/episode.json")}
    assert 2 <= len(kept) < 40
    result = invoke(*settings, "--out", str(out))
    assert result.exit_code == 0, result.output
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert not list(out.rglob("*.part"))
    whole = invoke(*settings, "--out", str(tmp_path / "whole"), "evaluation.parallel=7")
    assert whole.exit_code == 0, whole.output
    assert numbers_of(out) == numbers_of(tmp_path / "whole")
    answers = answers_of(out)
    assert answers == answers_of(tmp_path / "whole")
    assert len({answer for said in answers.values() for answer in said}) > 40  # they depend on their seeds
    one, other = (Transitions.load(path / "transitions.parquet") for path in (out, tmp_path / "whole"))
    assert [one.action_labels[i] for i in one.action] == [other.action_labels[i] for i in other.action]
    assert [one.state_labels[i] for i in one.state] == [other.state_labels[i] for i in other.state]


def test_ctrl_c_leaves_an_evaluation_that_goes_on(model, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "scripts/evaluate.py", *small(model, "evaluation.tasks=100000"), "--out", str(out)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # As a shell's job in the foreground; in the background an interrupt would be ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 120
    while not list(out.glob("episodes/task-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "finished episodes are kept in" in output
    assert "Traceback" not in output
    kept = len(list(out.glob("episodes/task-*")))
    assert f"interrupted: {kept} finished" in output


def test_a_trained_checkpoint_is_evaluated_by_its_run_folder(model, tmp_path):
    run = tmp_path / "run"
    trained = CliRunner().invoke(
        make_app(),
        ["train-llm", "sokoban-tiny", *SMALL, *RUN, f"model.path={model}", "updates=2", "--out", str(run)],
    )
    assert trained.exit_code == 0, trained.output
    result = invoke(str(run), "evaluation.tasks=3", "--out", str(tmp_path / "best"))
    assert result.exit_code == 0, result.output
    told = result_of(tmp_path / "best")["settings"]
    assert told["model.path"] == str((run / "checkpoints" / "best").resolve() / "model")
    settings = load_evaluation(str(run), [], "latest")
    assert settings.model.path == str((run / "checkpoints" / "latest").resolve() / "model")
    assert settings.env.kwargs["levels"] == "6x6-1"
    assert settings.env.held_out_kwargs == {}
    split = invoke(str(run), "--split", "train", "evaluation.tasks=1", "--out", str(tmp_path / "train"))
    assert split.exit_code == 0, split.output
    assert result_of(tmp_path / "train")["settings"]["env.kwargs"]["split"] == "train"
    empty = tmp_path / "empty"
    (empty / "checkpoints").mkdir(parents=True)
    (empty / "settings.yaml").write_text((run / "settings.yaml").read_text())
    assert "must hold a checkpoint" in invoke(str(empty)).output
    assert "must be the folder of a training run" in invoke(str(tmp_path)).output


@pytest.mark.parametrize("agent", ["react", "reflexion"])
def test_prompting_agents_with_a_real_engine(model, tmp_path, agent):
    overrides = (
        *("prompt.max_tokens=2000", "agent.trials=2", "agent.reflect_max_tokens=6", "agent.history=3"),
        *("evaluation.tasks=2", f"agent.name={agent}", "rollout.max_tokens=4"),
    )
    # The tiny model has 128 positions and no word of these prompts; what counts is that all goes through.
    result = invoke(*small(long_model(tmp_path), *overrides), "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    told = result_of(tmp_path / "out")
    assert told["episodes"] == 2
    assert told["trials"] == (
        2 if agent == "react" else 2 + sum(not won for won in first_trials(tmp_path / "out"))
    )
    assert len(told["success_by_trial"]) == (1 if agent == "react" else 2)
    transcript = next(
        (tmp_path / "out").glob(f"episodes/*trial-{told['trials'] > 2:02d}/transcript.md")
    ).read_text()
    assert "You can take one of these actions" in transcript
    assert ("Your notes from earlier attempts" in transcript) == (agent == "reflexion")


def first_trials(folder: Path) -> list[bool]:
    return [
        json.loads(path.read_text())["success"] for path in folder.glob("episodes/*trial-00/episode.json")
    ]


def long_model(folder: Path) -> str:
    """As `random_model`, with room for long prompts."""
    from tests.agents.small_runs import small_policy

    small_policy("model.tiny.hidden=32", "model.tiny.max_length=2100").save(folder / "long")
    return str(folder / "long")


def test_dry_run_shows_a_prompt_and_asks_nobody(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "own.yaml").write_text(
        "env: {id: graphwrap/TextSokoban-v0, kwargs: {levels: 6x6-1, max_steps: 3}}\n"
        "engine: {name: openai}\nmodel: {path: some-model}\nagent: {name: reflexion}\n"
        "openai: {prompt_price: 1000, answer_price: 2000}\nrollout: {max_tokens: 100}\n"
        "evaluation: {tasks: 10, repeats: 2}\n"
    )
    result = invoke("own.yaml", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "[system]" in result.output
    assert "Hang the wet coat" in result.output
    assert "Your notes from earlier attempts at this task:" in result.output
    assert "First prompt, about " in result.output
    assert "180 steps" in result.output  # 10 tasks, 2 repeats, 3 trials, 3 steps
    assert "cost, by the prices given" in result.output
    assert list(tmp_path.iterdir()) == [tmp_path / "own.yaml"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sokoban-tny"], "did you mean sokoban-tiny?"),
        (["sokoban-tiny", "evaluation.task=3"], "did you mean evaluation.tasks?"),
        (["sokoban-tiny", "agent.name=reakt"], "did you mean react?"),
        (["sokoban-tiny", "evaluation.repeats=0"], "evaluation.repeats must be at least 1"),
        (["sokoban-tiny", "engine.name=openai"], "model.path must be the endpoint's name of the model"),
        (["sokoban-smollm2", "engine.name=openai"], "prompt.prefill must be empty"),
        (
            ["sokoban-tiny", "engine.name=vllm", "evaluation.temperature=0.001"],
            "0 or from 0.01 to 2 for vLLM",
        ),
        (["sokoban-tiny", "openai.options.stream=true"], "openai.options must leave stream alone"),
        (["sokoban-tiny", "prompt.template=nothing", "--dry-run"], "a template is one of"),
        (["sokoban-tiny", "agent.name=react", "agent.template=nothing"], "a template is one of"),
        (["sokoban-tiny", "env.kwargs.levels=none", "--dry-run"], "none"),
        (["sokoban-tiny", "--checkpoint", "first", "model.path=/nowhere", "--dry-run"], "/nowhere"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert told in result.output
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "setting", [f"openai.key_variable={KEY}", f"openai.base_url=https://me:{KEY}@host/v1"]
)
def test_a_key_in_the_settings_is_refused_unseen(setting):
    result = invoke("sokoban-tiny", "engine.name=openai", "model.path=m", setting)
    assert result.exit_code == 2
    assert "is not shown" in result.output
    assert KEY not in result.output


def test_arguments_of_the_environment_by_override_win_over_those_of_validation():
    def levels(*overrides: str) -> tuple[Any, Any]:
        kwargs = load_evaluation("sokoban-tiny", overrides).env.kwargs
        return kwargs.get("levels"), kwargs.get("split")

    assert levels() == ("6x6-1-easy", "test")
    assert levels("env.kwargs.levels=7x7-1") == ("7x7-1", "test")
    assert levels("env.held_out_kwargs.levels=7x7-1") == ("7x7-1", "test")
    assert levels("env.kwargs={levels: 7x7-2}") == ("7x7-2", "test")
    assert levels("env.kwargs={levels: 7x7-2, split: train}") == ("7x7-2", "train")


def test_training_takes_no_endpoint():
    result = CliRunner().invoke(make_app(), ["train-llm", "sokoban-tiny", "engine.name=openai"])
    assert result.exit_code == 2
    assert "engine.name must be one of transformers, vllm" in result.output


def endpoint_run(url: str, out: Path, *overrides: str) -> list[str]:
    return [
        *("sokoban-tiny", "prompt.template=think", "prompt.max_tokens=2000", "rollout.max_tokens=20", *PLAY),
        *(
            "engine.name=openai",
            "model.path=some-model",
            f"openai.base_url={url}",
            "openai.key_variable=TEST_KEY",
        ),
        *("openai.retries=0", *overrides, "--out", str(out)),
    ]


def moves(number, request):
    return completion("<think>I go.</think><action>right</action>", usage=(100, 10))


def test_an_endpoint_counts_cost_and_leaks_no_key_and_needs_no_torch(tmp_path):
    out = tmp_path / "out"
    program = "import sys; sys.modules['torch'] = sys.modules['transformers'] = None;"
    program += "from graphwrap.cli import main; main()"
    prices = ("openai.prompt_price=2", "openai.answer_price=10")
    with serving(moves) as endpoint:
        command = endpoint_run(endpoint.url, out, *prices)
        done = subprocess.run(
            [sys.executable, "-c", program, "evaluate", *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env={**os.environ, "TEST_KEY": KEY, "OPENAI_LOG": "debug"},
        )
    assert done.returncode == 0, done.stdout + done.stderr
    told = result_of(out)
    steps = told["played_steps"]
    assert len(endpoint.requests) == steps
    assert told["usage"] == {
        **{"requests": steps, "retries": 0, "estimated": 0},
        **{"prompt_tokens": 100 * steps, "answer_tokens": 10 * steps},
    }
    assert told["cost"] == pytest.approx(steps * (100 * 2 + 10 * 10) / 1e6)
    assert (told["prompt_tokens"], told["answer_tokens"]) == (100, 10)
    assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert endpoint.requests[0].body["temperature"] == 0.4
    assert KEY not in done.stdout + done.stderr
    for path in out.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()


def test_a_failing_endpoint_leaves_what_was_finished_and_its_cost(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_KEY", KEY)
    out = tmp_path / "out"

    def script(number, request):
        return failure(401, f"{KEY} is wrong") if number >= 13 else moves(number, request)

    with serving(script) as endpoint:
        result = invoke(*endpoint_run(endpoint.url, out, "evaluation.parallel=1"))
        url = endpoint.url
    assert result.exit_code == 2
    assert "401 - (key) is wrong" in result.output
    assert KEY not in result.output
    kept = len(list(out.glob("episodes/*")))
    assert 3 <= kept < 5
    assert json.loads((out / "totals.json").read_text())["usage"]["requests"] == 13
    with serving(moves) as endpoint:
        other = invoke(*endpoint_run(endpoint.url, out))
        assert f"openai.base_url: '{url}' there" in other.output
        assert other.exit_code == 2


@pytest.mark.parametrize(
    ("size", "tasks"),
    [(4_000, 5), (8_000, 150)],  # less than evaluation.json has; than transitions.parquet, when all is played
)
def test_a_full_disk_is_told_and_the_evaluation_goes_on(model, tmp_path, size, tasks):
    limited = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    limited += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}));"
    limited += "from graphwrap.cli import main; main()"
    command = [
        *small(model, f"evaluation.tasks={tasks}", "env.kwargs.max_steps=1"),
        "--out",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", limited, "evaluate", *command], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "the same command plays the others" in done.stderr
    assert not list((tmp_path / "out").rglob("*.part"))
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/episodes/*/episode.json")}
    assert len(kept) == (0 if tasks == 5 else tasks)
    assert invoke(*command).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
