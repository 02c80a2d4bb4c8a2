from fedloom.recipes.cell import Outcome, Trial
from fedloom.recipes.mcmahan2017 import MCMAHAN2017
from fedloom.recipes.part import Found
from fedloom.recipes.series import Kept
from fedloom.recipes.setting import published
from fedloom.recipes.unsaid import size

PARTS = ("table1", "table2", "table3")


def test_table_1_has_forty_cells_of_which_thirty_five_are_published() -> None:
    part = MCMAHAN2017.part("table1")
    assert len({cell.name for cell in part.cells}) == 40
    entries = {entry.cell: entry for grid in part.grids for entry in grid.entries}
    assert sum(entry.published["paper"] is not None for entry in entries.values()) == 35
    cell = next(cell for cell in part.cells if cell.name == "cnn-shards-C0.1-E5-B10")
    e = cell.experiment
    assert (e.model, e.partition, e.fraction, e.epochs, e.batch_size, e.target) == ("cnn", "shards", 0.1, 5, 10, 0.99)
    assert entries[cell.name].published == {"paper": 206, "hartoyo": 779}
    assert e.rounds >= 1.5 * 229  # what Table 2 says of the same experiment


def test_table_2_has_fifteen_rows_twice() -> None:
    part = MCMAHAN2017.part("table2")
    cells = {cell.name: cell for cell in part.cells}
    assert len(cells) == 30
    cnn, lstm = part.grids
    assert cnn.rows[0][0] == "FedSGD, E = 1, B = ∞"
    assert [e.published["paper"] for e in cnn.rows[0][1]] == [626, 483]
    assert cnn.rows[0][1][0].published["hartoyo"] == 793
    assert lstm.heads == ("IID", "by role")
    assert lstm.rows[-1][1][1].published["paper"] == 41
    by_role = cells["lstm-natural-C0.1-E5-B10"]
    assert (by_role.experiment.data, by_role.experiment.model, by_role.targets) == ("shakespeare", "lstm", (0.54,))
    assert cells["lstm-iid-C0.1-E5-B10"].experiment.clients == 1216


def test_table_3_counts_updates_for_sgd_and_rounds_for_the_others() -> None:
    part = MCMAHAN2017.part("table3")
    [grid] = part.grids
    assert [[e.published["paper"] for e in row] for _, row in grid.rows] == [
        [18000, 31000, 99000], [3750, 6600, None], [280, 630, 2000]]  # fmt: skip
    assert [e.unit for e in grid.rows[0][1]] == [500] * 3
    sgd, fedsgd, fedavg = part.cells
    assert (sgd.experiment.algorithm, sgd.experiment.batch_size, sgd.experiment.rounds) == ("central", 100, 297)
    assert (fedsgd.experiment.batch_size, fedsgd.targets) == (None, (0.80, 0.82))
    assert (fedavg.experiment.epochs, fedavg.experiment.batch_size, fedavg.targets) == (5, 50, (0.80, 0.82, 0.85))


def test_tables_1_and_2_share_the_experiments_they_have_in_common() -> None:
    first, second = ({cell.name: cell for cell in MCMAHAN2017.part(part).cells} for part in ("table1", "table2"))
    common = first.keys() & second.keys()
    assert common == {f"cnn-{p}-C0.1-E5-B{b}" for p in ("iid", "shards") for b in (10, "all")}
    assert all(first[name] == second[name] for name in common)


def test_the_goal_is_the_smaller_of_two_published_numbers_and_the_time_that_of_the_larger() -> None:
    [shared] = [c for c in MCMAHAN2017.part("table1").cells if c.name == "cnn-iid-C0.1-E5-Ball"]
    assert (shared.goal, shared.experiment.rounds) == (179, int(1.5 * 339) + 10)


def test_pixels_are_scaled_in_three_ways() -> None:
    part = MCMAHAN2017.part("inputs")
    cells = {cell.name: cell for cell in part.cells}
    assert len(cells) == 12
    assert cells["2nn-iid-C0.1-E1-B10"] == next(
        c for c in MCMAHAN2017.part("table1").cells if c.name == "2nn-iid-C0.1-E1-B10"
    )
    other = cells["cnn-shards-C0.1-E5-B10-centred"]
    assert (other.experiment.inputs, other.goal) == ("centred", None)


