"""Recurrent: the kernels of an LSTM or GRU layer as a function that JAX can differentiate and map over models."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.kernels.call import call_for
from fedloom.kernels.cell import Cell
from fedloom.kernels.dense import transposed_product
from fedloom.kernels.gates import SUMS
from fedloom.kernels.models import for_each_model
from fedloom.kernels.processor import width

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Outputs = tuple[Float[Array, "… hidden"], Float[Array, "batch hidden"]]


def recurrent(
    kind: str,
    x: Float[Array, "… inputs"],
    h: Float[Array, "batch hidden"],
    c: Float[Array, "batch hidden"],
    wi: Float[Array, "gates*hidden inputs"],
    wh: Float[Array, "gates*hidden hidden"],
    b: Float[Array, " 4*hidden"],
    back: bool,
    batch_first: bool,
) -> Outputs:
    """Return the outputs at all times, and the states c after the last one.

    Units are filled up with zeros to whole vectors; the others do not change, because the weights from there are zero.

    Args:
        kind: ``lstm`` or ``gru``.
        x: (batch, time, inputs) if batch_first, else (time, batch, inputs); the outputs have the same order.
        h, c: the state before the first time; c of a GRU is h.
        wi, wh: the weights, gates in PyTorch's order.
        b: the biases of the four sums (``gates.py``).
        back: True if the layer runs from the last time to the first.
        batch_first: whether the batch is the first axis of x.
    """
    batch, hidden = h.shape
    times, more = x.shape[1 if batch_first else 0], -hidden % width()
    cell = Cell(kind, times, batch, x.shape[-1], hidden + more, back, batch_first)
    if not more:
        return run(cell, x, h, c, wi, wh, b)
    wide = lambda a: jnp.pad(a, ((0, 0), (0, more)))  # noqa: E731
    units = lambda a: jnp.pad(a.reshape(-1, hidden, *a.shape[1:]), ((0, 0), (0, more), *[(0, 0)] * (a.ndim - 1)))  # noqa: E731
    wi, wh, b = (units(a).reshape(-1, *a.shape[1:]) for a in (wi, wh, b))
    out, last = run(cell, x, wide(h), wide(c), wi, wide(wh), b)
    return out[..., :hidden], last[..., :hidden]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def run(cell: Cell, x: Array, h: Array, c: Array, wi: Array, wh: Array, b: Array) -> Outputs:
    """Return the outputs at all times and the last states; the units are a multiple of the vectors' width."""
    return _forward(cell, x, h, c, wi, wh, b)[0]


def _forward(cell: Cell, x: Array, h: Array, c: Array, wi: Array, wh: Array, b: Array) -> tuple[Outputs, list[Array]]:
    every, state = (*x.shape[:-1], cell.hidden), (cell.batch, cell.hidden)
    sizes = [every, every, (cell.times + 1, *state), (cell.times, cell.batch, SUMS * cell.hidden)]

    def forward(x: Array, h: Array, c: Array, wi: Array, wh: Array, b: Array) -> list[Array]:
        [w] = call_for("cell_weights", cell, [(cell.wide, cell.inputs + cell.hidden)], wi, wh)
        return call_for("cell_forward", cell, sizes, x, h, c, w, b)

    out, before, states, kept = for_each_model(forward, x, h, c, wi, wh, b)
    return (out, states[-1]), [x, before, states, kept, wi, wh]


def _backward(cell: Cell, residuals: list[Array], d: Outputs) -> tuple[Array, ...]:
    x, before, states, kept, wi, wh = residuals
    state = cell.batch, cell.hidden
    sizes = [state, state, (SUMS * cell.hidden,), *[(*x.shape[:-1], cell.wide)] * cell.gates.products]
    dh, dc, db, *products = for_each_model(partial(call_for, "cell_backward", cell, sizes), *d, states, kept, wh)
    dwi, dwh = for_each_model(summed_products, products[0], x), for_each_model(summed_products, products[-1], before)
    return products[0] @ wi, dh, dc, dwi, dwh, db


def summed_products(a: Float[Array, "… m"], b: Float[Array, "… n"]) -> Float[Array, "m n"]:
    """Return the sum of the outer products of all rows."""
    return transposed_product(a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1]))


run.defvjp(_forward, _backward)
