"""Work on batches that take several steps."""

import jax.numpy as jnp
import numpy as np
from one_client import a_client, as_step
from quadratic import quadratic

from fedloom.local import ProximalPenalty, Sent, ditto, proximal, sgd
from fedloom.local.work import StepBatch, accumulating
from fedloom.tasks import Variables

SENT = Sent(Variables({"body": {"w": jnp.float32(0)}, "output": {"w": jnp.float32(0)}}, {}), {})


def half(x: float, is_last: bool) -> StepBatch:
    """One of the two examples of a batch: its share is a half."""
    whole = as_step({"x": jnp.array([x])}, is_last=is_last)
    return StepBatch(whole.examples, whole.shares / 2, whole.position, whole.key)


def test_the_optimiser_moves_after_the_last_step_of_a_batch() -> None:
    """∇ = (0 - 3)/2 + (0 - 5)/2 = -4, once; the penalty pulls once, too, and not at all from where it begins."""
    local, client = proximal(0.5, sgd()), a_client(0.1)
    work = accumulating(local.begin(SENT, {}, client))
    assert isinstance(work.penalties[0], ProximalPenalty)
    first = local.step(quadratic(), work, half(3.0, is_last=False), client)
    assert float(first.variables.params["body"]["w"]) == 0
    assert float(first.accumulated["body"]["w"]) == -1.5
    second = local.step(quadratic(), first, half(5.0, is_last=True), client)
    np.testing.assert_allclose(second.variables.params["body"]["w"], 0.4, rtol=1e-6)
    assert float(second.accumulated["body"]["w"]) == 0
    third = local.step(quadratic(), second, half(3.0, is_last=False), client)
    fourth = local.step(quadratic(), third, half(5.0, is_last=True), client)
    np.testing.assert_allclose(fourth.variables.params["body"]["w"], 0.4 + 0.1 * (3.2 - 0.5 * 0.4), rtol=1e-6)


def test_companions_accumulate_too() -> None:
    work = accumulating(ditto(0.5, sgd()).begin(SENT, {"own": SENT.variables}, a_client()))
    assert work.companion is not None
    assert work.accumulated == work.companion.accumulated == {"body": {"w": 0}, "output": {"w": 0}}
