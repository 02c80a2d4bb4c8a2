"""LSTM: the kernels of a layer as a function that JAX can differentiate and map over models."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.kernels.cell import GATES, Cell
from fedloom.kernels.compiler import target
from fedloom.kernels.models import for_each_model
from fedloom.kernels.processor import width

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Outputs = tuple[Float[Array, "time batch hidden"], Float[Array, "batch hidden"]]


def lstm(
    x: Float[Array, "time batch inputs"],
    h: Float[Array, "batch hidden"],
    c: Float[Array, "batch hidden"],
    wi: Float[Array, "4*hidden inputs"],
    wh: Float[Array, "4*hidden hidden"],
    b: Float[Array, " 4*hidden"],
    back: bool,
) -> Outputs:
    """Return the outputs at all times, and the cells after the last one.

    Units are filled up with zeros to whole vectors; the others do not change, because the weights from there are zero.
    """
    (times, batch, inputs), hidden = x.shape, h.shape[-1]
    more = -hidden % width()
    cell = Cell(times, batch, inputs, hidden + more, back)
    if not more:
        return run(cell, x, h, c, wi, wh, b)
    units = lambda a: jnp.pad(a.reshape(GATES, hidden, -1), ((0, 0), (0, more), (0, 0)))  # noqa: E731
    wide = lambda a: jnp.pad(a, ((0, 0), (0, more)))  # noqa: E731
    wi, wh, b = (units(a).reshape(-1, *a.shape[1:]) for a in (wi, wh, b))
    out, last = run(cell, x, wide(h), wide(c), wi, wide(wh), b)
    return out[..., :hidden], last[..., :hidden]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def run(cell: Cell, x: Array, h: Array, c: Array, wi: Array, wh: Array, b: Array) -> Outputs:
    """Return the outputs at all times, and the last cells; the units are a multiple of the vectors' width."""
    return _forward(cell, x, h, c, wi, wh, b)[0]


def _forward(cell: Cell, x: Array, h: Array, c: Array, wi: Array, wh: Array, b: Array) -> tuple[Outputs, list[Array]]:
    vectors = -1, cell.hidden // width(), width()
    w = jnp.concatenate([wi, wh], axis=1)
    packed = w.reshape(GATES, *vectors[1:], -1).transpose(1, 3, 0, 2)
    biases = b.reshape(GATES, *vectors[1:]).transpose(1, 0, 2)
    out, cells, gates = for_each_model(partial(_call, "cell_forward", cell), x, h, c, packed, biases)
    return (out, cells[0 if cell.back else -1]), [x, h, c, wi, wh, out, cells, gates]


def _call(kind: str, cell: Cell, *arrays: Array) -> list[Array]:
    state = cell.batch, cell.hidden
    every = cell.times, *state
    gates = cell.times, cell.batch, GATES * cell.hidden
    sizes = {"cell_forward": (every, every, gates), "cell_backward": (gates, state, state)}[kind]
    call = jax.ffi.ffi_call(target(kind, cell), [jax.ShapeDtypeStruct(size, jnp.float32) for size in sizes])
    return list(call(*arrays))


def _backward(cell: Cell, residuals: list[Array], d: Outputs) -> tuple[Array, ...]:
    x, h, c, wi, wh, out, cells, gates = residuals
    dz, dh, dc = for_each_model(partial(_call, "cell_backward", cell), *d, cells, c, gates, wh)
    flat = lambda a: a.reshape(-1, a.shape[-1])  # noqa: E731
    before = jnp.concatenate([out[1:], h[None]] if cell.back else [h[None], out[:-1]])
    both = jnp.concatenate([flat(x), flat(before)], axis=1)
    dw = (both.T @ flat(dz)).T
    dx = (flat(dz) @ wi).reshape(x.shape)
    return dx, dh, dc, dw[:, : cell.inputs], dw[:, cell.inputs :], dz.sum((0, 1))


run.defvjp(_forward, _backward)
