"""Steps are counted exactly, or refused before the run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quadratic import points, quadratic

import fedloom as fl
from fedloom.engines.plan import plan
from fedloom.errors import ArgumentError
from fedloom.local import ditto, private, sgd
from fedloom.local.counting import LONGEST, check_rounds, check_steps

SIZES = np.array([600, 7, 0], np.int32)


def test_counts_on_the_host_are_exact() -> None:
    local = sgd(epochs=10**9, batch_size=1)
    assert local.batches.steps(SIZES, 1).tolist() == local.gradient_count(SIZES).tolist() == [6 * 10**11, 7 * 10**9, 0]
    assert ditto(0.1, local).gradient_count(SIZES).tolist() == [12 * 10**11, 14 * 10**9, 0]
    headed = private("output", local, head_epochs=2 * 10**9)
    assert headed.batches.steps(SIZES, 1).tolist() == [18 * 10**11, 21 * 10**9, 0]
    assert headed.gradient_count(SIZES).tolist() == [18 * 10**11, 21 * 10**9, 0]
    assert sgd(epochs=10**9, batch_size=None).batches.moves(SIZES).tolist() == [10**9, 10**9, 0]


def test_counts_on_a_device_are_the_same() -> None:
    for local in (sgd(epochs=3, batch_size=4), sgd(period=5), private("output", sgd(batch_size=4), head_epochs=2)):
        batches = local.batches
        there = jax.jit(lambda n, batches=batches: (batches.steps(n, 4), batches.moves(n)))(jnp.asarray(SIZES))
        here = batches.steps(SIZES, 4), batches.moves(SIZES)
        assert [a.tolist() for a in there] == [a.tolist() for a in here]
        assert all(a.dtype == jnp.int32 for a in there)


def test_the_longest_work_is_allowed_and_one_step_more_is_not() -> None:
    one = np.array([1], np.int32)
    check_steps(sgd(epochs=LONGEST, batch_size=1).batches, one, 1)
    with pytest.raises(
        ArgumentError, match="epochs must be so small that no client takes more than 1,073,741,824 steps"
    ):
        check_steps(sgd(epochs=LONGEST + 1, batch_size=1).batches, one, 1)
    with pytest.raises(ArgumentError, match="period must be so small that no client takes more"):
        check_steps(sgd(period=LONGEST + 1, batch_size=1).batches, one, 1)
    check_rounds(sgd(period=2**10).batches, 2**20)
    check_rounds(sgd().batches, 10**9)
    with pytest.raises(
        ArgumentError, match="rounds must be at most 1,048,576 with period 1,024, since a client takes at "
    ):
        check_rounds(sgd(period=2**10).batches, 2**20 + 1)


def test_too_many_steps_are_refused_before_the_run() -> None:
    many = fl.fedavg(fraction=1.0, epochs=10**9, batch_size=1)
    why = r"with batch_size 1, a client with 2 examples would take 2,000,000,000\), but is 1000000000"
    with pytest.raises(ArgumentError, match=why):
        fl.run(points([1.0]), quadratic(), many, rounds=1)
    whole = fl.fedavg(fraction=1.0, epochs=2 * 10**9, batch_size=None)
    with pytest.raises(ArgumentError, match="with batch_size all, a client with 2 examples would take 2,000,000,000"):
        plan(quadratic(), whole, np.array([2], np.int32), points([1.0]).columns, 1)
    ring = fl.dpa_sgd(np.eye(2, dtype=np.float32), period=3)
    with pytest.raises(ArgumentError, match="rounds must be at most 357,913,941 with period 3"):
        fl.run(points([1.0, 2.0]), quadratic(), ring, rounds=10**9)


@pytest.mark.parametrize("option", ["epochs", "batch_size", "period"])
def test_numbers_beyond_32_bits_are_refused(option: str) -> None:
    with pytest.raises(ArgumentError, match=f"{option} must be at most 2,147,483,647"):
        sgd(**{option: 2**31})
