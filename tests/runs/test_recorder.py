import math

import pytest

from fedloom.runs.history import History, Row
from fedloom.runs.recorder import Recorder
from fedloom.runs.stopping import Stop


def recorded(stop: Stop, *losses: float) -> Recorder:
    """A recorder after a round for each loss."""
    recorder = Recorder(History(), stop)
    for i, loss in enumerate(losses):
        recorder, decision = recorder.add(row(i + 1, loss))
        assert not decision.has_ended
    return recorder


def row(round: int, loss: float) -> Row:
    return {"round": round, "update_norm": 0.5, "test_loss": loss}


def test_the_rules_decide_after_every_row() -> None:
    recorder = recorded(Stop(rounds=9, target=0.2, monitor="test_loss", keep="last"), 0.5, 0.4)
    assert (recorder.round, recorder.last) == (2, row(2, 0.4))
    longer, decision = recorder.add(row(3, 0.1))
    assert (decision.status, decision.reason, decision.has_ended) == ("finished", "test loss reached 0.2", True)
    assert longer.decide() == decision  # as in a run that is resumed
    assert len(recorder.history) == 2  # the recorder before is what it was


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_ends_the_run_without_its_row(value: float) -> None:
    recorder = recorded(Stop(rounds=3), 0.5, 0.4)
    after, decision = recorder.add(row(3, value))
    assert (decision.status, decision.has_diverged) == ("diverged", True)
    assert decision.reason == f"test loss is {value} after round 3"
    assert after == recorder
    assert math.isclose(decision.shown.last("round"), 3) and len(decision.shown) == 3


def test_where_numbers_need_not_be_finite_the_row_stays() -> None:
    recorder, decision = recorded(Stop(rounds=3), 0.5).add(row(2, math.nan), must_be_finite=False)
    assert (decision.status, len(recorder.history)) == ("running", 2)


def test_before_the_first_row_a_run_goes_on() -> None:
    recorder = Recorder(History(), Stop(rounds=1))
    assert (recorder.last, recorder.round, recorder.best, recorder.last_is_best) == (None, 0, None, False)
    assert not recorder.decide().has_ended


def test_the_best_row_is_the_first_one_with_the_best_value() -> None:
    stop = Stop(rounds=9, monitor="test_loss", patience=5)
    assert recorded(stop, 0.5, 0.3).last_is_best
    recorder = recorded(stop, 0.5, 0.3, 0.3)
    assert recorder.best == row(2, 0.3) and not recorder.last_is_best
    assert recorded(Stop(rounds=9, monitor="test_loss", patience=5, keep="last"), 0.5, 0.3).best is None
