"""Character LSTM: predict the next character after each (McMahan et al. 2017, section 3)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedloom.tasks.layers import Layer, glorot
from fedloom.tasks.objective import cross_entropy
from fedloom.tasks.task import Batch, Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, Key, PyTree

UNROLL = 4  # times in one turn of the loop
APART = 4.0  # deviation of the embedding: characters that begin far apart are told apart sooner


@cache
def char_lstm(vocabulary: int, embedding: int = 8, hidden: int = 256) -> Task:
    """Characters embedded in a few dimensions, two LSTM layers, and a softmax over the next character.

    An example is a window of characters ``x`` and for each the next one ``y``, or -1 where there is none to predict; or
    ``y`` is one character, the next after the whole window (as in LEAF).

    >>> from fedloom.trees import count
    >>> count(char_lstm(vocabulary=86).init(jax.random.key(0)).params)
    819462
    """

    def init(key: Key[Array, ""]) -> Variables:
        k1, k2, k3, k4 = jax.random.split(key, 4)
        layers = {
            "embedding": {"w": APART * jax.random.normal(k1, (vocabulary, embedding))},
            "lstm1": cell(k2, embedding, hidden),
            "lstm2": cell(k3, hidden, hidden),
            "output": glorot(k4, hidden, vocabulary),
        }
        return Variables(layers, {})

    def logits(params: PyTree, x: Int[Array, "batch time"]) -> Float[Array, "batch*time vocabulary"]:
        h = params["embedding"]["w"][x.astype(jnp.int32).T]
        h = lstm(params["lstm2"], lstm(params["lstm1"], h))
        flat = h.swapaxes(0, 1).reshape(x.size, hidden)
        return flat @ params["output"]["w"] + params["output"]["b"]

    def each(variables: Variables, batch: Batch) -> tuple[Array, Array, Array]:
        """Of each character: the loss, whether it was guessed, whether there was one to guess."""
        y = batch["y"].astype(jnp.int32)
        if y.ndim == 1:
            y = jnp.full(batch["x"].shape, -1).at[:, -1].set(y)
        found, wanted, real = logits(variables.params, batch["x"]), y.ravel(), (y >= 0).astype(jnp.float32)
        losses = cross_entropy(found, wanted).reshape(y.shape)
        correct = (jnp.argmax(found, axis=-1) == wanted).reshape(y.shape)
        return losses * real, correct * real, real

    def loss(
        variables: Variables,
        batch: Batch,
        key: Key[Array, ""],  # noqa: ARG001
    ) -> tuple[Float[Array, " batch"], PyTree]:
        losses, _, real = each(variables, batch)
        return losses.sum(axis=1) / jnp.maximum(real.sum(axis=1), 1), variables.state

    def metrics(variables: Variables, batch: Batch) -> dict[str, Float[Array, " batch"]]:
        losses, correct, real = each(variables, batch)
        return {"loss": losses.sum(axis=1), "accuracy": correct.sum(axis=1), "count": real.sum(axis=1)}

    return Task("lstm", init, loss, metrics, vocabulary)


def cell(key: Key[Array, ""], inputs: int, hidden: int) -> Layer:
    """The weights of an LSTM layer, gates in the order input, forget, cell, output; the forget gate's bias is 1.

    Inputs come in with a variance of about 1, whatever their number: with weights as Glorot and Bengio's, a few inputs
    are hardly heard at first, and learning takes half as long again.
    """
    kx, kh = jax.random.split(key)
    recurrent = jax.nn.initializers.orthogonal()(kh, (hidden, 4 * hidden), jnp.float32)
    bias = jnp.zeros(4 * hidden).at[hidden : 2 * hidden].set(1.0)
    given = jax.random.normal(kx, (inputs, 4 * hidden)) / np.sqrt(inputs)
    return {"x": given, "h": recurrent, "b": bias}


def lstm(layer: Layer, x: Float[Array, "time batch inputs"]) -> Float[Array, "time batch hidden"]:
    """An LSTM layer (Hochreiter and Schmidhuber 1997, with forget gates).

    i, f, g, o = x·X + h·H + b;  c ← σ(f)·c + σ(i)·tanh(g);  h ← σ(o)·tanh(c)
    """
    return recur(x @ layer["x"] + layer["b"], layer["h"])  # what depends on x, for all times at once


@jax.custom_vjp
def recur(given: Float[Array, "time batch 4*hidden"], w: Float[Array, "hidden 4*hidden"]) -> Float[Array, "…"]:
    """The outputs h of an LSTM layer, given x·X + b and the recurrent weights H.

    Its gradient for H is one matrix product after the loop; left to itself, JAX adds up a matrix at every time.
    """
    return _recur_forward(given, w)[0]


def _recur_forward(given: Array, w: Array) -> tuple[Array, tuple[Array, ...]]:
    def step(carry: tuple[Array, Array], now: Array) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
        h, c = carry
        i, f, g, o = jnp.split(now + h @ w, 4, axis=-1)
        i, f, g, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)
        c = f * c + i * g
        h = o * jnp.tanh(c)
        return (h, c), (h, c, jnp.concatenate([i, f, g, o], axis=-1))

    zero = jnp.zeros((given.shape[1], w.shape[0]), given.dtype)
    _, (h, c, gates) = lax.scan(step, (zero, zero), given, unroll=UNROLL)
    return h, (h, c, gates, w)


def _recur_backward(residuals: tuple[Array, ...], d: Array) -> tuple[Array, Array]:
    """From the last time to the first, with dh and dc coming from the time after:

    do = dh·tanh(c);  dc += dh·o·(1 - tanh²(c));  di = dc·g;  df = dc·c₋₁;  dg = dc·i;  dc₋₁ = dc·f
    """
    h, c, gates, w = residuals
    before = lambda a: jnp.concatenate([jnp.zeros_like(a[:1]), a[:-1]])  # noqa: E731

    def step(carry: tuple[Array, Array], now: tuple[Array, ...]) -> tuple[tuple[Array, Array], Array]:
        dh, dc = carry
        given, c, c_before, gates = now
        dh += given
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        t = jnp.tanh(c)
        dc += dh * o * (1 - t * t)
        into = [dc * g * i * (1 - i), dc * c_before * f * (1 - f), dc * i * (1 - g * g), dh * t * o * (1 - o)]
        dz = jnp.concatenate(into, axis=-1)
        return (dz @ w.T, dc * f), dz

    zero = jnp.zeros_like(h[0])
    _, dz = lax.scan(step, (zero, zero), (d, c, before(c), gates), reverse=True, unroll=UNROLL)
    return dz, jnp.einsum("tbh,tbk->hk", before(h), dz)


recur.defvjp(_recur_forward, _recur_backward)
