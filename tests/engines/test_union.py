from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms import Method, fedsgd
from fedloom.data import FederatedData
from fedloom.engines import Compiled, compiled
from fedloom.tasks import Batch, Task, Variables, classification, logistic
from fedloom.trees import member

Make = Callable[..., FederatedData]
UNBALANCED = [3, 40, 200, 7, 100, 65, 1, 12]
TASK = logistic(inputs=4, classes=3)


def after(engine: Compiled, data: FederatedData, algorithms: list[Method], task: Task = TASK) -> Any:
    program = engine.program(data, task, algorithms, list(range(5, 5 + len(algorithms))))
    state, did = program.advance(program.init(), 0, 3)
    return program, state, did


def is_same(a: Any, b: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), a, b)


@pytest.mark.parametrize("engine", [compiled(devices=1, lanes=2), compiled(lanes=2)], ids=["one device", "all cores"])
@pytest.mark.parametrize(("sizes", "weighting"), [(UNBALANCED, "uniform"), ([20] * 6, "size")])
def test_one_batch_is_what_clients_come_to_apart(
    generated: Make, engine: Compiled, sizes: list[int], weighting: str
) -> None:
    by = {"size": fl.combine.by_size, "uniform": fl.combine.uniform}[weighting]
    data, how = generated(sizes), [fedsgd(fraction=0.7, lr=lr, weighting=by) for lr in (0.5, 0.1)]
    program, together, did = after(engine, data, how)
    assert program.plan.union
    for i, one in enumerate(how):
        apart = compiled(devices=1).program(data, TASK, [one], [5 + i])
        assert apart.plan.union is None
        wanted, _ = apart.advance(apart.init(), 0, 3)
        is_same(member(together, i).variables, member(wanted, 0).variables)
    assert (did.computed >= program.steps(program.cohorts(0, 3)).sum(2)).all()


def test_few_rows_are_idle_however_unequal_clients_are(generated: Make) -> None:
    sizes = np.random.default_rng(0).lognormal(3, 1.5, 60).astype(int) + 1
    program, _, did = after(compiled(devices=1, lanes=4), generated(sizes.tolist()), [fedsgd(fraction=0.5)])
    useful = program.steps(program.cohorts(0, 3)).sum((1, 2))
    assert useful.tolist() == [sizes[c].sum() for c in program.cohorts(0, 3)[:, 0]]
    assert (useful.sum() / did.computed.sum()) > 0.9


def drawing() -> Task:
    """A model that draws something at random."""

    def loss(variables: Variables, batch: Batch, key: jax.Array) -> tuple[jax.Array, dict]:
        losses, state = TASK.loss(variables, batch, key)
        return losses * jax.random.uniform(key), state

    return Task("drawing", TASK.init, loss, TASK.metrics, 3)


def counting() -> Task:
    """A model with a state."""
    init = lambda key: Variables(TASK.init(key).params, {"seen": jax.numpy.zeros(())})  # noqa: E731
    apply = lambda v, x, key: (x @ v.params["output"]["w"], {"seen": v.state["seen"] + 1})  # noqa: E731, ARG005
    return classification("counting", init, apply, 3)


@pytest.mark.parametrize(
    ("options", "task"),
    [
        ({"optimizer": "momentum"}, TASK),
        ({"combiner": fl.combine.median()}, TASK),
        ({"combiner": fl.combine.clipped(1.0)}, TASK),
        ({"weighting": fl.combine.by_accuracy("training")}, TASK),
        ({}, drawing()),
        ({}, counting()),
    ],
    ids=["momentum", "median", "clipped", "by accuracy", "drawing", "counting"],
)
def test_who_must_be_known_apart_is_computed_apart(generated: Make, options: dict[str, Any], task: Task) -> None:
    data = generated(UNBALANCED)
    plan = lambda how, task: compiled(devices=1, lanes=2).program(data, task, [how], [0]).plan  # noqa: E731
    assert plan(fedsgd(fraction=0.7), TASK).union
    assert plan(fedsgd(fraction=0.7, **options), task).union is None


def test_several_steps_are_taken_apart(generated: Make) -> None:
    program = compiled(devices=1, lanes=2).program(
        generated(UNBALANCED), TASK, [fl.fedavg(batch_size=None, epochs=e) for e in (1, 2)], [0, 0]
    )
    assert program.plan.union is None


def test_a_piece_has_at_most_so_many_rows_as_are_asked_for(generated: Make) -> None:
    how = fedsgd(fraction=0.7, microbatch=5)
    program = compiled(devices=1, lanes=2).program(generated([40] * 6), TASK, [how], [0])
    assert program.plan.union == 5
