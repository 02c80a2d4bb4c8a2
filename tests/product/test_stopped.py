"""Participants that would never end their work stop when the server's round is nearly over."""

from dataclasses import replace

import pytest
from product.cases import WORK, case
from product.engines import network

import fedloom as fl


@pytest.mark.slow
def test_a_round_ends_in_time_with_what_there_is() -> None:
    """A hundred million epochs would take an hour: the updates of both rounds come in time, with their steps."""
    algorithm = fl.fedprox(0.5, **{**WORK, "epochs": 100_000_000, "lr": 1e-3}, fraction=1.0)
    run = network(replace(case("fedprox"), algorithm=algorithm, rounds=2), deadline=6.0, late="stopped")
    assert run.history.last("round") == 2
    assert run.history.last("replies") == 5
    assert 10 < run.history.last("steps") < 1e9
    assert run.history.last("update_norm") > 0