def test_what_pixels_do_is_told_of_a_model_once_it_is_recorded() -> None:
    part, outcomes = MCMAHAN2017.part("table1"), {}
    assert part.text(Found()) == ""
    for model, target, tens in (("2nn-{}-C0.1-E1-B10", 0.97, 1), ("cnn-{}-C0.1-E5-B10", 0.99, 3)):
        for i, kind in enumerate(("iid", "shards")):
            for j, scaling in enumerate(("unit", "centred", "standard")):
                usual = scaling == ("unit" if model.startswith("2nn") else "standard")
                name = model.format(kind) + f"-{scaling}" * (not usual)
                rounds = 10 * (tens + i) + j
                outcomes[name] = Outcome(name, (Trial(0.1, 1.0, 0, "", ((0, 0.1), (rounds, target))),), {})
        told = part.text(Found(outcomes))
        wanted = (
            f"{10 * tens} and {10 * tens + 10} with pixels as 0 to 1, {10 * tens + 1} and {10 * tens + 11} with pixels "
            f"as -1 to 1, {10 * tens + 2} and {10 * tens + 12} with pixels as mean 0, deviation 1 (the paper: "
        )
        assert wanted in told
        assert ("The CNN depends on that less" in told) == model.startswith("cnn")
    assert "(the paper: 87 and 664)" in told
    assert told.endswith("(the paper: 18 and 206).")


def test_the_page_names_cells_whose_best_rate_is_at_the_edge() -> None:
    took = lambda lr, n: Trial(lr, 1.0, 0, "", ((0, 0.1), (n, 0.99)))  # noqa: E731
    name, outcome = "cnn-iid-C0.1-E5-B10", lambda *trials: Outcome("", trials, {})
    edge = Found({name: outcome(took(0.1, 20), took(0.215, 30))})
    assert f"at its edge (except for `{name}` for 99%). For" in " ".join(MCMAHAN2017.introduction(edge).split())
    inside = Found({name: outcome(took(0.1, 20), took(0.215, 30), took(0.0464, 40))})
    assert "at its edge. For" in " ".join(MCMAHAN2017.introduction(inside).split())
    far = lambda lr, n: Trial(lr, 0.999, 0, "", ((0, 0.1), (n, 0.8), (n + 70, 0.85)))  # noqa: E731
    other = outcome(far(0.1, 60), far(0.215, 30), far(0.0464, 50), Trial(0.464, 0.999, 0, "", ((0, 0.1), (20, 0.8))))
    assert "`cifar-fedavg` for 80%)" in MCMAHAN2017.introduction(Found({"cifar-fedavg": other}))


def test_how_large_the_lstm_is_and_what_would_make_it_the_papers() -> None:
    told = MCMAHAN2017.part("table2").text(
        Found({"lstm-natural-C0.1-E1-B10": Outcome("", (Trial(2.15, 1.0, 0, "", ((0, 0.1), (95, 0.54))),), {})})
    )
    assert "The LSTM has 818,932 parameters with the 84 symbols of this text" in told
    assert "The paper's has 866,578, which is what ours would have with 258 symbols (865,042) and three" in told
    assert "both layers (1,536 more)" in told
    assert published()["models"]["lstm"] == size(258) + 3 * 2 * 256


def test_it_is_told_how_near_fedavg_comes_on_cifar10() -> None:
    part, run = MCMAHAN2017.part("table3"), lambda lr, *curve: Trial(lr, 1.0, 0, "", curve)
    assert part.text(Found()) == ""
    trials = run(0.1, (0, 0.1), (1999, 0.84), (2001, 0.86)), run(0.2, (0, 0.1), (2000, 0.85)), run(0.4, (90, 0.7))
    told = part.text(Found({"cifar-fedavg": Outcome("", trials, {})}))
    assert "the 2 runs that were not stopped before round 2,000, of 2 pairs" in told
    assert told.endswith("have come to 84.00% to 85.00% by then.")


def test_it_is_told_that_a_cell_was_computed_twice() -> None:
    took = lambda n: Outcome("", (Trial(0.1, 1.0, 0, "", ((0, 0.98), (n, 0.99))),), {})  # noqa: E731
    part, name = MCMAHAN2017.part("precision"), "cnn-iid-C0.5-E5-Ball"
    assert part.text(Found({name: took(160)})) == ""
    told = part.text(Found({name: took(160), f"{name}-bfloat16": took(165)}))
    assert "165 rounds, where the paper has 164" in told
    assert "160 is what the table counts" in told


def test_every_entry_of_a_grid_has_its_cell() -> None:
    for name in (*PARTS, "inputs"):
        part = MCMAHAN2017.part(name)
        assert {entry.cell for grid in part.grids for entry in grid.entries} == {cell.name for cell in part.cells}
        assert all(cell.experiment.target == cell.targets[-1] for cell in part.cells)


