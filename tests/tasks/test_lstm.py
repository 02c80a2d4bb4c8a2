import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.tasks.lstm import accelerator_backward, accelerator_forward, cpu_backward, cpu_forward, lstm, recur

FORMS = {"cpu": (cpu_forward, cpu_backward), "accelerator": (accelerator_forward, accelerator_backward)}


def drawn(seed: int, *shapes: tuple[int, ...]) -> list[jax.Array]:
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes]


def by_hand(layer: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """One step after another, gate by gate, in float64."""
    size = layer["h"].shape[0]
    h, c, out = np.zeros((x.shape[1], size)), np.zeros((x.shape[1], size)), []
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    for now in x:
        z = now @ layer["x"] + h @ layer["h"] + layer["b"]
        i, f, g, o = (z[:, k * size : (k + 1) * size] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return np.stack(out)


def plainly(given: jax.Array, b: jax.Array, w: jax.Array) -> jax.Array:
    """The same in JAX, whose gradient is JAX's own."""
    h, c, out = jnp.zeros((given.shape[1], len(w))), jnp.zeros((given.shape[1], len(w))), []
    for now in given:
        i, f, g, o = jnp.split(now + b + h @ w, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        out.append(h)
    return jnp.stack(out)


@jax.jit
@jax.vmap
def pulled(given: jax.Array, b: jax.Array, w: jax.Array, d: jax.Array) -> jax.Array:
    """JAX's own gradient for what is given."""
    found: jax.Array = jax.vjp(plainly, given, b, w)[1](d)[0]
    return found


def test_the_layer_is_its_equations() -> None:
    rng = np.random.default_rng(0)
    layer = {"x": rng.normal(size=(3, 16)), "h": rng.normal(size=(4, 16)), "b": rng.normal(size=16)}
    x = rng.normal(size=(7, 2, 3))
    found = lstm({k: jnp.asarray(v, jnp.float32) for k, v in layer.items()}, jnp.asarray(x, jnp.float32))
    assert np.abs(np.asarray(found) - by_hand(layer, x)).max() < 1e-5


def test_the_gradients_are_those_of_the_equations() -> None:
    given, b, w, d = drawn(1, (9, 2, 16), (16,), (4, 16), (9, 2, 4))
    found, wanted = (jax.jit(lambda *a, f=f: jax.vjp(f, *a[:3])[1](a[3]))(given, b, w, d) for f in (recur, plainly))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_either_form_is_right_for_clients_side_by_side(form: str) -> None:
    forward, backward = FORMS[form]
    given, b, w, d = drawn(2, (3, 9, 2, 16), (3, 16), (3, 4, 16), (3, 9, 2, 4))
    h, c, opened = jax.jit(jax.vmap(forward))(given, b, w)
    dz = jax.jit(jax.vmap(backward))(d, c, opened, w)
    np.testing.assert_allclose(h, jax.jit(jax.vmap(plainly))(given, b, w), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dz, pulled(given, b, w, d), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_in_bfloat16_cells_are_summed_up_in_float32(form: str) -> None:
    forward, _ = FORMS[form]
    given = jnp.full((300, 1, 4), 8.0, jnp.bfloat16).at[:, :, 2].set(1.0)  # all gates open
    h, c, opened = jax.jit(forward)(given, *(jnp.zeros(shape, jnp.bfloat16) for shape in (4, (1, 4))))
    assert {a.dtype for a in (h, c, opened)} == {jnp.dtype(jnp.bfloat16)}
    wanted = np.tanh(1) * (1 - jax.nn.sigmoid(8.0) ** 300) / (1 - jax.nn.sigmoid(8.0)) * jax.nn.sigmoid(8.0)
    assert float(c[-1, 0, 0]) == pytest.approx(float(wanted), rel=0.01)  # in bfloat16 it would stop at 128


@pytest.mark.parametrize("form", FORMS)
def test_in_bfloat16_the_gradients_are_nearly_the_same(form: str) -> None:
    forward, backward = FORMS[form]
    given, b, w, d = drawn(3, (20, 5, 64), (64,), (16, 64), (20, 5, 16))
    w /= 4
    wanted = pulled(given[None], b[None], w[None], d[None])[0]
    given, b, w, d = (a.astype(jnp.bfloat16) for a in (given, b, w, d))
    _, c, opened = jax.jit(forward)(given, b, w)
    found = jax.jit(backward)(d, c, opened, w)
    assert found.dtype == jnp.bfloat16
    assert float(jnp.linalg.norm(found - wanted) / jnp.linalg.norm(wanted)) < 0.02


def test_in_bfloat16_the_bias_has_its_gradient_summed_up_in_float32() -> None:
    given, b, w = jnp.zeros((400, 50, 4), jnp.bfloat16), jnp.zeros(4, jnp.bfloat16), jnp.zeros((1, 4), jnp.bfloat16)
    d = jnp.ones((400, 50, 1), jnp.bfloat16)
    wide = (a.astype(jnp.float32) for a in (given, b, w, d))
    found, wanted = (jax.jit(lambda g, b, w, d: jax.vjp(recur, g, b, w)[1](d)[1])(*a) for a in ((given, b, w, d), wide))
    np.testing.assert_allclose(found.astype(jnp.float32), wanted, rtol=0.01)


def test_it_runs_in_float64_where_that_is_on() -> None:
    with jax.enable_x64(True):
        given, b, w = (jnp.asarray(np.random.default_rng(0).normal(size=s)) for s in ((5, 2, 16), 16, (4, 16)))
        for name, (forward, backward) in FORMS.items():
            h, c, opened = jax.jit(forward)(given, b, w)
            dz = jax.jit(backward)(h, c, opened, w)
            assert {a.dtype.name for a in (h, c, opened, dz)} == {"float64"}, name
