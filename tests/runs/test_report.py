from io import StringIO

import numpy as np
from rich.console import Console

from fedloom.runs.history import History
from fedloom.runs.report import as_json, beside, headline, summary
from fedloom.runs.result import Run
from fedloom.tasks import Variables


def run(*rows: dict[str, float]) -> Run:
    costs = {"steps": 4.0, "bytes_up": 1e6, "bytes_down": 1e6, "seconds": 2.0}
    history = History(tuple({"round": i, **costs, **row} for i, row in enumerate(rows)))
    return Run("a", history, Variables({}, {}), "did 2 rounds")


def printed(one: Run) -> str:
    console = Console(file=StringIO(), width=120)
    console.print(summary(one))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_beside_the_union_it_is_said_how_the_rate_decays() -> None:
    two = run({"test_accuracy": 0.5}), run({"test_accuracy": 0.6})
    told = "The learning rate decays over the same work: by 0.9 a round, 0.3487 a pass."
    assert beside(*two, 0.1, (0.9, 0.9**10)).endswith(told)
    assert "decays" not in beside(*two, 0.1)


def test_beside_the_union_own_models_are_named_as_such() -> None:
    shared = (
        "Test accuracy in the last round: federated, 2 passes over the data, 50.00%; on the union, 0 passes, 60.00%."
    )
    assert beside(run({"test_accuracy": 0.5}), run({"test_accuracy": 0.6}), 2.0) == shared
    numbers = "Test error in the last round: federated, 2 passes over the data, 7.0000; on the union, 0 passes, 5.0000."
    assert beside(run({"test_error": 7.0, "test_loss": 1.0}), run({"test_error": 5.0}), 2.0) == numbers
    own = beside(run({"own_test_accuracy": 0.9}), run({"test_accuracy": 0.6}), 2.0)
    assert "over the data, 90.00% (own models on own data); on the union" in own


def test_a_summary_tells_the_last_round_and_the_best_on_validation_data_only() -> None:
    text = printed(run(
        {"validation_accuracy": 0.7, "test_accuracy": 0.91, "test_loss": 0.25},
        {"validation_accuracy": 0.6, "test_accuracy": 0.95, "test_loss": 0.5},
    ))  # fmt: skip
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    assert rows == [["validation", "60.00%", ""], ["test", "95.00%", "0.5000"]]
    assert "Best validation accuracy: 70.00%, in round 0; test accuracy in that round: 91.00%." in text
    assert "Best" not in printed(run({"test_accuracy": 0.9}, {"test_accuracy": 0.8}))


def test_a_summary_names_own_models() -> None:
    text = printed(run({"test_accuracy": 0.8, "own_test_accuracy": 0.9}))
    assert "test, own models on own data │   90.00%" in text and "test                         │   80.00%" in text
    assert headline([run({"test_accuracy": 0.8, "own_test_accuracy": 0.9}).history]) == "own test 90.00%  test 80.00%"


def test_a_script_is_told_what_the_extremes_are() -> None:
    first, last = (
        {"test_accuracy": a, "test_loss": b, "test_mae": c} for a, b, c in ((0.9, 0.1, 3.0), (0.8, 0.2, 2.0))
    )
    told = as_json(run(first, last))
    assert (told["test_accuracy"], told["max_over_rounds_test_accuracy"]) == (0.8, 0.9)
    assert (told["test_loss"], told["min_over_rounds_test_loss"]) == (0.2, 0.1)
    assert not any(name.startswith("best") or name.endswith("rounds_test_mae") for name in told)
    assert np.isfinite(told["test_mae"])
