"""Normalisation: x ↦ (x - μ)·a·γ + b with a = 1 / √(σ² + ε), for batch, layer, instance and group norms.

μ and σ² are means over some axes. They are computed from d = x - k, where k is the mean of a part of x:

    ρ = mean(d),  μ = k + ρ,  σ² = mean(d²) - ρ²,  y = (d·a - ρ·a)·γ + b

Any k gives the same result in exact arithmetic, so k needs no gradient, and one pass over x suffices for both means.
With the mean of a share p of the numbers as k, ρ² is at most σ²·(1 - p)/p: the subtraction is accurate however far from
zero x is (Chan, Golub and LeVeque 1983). JAX's gradient of this form is one pass over x, after one for sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, overload

import jax.numpy as jnp
from jax import lax

from fedloom.tasks.summed import summed

if TYPE_CHECKING:
    from jaxtyping import Array, Float

Average = Callable[["Array"], "Array"]
PART = 16  # k is the mean of one in 16 places, at least of one


def unchanged(means: Array) -> Array:
    """Return means as they are: a norm without groups."""
    return means


def normalise(
    x: Float[Array, "…"],
    axes: Sequence[int],
    epsilon: float,
    scale: Float[Array, "…"] | None = None,
    shift: Float[Array, "…"] | None = None,
    average: Average = unchanged,
) -> tuple[Float[Array, "…"], Float[Array, "…"], Float[Array, "…"]]:
    """Return the normalised array, its mean and its variance, in float32 at least.

    Args:
        x: the array.
        axes: the axes over which means are taken.
        epsilon: ε.
        scale, shift: γ and b, in shapes that can be broadcast with ``x``.
        average: a linear function of the means over ``axes``, such as :func:`over_groups`.

    >>> y, mean, variance = normalise(jnp.array([[1.0, 3.0], [5.0, 7.0]]), [1], 0.0)
    >>> y.tolist(), mean.tolist(), variance.tolist()
    ([[-1.0, 1.0], [-1.0, 1.0]], [[2.0], [6.0]], [[1.0], [1.0]])
    """
    axes = tuple(sorted(axis % x.ndim for axis in axes))
    x = x.astype(summed(x))
    near = _rounded(lax.stop_gradient(average(jnp.mean(_part(x, axes), axes, keepdims=True))))
    d = x - near
    rest = average(jnp.mean(d, axes, keepdims=True))
    variance = jnp.maximum(average(jnp.mean(d * d, axes, keepdims=True)) - rest * rest, 0)
    a = lax.rsqrt(variance + epsilon)
    return _affine(d, rest, a, scale, shift, axes), near + rest, variance


def rescale(
    x: Float[Array, "…"],
    mean: Float[Array, "…"],
    variance: Float[Array, "…"],
    epsilon: float,
    scale: Float[Array, "…"] | None = None,
    shift: Float[Array, "…"] | None = None,
) -> Float[Array, "…"]:
    """Return an array normalised by a known mean and variance, in float32 at least.

    >>> rescale(jnp.array([1.0, 3.0]), jnp.array([1.0]), jnp.array([4.0]), 0.0).tolist()
    [0.0, 1.0]
    """
    a = lax.rsqrt(variance + epsilon)
    found = (x.astype(summed(x)) - mean) * (a if scale is None else a * scale)
    return found if shift is None else found + shift


@overload
def along(values: Float[Array, "…"], x: Float[Array, "…"], axes: Sequence[int]) -> Float[Array, "…"]: ...
@overload
def along(values: None, x: Float[Array, "…"], axes: Sequence[int]) -> None: ...
def along(values: Float[Array, "…"] | None, x: Float[Array, "…"], axes: Sequence[int]) -> Float[Array, "…"] | None:
    """Return values for the places along some axes of an array, in a shape that can be broadcast with it.

    >>> along(jnp.zeros(3), jnp.zeros((2, 3, 4, 4)), [1]).shape
    (1, 3, 1, 1)
    """
    return None if values is None else values.reshape([n if axis in axes else 1 for axis, n in enumerate(x.shape)])


def over_groups(axis: int, groups: int) -> Average:
    """Return a function that averages the entries of each group along an axis, and repeats the mean for each entry.

    >>> over_groups(0, 2)(jnp.array([1.0, 3.0, 5.0, 9.0])).tolist()
    [2.0, 2.0, 7.0, 7.0]
    """

    def average(means: Array) -> Array:
        size = means.shape[axis] // groups
        grouped = means.reshape(*means.shape[:axis], groups, size, *means.shape[axis + 1 :])
        return jnp.repeat(grouped.mean(axis + 1), size, axis=axis)

    return average


def _part(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the first entries along the longest of some axes; along the first axis, the batch, only if it must be."""
    if not axes or x.size == 0:
        return x
    longest = max([axis for axis in axes if axis > 0] or axes, key=lambda axis: x.shape[axis])
    return lax.slice_in_dim(x, 0, max(1, x.shape[longest] // PART), axis=longest)


def _rounded(a: Array) -> Array:
    """Return numbers rounded by one bit more than their type.

    Without it, a compiler may keep the unrounded product of a mean in one pass over x, in a fused multiply-add, and not
    in another: k would not be the same in both.
    """
    kind = jnp.finfo(a.dtype)
    return lax.reduce_precision(a, kind.nexp, kind.nmant - 1)


def _affine(d: Array, rest: Array, a: Array, scale: Array | None, shift: Array | None, axes: tuple[int, ...]) -> Array:
    """Return (d·a - ρ·a)·γ + b; with a·γ multiplied first if γ is the same along the axes of the means."""
    if scale is not None and not _varies(scale, axes, d.ndim):
        a, scale = a * scale, None
    b = -rest * a
    if scale is not None:
        found = (d * a + b) * scale
        return found if shift is None else found + shift
    return d * a + (b if shift is None else b + shift)


def _varies(scale: Array, axes: tuple[int, ...], rank: int) -> bool:
    sizes = (1,) * (rank - scale.ndim) + scale.shape
    return any(sizes[axis] > 1 for axis in axes)
