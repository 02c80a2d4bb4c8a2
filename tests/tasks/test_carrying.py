"""Models whose images are carried in the kernels' order give the numbers and the gradients of the plain models."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fedloom.kernels.processor import reason, width

if reason():
    pytest.skip(reason(), allow_module_level=True)

from fedloom.kernels.lanes import plain
from fedloom.tasks.carrying import evaluate, has_kernel
from fedloom.tasks.forms import RULES
from fedloom.tasks.normalisation import normalise, over_groups

Model = Callable[..., jax.Array]
FIRST, LAST = ("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")
RNG = np.random.default_rng(0)


def numbers(*shape: int) -> jax.Array:
    return jnp.asarray(RNG.standard_normal(shape), jnp.float32)


def conv(
    x: jax.Array, w: jax.Array, order: Any = FIRST, stride: int = 1, padding: Any = "SAME", **how: Any
) -> jax.Array:
    return lax.conv_general_dilated(x, w, (stride,) * (x.ndim - 2), padding, dimension_numbers=order, **how)


def channels_first(x: jax.Array, w: jax.Array, b: jax.Array, v: jax.Array) -> jax.Array:
    """LeNet's kind: convolution, bias, relu, max-pooling, convolution, flattening."""
    x = jax.nn.relu(conv(x, w) + b[:, None, None])
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return conv(x, v).reshape(len(x), -1)


def channels_last(x: jax.Array, w: jax.Array, b: jax.Array, v: jax.Array) -> jax.Array:
    """Statistics over the batch, averages over windows, and a sum over places at the end."""
    x = conv(x, w, LAST)
    x = normalise(x, (0, 1, 2), 1e-5, b, b)[0]
    x = lax.reduce_window(jax.nn.softplus(x), 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
    return conv(x, v, LAST, 2).mean((1, 2))


def residual(x: jax.Array, w: jax.Array, b: jax.Array, v: jax.Array) -> jax.Array:
    """A sum with a shortcut, concatenation, padding, cropping, and a gate for each channel."""
    y = conv(x, w)
    y = jnp.concatenate([jax.nn.silu(y), y + conv(x, w, stride=1)], axis=1)
    y = jnp.pad(y, ((0, 0), (0, 0), (1, 0), (0, 2)))[:, :, 1:, :-2]
    gate = jax.nn.sigmoid(y.mean((2, 3)) @ jnp.outer(jnp.concatenate([b, b]), jnp.concatenate([b, b])))
    return conv(y * gate[:, :, None, None], jnp.concatenate([v, v], axis=1)).transpose(0, 2, 3, 1).sum((1, 2))


def depthwise(x: jax.Array, w: jax.Array, b: jax.Array, v: jax.Array) -> jax.Array:
    """A convolution of each channel by itself, dilated, with padding that differs between the ends, and group norm."""
    y = conv(
        conv(x, w),
        v[:, :1][: w.shape[0]],
        padding=((2, 1), (0, 3)),
        feature_group_count=w.shape[0],
        rhs_dilation=(2, 1),
    )
    y = normalise(y, (2, 3), 1e-5, b[:, None, None], b[:, None, None], over_groups(1, 2))[0]
    return jnp.log(jnp.abs(y) + 1.0).max((2, 3))


CASES: list[tuple[Model, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    (channels_first, (2, 6, 7), (4, 2, 3, 3), (3, 4, 2, 2)),
    (channels_last, (6, 7, 2), (3, 3, 2, 4), (2, 2, 4, 3)),
    (residual, (2, 6, 7), (4, 2, 3, 3), (3, 4, 2, 2)),
    (depthwise, (2, 6, 7), (4, 2, 3, 3), (4, 1, 2, 2)),
]


@pytest.mark.parametrize("batch", [width(), width() - 6, 1])
@pytest.mark.parametrize(("model", "image", "first", "second"), CASES, ids=[case[0].__name__ for case in CASES])
def test_the_same_numbers_and_gradients(
    model: Model, image: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...], batch: int
) -> None:
    """A whole vector of images, other numbers of them, and a single one."""
    given = (numbers(batch, *image), numbers(*first), numbers(4) + 2, numbers(*second))
    traced = jax.make_jaxpr(model)(*given)
    assert has_kernel(traced.jaxpr)
    target = numbers(*traced.out_avals[0].shape)

    def carried(*given: jax.Array) -> jax.Array:
        [found] = evaluate(jax.make_jaxpr(model)(*given), given, RULES)
        return plain(found)

    loss = lambda f: lambda *given: ((f(*given) - target) ** 2).sum()  # noqa: E731
    ours, exact = (jax.jit(jax.value_and_grad(loss(f), argnums=(0, 1, 2, 3)))(*given) for f in (carried, model))
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(exact), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5 * float(jnp.abs(b).max()))


def operations(traced: Any) -> Counter[str]:
    """Count operations on large arrays, inside calls too."""
    found: Counter[str] = Counter()
    for equation in traced.eqns:
        found[equation.primitive.name] += equation.outvars[0].aval.size > 400
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else [value]:
                if hasattr(getattr(inner, "jaxpr", None), "eqns"):
                    found += operations(inner.jaxpr)
    return found


def test_images_are_transposed_at_the_ends_alone() -> None:
    """Into the kernels' order once, and back where they are flattened."""
    model, image, first, second = CASES[0]
    given = (numbers(width(), *image), numbers(*first), numbers(4), numbers(*second))

    def carried(*given: jax.Array) -> jax.Array:
        return plain(evaluate(jax.make_jaxpr(model)(*given), given, RULES)[0])

    found = operations(jax.make_jaxpr(carried)(*given).jaxpr)
    assert found["transpose"] == 2
    assert found["conv_general_dilated"] == 0


def test_sensors_have_one_dimension() -> None:
    """A 1-D convolution, its numbers and gradients."""
    x, w = numbers(width(), 3, 12), numbers(5, 3, 4)
    model = lambda x, w: jax.nn.relu(conv(x, w, ("NCH", "OIH", "NCH"), 2, ((1, 2),)))  # noqa: E731
    traced = jax.make_jaxpr(model)(x, w)
    assert has_kernel(traced.jaxpr)
    carried = lambda x, w: plain(evaluate(jax.make_jaxpr(model)(x, w), (x, w), RULES)[0])  # noqa: E731
    loss = lambda f: lambda x, w: (f(x, w) ** 2).sum()  # noqa: E731
    for a, b in zip(
        *(jax.tree.leaves(jax.value_and_grad(loss(f), argnums=(0, 1))(x, w)) for f in (carried, model)), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("precision", [lax.Precision.HIGHEST, "bfloat16"])
def test_other_numbers_and_precisions_keep_their_convolution(precision: Any) -> None:
    dtype = jnp.bfloat16 if precision == "bfloat16" else jnp.float32
    x, w = numbers(width(), 2, 6, 6).astype(dtype), numbers(4, 2, 3, 3).astype(dtype)
    how = {} if precision == "bfloat16" else {"precision": precision}
    assert not has_kernel(jax.make_jaxpr(lambda x, w: conv(x, w, **how))(x, w).jaxpr)


def test_an_image_smaller_than_the_kernel_is_an_error_as_without_kernels() -> None:
    x, w = numbers(width(), 2, 2, 2), numbers(4, 2, 3, 3)
    assert not has_kernel(jax.make_jaxpr(lambda x, w: conv(x, w, padding="VALID"))(x, w).jaxpr)
