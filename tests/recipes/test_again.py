import math

import pytest

from fedloom.recipes.again import again, doubts, once_more
from fedloom.recipes.cell import Cell, Outcome, Trial
from fedloom.recipes.layout import Entry, Grid
from fedloom.recipes.part import Found, Part
from fedloom.recipes.series import Kept
from fedloom.runs import Experiment

TOY = Experiment(model="logistic", clients=600, fraction=0.01, rounds=3, target=0.3, evaluate="test")


def table(**papers: float) -> Part:
    """A table of 97 %, with what the paper says of some cells."""
    cells = tuple(Cell(name, TOY, 0.1, targets=(0.97,)) for name in papers)
    entries = tuple(Entry(name, 0.97, {"paper": paper}) for name, paper in papers.items())
    return Part("t", "", cells, (Grid("", tuple(papers), (("", entries),)),))


def took(name: str, rounds: int, **about: object) -> Outcome:
    return Outcome(name, (Trial(0.2, 0.9, 0, "", ((0, 0.97 - rounds), (rounds, 0.97))),), about)


def test_only_what_is_just_below_a_published_number_is_run_again() -> None:
    part = again([table(far=100, near=100, above=100), table(near=90)])
    found = Found({name: took(name, n) for name, n in (("far", 84), ("near", 86), ("above", 101))})
    assert [cell.name for cell in part.cells] == ["far", "near", "above"]  # without which it knows nothing
    [series] = part.series(found)
    assert series.name == "again-near"
    e = series.experiment
    assert (e.lr, e.decay, e.target, e.precision) == (0.2, 0.9, 0.97, "float32")
    rounded = Found({"near": took("near", 86, experiment={"precision": "bfloat16"})})
    assert next(iter(part.series(rounded))).experiment.precision == "bfloat16"
    assert part.text(found) == ""


def test_both_numbers_are_told_beside_the_smallest_that_ours_is_below() -> None:
    part, outcomes = again([table(near=100), table(near=90)]), {"near": took("near", 86)}
    row = lambda *rounds: part.text(  # noqa: E731
        Found(outcomes, {"again-near": Kept("again-near", {str(i): [r] for i, r in enumerate(rounds)}, {})})
    ).splitlines()[-1]
    assert row(80, 90, 100) == "| `near` | 90 | 86.0 | 90.0 | 80.0, 90.0, 100.0 |"
    assert row(80, math.nan, 100) == "| `near` | 90 | 86.0 | not all there | 80.0, not reached, 100.0 |"
    rounded = {"experiment": {"precision": "bfloat16"}}
    half = Found({"near": took("near", 86, **rounded)}, {"again-near": Kept("again-near", {"3": [80]}, rounded)})
    assert part.text(half).splitlines()[-1] == "| `near` | 90 | 86.0* | 80.0* | 80.0 |"


def test_it_says_how_many_hold_and_which_were_not_run_again() -> None:
    part = again([table(good=100, bad=100, later=100, never=100)])
    outcomes = {name: took(name, 90) for name in ("good", "bad", "later", "never")}
    rounds = {"good": (90, 100), "bad": (90, 111), "never": (90, math.nan)}
    kept = {f"again-{name}": Kept("", {str(i): [r] for i, r in enumerate(each)}, {}) for name, each in rounds.items()}
    text = part.text(Found(outcomes, kept))
    assert "1 of the 3 that were run again are at most the paper's again; 1 was not run again yet." in text
    assert "| `later` | 100 | 90.0 | not run again |  |" in text


def test_tables_say_which_of_their_numbers_do_not_hold() -> None:
    part = table(good=100, bad=100, worse=100, later=100, far=200)
    outcomes = {name: took(name, 90) for name in ("good", "bad", "worse", "later", "far")}
    rounds = {"good": 100, "bad": 111, "worse": math.nan}
    kept = {f"again-{name}": Kept("", {"3 rounds": [r]}, {}) for name, r in rounds.items()}
    told = "Of numbers just below the paper's, with seeds that chose nothing (below): "
    assert doubts(part.grids, Found(outcomes, kept)) == (
        told + "`bad` is above the paper's; `worse` did not get there with all of them; `later` was not run again yet."
    )
    assert doubts(part.grids, Found({name: outcomes[name] for name in ("good", "far")}, kept)) == ""
    assert doubts(part.grids, Found(outcomes)) == ""  # a table that is shown alone does not know


@pytest.mark.parametrize("target", [0.3, 0.999])
def test_every_seed_is_run_until_it_is_there(target: float) -> None:
    cell = Cell("toy", TOY, 0.1, targets=(target,))
    columns = once_more(cell, Outcome("toy", (Trial(0.1, 1.0, 0, "", ((0, 0.1),)),), {})).run()
    assert list(columns) == ["3 rounds", "4 rounds", "5 rounds"]
    took = [r for [r] in columns.values()]
    assert all(0 < r < 3 if target == 0.3 else math.isnan(r) for r in took)
    assert target == 0.999 or len(set(took)) == 3
