"""LSTM kernel: all times of an LSTM layer, ahead and back, in one kernel of an NVIDIA H100 or H200, in bfloat16.

Left to XLA, every time is several kernels, each of which reads the recurrent weights of all models anew. Here several
blocks of threads have a model, each of them some of its hidden units, whose weights stay with it for all times; after
every time they exchange what the others need, and wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

if TYPE_CHECKING:
    from jaxtyping import Array, Float

HOPPER = "9.0"  # the only ones that it was measured on, and whose memory near the threads is large enough
SIZES = 64, 128  # how many rows a block of threads computes
FEWEST = 32  # rows of a model: with 10, most of what a block computes is nothing, and XLA's loop is as fast (an H200)
ROOM = 128 * 1024  # bytes of weights that a block keeps


@dataclass(frozen=True)
class Tiling:
    """How a kernel is cut.

    Arguments:
        width: the hidden units of a block of threads.
        depth: how many columns of what is exchanged are multiplied at once.
        warps: the threads of a block, by 32.
    """

    width: int
    depth: int
    warps: int


# By how many rows a block computes: the fastest on an H200. Back, XLA's loop is faster with more than 64.
AHEAD = {64: Tiling(width=32, depth=256, warps=4), 128: Tiling(width=64, depth=256, warps=8)}
BACK = {64: Tiling(width=32, depth=128, warps=4)}


def fits(x: Float[Array, "time rows _"], w: Float[Array, "hidden 4*hidden"], tilings: Mapping[int, Tiling]) -> bool:
    """Whether there is a kernel for what a model is given, or its gradients, and such weights, on this device."""
    rows, hidden = x.shape[1], len(w)
    if not is_here() or x.dtype != jnp.bfloat16 or w.dtype != jnp.bfloat16 or not FEWEST <= rows <= SIZES[-1]:
        return False
    tiling = tilings.get(block_rows(rows))
    return tiling is not None and is_cut(hidden, tiling)


def is_here() -> bool:
    """Whether this device is one that the kernels are for."""
    return getattr(jax.devices()[0], "compute_capability", None) == HOPPER


def is_cut(hidden: int, tiling: Tiling) -> bool:
    """Whether so many hidden units are cut into whole parts, for each of which there is room.

    >>> [is_cut(hidden, AHEAD[128]) for hidden in (80, 256, 512)]
    [False, True, False]
    """
    return hidden % tiling.width == hidden % tiling.depth == 0 and 4 * hidden * tiling.width * 2 <= ROOM


def block_rows(rows: int) -> int:
    """How many rows a block of threads computes, where a model has so many.

    >>> block_rows(10), block_rows(64), block_rows(68)
    (64, 64, 128)
    """
    return min(size for size in SIZES if rows <= size)


def forward(
    given: Float[Array, "m time rows 4*hidden"],
    b: Float[Array, "m 4*hidden"],
    w: Float[Array, "m hidden 4*hidden"],
    tiling: Tiling | None = None,
    interpret: bool = False,
) -> tuple[Array, Array, Array]:
    """The outputs, cells and gates of all times of several models.

    Arguments:
        given: x·X of each.
        b: the biases.
        w: the recurrent weights.
        tiling: how it is cut; as is fastest by default.
        interpret: whether it is done by JAX itself, on any device; blocks then cannot wait for each other, so that each
            must have all hidden units.
    """
    (m, times, rows, _), hidden = given.shape, w.shape[1]
    out = [jax.ShapeDtypeStruct((m, times, rows, n * hidden), given.dtype) for n in (1, 1, 4)]
    h, c, opened = call(_forward, (given, b, w), out, tiling or AHEAD[block_rows(rows)], interpret)
    return h, c, opened


def backward(
    d: Float[Array, "m time rows hidden"],
    c: Float[Array, "m time rows hidden"],
    opened: Float[Array, "m time rows 4*hidden"],
    w: Float[Array, "m hidden 4*hidden"],
    tiling: Tiling | None = None,
    interpret: bool = False,
) -> Float[Array, "m time rows 4*hidden"]:
    """The gradients for what is given to several models.

    Arguments:
        d: the gradients for the outputs, from above.
        c, opened: the cells and gates that :func:`forward` found.
    """
    m, _, rows, hidden = d.shape
    tiling = tiling or BACK[block_rows(rows)]
    sums = jax.ShapeDtypeStruct((m, 2, hidden // tiling.width, rows, hidden), w.dtype)
    out = [jax.ShapeDtypeStruct(opened.shape, w.dtype), sums]
    dz, _ = call(_backward, (d, c, opened, w), out, tiling, interpret)
    return dz


def call(
    kernel: Callable[..., None],
    arrays: tuple[Array, ...],
    out: list[jax.ShapeDtypeStruct],
    tiling: Tiling,
    interpret: bool,
) -> list[Array]:
    """A kernel, for every part of every model: what it finds. It is also given a counter for each model, whose blocks
    wait for each other.

    Blocks are begun in the order of their numbers. NVIDIA does not promise that, but it is so; therefore nobody waits
    for one that cannot begin.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    m, parts = len(arrays[0]), arrays[-1].shape[1] // tiling.width
    counters = jnp.zeros(m, jnp.int32)
    whole = pl.BlockSpec(memory_space=pl.ANY)
    *found, _ = pl.pallas_call(
        partial(kernel, tiling=tiling, interpret=interpret),
        out_shape=[*out, jax.ShapeDtypeStruct(counters.shape, counters.dtype)],
        grid=(m * parts,),
        in_specs=[whole] * (len(arrays) + 1),
        out_specs=[whole] * (len(out) + 1),
        input_output_aliases={len(arrays): len(out)},
        compiler_params=triton.CompilerParams(num_warps=tiling.warps, num_stages=1),
        interpret=interpret,
        name=kernel.__name__.strip("_"),
    )(*arrays, counters)
    return found


