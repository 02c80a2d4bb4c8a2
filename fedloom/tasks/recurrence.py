"""Recurrence: PyTorch's LSTM, GRU and RNN as loops that compile at once, whatever the number of times.

Left to itself torchax writes out every time step: minutes of compilation for a line of text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from fedloom.errors import ArgumentError

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Key

State = tuple[Any, ...]
Step = Callable[[State, Any, Callable[[Any], Any]], State]
"""(state, x·Wᵢ + bᵢ of a time, h → h·Wₕ + bₕ) → the state after it; its first array is what comes out."""


def lstm(state: State, given: Float[Array, "batch 4*h"], again: Callable[[Array], Array]) -> State:
    """i, f, g, o = given + again(h);  c ← σ(f)·c + σ(i)·tanh(g);  h ← σ(o)·tanh(c)."""
    h, c = state
    i, f, g, o = jnp.split(given + again(h), 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def gru(state: State, given: Float[Array, "batch 3*h"], again: Callable[[Array], Array]) -> State:
    """r, z = σ(given + again(h));  n = tanh(given + r·again(h));  h ← (1 - z)·n + z·h."""
    [h] = state
    (r, z, n), (rh, zh, nh) = jnp.split(given, 3, axis=-1), jnp.split(again(h), 3, axis=-1)
    r, z = jax.nn.sigmoid(r + rh), jax.nn.sigmoid(z + zh)
    return ((1 - z) * jnp.tanh(n + r * nh) + z * h,)


def rnn_tanh(state: State, given: Float[Array, "batch h"], again: Callable[[Array], Array]) -> State:
    """H ← tanh(given + again(h))."""
    return (jnp.tanh(given + again(state[0])),)


def rnn_relu(state: State, given: Float[Array, "batch h"], again: Callable[[Array], Array]) -> State:
    """H ← max(given + again(h), 0)."""
    return (jax.nn.relu(given + again(state[0])),)


STEPS: dict[str, Step] = {"lstm": lstm, "gru": gru, "rnn_tanh": rnn_tanh, "rnn_relu": rnn_relu}


def layer(
    kind: str, x: Array, state: State, weights: Sequence[Array], biased: bool, back: bool, batch_first: bool
) -> tuple[Array, State]:
    """Return what comes out of one layer in one direction at each time, and its last state.

    The program has it as a call of a function with a name, by which forms.py knows it: on a CPU an LSTM has a kernel.

    Args:
        x: (batch, time, inputs) if batch_first, else (time, batch, inputs).
        weights: Wᵢ, Wₕ, their biases where there are some, and an LSTM's projection of h, where there is one.
    """
    return named_layer(kind, biased, back, batch_first)(x, state, weights)


@cache
def named_layer(kind: str, biased: bool, back: bool, batch_first: bool) -> Callable[..., tuple[Array, State]]:
    """Return a layer under its name."""

    def one_layer(x: Array, state: State, weights: Sequence[Array]) -> tuple[Array, State]:
        out, last = loop(STEPS[kind], jnp.swapaxes(x, 0, 1) if batch_first else x, state, weights, biased, back)
        return jnp.swapaxes(out, 0, 1) if batch_first else out, last

    one_layer.__name__ = layer_name(kind, back, batch_first)
    return jax.jit(one_layer)


def layer_name(kind: str, back: bool, batch_first: bool) -> str:
    """Return the name of a layer in a traced program.

    >>> layer_name("lstm", False, True)
    'fedloom_lstm_batch_first'
    """
    return f"fedloom_{kind}" + "_back" * back + "_batch_first" * batch_first


def loop(
    step: Step, x: Float[Array, "time batch inputs"], state: State, weights: Sequence[Array], biased: bool, back: bool
) -> tuple[Float[Array, "time batch hidden"], State]:
    """Return the same, from a loop over times."""
    wi, wh, *rest = weights
    none = jnp.zeros((), x.dtype)
    bi, bh, *projection = rest if biased else [none, none, *rest]
    given = x @ wi.T + bi

    def one(state: State, now: Array) -> tuple[State, Array]:
        ahead = step(state, now, lambda h: h @ wh.T + bh)
        if projection:
            ahead = (ahead[0] @ projection[0].T, *ahead[1:])
        return ahead, ahead[0]

    last, out = lax.scan(one, state, given, reverse=back)
    return out, last


def recurrent(
    kind: str,
    key: Key[Array, ""],
    x: Array,
    state: Any,
    weights: Sequence[Array],
    biased: bool,
    layers: int,
    dropout: float,
    training: bool,
    both_ways: bool,
    batch_first: bool,
) -> tuple[Array, ...]:
    """What ``torch.lstm`` and the like give for the same arguments, and a key for dropout between layers."""
    if not isinstance(state, tuple | list) and state.ndim != 3:
        raise ArgumentError("module", "one that is given whole sequences, or trained as it is (TorchClient)", "packed")
    states: tuple[Array, ...] = tuple(state) if isinstance(state, tuple | list) else (state,)
    ways = 2 if both_ways else 1
    each = len(weights) // (layers * ways)
    h = x
    ends: list[State] = []
    for i in range(layers):
        found = []
        for way in range(ways):
            at = i * ways + way
            own = weights[at * each : (at + 1) * each]
            out, end = layer(kind, h, tuple(s[at] for s in states), own, biased, way == 1, batch_first)
            found.append(out)
            ends.append(end)
        h = jnp.concatenate(found, axis=-1)
        if training and dropout and i + 1 < layers:
            drawn = (h.shape[1], h.shape[0], h.shape[2]) if batch_first else h.shape
            kept = jax.random.bernoulli(jax.random.fold_in(key, i), 1 - dropout, drawn)
            h = jnp.where(jnp.swapaxes(kept, 0, 1) if batch_first else kept, h / (1 - dropout), 0)
    last = tuple(jnp.stack([end[j] for end in ends]) for j in range(len(states)))
    return (h, *last)
