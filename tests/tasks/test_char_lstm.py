import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.tasks import char_lstm
from fedloom.tasks.char_lstm import lstm, recur

KEY = jax.random.key(0)


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


def test_the_layer_is_its_equations() -> None:
    rng = np.random.default_rng(0)
    layer = {"x": rng.normal(size=(3, 16)), "h": rng.normal(size=(4, 16)), "b": rng.normal(size=16)}
    x = rng.normal(size=(7, 2, 3))
    found = lstm({k: jnp.asarray(v, jnp.float32) for k, v in layer.items()}, jnp.asarray(x, jnp.float32))
    assert np.abs(np.asarray(found) - by_hand(layer, x)).max() < 1e-5


def test_the_gradients_are_those_of_the_equations() -> None:
    rng = np.random.default_rng(1)
    given, w, d = (jnp.asarray(rng.normal(size=s), jnp.float32) for s in ((9, 2, 16), (4, 16), (9, 2, 4)))

    def plainly(given: jax.Array, w: jax.Array) -> jax.Array:
        h, c, out = jnp.zeros((2, 4)), jnp.zeros((2, 4)), []
        for now in given:
            i, f, g, o = jnp.split(now + h @ w, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            out.append(h)
        return jnp.stack(out)

    found, wanted = (jax.vjp(f, given, w)[1](d) for f in (recur, plainly))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_padding_counts_for_nothing() -> None:
    task = char_lstm(vocabulary=5, hidden=8)
    variables = task.init(KEY)
    x, y = jnp.array([[1, 2, 3, 0]]), jnp.array([[2, 3, -1, -1]])
    short, _ = task.loss(variables, {"x": x[:, :2], "y": y[:, :2]}, KEY)
    padded, _ = task.loss(variables, {"x": x, "y": y}, KEY)
    assert padded[0] == pytest.approx(float(short[0]), rel=1e-6)
    metrics = task.metrics(variables, {"x": x, "y": y})
    assert metrics["count"].tolist() == [2.0]
    assert metrics["loss"][0] == pytest.approx(2 * float(short[0]), rel=1e-6)


def test_one_character_after_the_window() -> None:
    task = char_lstm(vocabulary=5, hidden=8)
    variables = task.init(KEY)
    x = jnp.array([[1, 2, 3, 4]])
    one, _ = task.loss(variables, {"x": x, "y": jnp.array([2])}, KEY)
    same, _ = task.loss(variables, {"x": x, "y": jnp.array([[-1, -1, -1, 2]])}, KEY)
    assert one[0] == same[0]


def test_it_learns_what_follows_what() -> None:
    task = char_lstm(vocabulary=4, hidden=16)
    x = jnp.array([[1, 2, 3] * 4, [2, 3, 1] * 4])
    batch = {"x": x, "y": jnp.concatenate([x[:, 1:], x[:, :1]], axis=1)}
    params = task.init(KEY).params

    def loss(params: dict) -> jax.Array:
        return task.loss(type(task.init(KEY))(params, {}), batch, KEY)[0].mean()

    step = jax.jit(lambda p: jax.tree.map(lambda w, g: w - 1.0 * g, p, jax.grad(loss)(p)))
    for _ in range(300):
        params = step(params)
    assert float(loss(params)) < 0.1
