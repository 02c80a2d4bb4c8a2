import pytest

from fedloom.recipes.cell import Outcome, Trial
from fedloom.recipes.mcmahan2017 import MCMAHAN2017
from fedloom.recipes.part import Found
from fedloom.recipes.series import Kept


def test_his_tasks() -> None:
    part = MCMAHAN2017.part("hartoyo")
    assert len(part.cells) == 21 + 12  # what is published of Table 1 for C = 0, 0.1, 1, and six rows of Table 2 twice
    series = {s.name: s for s in part.series(Found())}
    assert list(series) == ["hartoyo-task1-iid", "hartoyo-task1-shards"]
    e = series["hartoyo-task1-iid"].experiment
    assert (e.validation, e.lr, e.target, e.splits) == (10_000, 0.1, 0.97, ("train", "validation", "test"))


def test_a_case_is_run_again_at_its_best_rate() -> None:
    trials = tuple(Trial(0.215, 1.0, seed, "", ((0, 0.1), (250, 0.97))) for seed in range(3))
    found = Found({"2nn-iid-C0.1-E1-B10": Outcome("2nn-iid-C0.1-E1-B10", trials, {})})
    series = {s.name: s for s in MCMAHAN2017.part("hartoyo").series(found)}
    e = series["portrait-2nn-iid-C0.1-E1-B10"].experiment
    assert (e.lr, e.every, e.rounds, e.splits) == (0.215, 3, 300, ("train", "test"))


def test_his_table_and_pictures() -> None:
    columns = {"round": [0, 50], **{f"{part}_{name}": values for part in ("train", "validation", "test")
               for name, values in (("accuracy", [0.1, 0.97]), ("loss", [2.3, 0.1]))}}  # fmt: skip
    kept = Kept("hartoyo-task1-iid", columns, {})
    part, found = MCMAHAN2017.part("hartoyo"), Found(series={"hartoyo-task1-iid": kept})
    text = part.text(found)
    assert "| IID | fedloom | 50 | 97.00% | 97.00% | 97.00% |" in text
    assert "| shards | Hartoyo Putra | 1,008 | 97.56% | 96.83% | 97.02% |" in text
    assert "| shards | fedloom | – | – | – | – |" in text
    [picture] = part.pictures(found)
    accuracy, loss = picture.figure.axes
    assert len([line for line in accuracy.lines if "so far" in str(line.get_label())]) == 3
    assert accuracy.get_ylabel() == "accuracy"
    assert loss.get_ylabel() == "loss"


def test_his_third_task_has_a_curve_for_each_of_six() -> None:
    part = MCMAHAN2017.part("hartoyo")
    trials = tuple(Trial(0.1, 1.0, seed, "", ((0, 0.1), (9, 0.97), (20 + seed, 0.99))) for seed in range(3))
    mine = [c.name for c in part.cells if c.name.startswith(("cnn-iid-C0.1-E1-", "cnn-iid-C0.1-E20"))]
    assert len(mine) == 6
    [picture] = part.pictures(Found({name: Outcome(name, trials, {}) for name in mine}))
    assert picture.name == "hartoyo-task3"
    panel = picture.figure.axes[0]
    assert panel.get_title() == "MNIST CNN, IID"
    lines = [line for line in panel.lines if str(line.get_label())[0] != "_"]
    assert {line.get_label() for line in lines} == {f"E = {e}, B = {b}" for e in (1, 20) for b in (10, 50, "∞")}
    assert all(list(line.get_xdata()) == [9, 20] for line in lines)  # the first seed's


def test_grids_are_only_what_he_ran() -> None:
    *_, third = MCMAHAN2017.part("hartoyo").grids
    assert len(third.rows) == 6
    assert third.rows[0][1][0].published["hartoyo"] == pytest.approx(793)
