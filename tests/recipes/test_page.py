from pathlib import Path

import pytest

from fedloom.recipes import PAPERS
from fedloom.recipes.cell import Outcome, Trial
from fedloom.recipes.mcmahan2017 import MCMAHAN2017
from fedloom.recipes.page import page
from fedloom.recipes.part import Found
from fedloom.recipes.recording import recorded
from fedloom.recipes.series import Kept


def test_a_page_has_tables_figures_and_what_they_cost(tmp_path: Path) -> None:
    trial = Trial(0.1, 1.0, 0, "", ((0, 0.1), (40, 0.97)))
    outcomes = {"2nn-iid-C0.1-E1-B10": Outcome("2nn-iid-C0.1-E1-B10", (trial,), {"device": "A", "seconds": 60})}
    series = {"figure1": Kept("figure1", {"theta": [0.0, 1.0], "shared": [1, 2], "independent": [1, 2]},
                              {"device": "B", "seconds": 30})}  # fmt: skip
    parts = [MCMAHAN2017.part(name) for name in ("table1", "figure1", "figure4")]
    figures = page(MCMAHAN2017, parts, Found(outcomes, series), tmp_path / "page.md")
    assert figures == [tmp_path / "figures" / "mcmahan2017" / "figure1.png"]
    assert figures[0].read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "page.md").read_text()
    assert "2 runs in 1.0 minutes on A and 0.5 minutes on B" in text
    assert text.count("Computed for this") == 2
    assert "Computed for this: 1 run in 1.0 minutes on A." in text
    assert "Computed for this: 1 run in 0.5 minutes on B." in text
    assert "| C = 0.1 | fedloom –<br>paper 1,474" in text
    assert "](figures/mcmahan2017/figure1.png)" in text
    assert "| `2nn-iid-C0.1-E1-B10` | 97% | **0.1** | 40.0 | 40 | 1 | 1.0 | A |" in text
    assert "CNN, E = 5" not in text  # nothing of that half is recorded


def test_what_two_parts_share_was_computed_for_the_first(tmp_path: Path) -> None:
    trial = Trial(0.1, 1.0, 0, "", ((0, 0.1), (40, 0.99)))
    outcomes = {"cnn-iid-C0.1-E5-B10": Outcome("cnn-iid-C0.1-E5-B10", (trial,), {"device": "A", "seconds": 60})}
    parts = [MCMAHAN2017.part(name) for name in ("table1", "table2")]
    page(MCMAHAN2017, parts, Found(outcomes), tmp_path / "page.md")
    first, second = (tmp_path / "page.md").read_text().split("## Table 2")
    assert "Computed for this" in first
    assert "Computed for this" not in second


def test_series_that_depend_on_what_was_found_are_counted_too(tmp_path: Path) -> None:
    trial = Trial(0.1, 1.0, 0, "", ((0, 0.1), (40, 0.97)))
    name = "2nn-iid-C0.1-E1-B10"
    outcomes = {name: Outcome(name, (trial,), {"device": "A", "seconds": 60})}
    columns = {"round": [0, 40], "test_accuracy": [0.1, 0.97], "test_loss": [2.0, 0.1],
               "train_accuracy": [0.1, 0.97], "train_loss": [2.0, 0.1]}  # fmt: skip
    about = {"device": "B", "seconds": 30, "experiment": {}}
    series = {f"portrait-{name}": Kept(f"portrait-{name}", columns, about)}
    parts = [MCMAHAN2017.part(part) for part in ("table1", "hartoyo")]
    page(MCMAHAN2017, parts, Found(outcomes, series), tmp_path / "page.md")
    assert "Computed for this: 1 run in 0.5 minutes on B." in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize("name", PAPERS)
def test_the_pages_of_the_documentation_are_what_is_recorded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedloom.recipes.page.save", lambda *_: None)
    paper, root = PAPERS[name], Path(__file__).parents[2]
    parts = paper.chosen(["all"])
    page(paper, parts, recorded(parts, root / "results" / name), tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == (root / "docs" / f"{name}.md").read_text()
