"""The recipe's sums, on curves that are made up and on a run that is small."""

from typing import Any

import pytest

import fedloom.recipes.dpasgd2019 as recipe
from fedloom.recipes.conduct import Conduct
from fedloom.recipes.dpasgd2019 import CLOCKS, DPASGD2019, METHODS, RING, SERVER, SETS
from fedloom.recipes.part import Found
from fedloom.recipes.series import Kept


def kept(name: str, curves: list[list[float]], seconds: float) -> Kept:
    """Evaluations in rounds 0, 10 and 20, with so many seconds a round by every clock."""
    columns: dict[str, Any] = {"round": [0, 10, 20]} | {f"{i} test_accuracy": c for i, c in enumerate(curves)}
    return Kept(name, columns | {f"clock {c}": [0, 10 * seconds, 20 * seconds] for c in CLOCKS}, {"seconds": 1.0})


SLOW = kept("a", [[0.1, 0.5, 0.9], [0.1, 0.7, 0.9]], seconds=2.0)
FAST = kept("b", [[0.1, 0.9, 0.9], [0.1, 0.9, 0.9]], seconds=1.5)


def test_rounds_and_seconds_to_a_target() -> None:
    """The first seed crosses 0.8 after 17.5 rounds, the second after 15."""
    assert recipe.reached(SLOW, 0.8).mean == pytest.approx(16.25)
    assert recipe.reached(SLOW, 0.8, "1 s").mean == pytest.approx(32.5)
    assert recipe.reached(SLOW, 0.95) is None


def test_what_is_saved() -> None:
    """A quarter a round; to 0.5, 5 rounds of 1.5 s against the mean of 10 and 20/3 rounds of 2 s."""
    a_round, to_target = recipe.saved({RING: FAST, SERVER: SLOW}, 0.5, RING, SERVER, "3 s")
    assert a_round == pytest.approx(0.25)
    assert to_target == pytest.approx(1 - 5 * 1.5 / (2 * (10 + 20 / 3) / 2))
    told = recipe.verdict({RING: FAST, SERVER: SLOW}, 0.5)
    assert "claimed: about 20 %" in told
    assert f"against {SERVER}: compute alone: +25 % and +55 %" in told


def test_what_it_means_is_told_when_all_is_recorded() -> None:
    """A quarter of the time less, and five points less accurate in the end, with every seed."""
    low = kept("c", [[0.1, 0.92, 0.90], [0.1, 0.92, 0.90]], seconds=1.5)
    high = kept("d", [[0.1, 0.92, 0.95], [0.1, 0.92, 0.95]], seconds=2.0)
    every = {recipe.named(part, m): low if m.startswith("ring") else high for part in SETS for m in METHODS}
    told = recipe.meaning(Found({}, every))
    assert "What it means: a ring gets there sooner, and ends less accurate." in told
    assert f"| MNIST by writer: {RING} against FedAvg | +25 % to +25 % | -5.00 [-5.00, -5.00] |" in told
    assert "sooner" not in recipe.meaning(Found({}, dict.fromkeys(every, high)))
    assert recipe.meaning(Found({}, dict(list(every.items())[1:]))) == ""


def test_every_part_shows_what_is_recorded_and_nothing_else() -> None:
    for name in DPASGD2019.parts:
        part = DPASGD2019.part(name)
        series = {s.name: s for s in part.series(Found())}
        assert part.text(Found()) == ""
        assert list(part.pictures(Found())) == []
        if name != "rates":
            some = Found({}, dict.fromkeys(list(series)[:2], SLOW))
            assert "90.00%" in part.text(some)
            assert len(list(part.pictures(some))) == 1


def test_experiments_differ_in_what_they_should() -> None:
    ring = recipe.experiment("mnist", RING, topology="line")
    assert (ring.algorithm, ring.topology, ring.period, ring.most) == ("dpa-sgd-mtl", "line", 7, 64)
    assert recipe.experiment("shakespeare", "FedAvg").fraction == 1.0


def test_a_run_is_timed_by_every_clock(monkeypatch: pytest.MonkeyPatch, generated: Any) -> None:
    """Two rounds of a pass over 10 examples in one batch: a step a round, of 10 ms; three models, and the server."""
    data = generated([10, 10, 10])
    monkeypatch.setattr(recipe, "federated", lambda _: data)
    monkeypatch.setattr("fedloom.recipes.repeated.federated", lambda _: data)
    e = recipe.BASE.replace(algorithm="fedavg", fraction=1.0, model="logistic", rounds=2, every=1)
    columns = recipe.timed(2)(e, Conduct())
    size = 4 * (4 * 3 + 3)
    assert columns["clock compute alone"] == pytest.approx([0, 0.01, 0.02])
    way = size * max(3 / 125e6, 1 / 12.5e6)
    assert columns["clock 1 s"] == pytest.approx([0, 2.01 + 2 * way, 4.02 + 4 * way])
    assert {"round", "0 test_accuracy", "1 test_accuracy"} < set(columns)
