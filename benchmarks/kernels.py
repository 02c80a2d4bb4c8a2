"""Time convolutions on one core: fedloom's kernels, XLA's convolution and PyTorch's, forward and both gradients.

All are timed by the CPU time of one thread, in turns; fedloom's and XLA's inside a compiled loop. So is the peak of the
core, by a loop of fused multiply-adds in registers that the kernels' own emitter writes.
"""

from __future__ import annotations

import os

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
os.environ["JAX_PLATFORMS"] = "cpu"

import ctypes
import statistics
import time
from collections.abc import Callable
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import timing
import typer
from jax import lax

Call = Callable[[int], Any]
"""Computes something so many times."""
PARTS = ("forward", "inputs", "weights")
"""The result, and the gradients for the inputs and for the weights."""
PEAK = "peak"
TURNS = 1_000_000  # of the loop that measures the peak
REGISTERS = {16: 24, 8: 12}  # sums that it keeps: as many as hide the latency of an addition


def shapes() -> dict[str, Any]:
    """Return the convolutions by name; the first ones are those of LeNet and ResNet-8."""
    from fedloom.kernels.shape import Shape

    def one(
        batch: int,
        channels: tuple[int, int],
        image: tuple[int, int],
        kernel: tuple[int, int],
        stride: int = 1,
        pad: int = 0,
        dilation: int = 1,
        groups: int = 1,
    ) -> Any:
        reach = [1 if size == 1 else stride for size in kernel]
        pads = [0 if size == 1 and max(kernel) > 1 else pad for size in kernel]
        spans = [dilation * (size - 1) + 1 for size in kernel]
        strides = (stride, stride) if max(kernel) == 1 else tuple(reach)
        output = tuple((n + 2 * p - s) // r + 1 for n, p, s, r in zip(image, pads, spans, strides, strict=True))
        return Shape(batch, channels, image, kernel, strides, tuple(pads), output, (dilation, dilation), groups)

    return {
        "LeNet 1→6, 5×5, B 64": one(64, (1, 6), (28, 28), (5, 5)),
        "LeNet 6→16, 5×5, B 64": one(64, (6, 16), (12, 12), (5, 5)),
        "3→16, 32², B 32": one(32, (3, 16), (32, 32), (3, 3), pad=1),
        "16→16, 32²": one(32, (16, 16), (32, 32), (3, 3), pad=1),
        "16→32, 32², stride 2": one(32, (16, 32), (32, 32), (3, 3), 2, 1),
        "32→32, 16²": one(32, (32, 32), (16, 16), (3, 3), pad=1),
        "32→64, 16², stride 2": one(32, (32, 64), (16, 16), (3, 3), 2, 1),
        "64→64, 8²": one(32, (64, 64), (8, 8), (3, 3), pad=1),
        "16→32, 32², 1×1, stride 2": one(32, (16, 32), (32, 32), (1, 1), 2),
        "depthwise 32, 32²": one(32, (32, 32), (32, 32), (3, 3), pad=1, groups=32),
        "depthwise 64, 16², stride 2": one(32, (64, 64), (16, 16), (3, 3), 2, 1, groups=64),
        "1-D 9→32, 128, kernel 5": one(32, (9, 32), (1, 128), (1, 5), pad=2),
        "1-D 32→64, 64, kernel 5": one(32, (32, 64), (1, 64), (1, 5), pad=2),
        "dilated by 2, 16→16, 32²": one(32, (16, 16), (32, 32), (3, 3), pad=2, dilation=2),
    }


def looped(function: Callable[..., Any], *arrays: Any) -> Call:
    """Return a compiled loop of a function, whose first array depends on the turn before."""

    @jax.jit
    def run(turns: Any, first: Any, *others: Any) -> Any:
        def turn(_: int, held: tuple[Any, Any]) -> tuple[Any, Any]:
            x, found = held
            x = x.at[(0,) * x.ndim].add(found.ravel()[0] * 1e-30)
            return x, function(x, *others)

        nothing = jax.eval_shape(function, first, *others)
        return lax.fori_loop(0, turns, turn, (first, jnp.zeros(nothing.shape, nothing.dtype)))[1]

    return lambda turns: jax.block_until_ready(run(turns, *arrays))


def of_jax(forward: Callable[[Any, Any], Any], x: Any, w: Any, d: Any) -> dict[str, Call]:
    """Return the loops of a function of inputs and weights and of its gradients; d is the result's gradient."""
    inputs = lambda d, x, w: jax.vjp(lambda x: forward(x, w), x)[1](d)[0]  # noqa: E731
    weights = lambda d, x, w: jax.vjp(lambda w: forward(x, w), w)[1](d)[0]  # noqa: E731
    return dict(zip(PARTS, (looped(forward, x, w), looped(inputs, d, x, w), looped(weights, d, x, w)), strict=True))


def of_fedloom(shape: Any, x: np.ndarray, w: np.ndarray, d: np.ndarray) -> dict[str, Call]:
    """Return the loops of fedloom's kernels, with the batch last."""
    from functools import partial

    from fedloom.kernels.convolution import convolve

    last = lambda a: jnp.asarray(np.ascontiguousarray(a.transpose(1, 2, 3, 0)))  # noqa: E731
    return of_jax(partial(convolve, shape), last(x), jnp.asarray(w), last(d))


def of_xla(shape: Any, x: np.ndarray, w: np.ndarray, d: np.ndarray, *, ordered: bool) -> dict[str, Call]:
    """Return the loops of XLA's convolution, with the channels last.

    Args:
        shape, x, w, d: the convolution, its inputs and weights, and the gradient of its result.
        ordered: whether the gradients are brought into the order of axes for which XLA has a fast kernel, as fedloom
            does without kernels of its own.
    """
    ends = []
    for axis in (0, 1):
        span = shape.dilation[axis] * (shape.kernel[axis] - 1) + 1
        needed = (shape.output[axis] - 1) * shape.strides[axis] + span
        ends.append((shape.padding[axis], needed - shape.image[axis] - shape.padding[axis]))
    from fedloom.tasks.convolution import ordered as axes_of
    from fedloom.tasks.convolve import direct
    from fedloom.tasks.rewriting import rewritten

    def forward(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, shape.strides, ends, rhs_dilation=shape.dilation, feature_group_count=shape.groups,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip

    def in_order(x: Any, w: Any) -> Any:
        call = lambda equation, x, w: direct(axes_of(equation.params)[0], x, w)  # noqa: E731
        return rewritten(forward, {"conv_general_dilated": call})(x, w)

    last = lambda a: jnp.asarray(np.ascontiguousarray(a.transpose(0, 2, 3, 1)))  # noqa: E731
    return of_jax(in_order if ordered else forward, last(x), jnp.asarray(w), last(d))


def of_torch(shape: Any, x: np.ndarray, w: np.ndarray, d: np.ndarray) -> dict[str, Call]:
    """Return the loops of PyTorch's operators; 1-D convolutions are its own ones."""
    import torch

    torch.set_num_threads(1)
    kernel, line = w.transpose(3, 2, 0, 1), shape.kernel[0] == 1 and shape.image[0] == 1
    tensors = [torch.from_numpy(np.ascontiguousarray(a[:, :, 0] if line else a)) for a in (x, kernel, d)]
    axes = slice(1, 2) if line else slice(0, 2)
    strides, padding, dilation = (list(a[axes]) for a in (shape.strides, shape.padding, shape.dilation))
    images, weights, gradient = tensors

    def forward(turns: int) -> None:
        with torch.no_grad():
            for _ in range(turns):
                torch.convolution(
                    images, weights, None, strides, padding, dilation, False, [0] * len(strides), shape.groups
                )

    def backward(mask: list[bool]) -> Call:
        def run(turns: int) -> None:
            for _ in range(turns):
                torch.ops.aten.convolution_backward(
                    gradient, images, weights, None, strides, padding, dilation, False, [0] * len(strides),
                    shape.groups, mask,
                )  # fmt: skip

        return run

    return dict(zip(PARTS, (forward, backward([True, False, False]), backward([False, True, False])), strict=True))


def peak() -> Call:
    """Return a loop of fused multiply-adds in registers, as one of the kernels' programs."""
    from fedloom.kernels.compiler import compiled
    from fedloom.kernels.emitter import Emitter
    from fedloom.kernels.processor import width

    lanes = width()
    name, many = f"benchmark_peak_{lanes}", REGISTERS[lanes]
    emitter = Emitter(name, 1, lanes)
    held = [emitter.load(emitter.arguments[0], emitter.integer(i * lanes)) for i in range(many)]
    x, y = held[0], held[1]
    turn = lambda _, sums: [emitter.multiply_add(total, x, y) for total in sums]  # noqa: E731
    for i, total in enumerate(emitter.fold(0, TURNS, held, turn)):
        emitter.store(total, emitter.result, emitter.integer(i * lanes))
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    jax.ffi.register_ffi_target(name, capsule(compiled(name, emitter.finish()), None, None), platform="cpu")
    call = jax.jit(jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((many * lanes,), jnp.float32)))
    given = jnp.full(many * lanes, 1e-3, jnp.float32)

    def run(turns: int) -> None:
        for _ in range(turns):
            jax.block_until_ready(call(given))

    return run


def peak_flops() -> int:
    """Return the multiplications and additions of one call of :func:`peak`."""
    from fedloom.kernels.processor import width

    return 2 * TURNS * REGISTERS[width()] * width()


def cpu_seconds(call: Call, turns: int) -> float:
    """Return the CPU time of one turn."""
    begun = time.process_time()
    call(turns)
    return (time.process_time() - begun) / turns


def measured(calls: dict[str, Call], seconds: float, repeat: int) -> dict[str, list[float]]:
    """Return the seconds of each call, in turns, each timed for about so long."""
    turns = {}
    for name, call in calls.items():
        call(1)
        turns[name] = max(1, round(seconds / max(cpu_seconds(call, 2), 1e-6)))
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeat):
        for name, call in calls.items():
            found[name].append(cpu_seconds(call, turns[name]))
    return found


