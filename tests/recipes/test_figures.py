from fedloom.recipes.cell import Outcome, Trial
from fedloom.recipes.figures import between, epochs, rates, work
from fedloom.recipes.series import Kept

TRIAL = Trial(0.1, 0.99, 0, "", ((0, 0.1), (1, 0.5), (2, 0.4), (3, 0.85)))


def test_the_loss_between_two_models() -> None:
    kept = Kept("figure1", {"theta": [0.0, 0.5, 1.0], "shared": [3, 1, 2], "independent": [1, 5, 2]}, {})
    independent, shared = between(kept).axes
    assert independent.get_title() == "independent initialisation"
    assert shared.lines[0].get_ydata().tolist() == [3, 1, 2]
    assert list(shared.lines[1].get_ydata()) == [2, 2]  # the better of the two models


def test_accuracy_against_rounds_is_best_so_far() -> None:
    panels = {"a": {(1, "10"): TRIAL, (20, "all"): TRIAL}, "b": {(1, "50"): TRIAL}}
    figure = work(panels, {"a": 0.99, "b": 0.54})
    first, second, *_ = figure.axes
    assert first.lines[0].get_xdata().tolist() == [1, 2, 3]  # round 0 has no place on a logarithmic axis
    assert first.lines[0].get_ydata().tolist() == [0.5, 0.5, 0.85]
    names = ["E = 1, B = 10", "E = 20, B = ∞", "E = 1, B = 50"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == names
    assert first.lines[0].get_linestyle() != first.lines[1].get_linestyle()
    assert list(second.lines[-1].get_ydata()) == [0.54, 0.54]


def test_training_loss_for_many_epochs() -> None:
    kept = Kept("a", {"round": [0, 1], "train_loss": [2.0, 1.0]}, {})
    rounded = Kept("b", kept.columns, {"experiment": {"precision": "bfloat16"}})
    [axes] = epochs({"CNN": [(1, kept), (5, rounded)]}).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["E = 1", "E = 5*"]


def test_several_rates_of_two_algorithms() -> None:
    outcome = Outcome("a", (TRIAL, Trial(0.2, 1.0, 0, "", ((0, 0.1), (3, 0.2)))), {})
    [axes] = rates({"FedAvg": outcome}, (0.8, 0.85)).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["FedAvg, η = 0.1, decay 0.99"]