def _forward(
    given: Any, b: Any, w: Any, _: Any, h: Any, c: Any, opened: Any, counters: Any,
    *, tiling: Tiling, interpret: bool,
) -> None:  # fmt: skip
    """i, f, g, o = given + b + h·H;  c ← σ(f)·c + σ(i)·tanh(g);  h ← σ(o)·tanh(c)."""
    _, times, rows, _ = given.shape
    my = Block(rows, w.shape[1], tiling, interpret, counters)
    tanh, sigmoid = my.tanh, lambda z: 0.5 * my.tanh(0.5 * z) + 0.5
    weights = my.weights(w)
    bias = [my.triton.load(b.at[my.model, gate]).astype(jnp.float32)[None] for gate in my.gates]

    def time(t: Array, cell: Array) -> Array:
        z = [my.load(given.at[my.model, t, my.rows, gate]) + each for gate, each in zip(my.gates, bias, strict=True)]
        my.wait(t)
        for deep, columns in zip(my.deep, weights, strict=True):
            heard = my.fetch(h.at[my.model, jnp.maximum(t - 1, 0), my.rows, deep], t > 0)
            z = [total + product(heard, column, over=0) for total, column in zip(z, columns, strict=True)]
        i, f, g, o = sigmoid(z[0]), sigmoid(z[1]), tanh(z[2]), sigmoid(z[3])
        cell = f * cell + i * g
        my.store(h.at[my.model, t, my.rows, my.units], o * tanh(cell))
        my.done()
        my.store(c.at[my.model, t, my.rows, my.units], cell)
        for gate, value in zip(my.gates, (i, f, g, o), strict=True):
            my.store(opened.at[my.model, t, my.rows, gate], value)
        return cell

    lax.fori_loop(0, times, time, my.zero)


