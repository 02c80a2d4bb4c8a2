"""The layers of the built-in models, each in the form that is fast on the device it is compiled for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Key

Layer = dict[str, Any]
SMALL = 20  # rows up to which a sum of outer products beats a matrix product on a CPU


def glorot(key: Key[Array, ""], *shape: int) -> Layer:
    """Weights of the given shape (…, inputs, outputs), drawn as Glorot and Bengio (2010), and biases of zero."""
    w = jax.nn.initializers.glorot_uniform()(key, shape, jnp.float32)
    return {"w": w, "b": jnp.zeros(shape[-1], jnp.float32)}


def dense(layer: Layer, x: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
    """x·W + b."""
    small = partial(lax.platform_dependent, cpu=partial(fused, False), default=jnp.matmul)
    return (small if len(x) <= SMALL else jnp.matmul)(x, layer["w"]) + layer["b"]


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
    dx, x, d = computed(d @ (w if transposed else w.T), x, d)
    rows, columns = (d, x) if transposed else (x, d)
    dw = rows[0][:, None] * columns[0]
    for i in range(1, len(x)):
        dw += rows[i][:, None] * columns[i]
    return dx, dw


fused.defvjp(_fused_forward, _fused_backward)


def computed(*arrays: Array) -> tuple[Array, ...]:
    """The same arrays, certainly in memory and not computed again and again inside a fused loop.

    XLA's CPU backend drops an optimisation barrier before it fuses; a loop that never turns it must keep. (It turns
    once if the last array is broken, that is NaN, and leaves it NaN.)
    """
    turns = jnp.isnan(arrays[-1].ravel()[0]).astype(jnp.int32)
    return lax.fori_loop(0, turns, lambda _, kept: tuple(array + 1 for array in kept), arrays)


def batch_norm(
    layer: Layer, statistics: Layer, x: Float[Array, "batch h w c"], training: bool
) -> tuple[Float[Array, "batch h w c"], Layer]:
    """Every channel with mean 0 and variance 1, then scaled and shifted (Ioffe and Szegedy 2015), and the statistics:
    in training those of the batch are used, and the running ones move a tenth of the way to them.
    """
    mean, variance = statistics["mean"], statistics["variance"]
    if training:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        now = {"mean": mean, "variance": variance}
        statistics = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * lax.stop_gradient(new), statistics, now)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * layer["scale"] + layer["shift"], statistics


def convolve_halve(layer: Layer, x: Float[Array, "batch h w inputs"]) -> Float[Array, "batch h/2 w/2 outputs"]:
    """Convolution that keeps the image's size, 2 × 2 max-pooling, and the bias: added last, which is the same and four
    times less work.
    """
    return halve(lax.platform_dependent(x, layer["w"], cpu=direct, default=patches)) + layer["b"]


@jax.custom_vjp
def halve(x: Float[Array, "batch h w c"]) -> Float[Array, "batch h/2 w/2 c"]:
    """The largest value of every 2 × 2 pixels; pixels that share the largest value share its gradient.

    Its gradient is one pass over the pixels; that of a reduce-window is ten times slower on a CPU.
    """
    b, h, w, c = x.shape
    x = x.reshape(b, h // 2, 2, w // 2, 2, c)
    x = jnp.maximum(x[:, :, 0], x[:, :, 1])
    return jnp.maximum(x[:, :, :, 0], x[:, :, :, 1])


def _halve_forward(x: Array) -> tuple[Array, tuple[Array, Array]]:
    y = halve(x)
    return y, (x, y)


def _halve_backward(residuals: tuple[Array, Array], d: Array) -> tuple[Array]:
    x, y = residuals
    b, h, w, c = y.shape
    largest = (x.reshape(b, h, 2, w, 2, c) == y[:, :, None, :, None]).astype(x.dtype)
    sharing = largest[:, :, 0, :, 0] + largest[:, :, 0, :, 1] + largest[:, :, 1, :, 0] + largest[:, :, 1, :, 1]
    return ((largest * (d / sharing)[:, :, None, :, None]).reshape(x.shape),)


halve.defvjp(_halve_forward, _halve_backward)


def unfold(x: Float[Array, "batch h w i"], kh: int, kw: int) -> Float[Array, "batch*h*w kh*kw*i"]:
    """The kh × kw neighbourhood of every pixel as a row, by one gather (four times faster than 25 slices)."""
    b, h, w, i = x.shape
    padded = jnp.pad(x, ((0, 0), (kh // 2, kh // 2), (kw // 2, kw // 2), (0, 0)))
    rows = np.arange(h)[:, None, None, None] + np.arange(kh)[:, None]
    columns = np.arange(w)[:, None, None] + np.arange(kw)
    places = (rows * padded.shape[2] + columns).ravel()
    return padded.reshape(b, -1, i)[:, places].reshape(b * h * w, kh * kw * i)


@jax.custom_vjp
def patches(x: Float[Array, "batch h w i"], w: Float[Array, "kh kw i o"]) -> Float[Array, "batch h w o"]:
    """Convolution as patches × matrix: with weights that differ by client, a batched matrix product is three times
    faster on a GPU than the grouped convolution that ``vmap`` would make.
    """
    return _patches_forward(x, w)[0]


def _patches_forward(x: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    rows = unfold(x, *w.shape[:2])
    return (rows @ w.reshape(-1, w.shape[3])).reshape(*x.shape[:3], w.shape[3]), (rows, w)


def _patches_backward(residuals: tuple[Array, Array], d: Array) -> tuple[Array, Array]:
    """Dw = patchesᵀ·d, and dx sums what each pixel gave to its neighbours' patches."""
    rows, w = residuals
    (b, h, width, o), (kh, kw, i, _) = d.shape, w.shape
    flat = d.reshape(-1, o)
    dw = (rows.T @ flat).reshape(w.shape)
    given = (flat @ w.reshape(-1, o).T).reshape(b, h, width, kh, kw, i)
    given = jnp.pad(given, ((0, 0), (kh // 2, kh // 2), (kw // 2, kw // 2), (0, 0), (0, 0), (0, 0)))
    back = [(r, c, kh - 1 - r, kw - 1 - c) for r in range(kh) for c in range(kw)]
    dx = jnp.zeros((b, h, width, i), d.dtype)
    for r, c, up, left in back:
        dx += given[:, up : up + h, left : left + width, r, c]
    return dx, dw


patches.defvjp(_patches_forward, _patches_backward)


def _convolve(x: Array, w: Array, padding: Any = "SAME") -> Array:
    return lax.conv_general_dilated(x, w, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


@jax.custom_vjp
def direct(x: Float[Array, "batch h w i"], w: Float[Array, "kh kw i o"]) -> Float[Array, "batch h w o"]:
    """Convolution by ``lax.conv``, its gradients too, all three in the one axis order that XLA's CPU backend has a fast
    kernel for. Outside a loop XLA brings a gradient's convolution into that order by itself; inside a loop it does
    not, and runs it twelve times slower.
    """
    return _convolve(x, w)


def _forward(x: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    return _convolve(x, w), (x, w)


def _backward(residuals: tuple[Array, Array], d: Array) -> tuple[Array, Array]:
    """Dx = d ⋆ flip(w), dw[r, c] = Σ over images and pixels of x[shifted by r, c] · d."""
    x, w = residuals
    dx = _convolve(d, w[::-1, ::-1].transpose(0, 1, 3, 2))
    margin = [(w.shape[0] // 2,) * 2, (w.shape[1] // 2,) * 2]
    dw = _convolve(x.transpose(3, 1, 2, 0), d.transpose(1, 2, 0, 3), margin)
    return dx, dw.transpose(1, 2, 0, 3)


direct.defvjp(_forward, _backward)
