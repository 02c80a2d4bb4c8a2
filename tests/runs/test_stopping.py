import pytest
from quadratic import points, quadratic

import fedloom as fl
from fedloom.errors import ArgumentError
from fedloom.runs import History, Stop


def history(*accuracies: float) -> History:
    costs = lambda i: {"bytes_up": 10.0 * i, "bytes_down": 5.0 * i, "clock": 7.0 * i}  # noqa: E731
    rows = ({"round": i, "seconds": 2.0 * i, "test_accuracy": a, **costs(i)} for i, a in enumerate(accuracies))
    return History(tuple(rows))


@pytest.mark.parametrize(
    ("stop", "accuracies", "reason"),
    [
        (Stop(rounds=2), [0.1, 0.2, 0.3], "did 2 rounds"),
        (Stop(rounds=9), [0.1, 0.2, 0.3], None),
        (Stop(seconds=4), [0.1, 0.2, 0.3], "took 4 seconds"),
        (Stop(seconds=5), [0.1, 0.2, 0.3], None),
        (Stop(until_bytes=30), [0.1, 0.2, 0.3], "sent 30 bytes"),
        (Stop(until_bytes=31), [0.1, 0.2, 0.3], None),
        (Stop(until_clock=14), [0.1, 0.2, 0.3], "took 14 seconds by the clock"),
        (Stop(until_clock=15), [0.1, 0.2, 0.3], None),
        (Stop(target=0.3, monitor="test_accuracy"), [0.1, 0.2, 0.3], "test accuracy reached 0.3"),
        (Stop(target=0.31, monitor="test_accuracy"), [0.1, 0.2, 0.3], None),
        (
            Stop(patience=2, monitor="test_accuracy"),
            [0.1, 0.5, 0.2, 0.3],
            "test accuracy has not improved for 2 rounds",
        ),
        (Stop(patience=3, monitor="test_accuracy"), [0.1, 0.5, 0.2, 0.3], None),
        (Stop(rounds=2, target=0.3, monitor="test_accuracy"), [0.1, 0.2, 0.3], "test accuracy reached 0.3"),
    ],
)
def test_rules(stop: Stop, accuracies: list[float], reason: str | None) -> None:
    assert stop.reason(history(*accuracies)) == reason


@pytest.mark.parametrize("name", ["rounds", "patience", "seconds"])
def test_bad_arguments(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"{name} must be"):
        Stop(**{name: 0})


def test_a_monitor_that_nothing_looks_at_is_refused() -> None:
    with pytest.raises(ArgumentError, match="monitor must be left alone without a target, patience or keep best"):
        Stop(monitor="test_loss")


def test_a_run_stops_at_its_budget() -> None:
    """A round of four clients sends eight models of two numbers, and takes a second: one step each, no delays."""
    work = points([4.0, -1.0, 2.0, 0.5]), quadratic(), fl.fedavg(fraction=1.0, batch_size=None)
    assert fl.run(*work, until_bytes=3 * 64, evaluate=["test"]).history.last("round") == 3
    timed = fl.run(*work, until_clock=4.5, clock=fl.engines.clock(1.0), evaluate=["test"])
    assert (timed.history.last("round"), timed.stopped) == (5, "took 4.5 seconds by the clock")
    with pytest.raises(ArgumentError, match="until_clock must be left alone without a clock"):
        fl.run(*work, until_clock=4.5)
    with pytest.raises(ArgumentError, match="until_clock must be left alone without a clock"):
        fl.Experiment(until_clock=5.0)
    with pytest.raises(ArgumentError, match="until_bytes must be above 0"):
        Stop(until_bytes=0)
