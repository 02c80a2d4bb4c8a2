"""Which form of a convolution is fast on this accelerator: patches × matrix, or the library's own kernel, model after
model; of pixels, or of blocks of 2 × 2.

Times whole training steps of the built-in networks, which also have what is between convolutions. What is found decides
the constants of fedloom/tasks/convolve.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import jax
import numpy as np
import typer
from stepping import seconds

import fedloom as fl
from fedloom.errors import FedloomError, choose
from fedloom.runs import Experiment
from fedloom.tasks.mixed import mixed

convolve = import_module("fedloom.tasks.convolve")
FORMS = {
    "patches, blocks": (False, True),
    "patches, pixels": (False, False),
    "kernels, blocks": (True, True),
    "kernels, pixels": (True, False),
}
SHAPES = {"cifar-cnn": (32, 32, 3), "cnn": (28, 28)}
SETTINGS = {
    "cifar-fedsgd": ("cifar-cnn", 1, 5000),
    "cifar-sgd": ("cifar-cnn", 6, 100),
    "cifar-fedavg": ("cifar-cnn", 10, 50),
    "cnn-whole": ("cnn", 10, 600),
}


def batch(shape: tuple[int, ...], models: int, images: int) -> dict[str, np.ndarray]:
    """Random images for every model."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (models, images, *shape), np.uint8)
    return {"x": x, "y": rng.integers(0, 10, (models, images))}


def main(
    only: Annotated[str, typer.Option(help="some of the settings, comma-separated")] = ",".join(SETTINGS),
    steps: Annotated[int, typer.Option(help="steps of each form")] = 20,
    precision: Annotated[str, typer.Option(help="float32 or bfloat16")] = "float32",
) -> None:
    """Time them, and print microseconds an image."""
    try:
        chosen = {name: choose("only", name, SETTINGS) for name in only.split(",")}
        Experiment(precision=precision)  # which knows the choices
    except FedloomError as error:
        raise typer.BadParameter(str(error)) from None
    if jax.default_backend() == "cpu":
        raise typer.BadParameter("an accelerator is needed: on a CPU all forms are the same")
    tasks = {"cifar-cnn": fl.tasks.cifar_cnn(), "cnn": fl.tasks.cnn()}
    fits = convolve.blocks.fit
    print(f"{jax.devices()[0].device_kind}, {precision}, JAX {jax.__version__}")
    for setting, (name, models, images) in chosen.items():
        for form, (kernels, blocks) in FORMS.items():
            convolve.is_busy = lambda *_, kernels=kernels: kernels
            convolve.blocks.fit = fits if blocks else lambda *_: False
            task = mixed(tasks[name]) if precision == "bfloat16" else tasks[name]
            jax.clear_caches()
            each = seconds(task, batch(SHAPES[name], models, images), steps) / (models * images)
            print(f"{setting}, {models} × {images}: {form}: {1e6 * each:.2f} µs an image", flush=True)


if __name__ == "__main__":
    typer.run(main)
