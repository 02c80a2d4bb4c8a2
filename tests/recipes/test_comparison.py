"""The sentences that count agreement with the paper, on invented outcomes and on the recorded ones."""

from pathlib import Path

from fedloom.recipes.cell import Outcome, Trial
from fedloom.recipes.comparison import compared, summary, total
from fedloom.recipes.mcmahan2017 import MCMAHAN2017

GRID = MCMAHAN2017.part("table1").grids[0]
NAMES = ("2nn-iid-C0-E1-Ball", "2nn-iid-C0-E1-B10", "2nn-iid-C0.1-E1-Ball", "2nn-iid-C0.1-E1-B10")
PAPER = (1455, 316, 1474, 87)


def outcome(name: str, *ends: tuple[float, float]) -> Outcome:
    """Return an outcome whose seeds end in some rounds with some accuracies."""
    trials = tuple(Trial(0.1, 1.0, seed, "", ((0, 0.1), end)) for seed, end in enumerate(ends))
    return Outcome(name, trials, {})


def test_close_fewer_more_and_not_reached() -> None:
    """1,455 · 1.25 is close, 158 of 316 is fewer, 1,474 · 1.3 is more, and 96 % does not reach 97 %."""
    found = {
        NAMES[0]: outcome(NAMES[0], (1818.75, 0.97)),
        NAMES[1]: outcome(NAMES[1], (158, 0.97)),
        NAMES[2]: outcome(NAMES[2], (1916.2, 0.97)),
        NAMES[3]: outcome(NAMES[3], (87, 0.96)),
    }
    assert [c.kind for c in compared([GRID], found)] == ["close", "fewer", "more", "not reached"]
    assert summary([GRID], found) == (
        "Of 4 published numbers that are recorded, 1 are within 25% of the paper's, 1 take fewer rounds, 1 take more, "
        "and 1 are not reached. Ours are 0.50 to 1.30 times the paper's."
    )


def test_a_number_that_some_seeds_reach_is_named() -> None:
    found = {NAMES[3]: outcome(NAMES[3], (87, 0.97), (89, 0.97), (200, 0.96))}
    assert f"Only some seeds reach the target of `{NAMES[3]}` (2 of 3)." in summary([GRID], found)
    assert "In 1 of them only some seeds reach the target." in total([GRID], found)


def test_cells_of_two_tables_are_counted_once_as_cells() -> None:
    grids = [*MCMAHAN2017.part("table1").grids, *MCMAHAN2017.part("table2").grids]
    found = {"cnn-iid-C0.1-E5-B10": outcome("cnn-iid-C0.1-E5-B10", (18, 0.99))}
    assert total(grids, found).startswith("Of 2 published numbers (1 different cells), 2 are within 25%")


def test_nothing_recorded() -> None:
    assert summary([GRID], {}) == "No published number of this table is recorded yet."
    assert total([GRID], {}) == ""


def test_the_page_leads_with_its_agreement() -> None:
    page = (Path(__file__).parents[2] / "docs/mcmahan2017.md").read_text()
    assert "Of 73 published numbers (69 different cells), 28 are within 25% of the\npaper's, 43 take fewer" in page
    assert "2 take more, and 0 are not reached.\nIn 2 of them only some seeds reach the target." in page
    assert "after 1.5 times the paper's rounds" in page
    table = next(line for line in page.splitlines() if line.startswith("**Table 1, 2NN"))
    assert "Of 16 published numbers that are recorded, 0 are within 25% of the paper's, 16 take fewer rounds" in table
    assert "`lstm-iid-C0.1-E5-Ball` (2 of 3)" in page
    assert "`cifar-fedavg` (2 of 3)" in page
