import pytest

from fedloom.errors import ArgumentError
from fedloom.runs import History, Stop


def history(*accuracies: float) -> History:
    return History(tuple({"round": i, "seconds": 2.0 * i, "test_accuracy": a} for i, a in enumerate(accuracies)))


@pytest.mark.parametrize(
    ("stop", "accuracies", "reason"),
    [
        (Stop(rounds=2), [0.1, 0.2, 0.3], "did 2 rounds"),
        (Stop(rounds=9), [0.1, 0.2, 0.3], None),
        (Stop(seconds=4), [0.1, 0.2, 0.3], "took 4 seconds"),
        (Stop(seconds=5), [0.1, 0.2, 0.3], None),
        (Stop(target=0.3), [0.1, 0.2, 0.3], "test accuracy reached 0.3"),
        (Stop(target=0.31), [0.1, 0.2, 0.3], None),
        (Stop(patience=2), [0.1, 0.5, 0.2, 0.3], "test accuracy has not improved for 2 rounds"),
        (Stop(patience=3), [0.1, 0.5, 0.2, 0.3], None),
        (Stop(rounds=2, target=0.3), [0.1, 0.2, 0.3], "test accuracy reached 0.3"),
    ],
)
def test_rules(stop: Stop, accuracies: list[float], reason: str | None) -> None:
    assert stop.reason(history(*accuracies)) == reason


@pytest.mark.parametrize("name", ["rounds", "patience", "seconds"])
def test_bad_arguments(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"{name} must be"):
        Stop(**{name: 0})