def examples(shape: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random inputs, weights and a gradient of the result, with channels before pixels."""
    rng = np.random.default_rng(0)
    draw = lambda *size: rng.standard_normal(size, np.float32)  # noqa: E731
    x = draw(shape.batch, shape.channels[0], *shape.image)
    w = draw(*shape.kernel, shape.channels[0] // shape.groups, shape.channels[1])
    return x, w, draw(shape.batch, shape.channels[1], *shape.output)


def main(
    only: Annotated[str, typer.Option(help="convolutions whose name contains this")] = "",
    seconds: Annotated[float, typer.Option(help="about how long a timing takes")] = 0.1,
    repeat: Annotated[int, typer.Option(help="timings of each, in turns; the median counts")] = 5,
    keep: Annotated[bool, typer.Option(help="record what was found")] = True,
) -> None:
    """Time every convolution, and record the seconds and the share of the core's peak."""
    jax.config.update("jax_num_cpu_devices", 1)
    try:
        from fedloom.kernels.processor import reason, width
    except ImportError:
        raise typer.BadParameter("this version of fedloom has no kernels") from None
    if reason():
        raise typer.BadParameter(f"kernels cannot be used here: {reason()}")
    print(f"{width()} numbers in a register; in brackets the share of the core's peak")
    rows, top = [], peak()
    for name, shape in shapes().items():
        if only not in name:
            continue
        arrays = examples(shape)
        ways = {
            "fedloom": of_fedloom(shape, *arrays),
            "PyTorch": of_torch(shape, *arrays),
            "XLA in order": of_xla(shape, *arrays, ordered=True),
            "XLA": of_xla(shape, *arrays, ordered=False),
        }
        for part in PARTS:
            times = measured({PEAK: top, **{way: calls[part] for way, calls in ways.items()}}, seconds, repeat)
            median = {way: statistics.median(each) for way, each in times.items()}
            best = peak_flops() / median.pop(PEAK)
            share = {way: shape.flops / one / best for way, one in median.items()}
            rows.append({"convolution": name, "part": part, "flops": shape.flops, "cpu_seconds": times,
                         "peak_flops_a_second": best, "share_of_peak": share})  # fmt: skip
            shown = "  ".join(f"{way} {1e6 * one:6.0f} µs ({share[way]:4.0%})" for way, one in median.items())
            print(f"{name:<28} {part:<8} {shown}  peak {best / 1e9:.0f} GFLOP/s", flush=True)
    if keep:
        timing.keep("kernels", register_width=width(), rows=rows)


if __name__ == "__main__":
    typer.run(main)
