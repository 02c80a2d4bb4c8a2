import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fedloom.tasks import cifar_cnn
from fedloom.tasks.cifar_cnn import distorted, middle, normalised, pool
from fedloom.tasks.task import Variables

KEY = jax.random.key(0)
IMAGE = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)


def test_pooling_is_a_window_of_three_at_every_second_pixel() -> None:
    x = jax.random.normal(KEY, (2, 24, 24, 5))
    window = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (0, 1), (0, 1), (0, 0)))
    assert (pool(x) == window).all()


def test_pooling_sends_its_gradient_to_the_largest_pixels() -> None:
    x = jax.random.permutation(jax.random.key(0), jnp.arange(2 * 6 * 8 * 3.0)).reshape(2, 6, 8, 3)
    d = jax.random.normal(jax.random.key(1), (2, 3, 4, 3))
    window = lambda x: lax.reduce_window(  # noqa: E731
        x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (0, 1), (0, 1), (0, 0))
    )
    found, wanted = (jax.vjp(way, x)[1](d)[0] for way in (pool, window))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_pixels_that_share_the_largest_value_share_its_gradient() -> None:
    [found] = jax.vjp(pool, jnp.zeros((1, 4, 4, 1)))[1](jnp.ones((1, 2, 2, 1)))
    each = jnp.array([[1 / 9, 1 / 6], [1 / 6, 1 / 4]])  # of each window: at the edges fewer share
    rows = [[each[0, 0], each[0, 0], each[0].sum(), each[0, 1]]] * 2
    rows += [[each[:, 0].sum(), each[:, 0].sum(), each.sum(), each[:, 1].sum()]]
    rows += [[each[1, 0], each[1, 0], each[1].sum(), each[1, 1]]]
    np.testing.assert_allclose(found[0, :, :, 0], jnp.array(rows), rtol=1e-6)


def test_normalisation_by_hand() -> None:
    x = np.random.default_rng(0).normal(size=(1, 1, 1, 12)).astype(np.float32)
    for c in range(12):
        near = x[0, 0, 0, max(0, c - 4) : c + 5]
        expected = x[0, 0, 0, c] / (1 + 0.001 / 9 * (near**2).sum()) ** 0.75
        assert normalised(jnp.asarray(x))[0, 0, 0, c] == pytest.approx(expected, rel=1e-5)


def in_the_tutorials_order(params: dict[str, dict[str, jax.Array]], x: jax.Array) -> jax.Array:
    """Its layers one after another, by JAX's own operations."""

    def convolved(name: str, h: jax.Array) -> jax.Array:
        layer = params[name]
        y = lax.conv_general_dilated(h, layer["w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jax.nn.relu(y + layer["b"])

    def pooled(h: jax.Array) -> jax.Array:
        return lax.reduce_window(h, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")

    h = normalised(pooled(convolved("convolution1", x)))
    h = pooled(normalised(convolved("convolution2", h))).reshape(len(x), -1)
    for name in ("dense1", "dense2"):
        h = jax.nn.relu(h @ params[name]["w"] + params[name]["b"])
    return h @ params["output"]["w"] + params["output"]["b"]


def test_the_network_is_the_tutorials() -> None:
    task = cifar_cnn()
    variables = task.init(KEY)
    biased = jax.tree.map(lambda a: a + 0.05 if a.ndim == 1 else a, variables.params)  # some gates open, some closed
    rng = np.random.default_rng(1)
    batch = {"x": jnp.asarray(rng.integers(0, 256, (4, 32, 32, 3)), jnp.uint8), "y": jnp.asarray([3, 0, 9, 3])}

    def ours(params: dict[str, dict[str, jax.Array]]) -> jax.Array:
        return task.metrics(Variables(params, {}), batch)["loss"].sum()

    def theirs(params: dict[str, dict[str, jax.Array]]) -> jax.Array:
        found = jax.nn.log_softmax(in_the_tutorials_order(params, jax.vmap(middle)(batch["x"])))
        return -jnp.take_along_axis(found, batch["y"][:, None], axis=1).sum()

    (found, mine), (wanted, plain) = (jax.jit(jax.value_and_grad(way))(biased) for way in (ours, theirs))
    assert float(found) == pytest.approx(float(wanted), rel=1e-5)
    for one, other in zip(jax.tree.leaves(mine), jax.tree.leaves(plain), strict=True):
        assert float(jnp.linalg.norm(one - other)) < 1e-4 * float(jnp.linalg.norm(other))


def test_the_middle_is_whitened() -> None:
    found = np.asarray(middle(jnp.asarray(IMAGE)))
    cut = IMAGE[4:28, 4:28].astype(float)
    assert np.abs(found - (cut - cut.mean()) / cut.std()).max() < 1e-5


def test_distortions_differ_by_key_and_are_crops_up_to_brightness_contrast_and_flip() -> None:
    keys = jax.random.split(KEY, 40)
    seen = np.asarray(jax.vmap(lambda k: distorted(jnp.asarray(IMAGE), k))(keys))
    assert len({image.tobytes() for image in seen}) == 40
    assert np.abs(seen.mean(axis=(1, 2, 3))).max() < 1e-4
    crops = [IMAGE[i : i + 24, j : j + 24, 0] for i in range(9) for j in range(9)]
    crops += [crop[:, ::-1] for crop in crops]
    for image in seen[:5]:  # the first colour is a linear function of some crop's, flipped or not
        fits = [abs(np.corrcoef(crop.ravel(), image[..., 0].ravel())[0, 1]) for crop in crops]
        assert max(fits) > 0.9999


def test_testing_is_not_random_and_decay_counts_in_training_only() -> None:
    task = cifar_cnn()
    variables = jax.jit(task.init)(KEY)
    batch = {"x": jnp.asarray(IMAGE)[None], "y": jnp.array([3])}
    metrics, loss = jax.jit(task.metrics), jax.jit(task.loss)
    assert metrics(variables, batch)["loss"][0] == metrics(variables, batch)["loss"][0]
    weights = sum(float((variables.params[name]["w"] ** 2).sum()) for name in ("dense1", "dense2"))
    losses = np.array([loss(variables, batch, k)[0][0] for k in jax.random.split(KEY, 8)])
    assert losses.std() > 0
    assert (losses > 0.002 * weights).all()
