"""Which form of a convolution is fast on this accelerator: patches × matrix, or the library's own kernel, model after
model; of pixels, or of blocks of 2 × 2.

Times whole training steps of the built-in networks, which also have what is between convolutions. What is found decides
the constants of fedloom/tasks/convolve.py.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer

import fedloom as fl
from fedloom.tasks.mixed import mixed
from fedloom.tasks.task import Task, Variables

convolve = import_module("fedloom.tasks.convolve")
FORMS = {
    "patches, blocks": (False, True),
    "patches, pixels": (False, False),
    "kernels, blocks": (True, True),
    "kernels, pixels": (True, False),
}
SHAPES = {"cifar-cnn": (32, 32, 3), "cnn": (28, 28)}
SETTINGS = [("cifar-cnn", 1, 5000), ("cifar-cnn", 6, 100), ("cifar-cnn", 10, 50), ("cnn", 10, 600)]


def step(task: Task) -> Callable[..., Any]:
    """A step of SGD of several models."""

    def one(params: Any, x: jax.Array, y: jax.Array, key: jax.Array) -> Any:
        loss = lambda p: jnp.mean(task.loss(Variables(p, {}), {"x": x, "y": y}, key)[0])  # noqa: E731
        return jax.tree.map(lambda a, d: a - 0.01 * d, params, jax.grad(loss)(params))

    return jax.jit(jax.vmap(one), donate_argnums=0)


def seconds(task: Task, shape: tuple[int, ...], models: int, images: int, steps: int) -> float:
    """The median time of a step."""
    rng = np.random.default_rng(0)
    x = jax.device_put(rng.integers(0, 256, (models, images, *shape), np.uint8))
    y = jax.device_put(rng.integers(0, 10, (models, images)))
    keys = jax.random.split(jax.random.key(0), models)
    params, ahead = jax.vmap(task.init)(keys).params, step(task)
    params = jax.block_until_ready(ahead(params, x, y, keys))
    took = []
    for _ in range(steps):
        start = time.perf_counter()
        params = jax.block_until_ready(ahead(params, x, y, keys))
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def main(
    steps: Annotated[int, typer.Option(help="steps of each form")] = 20,
    precision: Annotated[str, typer.Option(help="float32 or bfloat16")] = "float32",
) -> None:
    """Time them, and print microseconds an image."""
    if jax.default_backend() == "cpu":
        raise typer.BadParameter("an accelerator is needed: on a CPU all forms are the same")
    tasks = {"cifar-cnn": fl.tasks.cifar_cnn(), "cnn": fl.tasks.cnn()}
    fits = convolve.blocks.fit
    print(f"{jax.devices()[0].device_kind}, {precision}, JAX {jax.__version__}")
    for name, models, images in SETTINGS:
        for form, (kernels, blocks) in FORMS.items():
            convolve.is_busy = lambda *_, kernels=kernels: kernels
            convolve.blocks.fit = fits if blocks else lambda *_: False
            task = mixed(tasks[name]) if precision == "bfloat16" else tasks[name]
            jax.clear_caches()
            each = seconds(task, SHAPES[name], models, images, steps) / (models * images)
            print(f"{name}, {models} × {images}: {form}: {1e6 * each:.2f} µs an image", flush=True)


if __name__ == "__main__":
    typer.run(main)