def test_figure_3_runs_to_its_end() -> None:
    series = list(MCMAHAN2017.part("figure3").series(Found()))
    assert len(series) == 11
    assert {s.experiment.target for s in series} == {None}


def test_figure_3_tells_the_losses_after_the_last_round_that_all_have() -> None:
    part = MCMAHAN2017.part("figure3")
    names = [s.name for s in part.series(Found()) if "lstm" in s.name]
    ends = {name: s.experiment.rounds for s in part.series(Found()) if (name := s.name) in names}
    assert list(ends.values()) == [40, 40, 15]
    kept = {name: Kept(name, {"round": [0, 15, ends[name]], "train_loss": [4.0, loss, loss]}, {})
            for name, loss in zip(names, (2.0, 1.5, 2.5), strict=True)}  # fmt: skip
    kept[names[1]] = Kept(names[1], kept[names[1]].columns, {"experiment": {"precision": "bfloat16"}})
    title = "Training losses after the last round that all curves have:\n\n- Shakespeare LSTM, by role, η = 1.47, "
    assert part.text(Found(series=kept)) == (
        title + "round 15: 2.00 with E = 1, 1.50* with E = 5, 2.50 with E = 20, the lowest with E = 5."
    )
    assert part.text(Found(series={name: kept[name] for name in names[:-1]})) == ""
    kept[names[2]] = Kept(names[2], {"round": [0, 3], "train_loss": [4.0, 9.0]}, {})
    assert part.text(Found(series=kept)) == (
        title
        + "round 40: 2.00 with E = 1, 1.50* with E = 5, the lowest with E = 5, diverged after round 3 with E = 20."
    )


def test_captions_say_what_is_not_recorded_yet() -> None:
    part = MCMAHAN2017.part("figure3")
    names = [s.name for s in part.series(Found())]
    kept = {name: Kept(name, {"round": [0, 1], "train_loss": [2.0, 1.0]}, {}) for name in names}
    [whole] = part.pictures(Found(series=kept))
    assert whole.caption.endswith("B = 10.")
    [short] = part.pictures(Found(series={name: kept[name] for name in names[:-1]}))
    assert short.caption.endswith(f" Not recorded yet: `{names[-1]}`.")


def test_what_weights_do_is_told_as_far_as_it_is_recorded() -> None:
    part, told_in = MCMAHAN2017.part("weights"), MCMAHAN2017.part("table2")
    assert told_in.text(Found()) == ""
    took = {"cnn-iid-C0.1-E1-B10": 29, "cnn-plain-iid-C0.1-E1-B10-unit": 150, "cnn-shards-C0.1-E1-B10": 144}
    outcomes = {name: Outcome(name, (Trial(0.1, 1.0, 0, "", ((0, 0.1), (n, 0.99))),), {}) for name, n in took.items()}
    outcomes["cnn-plain-shards-C0.1-E1-B10-unit"] = Outcome("", (Trial(0.1, 1.0, 0, "", ((0, 0.1), (1070, 0.5))),), {})
    told = told_in.text(Found(outcomes))
    assert "the CNN on IID data, E = 1: 150 (as in the tables 29, the paper 34); " in told
    assert "the CNN on shards, E = 1: not in 1,070 (best 50.00%) (as in the tables 144, the paper 350). " in told
    assert told.endswith(
        "The paper's number is between the two for the CNN on IID data, E = 1; the CNN on shards, E = 1: there, that "
        "may be all that is between its number and ours."
    )
    assert "by role" not in told
    assert "an LSTM's" not in told
    alike = {**outcomes, "cnn-plain-iid-C0.1-E1-B10-unit": outcomes["cnn-iid-C0.1-E1-B10"]}  # 29 and 29, the paper 34
    said = told_in.text(Found(alike))
    assert "The paper's number is between the two for the CNN on shards, E = 1: there" in said
    assert said.endswith("It is not between the two for the CNN on IID data, E = 1, which neither way explains.")
    neither = told_in.text(Found({name: alike[name] for name in alike if "iid" in name}))
    assert "is between the two for" not in neither
    variants = {cell.name: cell for cell in part.cells if "plain" in cell.name}
    assert list(variants) == [f"{model}-C0.1-{work}" for model, work in (
        ("cnn-plain-iid", "E1-B10-unit"), ("cnn-plain-shards", "E1-B10-unit"),
        ("lstm-plain-natural", "E1-B10"), ("lstm-plain-natural", "E5-B10"))]  # fmt: skip
    assert {(c.experiment.model, c.experiment.inputs, c.goal) for c in variants.values()} == {
        ("cnn-plain", "unit", None), ("lstm-plain", "unit", None)}  # fmt: skip
