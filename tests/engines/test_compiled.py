"""One suite for every way of laying a round out: the same seed gives the same model."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from often import often

from fedloom.algorithms import Method, fedavg
from fedloom.data import FederatedData
from fedloom.engines import Compiled, compiled
from fedloom.errors import ArgumentError
from fedloom.tasks import Task, Variables, classification, logistic
from fedloom.trees import member

Make = Callable[..., FederatedData]
UNBALANCED = [3, 40, 200, 7, 100, 65, 1, 12]
LAYOUTS = {
    "one core": compiled(devices=1),
    "side by side": compiled(devices=1, lanes=6),
    "few lanes": compiled(devices=1, lanes=2),
    "lanes on every core": compiled(lanes=2),
    "streamed": compiled(stream=True),
    "streamed side by side": compiled(devices=1, lanes=3, stream=True),
}
ALGORITHMS = {
    "fedavg": fedavg(fraction=0.7, batch_size=10, epochs=2),
    "whole sets": fedavg(fraction=0.7, local=None, batch_size=None, epochs=2, microbatch=30),
    "adam": fedavg(fraction=0.7, optimizer="adam", lr=0.01),
    "one client": fedavg(fraction=0.0),
    "everybody, decaying": fedavg(fraction=1.0, decay=0.5),
}
TASK = logistic(inputs=4, classes=3)


def outcome(engine: Compiled, data: FederatedData, algorithm: Method, task: Task = TASK, rounds: int = 3) -> Any:
    program = engine.program(data, task, [algorithm], [5])
    state, did = program.advance(program.init(), 0, rounds)
    return program, member(state, 0), did


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("layout", often(LAYOUTS, ("streamed side by side",)))
def test_every_layout_gives_the_same_model(generated: Make, layout: str, algorithm: str) -> None:
    data = generated(UNBALANCED)
    program, wanted, _ = outcome(compiled(), data, ALGORITHMS[algorithm])
    other, got, did = outcome(LAYOUTS[layout], data, ALGORITHMS[algorithm])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), got.variables, wanted.variables)
    for split in ("train", "test"):
        a, b = (p.evaluate(jax.tree.map(lambda x: x[None], s), split) for p, s in ((program, wanted), (other, got)))
        np.testing.assert_allclose(a[f"{split}_loss"], b[f"{split}_loss"], rtol=1e-5)
        assert a[f"{split}_accuracy"] == b[f"{split}_accuracy"]
    useful = other.steps(other.cohorts(0, 3)).sum((1, 2))
    assert (did.computed[:, 0] >= useful).all()


def test_one_after_another_computes_exactly_the_steps_there_are(generated: Make) -> None:
    _, _, did = outcome(compiled(), generated(UNBALANCED), fedavg(fraction=1.0, epochs=2))
    assert did.computed[:, 0].tolist() == [2 * sum(-(-n // 10) for n in UNBALANCED)] * 3


def test_lanes_waste_little_on_an_unbalanced_cohort(generated: Make) -> None:
    sizes = np.random.default_rng(0).lognormal(np.log(60), 1.2, 200).clip(1, 3000).astype(int)
    algorithm = fedavg(fraction=0.5)
    lanes = max(1, int(100 * np.ceil(sizes / 10).mean() / np.ceil(sizes / 10).max()))
    program, _, did = outcome(compiled(devices=1, lanes=lanes), generated(sizes.tolist()), algorithm, rounds=5)
    assert program.steps(program.cohorts(0, 5)).sum() / did.computed.sum() > 0.9


def test_rounds_in_chunks_are_the_rounds_at_once(generated: Make) -> None:
    data = generated(UNBALANCED)
    program = compiled().program(data, TASK, [ALGORITHMS["fedavg"]], [5])
    at_once, _ = program.advance(program.init(), 0, 5)
    state, _ = program.advance(program.init(), 0, 2)
    state, _ = program.advance(state, 2, 3)
    jax.tree.map(np.testing.assert_array_equal, state, at_once)


def test_members_side_by_side_are_the_experiments_alone(generated: Make) -> None:
    data, engine = generated(UNBALANCED), compiled(devices=1, lanes=4)
    algorithms = [fedavg(fraction=0.7, lr=lr, epochs=e) for lr, e in ((0.05, 1), (0.2, 3), (0.1, 2))]
    together = engine.program(data, TASK, algorithms, [5, 6, 7])
    state, did = together.advance(together.init(), 0, 3)
    assert did.norm.shape == (3, 3)
    for i, (algorithm, seed) in enumerate(zip(algorithms, (5, 6, 7), strict=True)):
        program = engine.program(data, TASK, [algorithm], [seed])
        alone, _ = program.advance(program.init(), 0, 3)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), member(state, i), member(alone, 0)
        )


def test_learning_rates_epochs_and_seeds_compile_once(generated: Make) -> None:
    from fedloom.engines.round import advance

    data = generated([20, 20, 20])
    before = None
    for lr, epochs in ((0.1, 1), (0.2, 4), (0.3, 2)):
        outcome(compiled(), data, fedavg(lr=lr, epochs=epochs, decay=0.9), rounds=2)
        assert before is None or advance._cache_size() == before
        before = advance._cache_size()


def counting() -> Task:
    """A task whose non-trainable state counts the steps that trained it."""

    def init(key: Any) -> Variables:
        return Variables(TASK.init(key).params, {"steps": jnp.zeros(())})

    def apply(variables: Variables, x: Any, key: Any) -> tuple[Any, Any]:
        logits = x @ variables.params["output"]["w"] + variables.params["output"]["b"]
        return logits, {"steps": variables.state["steps"] + (key is not None)}

    return classification("counting", init, apply)


@pytest.mark.parametrize("lanes", [None, 3])
def test_non_trainable_state_is_carried_and_averaged(generated: Make, lanes: int | None) -> None:
    data = generated([10, 30])  # 1 and 3 steps, weights 1/4 and 3/4
    _, state, _ = outcome(compiled(devices=1, lanes=lanes), data, fedavg(fraction=1.0), counting(), rounds=2)
    assert float(state.variables.state["steps"]) == 2 * (0.25 * 1 + 0.75 * 3)


def test_cohorts_are_different_clients_and_differ_by_round_and_seed(generated: Make) -> None:
    program = compiled().program(generated([5] * 40), TASK, [fedavg(fraction=0.25)] * 2, [0, 1])
    cohorts = program.cohorts(0, 50)
    assert cohorts.shape == (50, 2, 10)
    assert all(len(set(c.tolist())) == 10 for c in cohorts.reshape(-1, 10))
    assert len({tuple(c.tolist()) for c in cohorts.reshape(-1, 10)}) == 100
    assert set(cohorts.ravel().tolist()) == set(range(40))


@pytest.mark.parametrize("option", ["devices", "lanes"])
def test_bad_arguments(option: str) -> None:
    with pytest.raises(ArgumentError, match=f"{option} must be at least 1, but is 0"):
        compiled(**{option: 0})
