from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.tasks.convolution import Convolution
from fedloom.tasks.patches import image_gradients, outputs, slices, unfold, weight_gradients

PAIR = Convolution((1,), ((0, 0),), (1,), (1,), 1, 1, None, None)


def test_patches_are_the_same_by_gather_and_by_slices() -> None:
    how = Convolution((2, 1), ((1, 0), (0, 2)), (1, 2), (1, 2), 1, 1, None, None)
    x = jnp.arange(2 * 5 * 4 * 2.0).reshape(2, 5, 4, 2)
    found, same = (jax.jit(partial(way, how, kernel=(2, 3)))(x) for way in (unfold, slices))
    assert found.shape == (2, 3, 5, 6, 2)
    np.testing.assert_array_equal(found, same)
    assert found[0, 0, 0, :, 0].tolist() == [0, 0, 0, 0, 2, 4]  # a row of zeros above; every second pixel of the first


def test_outputs_and_gradients_of_two_models() -> None:
    x = jnp.array([[[1.0], [2.0], [3.0]], [[1.0], [2.0], [3.0]]]).reshape(2, 1, 3, 1)
    w = jnp.array([[1.0, 10.0], [2.0, 20.0]]).reshape(2, 2, 1, 1)
    d = jnp.array([[1.0, 100.0], [1.0, 100.0]]).reshape(2, 1, 2, 1)
    assert outputs(PAIR, x, w).reshape(2, 2).tolist() == [[21, 32], [42, 64]]
    assert image_gradients(PAIR, (3,), w, d).reshape(2, 3).tolist() == [[1, 110, 1000], [2, 220, 2000]]
    assert weight_gradients(PAIR, (2,), x, d).reshape(2, 2).tolist() == [[201, 302], [201, 302]]


def test_what_a_pixel_gave_to_many_patches_is_summed_in_float32() -> None:
    how = Convolution((1, 1), ((2, 2), (2, 2)), (1, 1), (1, 1), 1, 1, None, None)
    draw = lambda k, *shape: jax.random.normal(jax.random.key(k), shape, jnp.bfloat16)  # noqa: E731
    w, d = draw(0, 1, 5, 5, 3, 1), draw(1, 1, 2, 8, 8, 1)  # one output: what a patch is given is one product, rounded
    given = (d[0, ..., None, None, 0] * w[0].reshape(25, 3)).astype(jnp.float32)
    images = jax.ShapeDtypeStruct((2, 8, 8, 3), jnp.float32)
    [wanted] = jax.linear_transpose(partial(slices, how, kernel=(5, 5)), images)(given)
    np.testing.assert_array_equal(image_gradients(how, (8, 8), w, d)[0], wanted.astype(jnp.bfloat16))
