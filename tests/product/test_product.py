"""Every method on every engine agrees with the compiled engine on one lane, or is refused in one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from hurry import hurried
from launched import MISSING
from often import often
from product import engines
from product.cases import (
    ENGINES,
    EQUAL_BITS,
    EXPECTED,
    METHODS,
    NOT_COMPARED,
    RUNS,
    TOLERANCE,
    case,
    reference,
)
from product.compare import difference, matches

from fedloom.errors import FedloomError
from fedloom.runs import Run
from fedloom.runs.methods import METHODS as NAMED
from fedloom.trees import flatten

pytestmark = [
    pytest.mark.filterwarnings(f"default:{MISSING[:14]}"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),  # of Ray
]
OFTEN = {
    "3 lanes": ("scaffold", "ifca", "personalised"),
    "2 devices": ("ditto", "dpa-sgd-mtl"),
    "reference": ("scaffold", "ifca", "personalised"),
    "processes": ("ditto",),
    "Ray": ("scaffold",),
    "MPI": ("scaffold", "ifca"),
    "MPI peers": ("fedavg", "dpa-sgd"),
    "network": ("scaffold", "fedrep"),
}
"""Engine → the methods that run every time; the others that run are slow. Refusals are tested every time."""
LEARNED = {method for methods in OFTEN.values() for method in methods}
COSTS = ("steps", "bytes_up", "bytes_down", "update_norm")


def cells() -> list[Any]:
    """Return every pair of an engine and a method, as parameters of a test."""
    found = []
    for engine, outcomes in EXPECTED.items():
        for method, expected in outcomes.items():
            is_slow = expected == RUNS and method not in OFTEN.get(engine, ())
            found.append(pytest.param(engine, method, marks=pytest.mark.slow if is_slow else ()))
    return found


@pytest.fixture(scope="module", autouse=True)
def _processes() -> Iterator[None]:
    """End what engines have started; programs that they compile are compiled quickly."""
    with pytest.MonkeyPatch.context() as here:
        here.setenv("XLA_FLAGS", hurried()["XLA_FLAGS"])
        yield
        engines.close()


def test_every_pair_is_expected_to_run_or_to_be_refused() -> None:
    assert set(METHODS) == set(NAMED)
    assert set(EXPECTED) == set(ENGINES)
    for engine, outcomes in EXPECTED.items():
        assert set(outcomes) == set(METHODS), engine


@pytest.mark.parametrize(("engine", "method"), cells())
def test_an_engine_computes_what_one_lane_does_or_refuses(engine: str, method: str) -> None:
    if engine == "2 devices" and len(jax.devices()) < 2:
        pytest.skip("there is one device")
    expected = EXPECTED[engine][method]
    try:
        run = ENGINES[engine](case(method))
    except FedloomError as error:
        assert expected != RUNS, f"{method} on {engine} is refused: {error}"
        assert re.search(expected, str(error)), f"{method} on {engine} is refused by another sentence: {error}"
        return
    assert expected == RUNS, f"{method} runs on {engine}: list it as RUNS"
    left_out = NOT_COMPARED.get(engine, ())
    found = difference(run, reference(method), left_out)
    assert found.models <= (0.0 if method in EQUAL_BITS.get(engine, ()) else TOLERANCE)
    assert found.history <= TOLERANCE
    assert not found.missing
    assert {name for name in COSTS if not matches(name, left_out)} <= set(found.compared)


@pytest.mark.parametrize("method", often(METHODS, LEARNED))
def test_the_reference_has_learned_something(method: str) -> None:
    run = reference(method)
    assert run.history.last("steps") > 0
    assert run.history.last("update_norm") > 0.01
    first, last = (next(v for name, v in row.items() if name.endswith("test_loss"))
                   for row in (run.history.rows[0], run.history.rows[-1]))  # fmt: skip
    assert last < first


@pytest.mark.slow
def test_methods_differ_from_each_other() -> None:
    """A method whose own part had no effect would agree with another on every engine."""
    each = {method: flatten(reference(method).of(0)) for method in METHODS}
    for one in each:
        for other in each:
            same = all(np.allclose(a, each[other][name], atol=1e-4) for name, a in each[one].items())
            assert same == (one == other), (one, other)


def test_a_difference_is_noticed_in_models_costs_and_rows() -> None:
    run = reference("ditto")
    assert difference(run, run).models == difference(run, run).history == 0
    moved = replace(run, own=lambda k: jax.tree.map(lambda a: a + 1e-3 * (k == 3), run.of(k)))
    assert difference(moved, run).models == pytest.approx(1e-3, rel=0.1)
    rows = run.history.rows
    assert difference(with_rows(run, [*rows[:-1], {**rows[-1], "bytes_up": 0.0}]), run).history == 1.0
    without = with_rows(run, [{name: v for name, v in row.items() if name != "test_loss"} for row in rows])
    assert difference(without, run).missing == ("test_loss",)
    assert np.isnan(difference(with_rows(run, [{**row, "steps": np.nan} for row in rows]), run).history)


def with_rows(run: Run, rows: list[Any]) -> Run:
    return replace(run, history=replace(run.history, rows=tuple(rows)))
