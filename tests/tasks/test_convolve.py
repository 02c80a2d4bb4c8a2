"""Both forms of every kind of convolution against ``lax.conv_general_dilated``, with gradients."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from user_models import close

import fedloom.tasks.convolve as module
from fedloom.tasks.convolution import Convolution
from fedloom.tasks.convolve import apart, convolve, direct

NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "line": ((2, 9, 3), (3, 3, 4), {"dimension_numbers": ("NHC", "HIO", "NHC"), "window_strides": (2,)}),
    "line, causal and dilated": (
        (2, 3, 9),
        (4, 3, 3),
        {"dimension_numbers": ("NCH", "OIH", "NCH"), "padding": [(4, 0)], "rhs_dilation": (2,)},
    ),
    "same": ((2, 6, 5, 3), (3, 3, 3, 4), {"dimension_numbers": NHWC, "padding": "SAME"}),
    "PyTorch": ((2, 3, 6, 5), (4, 3, 3, 3), {"dimension_numbers": NCHW, "padding": [(1, 1), (1, 1)]}),
    "strided, more on one side": (
        (2, 7, 8, 3),
        (3, 2, 3, 4),
        {"dimension_numbers": NHWC, "window_strides": (2, 3), "padding": [(0, 1), (2, 0)]},
    ),
    "cropped": ((2, 7, 8, 3), (3, 3, 3, 4), {"dimension_numbers": NHWC, "padding": [(-1, 0), (0, -1)]}),
    "transposed": (
        (2, 3, 4, 4),
        (4, 3, 3, 3),
        {"dimension_numbers": NCHW, "lhs_dilation": (2, 2), "padding": [(1, 2), (2, 2)]},
    ),
    "dilated both ways": (
        (1, 6, 6, 2),
        (2, 3, 2, 3),
        {"dimension_numbers": NHWC, "lhs_dilation": (2, 1), "rhs_dilation": (1, 2), "padding": [(1, 1), (1, 1)]},
    ),
    "grouped": ((2, 5, 5, 4), (3, 3, 2, 6), {"dimension_numbers": NHWC, "feature_group_count": 2, "padding": "SAME"}),
    "depthwise, twice": (
        (2, 3, 6, 6),
        (6, 1, 3, 3),
        {"dimension_numbers": NCHW, "feature_group_count": 3, "window_strides": (2, 2)},
    ),
    "odd orders": ((3, 6, 2, 5), (4, 3, 3, 2), {"dimension_numbers": ("CHNW", "OIHW", "WNCH")}),
    "volume": (
        (1, 4, 5, 4, 2),
        (2, 3, 2, 2, 3),
        {"dimension_numbers": ("NDHWC", "DHWIO", "NDHWC"), "window_strides": (1, 2, 1), "padding": [(1, 0)] * 3},
    ),
}
QUICK = {"xla_backend_optimization_level": 0}  # to compile, which is what these tests spend their time on


def reference(options: dict[str, Any], x: jax.Array, w: jax.Array) -> jax.Array:
    given = {"window_strides": (1,) * (x.ndim - 2), "padding": "VALID", **options}
    return lax.conv_general_dilated(x, w, **given)


def drawn(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def formed(form: Any, options: dict[str, Any], x: jax.Array, w: jax.Array) -> jax.Array:
    """The same by one of the two forms, whatever is computed on."""
    [equation] = [
        e for e in jax.make_jaxpr(partial(reference, options))(x, w).eqns if e.primitive.name == "conv_general_dilated"
    ]
    (b, c, *place), (o, i, *within), (ob, oc, *out) = equation.params["dimension_numbers"]
    p = equation.params
    how = Convolution(
        p["window_strides"], p["padding"], p["lhs_dilation"], p["rhs_dilation"], p["feature_group_count"], 1, None, None
    )  # fmt: skip
    return form(how, x.transpose(b, *place, c), w.transpose(*within, i, o)).transpose(np.argsort((ob, *out, oc)))


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients_of_both_forms(case: str) -> None:
    images, weights, options = CASES[case]
    x, w = drawn(images), drawn(weights)
    wanted, *forms = (partial(reference, options), *(partial(formed, form, options) for form in (direct, apart)))
    d = drawn(jax.eval_shape(wanted, x, w).shape)

    def every(x: jax.Array, w: jax.Array, d: jax.Array) -> Any:
        found = [jax.vjp(way, x, w) for way in (wanted, *forms)]
        return [(y, *back(d)) for y, back in found]

    right, *others = jax.jit(every, compiler_options=QUICK)(x, w, d)
    for found in others:
        for a, b in zip(found, right, strict=True):
            close(a, b, 2e-6)


@pytest.mark.parametrize("busy", [1, 1000])
@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("written_out", [4, 32])
@pytest.mark.parametrize("case", ["PyTorch", "grouped"])
def test_weights_that_differ_by_client(
    case: str, busy: int, few: int, written_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in (("BUSY", busy), ("FEW", few), ("WRITTEN_OUT", written_out)):
        monkeypatch.setattr(module, name, number)
    images, weights, options = CASES[case]
    x, w = drawn((2, 3, *images)), drawn((2, 3, *weights))

    def every(x: jax.Array, w: jax.Array) -> Any:
        total = lambda way: jax.grad(lambda x, w: jnp.sum(way(x, w) ** 2), argnums=(0, 1))  # noqa: E731
        own = [partial(formed, form, options) for form in (direct, apart)]
        return [jax.vmap(jax.vmap(total(way)))(x, w) for way in (partial(reference, options), *own)]

    right, *others = jax.jit(every, compiler_options=QUICK)(x, w)
    for found in others:
        for a, b in zip(found, right, strict=True):
            close(a, b, 2e-6)


@pytest.mark.parametrize("busy", [1, 1000])
def test_images_or_weights_that_all_share(busy: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY", busy)
    images, weights, options = CASES["PyTorch"]
    for axes, x, w in (
        ((0, None), drawn((3, *images)), drawn(weights)),
        ((None, 0), drawn(images), drawn((3, *weights))),
    ):
        right, found = (
            jax.vmap(way, axes)(x, w) for way in (partial(reference, options), partial(formed, apart, options))
        )
        close(found, right, 2e-6)


def test_a_traced_convolution_is_done_with_its_own_parameters() -> None:
    x, w = jnp.arange(4.0).reshape(1, 4, 1), jnp.array([1.0, 10.0]).reshape(2, 1, 1)
    options = {"dimension_numbers": ("NHC", "HIO", "NHC")}
    [equation] = jax.make_jaxpr(partial(reference, options))(x, w).eqns
    assert convolve(x, w, equation.params).ravel().tolist() == [10, 21, 32]
