"""The kernels against JAX's convolution in float64 and against PyTorch, over all kinds of shapes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jax import lax

from fedloom.kernels.processor import reason, width
from fedloom.kernels.shape import Shape

torch = pytest.importorskip("torch")
if reason():
    pytest.skip(reason(), allow_module_level=True)

from fedloom.kernels.convolution import convolve  # noqa: E402

ORDERS = ("hwio", "oihw", "ohwi")
PAIR = st.tuples(st.integers(1, 3), st.integers(1, 3))


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Shape, tuple[tuple[int, int], tuple[int, int]]]:
    """Draw a shape and its padding at both ends of each axis."""
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    channels = draw(st.integers(1, 5)) * groups, draw(st.integers(1, 7)) * groups
    image = draw(st.integers(1, 11)), draw(st.integers(1, 11))
    kernel, strides = draw(PAIR), draw(PAIR)
    dilation = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    padding = tuple((draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(2))
    output = tuple(
        (n + low + high - (k - 1) * apart - 1) // stride + 1
        for n, (low, high), k, apart, stride in zip(image, padding, kernel, dilation, strides, strict=True)
    )
    assume(min(output) >= 1)
    batch = draw(st.one_of(st.integers(1, 20), st.sampled_from([width(), 2 * width()])))
    first = padding[0][0], padding[1][0]
    order = draw(st.sampled_from(ORDERS))
    return Shape(batch, channels, image, kernel, strides, first, output, dilation, groups, order), padding  # type: ignore[return-value, arg-type]


def errors(found: list[np.ndarray], exact: list[np.ndarray]) -> list[float]:
    """Return the largest error of each array, relative to its largest number."""
    return [float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in zip(found, exact, strict=True)]


@settings(max_examples=16, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(convolutions())
def test_any_convolution_and_its_gradients(drawn: tuple[Shape, tuple[tuple[int, int], tuple[int, int]]]) -> None:
    """Forward and both gradients: no error is above twice that of PyTorch, or above 1e-6."""
    shape, padding = drawn
    rng = np.random.default_rng(0)
    x = rng.standard_normal((shape.channels[0], *shape.image, shape.batch)).astype(np.float32)
    w = rng.standard_normal(shape.weights).astype(np.float32)
    d = rng.standard_normal((shape.channels[1], *shape.output, shape.batch)).astype(np.float32)
    y, pull = jax.vjp(lambda x, w: convolve(shape, x, w), x, w)
    found = [np.asarray(a, np.float64) for a in (y, *pull(jnp.asarray(d)))]

    with jax.enable_x64(True):
        wide = [jnp.asarray(a, jnp.float64) for a in (x, w)]
        plain = lambda x, w: lax.conv_general_dilated(  # noqa: E731
            x, w, shape.strides, padding, (1, 1), shape.dilation, ("CHWN", shape.order.upper(), "CHWN"), shape.groups
        )
        exact_y, exact_pull = jax.vjp(plain, *wide)
        exact = [np.asarray(a) for a in (exact_y, *exact_pull(jnp.asarray(d, jnp.float64)))]

    theirs = pytorch(shape, padding, x, w, d)
    for ours, other in zip(errors(found, exact), errors(theirs, exact), strict=True):
        assert ours <= max(2 * other, 1e-6)


def pytorch(shape: Shape, padding: tuple[tuple[int, int], tuple[int, int]], x: np.ndarray, w: np.ndarray,
            d: np.ndarray) -> list[np.ndarray]:  # fmt: skip
    """Return PyTorch's result and gradients in our order of axes."""
    images = torch.tensor(x.transpose(3, 0, 1, 2), requires_grad=True)
    weights = torch.tensor(w.transpose([shape.order.index(axis) for axis in "oihw"]), requires_grad=True)
    (top, bottom), (left, right) = padding
    padded = torch.nn.functional.pad(images, (left, right, top, bottom))
    y = torch.nn.functional.conv2d(padded, weights, None, shape.strides, dilation=shape.dilation, groups=shape.groups)
    y.backward(torch.tensor(d.transpose(3, 0, 1, 2)))
    return [
        y.detach().numpy().transpose(1, 2, 3, 0).astype(np.float64),
        images.grad.numpy().transpose(1, 2, 3, 0).astype(np.float64),
        weights.grad.numpy().transpose(["oihw".index(axis) for axis in shape.order]).astype(np.float64),
    ]


def test_several_models_have_kernels_of_their_own() -> None:
    """Under ``vmap`` every model gets the numbers that it gets alone, bit for bit."""
    shape = Shape(width(), (2, 3), (5, 5), (3, 3), (1, 1), (1, 1), (5, 5))
    rng = np.random.default_rng(1)
    x = jnp.asarray(rng.standard_normal((2, 2, 5, 5, width())), jnp.float32)
    w = jnp.asarray(rng.standard_normal((2, 3, 3, 2, 3)), jnp.float32)
    loss = lambda x, w: (convolve(shape, x, w) ** 2).sum()  # noqa: E731
    together = jax.jit(jax.vmap(jax.grad(loss, argnums=(0, 1))))(x, w)
    for k in range(2):
        alone = jax.jit(jax.grad(loss, argnums=(0, 1)))(x[k], w[k])
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_array_equal(a[k], b)


def test_not_a_number_stays_so() -> None:
    """One broken pixel spoils the nine places that read it, in its image alone."""
    shape = Shape(width(), (1, 1), (5, 5), (3, 3), (1, 1), (1, 1), (5, 5))
    x = np.ones((1, 5, 5, width()), np.float32)
    x[0, 2, 2, 3] = np.nan
    y = np.asarray(convolve(shape, jnp.asarray(x), jnp.ones((3, 3, 1, 1))))
    broken = np.isnan(y)
    assert broken[0, 1:4, 1:4, 3].all()
    assert broken.sum() == 9


def test_counted_operations() -> None:
    """A 3 × 3 kernel on 4 × 4 pixels with padding 1 reads (3·4 - 2)² taps in the image."""
    shape = Shape(16, (2, 3), (4, 4), (3, 3), (1, 1), (1, 1), (4, 4))
    assert shape.flops == 2 * 16 * 3 * 2 * 10 * 10
