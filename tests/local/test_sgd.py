"""Steps of SGD, worked out by hand where they can be."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from one_client import a_client, as_step, replied, worked
from quadratic import quadratic

from fedloom.errors import ArgumentError, UnknownName
from fedloom.local import Local, Sent, Sgd, Work, private, sgd
from fedloom.tasks import Variables, logistic
from fedloom.trees import record

X = as_step({"x": jnp.array([3.0, 5.0])})


def begun(a: float = 0.0, b: float = 0.0) -> Sent:
    return Sent(Variables({"body": {"w": jnp.float32(a)}, "output": {"w": jnp.float32(b)}}, {}), {})


def numbers(work: Work) -> tuple[float, float]:
    params = work.variables.params
    return float(params["body"]["w"]), float(params["output"]["w"])


def test_steps_by_hand() -> None:
    """∇ = a + b - 4: both numbers go from 0 to 0.4, then to 0.4 + 0.1 · 3.2."""
    done = worked(sgd(), quadratic(), begun(), {}, [X, X], a_client(0.1))
    np.testing.assert_allclose(numbers(done), (0.72, 0.72), rtol=1e-6)


def test_the_reply_is_the_change_of_the_model() -> None:
    reply = replied(sgd(), quadratic(), begun(1.0, 1.0), {"mine": 7}, [X], a_client(0.5))
    assert reply.message.mean == {"params": {"body": {"w": 1.0}, "output": {"w": 1.0}}, "state": {}}
    assert (reply.message.sum, reply.message.listed, reply.report) == ({}, {}, {})
    assert reply.state == {"mine": 7}


def test_any_optax_optimiser_takes_its_own_step() -> None:
    task, local = logistic(inputs=2, classes=2), sgd(lr=0.1, optimizer=optax.adam)
    variables = task.init(jax.random.key(0))
    batch = as_step({"x": jnp.ones((1, 2)), "y": jnp.array([0])})
    moved = worked(local, task, Sent(variables, {}), {}, [batch], a_client(0.1)).variables
    change = moved.params["output"]["w"] - variables.params["output"]["w"]
    np.testing.assert_allclose(jnp.abs(change), 0.1, rtol=1e-4)  # Adam's first step is lr in every direction


def test_an_accelerators_form_of_a_step_is_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    here = worked(sgd(), quadratic(), begun(), {}, [X, X], a_client(0.1))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert sgd().scales_loss
    assert sgd().idle_step_is_noop
    there = worked(sgd(), quadratic(), begun(), {}, [X, X], a_client(0.1))
    np.testing.assert_allclose(numbers(there), numbers(here), rtol=1e-6)


@record
class Doubled(Sgd):
    """Twice the gradient."""

    def gradient(self, task: Any, work: Any, batch: Any, client: Any) -> Any:
        gradient, state = super().gradient(task, work, batch, client)
        return jax.tree.map(lambda g: 2 * g, gradient), state


@record
class Halved(Sgd):
    """Half a step."""

    def move(self, work: Any, gradient: Any, client: Any) -> Any:
        return super().move(work, jax.tree.map(lambda g: g / 2, gradient), client)


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
@pytest.mark.parametrize(("kind", "wanted"), [(Doubled, 0.8), (Halved, 0.2)])
def test_an_overridden_function_is_called_on_every_device(
    kind: type[Sgd], wanted: float, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where plain SGD is computed as w + ∇(-η·ℓ): an overridden function receives the gradient itself."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    plain = sgd()
    local = kind(plain.batches, plain.optimizer).checked()
    assert not local.scales_loss
    assert not local.idle_step_is_noop
    assert not local.is_single_gradient
    assert local.describe()["work"] == kind.__name__
    done = worked(local, quadratic(), begun(), {}, [X], a_client(0.1))
    np.testing.assert_allclose(numbers(done), (wanted, wanted), rtol=1e-6)


def test_facts_that_engines_use() -> None:
    assert sgd().is_plain_sgd
    assert not sgd(optimizer="momentum").is_plain_sgd
    assert sgd(batch_size=None).is_single_gradient
    for several in (sgd(), sgd(batch_size=None, epochs=2), sgd(batch_size=None, optimizer="adam")):
        assert not several.is_single_gradient


@pytest.mark.parametrize("options", [{"lr": 0.0}, {"epochs": 0}, {"decay": 1.5}])
def test_bad_arguments(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(options))):
        sgd(**options)


def test_an_unknown_optimiser_lists_the_known() -> None:
    with pytest.raises(
        UnknownName, match="optimizer must be one of adagrad, adam, momentum, rmsprop, sgd, but is 'lion'"
    ):
        sgd(optimizer="lion")


@pytest.mark.parametrize("microbatch", [None, 4, 30])
def test_a_whole_set_is_one_step_in_however_many_pieces(microbatch: int | None) -> None:
    local, sizes = sgd(batch_size=None, epochs=3, microbatch=microbatch), np.array([0, 1, 12, 640])

    def counts(local: Local) -> list[int]:
        found: list[int] = local.gradient_count(sizes).tolist()
        return found

    assert counts(local) == [0, 3, 3, 3]
    assert counts(private("output", local, head_epochs=2)) == [0, 5, 5, 5]
    assert counts(sgd(batch_size=10, epochs=2)) == [0, 2, 4, 128]
    assert counts(private("output", sgd(batch_size=10, period=5))) == [0, 5, 5, 5]
    assert counts(private("output", sgd(batch_size=10), head_epochs=2)) == [0, 3, 6, 192]
