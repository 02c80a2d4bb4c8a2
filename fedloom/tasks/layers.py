"""The layers of the built-in models, each in the form that is fast on the device it is compiled for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from fedloom.computed import computed
from fedloom.tasks.blocks import pixels
from fedloom.tasks.convolution import Convolution
from fedloom.tasks.convolve import fastest
from fedloom.tasks.normalisation import normalise, rescale
from fedloom.tasks.summed import summed

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Key

Layer = dict[str, Any]
SMALL = 20  # rows up to which a sum of outer products beats a matrix product on a CPU


def glorot(key: Key[Array, ""], *shape: int) -> Layer:
    """Weights of the given shape (…, inputs, outputs), drawn as Glorot and Bengio (2010), and biases of zero."""
    w = jax.nn.initializers.glorot_uniform()(key, shape, jnp.float32)
    return {"w": w, "b": jnp.zeros(shape[-1], jnp.float32)}


def cut_normal(key: Key[Array, ""], *shape: int, deviation: float, bias: float) -> Layer:
    """Weights from a normal distribution cut off at two deviations, and equal biases."""
    w = deviation * jax.random.truncated_normal(key, -2.0, 2.0, shape, jnp.float32)
    return {"w": w, "b": jnp.full(shape[-1], bias, jnp.float32)}


def dense(layer: Layer, x: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
    """x·W + b, in the type of the weights."""
    w = layer["w"]
    small = partial(lax.platform_dependent, cpu=partial(fused, False), default=jnp.matmul)
    return plus((small if len(x) <= SMALL else jnp.matmul)(x.astype(w.dtype), w), layer["b"])


def plus(x: Float[Array, "… c"], bias: Float[Array, " c"]) -> Float[Array, "… c"]:
    """The sum x + b; the gradient for b, which is a long sum, is made in float32 at least."""
    wide = summed(bias)
    return x + (bias if bias.dtype == wide else jnp.broadcast_to(bias.astype(wide), x.shape).astype(x.dtype))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fused(transposed: bool, x: Float[Array, "batch inputs"], w: Float[Array, "…"]) -> Float[Array, "batch outputs"]:
    """x·W (or x·Wᵀ), with its gradient for W as a sum of a few outer products.

    XLA's CPU backend fuses that sum into whatever takes it: an SGD step is then one pass over W, and the gradient is
    never in memory. A quarter faster for batches of ten; a matrix product is better for large ones.
    """
    return x @ (w.T if transposed else w)


def _fused_forward(transposed: bool, x: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    return fused(transposed, x, w), (x, w)


def _fused_backward(transposed: bool, residuals: tuple[Array, Array], d: Array) -> tuple[Array, Array]:
    """The gradients dx = d·Wᵀ, dW = Σ x[i] ⊗ d[i]. W is read before dW is computed, so that it can change in place."""
    x, w = residuals
    dx, x, d = computed(jnp.isnan(d.ravel()[0]), d @ (w if transposed else w.T), x, d)
    rows, columns = (a.astype(summed(a)) for a in ((d, x) if transposed else (x, d)))
    dw = rows[0][:, None] * columns[0]
    for i in range(1, len(x)):
        dw += rows[i][:, None] * columns[i]
    return dx, dw.astype(w.dtype)


fused.defvjp(_fused_forward, _fused_backward)


def batch_norm(
    layer: Layer, statistics: Layer, x: Float[Array, "batch h w c"], training: bool
) -> tuple[Float[Array, "batch h w c"], Layer]:
    """Normalise each channel, then scale and shift it (Ioffe and Szegedy 2015); return the result and the statistics.

    Training uses the statistics of the batch, and moves the running ones a tenth of the way to them.
    """
    scale, shift = layer["scale"], layer["shift"]
    if not training:
        return rescale(x, statistics["mean"], statistics["variance"], 1e-5, scale, shift).astype(x.dtype), statistics
    found, mean, variance = normalise(x, (0, 1, 2), 1e-5, scale, shift)
    now = {"mean": mean.reshape(-1), "variance": variance.reshape(-1)}
    statistics = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * lax.stop_gradient(new), statistics, now)
    return found.astype(x.dtype), statistics


def same(x: Float[Array, "batch h w i"], w: Float[Array, "kh kw i o"]) -> Float[Array, "batch h w o"]:
    """Convolution that keeps the image's size, by a kernel with a middle, in the type of the weights."""
    how = Convolution((1, 1), tuple((k // 2, k // 2) for k in w.shape[:2]), (1, 1), (1, 1), 1, 1, None, None)
    return fastest(how, x.astype(w.dtype), w)


@jax.custom_vjp
def halve(x: Float[Array, "batch h w c"]) -> Float[Array, "batch h/2 w/2 c"]:
    """The largest value of every 2 × 2 pixels; pixels that share the largest value share its gradient.

    Its gradient needs not the pixels, but which of four was the largest; that of a reduce-window is ten times slower on
    a CPU.
    """
    a, b, c, d = corners(x)
    return jnp.maximum(jnp.maximum(a, b), jnp.maximum(c, d))


def corners(x: Float[Array, "batch h w c"]) -> tuple[Float[Array, "batch h/2 w/2 c"], ...]:
    """The four pixels of every 2 × 2."""
    b, h, w, c = x.shape
    x = x.reshape(b, h // 2, 2, w // 2, 2, c)
    return tuple(x[:, :, i, :, j] for i in (0, 1) for j in (0, 1))


def _halve_forward(x: Array) -> tuple[Array, Array]:
    y = halve(x)
    return kept(y, marked(corners(x), y, jnp.uint8))


def _halve_backward(which: Array, d: Array) -> tuple[Array]:
    share = d / lax.population_count(which).astype(d.dtype)
    four = jnp.stack([bit(which, k, d.dtype) * share for k in range(4)], axis=3)
    return (pixels(four.reshape(*d.shape[:3], -1)),)


def marked(candidates: Sequence[Array], y: Array, dtype: jax.typing.DTypeLike) -> Array:
    """Which of some candidates are y, a bit for each."""
    return sum(((one == y).astype(dtype) << k for k, one in enumerate(candidates)), jnp.zeros((), dtype))


def bit(which: Array, k: int, dtype: jax.typing.DTypeLike) -> Array:
    """The k-th bit, as a number of that type."""
    return ((which >> k) & 1).astype(dtype)


halve.defvjp(_halve_forward, _halve_backward)


@jax.custom_vjp
def settled(x: Array) -> Array:
    """The same; its gradient is computed before anything uses it. Fused into each product that reads it, a GPU computes
    a pooling's or a normalisation's gradient several times over.
    """
    return x


def _settled_forward(x: Array) -> tuple[Array, None]:
    return x, None


def _settled_backward(_: None, d: Array) -> tuple[Array]:
    return (lax.platform_dependent(d, cpu=lambda d: d, default=lax.optimization_barrier),)


settled.defvjp(_settled_forward, _settled_backward)


def kept(a: Array, b: Array) -> tuple[Array, Array]:
    """The same, computed once: a GPU would rather compute them again from what they are made of, which is larger."""
    both: tuple[Array, Array] = lax.platform_dependent(
        a, b, cpu=lambda *both: both, default=lambda *both: lax.optimization_barrier(both)
    )
    return both
