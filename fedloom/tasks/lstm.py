"""LSTM: a layer with memory (Hochreiter and Schmidhuber 1997, with forget gates), and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import fedloom.tasks.lstm_kernel as kernel
from fedloom.kernels.by_model import by_model
from fedloom.tasks.layers import Layer
from fedloom.tasks.summed import summed

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Key

    Carry = tuple[Array, Array]

T = TypeVar("T")
UNROLL = 4  # times in one turn of the loop on a CPU
TURN = 8  # and at most on an accelerator


def cell(key: Key[Array, ""], inputs: int, hidden: int, plain: bool = False) -> Layer:
    """The weights of an LSTM layer, gates in the order input, forget, cell, output; the forget gate's bias is 1.

    Inputs come in with a variance of about 1, whatever their number: with weights as Glorot and Bengio's, which are
    plain, a few inputs are hardly heard at first, and learning takes half as long again.
    """
    kx, kh = jax.random.split(key)
    recurrent = jax.nn.initializers.orthogonal()(kh, (hidden, 4 * hidden), jnp.float32)
    bias = jnp.zeros(4 * hidden).at[hidden : 2 * hidden].set(1.0)
    drawn = jax.nn.initializers.glorot_uniform() if plain else jax.nn.initializers.normal(1 / np.sqrt(inputs))
    return {"x": drawn(kx, (inputs, 4 * hidden), jnp.float32), "h": recurrent, "b": bias}


def lstm(layer: Layer, x: Float[Array, "time batch inputs"]) -> Float[Array, "time batch hidden"]:
    """What comes out of an LSTM layer at each time.

    i, f, g, o = x·X + b + h·H;  c ← σ(f)·c + σ(i)·tanh(g);  h ← σ(o)·tanh(c)
    """
    # What depends on x, for all times at once, as one matrix: in bfloat16 its gradient is a sum that XLA makes well.
    given = x.reshape(-1, x.shape[-1]) @ layer["x"]
    return recur(given.reshape(*x.shape[:-1], -1), layer["b"], layer["h"])


@jax.custom_vjp
def recur(
    given: Float[Array, "time batch 4*hidden"], b: Float[Array, " 4*hidden"], w: Float[Array, "hidden 4*hidden"]
) -> Float[Array, "time batch hidden"]:
    """The outputs h of an LSTM layer, given x·X, the bias and the recurrent weights H.

    Its gradient for H is one matrix product after the loop; left to itself, JAX adds up a matrix at every time.
    """
    return _recur_forward(given, b, w)[0]


def _recur_forward(given: Array, b: Array, w: Array) -> tuple[Array, tuple[Array, ...]]:
    h, c, opened = lax.platform_dependent(given, b, w, cpu=cpu_forward, cuda=cuda_forward, default=accelerator_forward)
    return h, (h, c, opened, w)


def _recur_backward(residuals: tuple[Array, ...], d: Array) -> tuple[Array, Array, Array]:
    h, c, opened, w = residuals
    dz = lax.platform_dependent(d, c, opened, w, cpu=cpu_backward, cuda=cuda_backward, default=accelerator_backward)
    return dz, dz.sum((0, 1)), jnp.einsum("tbh,tbk->hk", before(h), dz)


recur.defvjp(_recur_forward, _recur_backward)


def cpu_forward(given: Array, b: Array, w: Array) -> tuple[Array, Array, Array]:
    """The outputs, cells and gates of all times, kept as they come: fast on a CPU."""

    def step(carry: Carry, now: Array) -> tuple[Carry, tuple[Array, ...]]:
        h, c, opened = ahead(*carry, now, b, w)
        return (h, c), (h, c.astype(h.dtype), jnp.concatenate(opened, axis=-1).astype(h.dtype))

    h, c, opened = lax.scan(step, nothing(given, w), given, unroll=UNROLL)[1]
    return h, c, opened


def accelerator_forward(given: Array, b: Array, w: Array) -> tuple[Array, Array, Array]:
    """The same, for an accelerator."""
    return one_of(models_forward, given, b, w)


def cuda_forward(given: Array, b: Array, w: Array) -> tuple[Array, Array, Array]:
    """The same, for NVIDIA's: in one kernel, where there is one for that."""
    return one_of(kernel.forward if kernel.fits(given, w, kernel.AHEAD) else models_forward, given, b, w)


