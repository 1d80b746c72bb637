"""Settings, credit specifications, seeds."""

from __future__ import annotations

import pytest

from graphwrap.scripts.comparison.settings import (
    SOKOBAN,
    Settings,
    parse_credit,
    parse_credits,
    parse_kwargs,
    parse_seeds,
    preset_of,
)


def test_the_defaults_are_the_demo():
    settings = Settings()
    assert (settings.env, settings.updates, settings.num_envs, settings.group_size) == (SOKOBAN, 60, 128, 8)
    assert (settings.learning_rate, settings.epochs, settings.batch_size, settings.entropy) == (
        1e-3,
        4,
        128,
        0.01,
    )
    assert settings.steps_per_update == 1920


def test_whole_groups_start_together():
    with pytest.raises(ValueError, match=r"multiple of group_size.*got 100 and 8"):
        Settings(num_envs=100)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("updates", 0),
        ("group_size", 1),
        ("n_steps", 0),
        ("gamma", 1.5),
        ("learning_rate", 0.0),
        ("eval_episodes", 0),
    ],
)
def test_values_out_of_range_are_named(name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be .*got {value}"):
        Settings(**{name: value})


def test_sokoban_has_the_papers_omega_and_a_test_split():
    preset = preset_of(SOKOBAN)
    assert preset.credit_parameters == {"omega": 0.8}
    assert preset.held_out_kwargs == {"split": "test"}
    assert preset_of("CartPole-v1").credit_parameters == {}


def test_usual_values_go_to_the_methods_that_have_them():
    specs = {
        spec.name: spec for spec in parse_credits("outcome,grpo,graphgpo,graphgpo-reference", {"omega": 0.8})
    }
    assert specs["graphgpo"].parameters["omega"] == 0.8
    assert specs["graphgpo"].title == "graphgpo (omega=0.8)"
    assert specs["graphgpo"].make().omega == 0.8
    assert specs["graphgpo-reference"].parameters["omega"] == 0.8
    assert specs["graphgpo-reference"].parameters["eps"] == 1e-6
    assert "omega" not in specs["grpo"].parameters
    assert specs["grpo"].title == "grpo"
    assert specs["outcome"].parameters == {}


def test_given_values_win_over_usual_ones():
    spec = parse_credit("graphgpo:omega=0.4:exponent=next:std=False", {"omega": 0.8})
    assert (spec.label, spec.name) == ("graphgpo:omega=0.4:exponent=next:std=False", "graphgpo")
    method = spec.make()
    assert (method.omega, method.exponent, method.std) == (0.4, "next", False)
    assert spec.title == "graphgpo (omega=0.4, exponent=next, std=False)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "graphgp",
            "the names are grpo, .*did you mean 'graphgpo'.*'outcome' is the learner's own advantage",
        ),
        ("graphgpo:omega=2", r"omega=\) must be in \(0, 1\), got 2"),
        ("graphgpo:omege=0.2", "no parameter 'omege': its parameters are omega"),
        ("graphgpo:omega", "name:parameter=value, got 'graphgpo:omega'"),
        ("outcome:omega=0.1", "has no parameters"),
    ],
)
def test_a_wrong_credit_is_answered_with_what_is_allowed(text, message):
    with pytest.raises(ValueError, match=message):
        parse_credit(text, {})


def test_a_credit_is_compared_once():
    with pytest.raises(ValueError, match="'grpo' is there 2 times"):
        parse_credits("grpo,rloo,grpo", {})
    with pytest.raises(ValueError, match="no credit was asked for"):
        parse_credits(" , ", {})
    assert len(parse_credits("graphgpo,graphgpo:omega=0.4", {})) == 2


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", [0, 1, 2]), ("3-5", [3, 4, 5]), ("0,4,7", [0, 4, 7]), ("4,", [4]), ("1", [0])],
)
def test_seeds(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["0", "", "a", "-1", "5-3", "1,1", "1,,2", "2.5"])
def test_wrong_seeds(text):
    with pytest.raises(ValueError, match="seed"):
        parse_seeds(text)


def test_kwargs_are_a_json_object():
    assert parse_kwargs('{"max_steps": 20}', "--env-kwargs") == {"max_steps": 20}
    for text in ("[1]", "max_steps=20"):
        with pytest.raises(ValueError, match="--env-kwargs is a JSON object"):
            parse_kwargs(text, "--env-kwargs")
