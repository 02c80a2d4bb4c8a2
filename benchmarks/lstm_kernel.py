"""How long an LSTM layer's loops over time take on this accelerator, by XLA and by the kernel, and whether both find
the same: for several models side by side, in bfloat16.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import typer

from fedloom.tasks import lstm_kernel
from fedloom.tasks.lstm import models_backward, models_forward

SIZES = [(122, 68), (122, 50), (51, 64), (17, 64), (36, 10), (12, 10)]
TIMES, HIDDEN = 80, 256


def drawn(models: int, rows: int) -> list[jax.Array]:
    """What is given, biases, weights, and gradients from above."""
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = (TIMES, rows, 4 * HIDDEN), (4 * HIDDEN,), (HIDDEN, 4 * HIDDEN), (TIMES, rows, HIDDEN)
    arrays = [jax.random.normal(k, (models, *shape), jnp.bfloat16) for k, shape in zip(keys, shapes, strict=True)]
    return [*arrays[:2], arrays[2] / HIDDEN**0.5, arrays[3]]


def timed(function: Callable[..., Any], arrays: list[jax.Array], repeats: int) -> tuple[float, Any]:
    """Milliseconds, of the fastest; and what it found."""
    compiled = jax.jit(function)
    found, took = jax.block_until_ready(compiled(*arrays)), []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*arrays))
        took.append(time.perf_counter() - start)
    return 1e3 * min(took), found


def apart(a: Any, b: Any) -> float:
    """How far what two ways found is apart, relative to its size."""
    flat = [jnp.concatenate([leaf.astype(jnp.float32).ravel() for leaf in jax.tree.leaves(x)]) for x in (a, b)]
    return float(jnp.linalg.norm(flat[0] - flat[1]) / jnp.linalg.norm(flat[1]))


def main(repeats: Annotated[int, typer.Option(help="how often each is timed")] = 5) -> None:
    """Time them, and print milliseconds."""
    if not lstm_kernel.is_here():
        raise typer.BadParameter("an H100 or H200 is needed: the kernel is for these")
    print("models × rows | ahead: XLA, kernel, apart | back: XLA, kernel, apart")
    for models, rows in SIZES:
        given, b, w, d = drawn(models, rows)
        loop, (h, c, opened) = timed(models_forward, [given, b, w], repeats)
        kernel, found = timed(lstm_kernel.forward, [given, b, w], repeats)
        told = f"{models} × {rows} | {loop:.2f}, {kernel:.2f}, {apart(found, (h, c, opened)):.4f} | "
        loop, dz = timed(models_backward, [d, c, opened, w], repeats)
        told += f"{loop:.2f}"
        if lstm_kernel.block_rows(rows) in lstm_kernel.BACK:
            kernel, found = timed(lstm_kernel.backward, [d, c, opened, w], repeats)
            told += f", {kernel:.2f}, {apart(found, dz):.4f}"
        print(told, flush=True)


if __name__ == "__main__":
    typer.run(main)