def models_forward(
    given: Float[Array, "m time batch 4*hidden"], b: Float[Array, "m 4*hidden"], w: Float[Array, "m hidden 4*hidden"]
) -> tuple[Array, Array, Array]:
    """The outputs, cells and gates of all times of several models. What a loop finds is put down after every few times,
    so that it is few passes over memory; and gates are computed again after it, of all times at once.
    """
    (m, times, rows, _), hidden, b = given.shape, w.shape[1], b[:, None]
    many = turn_length(times)

    def turn(i: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        h, c, *rooms = state
        found = []
        for k in range(many):
            h, c, _ = ahead(h, c, at(given, i * many + k), b, w)
            found.append((h, c.astype(h.dtype)))
        put = [put_down(room, each, i * many) for room, each in zip(rooms, zip(*found, strict=True), strict=True)]
        return h, c, *put

    zero = jnp.zeros((m, rows, hidden), given.dtype)
    room = lax.empty((m, times, rows, hidden), given.dtype)
    _, _, h, c = lax.fori_loop(0, times // many, turn, (zero, zero.astype(summed(w)), room, room))
    heard = jax.vmap(before)(h).reshape(m, -1, hidden) @ w
    opened = gates(given.astype(summed(w)) + b[:, None] + heard.reshape(given.shape))
    return h, c, jnp.concatenate(opened, axis=-1).astype(h.dtype)


def cpu_backward(d: Array, c: Array, opened: Array, w: Array) -> Float[Array, "time batch 4*hidden"]:
    """The gradient for what is given, from the last time to the first."""

    def step(carry: Carry, now: tuple[Array, ...]) -> tuple[Carry, Array]:
        d, c, c_before, opened = now
        dz, dc = back(*carry, d, c, c_before, opened, w)
        return ((dz @ w.T).astype(dc.dtype), dc), dz

    zero = jnp.zeros(d.shape[1:], summed(w))
    dz: Array = lax.scan(step, (zero, zero), (d, c, before(c), opened), reverse=True, unroll=UNROLL)[1]
    return dz


def accelerator_backward(d: Array, c: Array, opened: Array, w: Array) -> Float[Array, "time batch 4*hidden"]:
    """The same, for an accelerator."""
    return one_of(models_backward, d, c, opened, w)


def cuda_backward(d: Array, c: Array, opened: Array, w: Array) -> Float[Array, "time batch 4*hidden"]:
    """The same, for NVIDIA's."""
    return one_of(kernel.backward if kernel.fits(d, w, kernel.BACK) else models_backward, d, c, opened, w)


def models_backward(
    d: Float[Array, "m time batch hidden"],
    c: Float[Array, "m time batch hidden"],
    opened: Float[Array, "m time batch 4*hidden"],
    w: Float[Array, "m hidden 4*hidden"],
) -> Float[Array, "m time batch 4*hidden"]:
    """The gradients for what is given to several models, put down after every few times too."""
    m, times, rows, hidden = d.shape
    many, back_w = turn_length(times), w.swapaxes(1, 2)

    def turn(i: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        dh, dc, room = state
        first, found = times - (i + 1) * many, []
        for t in (first + k for k in reversed(range(many))):
            c_before = jnp.where(t > 0, at(c, jnp.maximum(t - 1, 0)), 0)
            dz, dc = back(dh, dc, at(d, t), at(c, t), c_before, at(opened, t), w)
            dh = (dz @ back_w).astype(dh.dtype)
            found.append(dz)
        return dh, dc, put_down(room, found[::-1], first)

    zero = jnp.zeros((m, rows, hidden), summed(w))
    room = lax.empty(opened.shape, w.dtype)
    dz: Array = lax.fori_loop(0, times // many, turn, (zero, zero, room))[2]
    return dz


def one_of(function: Callable[..., T], *arrays: Array) -> T:
    """What a function of several models finds for one."""
    found: T = jax.tree.map(lambda a: a[0], by_model(function)(*(a[None] for a in arrays)))
    return found


def turn_length(times: int) -> int:
    """How many times are one turn of a loop: as many as TURN, or fewer, so that turns make up all.

    >>> turn_length(80), turn_length(9), turn_length(7), turn_length(11)
    (8, 3, 7, 1)
    """
    return max(k for k in range(1, TURN + 1) if times % k == 0)


def at(a: Float[Array, "m time …"], t: Array) -> Float[Array, "m …"]:
    """What all models have at a time."""
    return lax.dynamic_index_in_dim(a, t, axis=1, keepdims=False)


def put_down(room: Float[Array, "m time …"], found: Sequence[Array], first: Array) -> Float[Array, "m time …"]:
    """The room with what all models found at the times from the first on."""
    return lax.dynamic_update_slice_in_dim(room, jnp.stack(found, axis=1), first, axis=1)


def ahead(h: Array, c: Array, given: Array, b: Array, w: Array) -> tuple[Array, Array, tuple[Array, ...]]:
    """The output, the cell and the gates of one time, from those of the time before."""
    opened = i, f, g, o = gates(given.astype(c.dtype) + b + h @ w)
    c = f * c + i * g
    return (o * jnp.tanh(c)).astype(h.dtype), c, opened


def back(
    dh: Array, dc: Array, d: Array, c: Array, c_before: Array, opened: Array, w: Array
) -> tuple[Float[Array, "batch 4*hidden"], Float[Array, "batch hidden"]]:
    """The gradients for what is given at one time, and for the cell of the time before; dh and dc are from the time
    after, d from above:

    do = dh·tanh(c);  dc += dh·o·(1 - tanh²(c));  di = dc·g;  df = dc·c₋₁;  dg = dc·i;  dc₋₁ = dc·f
    """
    d, c, c_before, opened = (a.astype(summed(w)) for a in (d, c, c_before, opened))
    dh += d
    i, f, g, o = jnp.split(opened, 4, axis=-1)
    t = jnp.tanh(c)
    dc += dh * o * (1 - t * t)
    into = [dc * g * i * (1 - i), dc * c_before * f * (1 - f), dc * i * (1 - g * g), dh * t * o * (1 - o)]
    return jnp.concatenate(into, axis=-1).astype(w.dtype), dc * f


def nothing(given: Array, w: Array) -> Carry:
    """The output and the cell before the first time; a cell is a long sum."""
    shape = given.shape[1], w.shape[0]
    return jnp.zeros(shape, given.dtype), jnp.zeros(shape, summed(w))


def gates(z: Float[Array, "… 4*hidden"]) -> tuple[Array, ...]:
    """σ(i), σ(f), tanh(g), σ(o)."""
    i, f, g, o = jnp.split(z, 4, axis=-1)
    return jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)


def before(a: Float[Array, "time …"]) -> Float[Array, "time …"]:
    """What was at the time before; zero at first."""
    return jnp.concatenate([jnp.zeros_like(a[:1]), a[:-1]])
