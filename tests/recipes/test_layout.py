from fedloom.recipes.cell import Outcome, Trial
from fedloom.recipes.layout import Entry, crossings, filled, markdown
from fedloom.recipes.mcmahan2017 import MCMAHAN2017


def took(name: str, rounds: int, accuracy: float = 0.97) -> Outcome:
    return Outcome(name, (Trial(0.1, 1.0, 0, "", ((0, 0.1), (rounds, accuracy))),), {})


def test_a_filled_table() -> None:
    grid = MCMAHAN2017.part("table1").grids[0]
    names = ("2nn-iid-C0-E1-B10", "2nn-iid-C0.1-E1-B10")
    found = {name: took(name, rounds) for name, rounds in zip(names, (100, 40), strict=True)}
    lines = filled(grid, found)
    assert lines[0][2] == "fedloom 100\npaper 316\nHartoyo Putra 127"
    assert lines[1][2] == "fedloom 40 (2.5 ×)\npaper 87 (3.6 ×)\nHartoyo Putra 53 (2.4 ×)"
    assert lines[1][1] == "fedloom –\npaper 1,474 (1.0 ×)\nHartoyo Putra 2,526 (1.0 ×)"
    assert "| C = 0.1 | fedloom –<br>paper 1,474 (1.0 ×)" in markdown(grid, lines)


def test_what_is_not_reached_says_how_far_it_got() -> None:
    grid = MCMAHAN2017.part("table1").grids[0]
    name = "2nn-iid-C0-E1-B10"
    found = {name: took(name, 500, accuracy=0.95)}
    assert filled(grid, found)[0][2].startswith("fedloom not in 500 (best 95.00%)\n")


def test_what_some_seeds_reach_says_how_many() -> None:
    grid, name = MCMAHAN2017.part("table1").grids[0], "2nn-iid-C0-E1-B10"
    ends = {0: (100, 0.97), 1: (300, 0.97), 2: (900, 0.96)}
    trials = tuple(Trial(0.1, 1.0, seed, "", ((0, 0.97 - 0.1), end)) for seed, end in ends.items())
    found = {name: Outcome(name, trials, {})}
    assert filled(grid, found)[0][2].startswith("fedloom 200 with 2 of 3 seeds\n")


def test_a_mean_over_seeds_has_its_standard_error() -> None:
    [grid] = MCMAHAN2017.part("table3").grids
    seeds = lambda name, *rounds: Outcome(name, tuple(  # noqa: E731
        Trial(0.1, 1.0, seed, "", ((0, 0.79), (n, 0.85))) for seed, n in enumerate(rounds)), {})  # fmt: skip
    found = {"cifar-sgd": seeds("cifar-sgd", 100, 110, 120), "cifar-fedavg": seeds("cifar-fedavg", 1999, 2000, 2001)}
    lines = filled(grid, found)
    assert lines[0][3].startswith("fedloom 55,000 ± 2,887\n")  # 10 / √3 epochs, of 500 updates
    assert lines[2][3].startswith("fedloom 2,000 ± 0.6 (27.5 ×)\n")


def test_the_rounds_of_who_got_there_are_in_the_tables_unit() -> None:
    there, not_there = (Trial(0.1, 1.0, seed, "", ((0, 0.1), (4, best))) for seed, best in enumerate((0.9, 0.8)))
    assert crossings(Entry("a", 0.9, unit=500), Outcome("a", (there, not_there), {})) == [2000]


def test_who_did_not_get_there_is_told_of() -> None:
    grid = MCMAHAN2017.part("table1").grids[1]
    assert filled(grid, {})[4][1] == "fedloom –\npaper 246 (1.6 ×)\nHartoyo Putra not reached (98.93%)"


def test_what_is_under_way_is_shown_and_not_counted() -> None:
    grid, name = MCMAHAN2017.part("table1").grids[0], "2nn-iid-C0-E1-B10"
    begun = {name: took(name, 100)}
    assert filled(grid, {}, begun)[0][2].startswith("fedloom 100 so far\n")
    assert filled(grid, {}, {name: took(name, 500, 0.9)})[0][2].startswith("fedloom –\n")  # losers end first
    assert filled(grid, {name: took(name, 90)}, begun)[0][2].startswith("fedloom 90\n")


def test_what_was_not_aimed_at_is_not_called_missed() -> None:
    [grid] = MCMAHAN2017.part("table3").grids
    curve = ((0, 0.1), (3000, 0.8201))
    found = {"cifar-fedsgd": Outcome("cifar-fedsgd", (Trial(0.1, 1.0, 0, "test accuracy reached 0.82", curve),), {})}
    assert [text.split("\n")[0] for text in filled(grid, found)[1][1:]] == [
        "fedloom 2,916",
        "fedloom 3,000",
        "fedloom –",
    ]


def test_what_was_trained_in_bfloat16_has_a_star() -> None:
    grid = MCMAHAN2017.part("table1").grids[0]
    name = "2nn-iid-C0-E1-B10"
    found = {name: Outcome(name, took(name, 100).trials, {"experiment": {"precision": "bfloat16"}})}
    assert filled(grid, found)[0][2] == "fedloom 100*\npaper 316\nHartoyo Putra 127"


def test_sgd_counts_minibatch_updates() -> None:
    [grid] = MCMAHAN2017.part("table3").grids
    found = {"cifar-sgd": took("cifar-sgd", 20, 0.85), "cifar-fedavg": took("cifar-fedavg", 100, 0.85)}
    lines = filled(grid, found)
    assert lines[0][3] == "fedloom 10,000\npaper 99,000"
    assert lines[2][3] == "fedloom 100 (100.0 ×)\npaper 2,000 (49.5 ×)"
