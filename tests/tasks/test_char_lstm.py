import jax
import jax.numpy as jnp
import pytest

from fedloom.tasks import char_lstm

KEY = jax.random.key(0)


def test_padding_counts_for_nothing() -> None:
    task = char_lstm(vocabulary=5, hidden=8)
    variables = task.init(KEY)
    x, y = jnp.array([[1, 2, 3, 0]]), jnp.array([[2, 3, -1, -1]])
    loss = jax.jit(task.loss)
    short, _ = loss(variables, {"x": x[:, :2], "y": y[:, :2]}, KEY)
    padded, _ = loss(variables, {"x": x, "y": y}, KEY)
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


def test_plain_weights_are_as_small_as_libraries_draw_them() -> None:
    plain, ours = (char_lstm(50, hidden=64, plain=way).init(KEY).params for way in (True, False))
    assert jax.tree.map(jnp.shape, plain) == jax.tree.map(jnp.shape, ours)
    assert float(jnp.abs(plain["embedding"]["w"]).max()) <= 0.05
    for layer, inputs in (("lstm1", 8), ("lstm2", 64)):
        assert float(jnp.abs(plain[layer]["x"]).max()) <= (6 / (inputs + 256)) ** 0.5
        assert float(ours[layer]["x"].std()) == pytest.approx(inputs**-0.5, rel=0.05)
    assert float(ours["embedding"]["w"].std()) == pytest.approx(4, rel=0.1)
    assert char_lstm(50, plain=True).name == "lstm-plain"
