"""What all ways to select clients have in common, and that every engine selects the same clients."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weather import TINY

import fedloom as fl
from fedloom.data import FederatedData
from fedloom.errors import ArgumentError, UnknownName
from fedloom.federation.arithmetic import arithmetic
from fedloom.runs import Experiment
from fedloom.runs.roster import roster
from fedloom.selection import SELECTIONS, cohorts, preference
from fedloom.tasks import logistic

SIZES = [3, 9, 5, 7, 1, 4, 4]
SEEDS = [0, 2**32 - 1]
ROUNDS = 12


@pytest.mark.parametrize("selection", SELECTIONS)
@settings(deadline=None)  # a call may compile
@given(
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=12),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
    first=st.integers(0, 1000),
)
def test_cohorts_are_different_clients_and_lead_the_order(
    selection: str, sizes: list[int], share: float, seed: int, first: int
) -> None:
    clients, examples = len(sizes), np.array(sizes)
    m = max(1, round(share * clients))
    found = cohorts(selection, np.array([seed], np.uint32), first + np.arange(3), examples, m)[:, 0]
    for i, cohort in enumerate(found.tolist()):
        order = preference(selection, seed, first + i, examples, m).tolist()
        assert cohort == order[:m]
        assert sorted(order) == list(range(clients))


@pytest.mark.parametrize("selection", SELECTIONS)
def test_rounds_asked_together_or_alone_have_the_same_cohorts(selection: str) -> None:
    seeds = np.array(SEEDS, np.uint32)
    together = cohorts(selection, seeds, np.arange(ROUNDS), np.array(SIZES), 3)
    for round in reversed(range(ROUNDS)):
        for x, seed in enumerate(SEEDS):
            alone = cohorts(selection, np.array([seed], np.uint32), np.array([round]), np.array(SIZES), 3)
            assert (alone[0, 0] == together[round, x]).all()


@pytest.mark.parametrize("selection", SELECTIONS)
def test_every_engine_selects_the_same_clients(selection: str, generated: Callable[..., FederatedData]) -> None:
    data, algorithm = generated(SIZES), fl.fedavg(fraction=0.4, selection=selection)
    program = fl.engines.compiled(devices=1).program(data, logistic(4, 3), [algorithm] * 2, SEEDS)
    simulated = program.asked(0, ROUNDS)
    assert simulated.shape == (ROUNDS, 2, 3)
    for x, seed in enumerate(SEEDS):
        server = arithmetic(TINY, algorithm, seed)
        present = roster(selection, np.array(SIZES), len(SIZES), 3, seed)
        visited = roster(selection, np.array(SIZES), 3, 1, seed)
        for round, cohort in enumerate(simulated[:, x].tolist()):
            assert server.preference(round, SIZES)[:3] == cohort
            assert np.flatnonzero(present(round) >= 0).tolist() == sorted(cohort)
            assert visited(round).tolist() == cohort


def test_selections_change_the_model(generated: Callable[..., FederatedData]) -> None:
    losses = set()
    for selection in ("uniform", "once"):
        algorithm = fl.fedavg(fraction=0.4, selection=selection, lr=0.5)
        losses.add(fl.run(generated(SIZES), logistic(4, 3), algorithm, rounds=3, every=3).history.last("test_loss"))
    assert len(losses) == 2


@pytest.mark.parametrize("make", [fl.fedavg, fl.ifca, fl.personalised, fl.local_only, fl.fedprox, fl.fedsgd])
def test_algorithms_name_their_selection(make: Callable[..., fl.Method]) -> None:
    assert make(selection="once").describe()["selection"] == "once"
    assert "selection" not in make().describe()
    with pytest.raises(UnknownName, match="selection must be one of fixed, once, round-robin, size, uniform"):
        make(selection="some")
    with pytest.raises(
        ArgumentError, match="selection must be left alone with fraction 1, with which all clients take"
    ):
        make(selection="once", fraction=1.0)


@pytest.mark.parametrize(("fields", "why"), [
    ({"algorithm": "dpa-sgd"}, "with algorithm dpa-sgd, which has no use for it"),
    ({"algorithm": "central"}, "with algorithm central, which has no use for it"),
    ({"fraction": 1.0}, "with fraction 1, with which all clients take part"),
])  # fmt: skip
def test_a_selection_without_effect_is_an_error(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ArgumentError, match=f"selection must be left alone {why}, but is 'once'"):
        Experiment(selection="once", **fields)


def test_a_sweep_over_selections(generated: Callable[..., FederatedData]) -> None:
    data, task, method = generated(SIZES), logistic(4, 3), fl.fedavg(fraction=0.4)
    runs = fl.sweep(data, task, method, selection=["fixed", "once"], rounds=2, every=2)
    assert [run.label for run in runs] == ["selection=fixed,seed=0", "selection=once,seed=0"]
    assert len({run.history.last("test_loss") for run in runs}) == 2