def _backward(
    d: Any, c: Any, opened: Any, w: Any, _: Any, dz: Any, sums: Any, counters: Any,
    *, tiling: Tiling, interpret: bool,
) -> None:  # fmt: skip
    """From the last time to the first, dz as in :func:`fedloom.tasks.lstm.back`, and dh₋₁ = dz·Hᵀ.

    Of that, a sum over all hidden units, each block puts down its part, in bfloat16 (XLA's loop rounds the sum); of
    those of a time and of the time before, for who is quick may write while who is slow reads.
    """
    _, times, rows, hidden = d.shape
    my = Block(rows, hidden, tiling, interpret, counters)
    weights = my.weights(w)

    def time(step: Array, dc: Array) -> Array:
        t = times - 1 - step
        i, f, g, o = (my.load(opened.at[my.model, t, my.rows, gate]) for gate in my.gates)
        out = my.tanh(my.load(c.at[my.model, t, my.rows, my.units]))
        c_before = my.load(c.at[my.model, jnp.maximum(t - 1, 0), my.rows, my.units], t > 0)
        dh = my.load(d.at[my.model, t, my.rows, my.units])
        my.wait(step)
        for part in range(my.parts):
            its = sums.at[my.model, 1 - (step & 1), jnp.int32(part), my.rows, my.units]
            dh += my.fetch(its, step > 0).astype(jnp.float32)
        dc += dh * o * (1 - out * out)
        into = dc * g * i * (1 - i), dc * c_before * f * (1 - f), dc * i * (1 - g * g), dh * out * o * (1 - o)
        rounded = [value.astype(dz.dtype) for value in into]
        for deep, columns in zip(my.deep, weights, strict=True):
            pairs = zip(rounded, columns, strict=True)
            back = reduce(jnp.add, (product(value, column, over=1) for value, column in pairs))
            my.store(sums.at[my.model, step & 1, my.part, my.rows, deep], back)
        my.done()
        for gate, value in zip(my.gates, rounded, strict=True):
            my.store(dz.at[my.model, t, my.rows, gate], value)
        return dc * f

    lax.fori_loop(0, times, time, my.zero)


def product(
    a: Float[Array, "rows k"], b: Float[Array, "k columns"] | Float[Array, "columns k"], over: int
) -> Float[Array, "rows columns"]:
    """The product of two matrices, over an axis of the second, in float32."""
    return lax.dot_general(a, b, (((1,), (over,)), ((), ())), preferred_element_type=jnp.float32)


class Block:
    """What a block of threads has: a model, and some of its hidden units. Those of 64 or 128 rows that a model does not
    have are not there.
    """

    def __init__(self, rows: int, hidden: int, tiling: Tiling, interpret: bool, counters: Any) -> None:
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import triton

        self.triton, self.interpret = triton, interpret
        self.parts, number = hidden // tiling.width, pl.program_id(0)
        self.part, self.model = number % self.parts, number // self.parts
        self.counter, size = (counters, (self.model,)), block_rows(rows)
        self.rows, self.real = pl.ds(0, size), (jnp.arange(size) < rows)[:, None]
        self.units = pl.ds(self.part * tiling.width, tiling.width)
        self.gates = [pl.ds(g * hidden + self.part * tiling.width, tiling.width) for g in range(4)]
        self.deep = [pl.ds(k, tiling.depth) for k in range(0, hidden, tiling.depth)]
        self.zero = jnp.zeros((size, tiling.width), jnp.float32)
        self.tanh = jnp.tanh if interpret else triton.approx_tanh  # to 11 bits, where bfloat16 has 8

    def weights(self, w: Any) -> list[list[Array]]:
        """The recurrent weights into this block's gates, from some units at a time: kept for all times."""
        return [[self.triton.load(w.at[self.model, deep, gate]) for gate in self.gates] for deep in self.deep]

    def load(self, ref: Any, also: Array | bool = True) -> Array:
        """What is there of this block's rows, in float32; zero elsewhere."""
        found: Array = self.triton.load(ref, mask=self.real & also, other=0.0)
        return found.astype(jnp.float32)

    def fetch(self, ref: Any, also: Array) -> Array:
        """What others put down, past the cache that is this block's own."""
        found: Array = self.triton.load(ref, mask=self.real & also, other=0.0, volatile=True)
        return found

    def store(self, ref: Any, value: Array) -> None:
        """Put down this block's rows."""
        self.triton.store(ref, value.astype(ref.dtype), mask=self.real)

    def wait(self, times: Array) -> None:
        """Until all parts of the model have done so many times. To look is an atomic addition of nothing: it alone
        orders what is read after it (a plain read is moved out of the loop).
        """
        if not self.interpret:
            is_early = lambda done: done < times * self.parts  # noqa: E731
            lax.while_loop(is_early, lambda _: self.triton.atomic_add(*self.counter, jnp.int32(0)), jnp.int32(0))

    def done(self) -> None:
        """Tell the others that what they need of this time is there."""
        if not self.interpret:
            self.triton.debug_barrier()
            self.triton.atomic_add(*self.counter, jnp.int32(1))
