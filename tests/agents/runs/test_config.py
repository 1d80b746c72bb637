"""Settings from YAML and overrides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graphwrap import make_credit
from graphwrap.agents.runs.config import flat, from_mapping, load_settings, shipped_configs, to_yaml
from graphwrap.agents.settings import Settings

pytestmark = pytest.mark.llm


def refused(*overrides: str, config: str | Path | None = None) -> str:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        load_settings(config, overrides)
    return str(error.value)


def test_nothing_given_means_defaults_where_the_tiny_model_can_hold_them():
    settings = load_settings(None, ["prompt.max_tokens=64", "rollout.max_tokens=4"])
    expected = Settings()
    expected.prompt.max_tokens, expected.rollout.max_tokens = 64, 4
    assert settings == expected


@pytest.mark.parametrize("name", shipped_configs())
def test_shipped_settings_are_found_by_name_and_by_path_alike(name):
    path = Path(__file__).parents[3] / "configs" / f"{name}.yaml"
    assert load_settings(name) == load_settings(path)


@pytest.mark.parametrize(
    ("name", "prompt_tokens", "steps", "minibatch", "omega"),
    [
        ("sokoban-qwen2.5-1.5b", 1024, 15, 64, 0.8),
        ("alfworld-qwen2.5-1.5b", 2048, 50, 256, 0.1),
        ("alfworld-qwen2.5-7b", 2048, 50, 256, 0.1),
    ],
)
def test_the_papers_settings(name, prompt_tokens, steps, minibatch, omega):
    settings = load_settings(name)
    rollout, ppo = settings.rollout, settings.ppo
    assert (rollout.tasks, rollout.group_size, rollout.max_tokens, rollout.temperature) == (16, 8, 512, 1.0)
    assert (ppo.learning_rate, ppo.minibatch, ppo.kl, ppo.epochs) == (1e-6, minibatch, 0.01, 1)
    assert (ppo.clip_low, ppo.clip_high, ppo.ratio) == (0.2, 0.2, "token")
    assert (settings.prompt.max_tokens, settings.prompt.history) == (prompt_tokens, 2)
    assert rollout.invalid_penalty == 0.1
    assert settings.credit.parameters == {"omega": omega}
    assert (settings.env.kwargs["max_steps"], settings.validation.temperature, settings.updates) == (
        steps,
        0.4,
        150,
    )


def test_the_papers_graft_on_alfworld():
    settings = load_settings("alfworld-qwen2.5-1.5b", ["credit.name=graft", "ppo.ratio=sequence"])
    assert settings.ppo.ratio == "sequence"
    assert make_credit(settings.credit.name, **settings.credit.parameters).lam == 0.95


def test_overrides_reach_every_depth_and_keep_the_rest(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("prompt: {max_tokens: 64, template: mine}\nrollout: {max_tokens: 4}\nseed: 1\n")
    overrides = ["credit.name=grpo", "seed=3", "ppo.learning_rate=3e-4", "model.tiny.layers=2"]
    overrides += [
        "env.kwargs.levels=generate:5x5-1",
        "rollout.dynamic_sampling=true",
        "prompt.prefill=<think>",
    ]
    settings = load_settings(file, overrides)
    assert (settings.credit.name, settings.seed, settings.ppo.learning_rate) == ("grpo", 3, 3e-4)
    assert (settings.model.tiny.layers, settings.model.tiny.hidden) == (2, 128)
    assert settings.env.kwargs == {"levels": "generate:5x5-1"}
    assert settings.rollout.dynamic_sampling is True
    assert (settings.prompt.prefill, settings.prompt.template) == ("<think>", "mine")
    assert load_settings(file, ["prompt.prefill="]).prompt.prefill == ""


def test_another_credit_drops_the_parameters_of_the_files(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(
        "prompt: {max_tokens: 64}\nrollout: {max_tokens: 4}\ncredit: {name: graphgpo, parameters: {omega: 0.4}}\n"
    )
    assert load_settings(file).credit.parameters == {"omega": 0.4}
    assert load_settings(file, ["credit.name=graphgpo"]).credit.parameters == {"omega": 0.4}
    assert load_settings(file, ["credit.name=grpo"]).credit.parameters == {}
    other = load_settings(file, ["credit.parameters.omega=0.5", "credit.name=graphgpo"])
    assert other.credit.parameters == {"omega": 0.5}
    assert load_settings(file, ["credit.name=gigpo", "credit.parameters.gamma=0.9"]).credit.parameters == {
        "gamma": 0.9
    }


def test_yaml_gives_back_the_settings(tmp_path):
    settings = load_settings("sokoban-tiny", ["credit.parameters.omega=0.25", "prompt.prefill=a: ${b}"][:1])
    settings.prompt.prefill = "<think>: # 'x'\n"
    file = tmp_path / "settings.yaml"
    file.write_text(to_yaml(settings))
    assert load_settings(file) == settings
    assert flat(settings)["credit.parameters"] == {"omega": 0.25}


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("ppo.learning_rat=3", "ppo.learning_rat is no setting; did you mean ppo.learning_rate?"),
        ("sed=1", "sed is no setting; did you mean seed?"),
        ("group_size=8", "group_size is no setting; did you mean rollout.group_size?"),
        ("rolout.tasks=1", "rolout is no setting; did you mean rollout?"),
        ("model.lora.r=8", "model.lora.r is no setting: there are model.lora.rank"),
        ("credit.name=grop", "got 'grop'; did you mean grpo?"),
        ("engine.name=vlm", "engine.name must be one of transformers, vllm, got 'vlm'; did you mean vllm?"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(override, hint):
    assert hint in refused(override, config="sokoban-tiny")


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("rollout.temperature=0", "rollout.temperature must be above 0, and finite, got 0.0"),
        ("rollout.temperature=.inf", "got inf"),
        ("ppo.kl=.nan", "ppo.kl must be at least 0, and finite, got nan"),
        ("rollout.group_size=1", "rollout.group_size must be at least 2, got 1: "),
        ("rollout.tasks=1.5", "rollout.tasks must be a whole number, got 1.5"),
        ("seed=", "seed must be a whole number, got None"),
        ("rollout.tasks=true", "rollout.tasks must be a whole number, got True"),
        ("env.kwargs=3", "env.kwargs must be a mapping, got 3"),
        ("ppo=3", "ppo must be a mapping, got 3; set one of ppo.learning_rate"),
        ("credit.parameters.omega=3", "GraphGPO(omega=) must be in (0, 1), got 3.0"),
        ("model.lora.dropout=0.1", "model.lora.dropout must be 0, because"),
        ("model.tiny.heads=5", "model.tiny.hidden must be a multiple of model.tiny.heads"),
        ("rollout.max_tokens=500", "model.tiny.max_length must hold"),
        (
            "engine.name=vllm validation.temperature=5",
            "validation.temperature must be 0 or from 0.01 to 2 for vLLM",
        ),
        ("engine.sleep=true", "engine.sleep is for vLLM"),
        ("model.lora.rank=4", "model.lora.rank must be 0 for model.path=tiny, got 4"),
        ("seed", "an override must look like credit.name=grpo, got 'seed'"),
        ("seed=[1", "the value of an override must be YAML"),
    ],
)
def test_wrong_values_are_refused_with_their_rule(override, told):
    assert told in refused(*override.split(" "), config="sokoban-tiny")


def test_a_critic_needs_no_group_and_takes_no_method_parameters():
    settings = load_settings("sokoban-tiny", ["credit.name=ppo", "rollout.group_size=1"])
    assert (settings.credit.name, settings.rollout.group_size) == ("ppo", 1)
    told = refused("credit.name=ppo", "credit.parameters={omega: 0.5}", config="sokoban-tiny")
    assert "credit.parameters must be empty for ppo" in told


@pytest.mark.parametrize("where", ["rollout.", "engine.", "", "engine.options.", "validation."])
@pytest.mark.parametrize("name", ["top_p", "top_k", "min_p"])
def test_sampling_that_biases_the_ratio_is_refused_wherever_it_stands(where, name):
    told = refused(f"{where}{name}=1", "engine.name=vllm", config="sokoban-tiny")
    assert f"{where}{name} is refused" in told
    assert "biases the importance ratio" in told


def test_all_faults_are_told_at_once():
    told = refused("sed=1", "updates=0", "rollout.tasks=x", "ppo.kl=-1", config="sokoban-tiny")
    assert told.count("\n  ") == 4
    for part in ("sed", "updates must be at least 1, got 0", "rollout.tasks", "ppo.kl"):
        assert part in told


def test_files_that_hold_no_settings(tmp_path):
    assert "did you mean sokoban-tiny?" in refused(config="sokoban-tny")
    file = tmp_path / "run.yaml"
    for text in ("- 1\n- 2\n", "a: [1\n", "seed: 1\nseed: 2\n", "just words\n"):
        file.write_text(text)
        assert str(file) in refused(config=file)


def test_from_mapping_refuses_what_no_file_could_hold():
    with pytest.raises(ValueError, match="1 is no setting"):
        from_mapping({1: 2})


def test_settings_need_no_torch():
    program = (
        "import sys; from graphwrap.agents.runs.config import load_settings; load_settings('sokoban-tiny'); "
    )
    program += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
