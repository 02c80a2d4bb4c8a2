"""The end of a round, by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom.round.close import divide, step
from fedloom.tasks import Variables


def model(w: float, count: float) -> Variables:
    return Variables({"w": jnp.float32(w)}, {"count": jnp.float32(count)})


def test_a_mean_is_a_quotient() -> None:
    mean = divide(model(6.0, 2.0), jnp.float32(4.0))
    assert float(mean.params["w"]) == 1.5
    assert float(mean.state["count"]) == 0.5


def test_without_weight_the_sum_stays() -> None:
    assert float(divide(model(0.0, 0.0), jnp.float32(0.0)).params["w"]) == 0.0


def test_momentum_by_hand() -> None:
    """With server rate 0.5 and momentum 0.9: m = 0.9 m - Δ, w = w - 0.5 m."""
    server = fl.server("momentum", lr=0.5, momentum=0.9)
    variables, control = model(1.0, 3.0), {"control": jnp.float32(2.0)}
    output = variables, server.transformation().init(variables.params), control
    for wanted in (1.1, 1.29):  # m = -0.2, then -0.38
        output = step(server, output, model(0.2, 1.0), {"control": jnp.float32(4.0)}, 8, True)
        assert float(output[0].params["w"]) == pytest.approx(wanted)
    assert float(output[0].state["count"]) == 5.0
    assert float(output[2]["control"]) == 3.0  # 2 + 2 · 4 / 8


@pytest.mark.parametrize("name", ["average", "momentum", "adagrad", "adam", "yogi"])
def test_a_round_without_counted_updates_changes_nothing(name: str) -> None:
    server = fl.server(name)
    variables, control = model(1.0, 3.0), {"control": jnp.float32(2.0)}
    memory = server.transformation().init(variables.params)
    moved = step(server, (variables, memory, control), model(0.2, 1.0), control, 8, True)
    still = step(server, moved, model(0.0, 0.0), control, 8, False)
    for before, after in zip(*map(_flat, (moved, still)), strict=True):
        np.testing.assert_array_equal(before, after)


def _flat(output: object) -> list[np.ndarray]:
    import jax

    return [np.asarray(a) for a in jax.tree.leaves(output)]
