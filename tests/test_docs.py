"""Every Python snippet of the README and the docs runs, page by page, in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(#[^)]*)?\)")


def pages_with_snippets() -> list[Path]:
    return [page for page in PAGES if SNIPPET.search(page.read_text())]


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with_snippets(), ids=lambda page: page.name)
@pytest.mark.filterwarnings("ignore:every step of this batch", "ignore:almost all states")
def test_snippets_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "__main__"}
    for snippet in SNIPPET.findall(page.read_text()):
        exec(compile(snippet, page.name, "exec"), names)


def test_the_environment_of_the_guide_is_the_tested_one():
    own = (ROOT / "tests" / "agents" / "own_env.py").read_text()
    assert SNIPPET.search((ROOT / "docs" / "llm-agents.md").read_text())[1] == own


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, _ in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_worked_figure_has_the_numbers_of_the_page():
    import graphwrap
    from graphwrap.scripts.figures import two_episodes

    credit = graphwrap.GraphGPO()(two_episodes())
    table = re.findall(r"^\| (?:win|loss) \|.*$", (ROOT / "docs" / "concepts.md").read_text(), re.MULTILINE)
    rows = [[cell.strip(" *") for cell in line.split("|")[3:-1]] for line in table]
    graph = credit.graph
    for row, cells in enumerate(rows):
        expected = (
            graph.distances[graph.source[row]],
            graph.distances[graph.target[row]],
            credit.graph_rewards[row],
            credit.step_advantages[row],
            credit.episode_advantages[row],
            credit.advantages[row],
        )
        assert [float(cell) for cell in cells] == pytest.approx(expected, abs=0.005)
    assert len(rows) == 8
