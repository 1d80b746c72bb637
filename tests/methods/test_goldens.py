"""Every method against values made by an independent implementation of the same definitions."""

from __future__ import annotations

import numpy as np

import graphwrap
from graphwrap.graph import TransitionGraph

RENAMED = {"stats": "episode_statistics", "normalise_groups": "normalise"}


def parameters_of(params: dict) -> dict:
    """The reference's parameter names in ours."""
    ours = {}
    for name, value in params.items():
        if name == "cost_exponent":
            ours["exponent"] = "cost" if value else "next"
        elif name == "progress":
            ours["exponent"] = "progress" if value else "cost"
        elif name == "hop_edges":
            ours["hop_edges"] = {"instances": "occurrences"}.get(value, value)
        else:
            ours[RENAMED.get(name, name)] = value
    return ours


def test_credit_equals_the_goldens(golden, golden_transitions):
    checked = 0
    for case, expected in golden["expected"].items():
        if case in ("distances", "values"):
            continue
        name = case.split()[0]
        tolerance = 1e-6 if expected["params"].get("eps") else 1e-9
        method = graphwrap.make_credit(name, **parameters_of(expected["params"]))
        credit = method(golden_transitions)
        found = {
            "advantages": credit.advantages,
            "rewards": credit.graph_rewards,
            "graph_advantages": credit.step_advantages,
            "episode_advantages": credit.episode_advantages,
        }
        for key, values in expected.items():
            if key != "params":
                np.testing.assert_allclose(
                    found[key], values, rtol=0, atol=tolerance, err_msg=f"{golden['name']}: {case}: {key}"
                )
                checked += 1
    assert checked >= 15


def test_distances_equal_the_goldens(golden, golden_transitions):
    graph = TransitionGraph.from_transitions(golden_transitions)
    expected = golden["expected"]["distances"]
    np.testing.assert_allclose(graph.distances[graph.source], expected["source"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(graph.distances[graph.target], expected["target"], rtol=0, atol=1e-9)


def test_values_equal_the_goldens(golden, golden_transitions):
    graph = TransitionGraph.from_transitions(golden_transitions)
    expected = golden["expected"]["values"]
    np.testing.assert_allclose(
        graph.values(gamma=expected["gamma"])[graph.source], expected["source"], rtol=0, atol=1e-11
    )


def test_presets_are_the_reference_settings(golden, golden_transitions):
    for preset, case in (
        ("graphgpo-reference", "graphgpo reference"),
        ("gigpo-reference", "gigpo reference"),
    ):
        if case in golden["expected"]:
            np.testing.assert_allclose(
                graphwrap.make_credit(preset)(golden_transitions).advantages,
                golden["expected"][case]["advantages"],
                rtol=0,
                atol=1e-6,
            )
