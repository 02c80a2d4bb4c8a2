from pathlib import Path

import pytest

import fedloom.recipes.series as curves
from fedloom.errors import CheckpointError
from fedloom.recipes.recorded import recorded_fields
from fedloom.recipes.series import Kept, Series
from fedloom.runs import Experiment

QUICK = Experiment(model="logistic", clients=600, fraction=0.01, rounds=3, evaluate="train,test")


def test_a_series_has_every_accuracy_and_loss() -> None:
    columns = Series("a", QUICK).run()
    assert list(columns) == ["round", "train_accuracy", "train_loss", "test_accuracy", "test_loss"]
    assert columns["round"] == [0, 1, 2, 3]
    assert columns["test_accuracy"][-1] > columns["test_accuracy"][0]


def test_a_series_that_diverges_ends_there() -> None:
    columns = Series("a", QUICK.replace(model="2nn", lr=1e6)).run()
    assert columns["round"] == [0]


def test_a_series_may_make_its_own_columns() -> None:
    assert Series("a", QUICK, lambda e, begin: {"rate": [e.lr]}).run() == {"rate": [0.1]}  # noqa: ARG005


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    assert curves.read("a", tmp_path) is None
    kept = Kept("a", {"round": [0, 1], "test_loss": [2.5, 1.25]}, {"device": "CPU"})
    curves.write(kept, tmp_path)
    assert curves.read("a", tmp_path) == kept
    assert kept.history.last("test_loss") == 1.25
    columns = "{}", '{"round": []}'
    for content in ('{"series": "a"', '{"series": "b", "columns": {"round": [0]}}',
                    *(f'{{"series": "a", "columns": {none}}}' for none in columns)):  # fmt: skip
        (tmp_path / "a.json").write_text(content)
        with pytest.raises(CheckpointError, match=r"a.json is damaged"):
            curves.read("a", tmp_path)


def test_a_history_whose_columns_differ_in_length_is_told_of(tmp_path: Path) -> None:
    kept = Kept("a", {"round": [0, 1], "test_loss": [2.5]}, {"experiment": recorded_fields(QUICK)})
    with pytest.raises(CheckpointError, match=r"a.json is damaged \(some columns are longer\): delete it"):
        curves.check(Series("a", QUICK), kept, tmp_path)
    curves.check(Series("a", QUICK, lambda e, begin: {}), kept, tmp_path)  # noqa: ARG005


def test_a_series_is_the_same_in_whichever_precision(tmp_path: Path) -> None:
    series = Series("one", Experiment(lr=0.2))
    kept = lambda **changes: Kept("one", {}, {"experiment": recorded_fields(series.experiment.replace(**changes))})  # noqa: E731
    curves.check(series, kept(precision="bfloat16"), tmp_path)
    with pytest.raises(CheckpointError, match="is of another experiment"):
        curves.check(series, kept(precision="bfloat16", lr=0.3), tmp_path)


def test_a_column_that_is_missing_names_the_file(tmp_path: Path) -> None:
    curves.write(Kept("a", {"theta": [0.0]}, {}), tmp_path)
    kept = curves.read("a", tmp_path)
    assert kept is not None
    assert kept.columns["theta"] == [0.0]
    with pytest.raises(CheckpointError, match=r"a.json is damaged \(no column 'shared'\): delete it"):
        kept.columns["shared"]
