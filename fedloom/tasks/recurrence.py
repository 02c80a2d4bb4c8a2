"""Recurrence: PyTorch's LSTM, GRU and RNN as loops that compile at once, whatever the number of times.

Left to itself torchax writes out every time step: minutes of compilation for a line of text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    step: Step, x: Float[Array, "time batch inputs"], state: State, weights: Sequence[Array], biased: bool, back: bool
) -> tuple[Float[Array, "time batch hidden"], State]:
    """One layer in one direction: what comes out at each time, and the state in the end.

    Arguments:
        weights: Wᵢ, Wₕ, their biases where there are some, and an LSTM's projection of h, where there is one.
    """
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
    h = jnp.swapaxes(x, 0, 1) if batch_first else x
    ends: list[State] = []
    for i in range(layers):
        found = []
        for way in range(ways):
            at = i * ways + way
            own = weights[at * each : (at + 1) * each]
            out, end = layer(STEPS[kind], h, tuple(s[at] for s in states), own, biased, back=way == 1)
            found.append(out)
            ends.append(end)
        h = jnp.concatenate(found, axis=-1)
        if training and dropout and i + 1 < layers:
            kept = jax.random.bernoulli(jax.random.fold_in(key, i), 1 - dropout, h.shape)
            h = jnp.where(kept, h / (1 - dropout), 0)
    last = tuple(jnp.stack([end[j] for end in ends]) for j in range(len(states)))
    return (jnp.swapaxes(h, 0, 1) if batch_first else h, *last)
