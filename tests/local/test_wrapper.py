"""Wrappers forward what they do not override, and what they override is called."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from one_client import a_client, as_step, worked
from quadratic import quadratic

from fedloom.errors import ArgumentError
from fedloom.local import Local, LocalWrapper, Sent, ditto, private, proximal, scaffold, sgd
from fedloom.tasks import Variables
from fedloom.trees import record

SENT = Sent(Variables({"body": {"w": jnp.float32(0)}, "output": {"w": jnp.float32(0)}}, {}), {})
X = as_step({"x": jnp.array([4.0])})
FACTS = ("batches", "gradients_per_step", "idle_step_is_noop", "is_plain_sgd", "is_personal", "has_shared_model",
         "is_corrected", "has_penalties", "applies_penalties", "has_default_step")  # fmt: skip


@record
class Plain(LocalWrapper):
    """Nothing of its own."""

    inner: Local


@record
class Clipped(LocalWrapper):
    """Each number of the gradient is at most so large."""

    inner: Local
    most: float

    def gradient(self, task: Any, work: Any, batch: Any, client: Any) -> Any:
        gradient, state = self.inner.gradient(task, work, batch, client)
        return jax.tree.map(lambda g: jnp.clip(g, -self.most, self.most), gradient), state


def value(local: Local, steps: int = 1, lr: float = 0.1) -> float:
    done = worked(local, quadratic(), SENT, local.client_state(SENT.variables), [X] * steps, a_client(lr))
    return float(done.variables.params["body"]["w"])


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
@pytest.mark.parametrize(
    "inner",
    [sgd(), sgd(optimizer="adam"), ditto(0.5, sgd()), private("output", sgd(), head_epochs=1), proximal(0.5, sgd())],
)
def test_a_wrapper_has_the_facts_of_the_inner_work(inner: Local, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    around = Plain(inner)
    for fact in FACTS:
        assert getattr(around, fact) == getattr(inner, fact), fact
    assert around.client_state(SENT.variables).keys() == inner.client_state(SENT.variables).keys()
    assert around.broadcast(SENT.variables) == inner.broadcast(SENT.variables)
    assert around.private_leaves(SENT.variables) == inner.private_leaves(SENT.variables)
    assert around.describe()["work"] == f"Plain of {inner.describe().get('work', 'sgd')}"


def test_only_whole_work_is_a_single_gradient() -> None:
    inner = sgd(batch_size=None)
    assert inner.is_single_gradient
    assert not Plain(inner).is_single_gradient


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_an_overridden_gradient_is_called_around_and_inside_other_work(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """∇ = -4 at 0, clipped to -1; a penalty is added to the clipped gradient."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    clipped = Clipped(sgd(), 1.0).checked()
    assert not clipped.idle_step_is_noop
    assert value(clipped) == pytest.approx(0.1)
    assert value(Plain(clipped)) == pytest.approx(0.1)
    for both in (proximal(0.5, clipped), Clipped(proximal(0.5, sgd()), 1.0).checked()):
        assert value(both, steps=2) == pytest.approx(0.1 + 0.1 * (1 - 0.5 * 0.1))
    own = ditto(0.5, clipped)
    done = worked(own, quadratic(), SENT, own.client_state(SENT.variables), [X, X], a_client())
    assert done.companion is not None
    np.testing.assert_allclose(done.companion.variables.params["body"]["w"], 0.1 + 0.1 * (1 - 0.5 * 0.1), rtol=1e-6)


def test_an_overridden_gradient_around_a_whole_step_is_refused() -> None:
    need = "local must be work whose step calls the `gradient` and `move` that Clipped overrides, but is 'ditto"
    with pytest.raises(ArgumentError, match=need):
        Clipped(ditto(0.5, sgd()), 1.0).checked()
    with pytest.raises(ArgumentError, match="private"):
        Clipped(private("output", sgd(), head_epochs=1), 1.0).checked()
    assert Clipped(private("output", sgd()), 1.0).checked()
    assert scaffold(Clipped(sgd(), 1.0)).is_corrected
