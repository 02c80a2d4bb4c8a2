"""Keras recurrence: Keras's LSTM and GRU as layers of :mod:`fedloom.tasks.recurrence`, which have kernels on a CPU."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from fedloom.machine import devices
from fedloom.tasks.recurrence import layer as recurrent_layer
from fedloom.tasks.user_model import library

if TYPE_CHECKING:
    from jaxtyping import Array

    from fedloom.tasks.replacing import Method, Replacement

ORDER = {"lstm": (0, 1, 2, 3), "gru": (1, 0, 2)}
"""Kind → where PyTorch's gates are among Keras's."""


def recurrences() -> dict[Method, Replacement]:
    """Return the methods of Keras's layers that are replaced, and by what."""
    layers = library("keras.layers", "keras")
    return {
        (layers.LSTM, "inner_loop"): partial(_inner_loop, "lstm", layers.LSTM, layers.LSTMCell),
        (layers.GRU, "inner_loop"): partial(_inner_loop, "gru", layers.GRU, layers.GRUCell),
    }


def _inner_loop(
    kind: str, own: Any, own_cell: Any, library_loop: Any, layer: Any, sequences: Any, initial_state: Any, mask: Any,
    training: Any = False,
) -> Any:  # fmt: skip
    """Return the last output, all outputs and the last state, as Keras does."""
    cell = layer.cell
    known = type(layer).call is own.call and type(cell).call is own_cell.call and _has_usual_form(cell, training)
    plain = mask is None and not layer.unroll and isinstance(sequences, jax.Array) and sequences.dtype == jnp.float32
    state = tuple(initial_state) if isinstance(initial_state, list | tuple) else (initial_state,)
    if not (known and plain and cell.compute_dtype == "float32") or devices()[0].platform != "cpu":
        return library_loop(layer, sequences, initial_state, mask, training)
    out, last = recurrent_layer(kind, sequences, state, _weights(kind, cell), True, layer.go_backwards, True)
    return last[0], jnp.flip(out, 1) if layer.go_backwards else out, list(last)


def _has_usual_form(cell: Any, training: Any) -> bool:
    """Return True for a cell that computes what PyTorch's does: no dropout now, sigmoids and hyperbolic tangents."""
    activations = library("keras.activations", "keras")
    drops = bool(training) and (cell.dropout > 0 or cell.recurrent_dropout > 0)
    usual = cell.activation is activations.tanh and cell.recurrent_activation is activations.sigmoid
    return usual and not drops and getattr(cell, "reset_after", True)


def _weights(kind: str, cell: Any) -> list[Array]:
    """Return a cell's weights and both its biases in PyTorch's order."""
    number = library("keras", "keras").ops.convert_to_tensor
    gates = len(ORDER[kind])

    def ordered(columns: Array) -> Array:
        blocks = columns.reshape(-1, gates, columns.shape[-1] // gates)[:, jnp.array(ORDER[kind])]
        return blocks.reshape(columns.shape)

    wi, wh = (ordered(number(w)).T for w in (cell.kernel, cell.recurrent_kernel))
    both = number(cell.bias) if cell.use_bias else jnp.zeros(len(wi), wi.dtype)
    both = ordered(jnp.atleast_2d(both))
    return [wi, wh, both[0], both[1] if len(both) > 1 else jnp.zeros_like(both[0])]
