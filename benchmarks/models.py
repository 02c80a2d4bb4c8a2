"""What a model of one's own costs: seconds a round of McMahan's CNN, built in and as Keras, PyTorch, Flax and Equinox
write it, each as it is traced too (nothing rewritten), and that library's own loop over as many examples.

MNIST dealt IID to 100 clients, ten of them in a round; E = 1, B = 10. All in turns, and the median counts; what nothing
is rewritten of takes minutes a round on a CPU and is timed once.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import jax.numpy as jnp
import numpy as np
import optax
import timing
import typer

import fedloom as fl
from fedloom.tasks import Task, forms

CLIENTS, FRACTION, BATCH, LR = 100, 0.1, 10, 0.1
TRACED = "nothing rewritten"
TORCH: dict[str, Any] = {}  # the module and the optimizer of PyTorch's own loop, in its process
Round = Callable[[], Any]
Loop = Callable[[np.ndarray, np.ndarray], Any]
"""Images and labels → one epoch over them, done."""


def keras() -> tuple[Task, Loop]:
    """Keras, and ``train_on_batch``."""
    import keras

    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(64, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(512, activation="relu"),
            layers.Dense(10),
        ]
    )
    task = fl.tasks.from_keras(model)
    model.compile(keras.optimizers.SGD(LR), keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    def loop(x: np.ndarray, y: np.ndarray) -> None:
        for i in range(0, len(x), BATCH):
            model.train_on_batch(x[i : i + BATCH, ..., None], y[i : i + BATCH])

    return task, loop


def torch_cnn() -> Any:
    """The CNN in PyTorch."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )


def torch() -> tuple[Task, Loop]:
    """PyTorch, and its loop in a process of its own: beside torchax, CUDA's own kernels are not found."""
    task = fl.tasks.from_torch(torch_cnn(), inputs=(1, 28, 28))
    pool = multiprocessing.get_context("spawn").Pool(1)
    return task, lambda x, y: pool.apply(torch_epoch, (x, y))


def torch_epoch(x: np.ndarray, y: np.ndarray) -> None:
    """PyTorch's own loop, on a GPU where there is one."""
    import torch
    from torch.nn.functional import cross_entropy

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if not TORCH:
        TORCH["module"] = torch_cnn().to(device)
        TORCH["optimizer"] = torch.optim.SGD(TORCH["module"].parameters(), lr=LR)
    module, optimizer = TORCH["module"], TORCH["optimizer"]
    images, labels = torch.from_numpy(x[:, None]).to(device), torch.from_numpy(y).long().to(device)
    for i in range(0, len(x), BATCH):
        optimizer.zero_grad()
        cross_entropy(module(images[i : i + BATCH]), labels[i : i + BATCH]).backward()
        optimizer.step()
    if device == "cuda":
        torch.cuda.synchronize()


def flax() -> tuple[Task, Loop]:
    """Flax (Linen), and a loop with optax."""
    from flax import linen

    class Cnn(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            for channels in (32, 64):
                x = linen.max_pool(linen.relu(linen.Conv(channels, (5, 5))(x)), (2, 2), (2, 2))
            return linen.Dense(10)(linen.relu(linen.Dense(512)(x.reshape(len(x), -1))))

    module = Cnn()
    params = module.init(jax.random.key(0), jnp.zeros((1, 28, 28, 1)))
    return fl.tasks.from_flax(module, inputs=(28, 28, 1)), stepping(module.apply, params, lambda x: x[..., None])


def equinox() -> tuple[Task, Loop]:
    """Equinox, and a loop with optax."""
    import equinox as eqx

    keys = jax.random.split(jax.random.key(0), 4)
    relu, pool = eqx.nn.Lambda(jax.nn.relu), eqx.nn.MaxPool2d(2, 2)
    module = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 32, 5, padding=2, key=keys[0]),
            relu,
            pool,
            eqx.nn.Conv2d(32, 64, 5, padding=2, key=keys[1]),
            relu,
            pool,
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(64 * 7 * 7, 512, key=keys[2]),
            relu,
            eqx.nn.Linear(512, 10, key=keys[3]),
        ]
    )
    params, rest = eqx.partition(module, eqx.is_inexact_array)
    outputs = lambda params, x: jax.vmap(eqx.combine(params, rest))(x)  # noqa: E731
    return fl.tasks.from_equinox(module, inputs=(1, 28, 28)), stepping(outputs, params, lambda x: x[:, None])


MODELS: dict[str, Callable[[], tuple[Task, Loop]]] = {
    "Keras": keras,
    "PyTorch": torch,
    "Flax": flax,
    "Equinox": equinox,
}


def stepping(outputs: Callable[[Any, Any], Any], params: Any, arranged: Callable[[Any], Any]) -> Loop:
    """The loop of a model that is a function: one compiled step, called batch by batch."""
    optimizer = optax.sgd(LR)
    held = [params, optimizer.init(params)]

    @jax.jit
    def step(params: Any, memory: Any, x: Any, y: Any) -> Any:
        loss = lambda p: optax.softmax_cross_entropy_with_integer_labels(outputs(p, arranged(x)), y).mean()  # noqa: E731
        change, memory = optimizer.update(jax.grad(loss)(params), memory)
        return optax.apply_updates(params, change), memory

    def loop(x: np.ndarray, y: np.ndarray) -> None:
        for i in range(0, len(x), BATCH):
            held[:] = step(*held, x[i : i + BATCH], y[i : i + BATCH])
        jax.block_until_ready(held)

    return loop


@contextmanager
def as_traced() -> Iterator[None]:
    """Inside, adapters rewrite nothing."""
    before, forms.fast = forms.fast, lambda function: function
    try:
        yield
    finally:
        forms.fast = before


def rounds_of(data: Any, task: Task, rounds: int) -> Round:
    """What does some rounds more; it is compiled by rounds in which everybody is too late, which cost nothing else."""
    method = fl.fedavg(fraction=FRACTION, epochs=1, batch_size=BATCH, lr=LR)
    program = fl.engines.compiled().program(data, task, [method], [0])
    state, done = [program.init()], [0]
    replace(program, clock=fl.engines.clock(compute=1.0, deadline=0.5)).advance(state[0], 0, rounds)

    def go_on() -> None:
        state[0], did = program.advance(state[0], done[0], rounds)
        jax.block_until_ready((state[0], did))
        done[0] += rounds

    return go_on


def variants(data: Any, chosen: list[str], rounds: int) -> dict[str, Round]:
    """What is timed, by name, compiled; libraries that are not installed are left out, with a word."""
    found = {"built in": rounds_of(data, fl.tasks.cnn(), rounds)}
    many = int(CLIENTS * FRACTION) * 600
    x, y = data.columns["x"][:many].astype(np.float32) / 255, data.columns["y"][:many].copy()
    for name in chosen:
        make = MODELS[name]
        try:
            task, loop = make()
            with as_traced():
                plain, _ = make()
        except ImportError as error:
            print(f"{name} is left out: {error}")
            continue
        found[name] = rounds_of(data, task, rounds)
        found[f"{name}, {TRACED}"] = rounds_of(data, plain, rounds)
        loop(x[:BATCH], y[:BATCH])
        found[f"{name}, its own loop"] = lambda loop=loop: [loop(x, y) for _ in range(rounds)]
    return found


def main(
    models: Annotated[str, typer.Option(help="which libraries, comma-separated")] = ",".join(MODELS),
    rounds: Annotated[int, typer.Option(help="rounds in one timing")] = 1,
    repeat: Annotated[int, typer.Option(help="timings of each, in turns; the median counts")] = 3,
    keep: Annotated[bool, typer.Option(help="record what was found")] = True,
) -> None:
    """Time every variant, and record the seconds a round."""
    data = fl.data.mnist().partition(fl.partition.iid(CLIENTS))
    timed = variants(data, [name.strip() for name in models.split(",")], rounds)
    found: dict[str, list[float]] = {name: [] for name in timed}
    for turn in range(repeat):
        for name, go_on in timed.items():
            if turn and name.endswith(TRACED) and jax.default_backend() == "cpu":
                continue
            start = time.perf_counter()
            go_on()
            found[name].append((time.perf_counter() - start) / rounds)
            print(f"{name:<28} {found[name][-1]:.4f} s a round", flush=True)
    beside = statistics.median(found["built in"])
    for name, times in found.items():
        median = statistics.median(times)
        print(f"{name:<28} {median:.4f} s a round, {median / beside:.2f} × the built-in", flush=True)
    if keep:
        timing.keep("models", seconds_a_round=found)


if __name__ == "__main__":
    typer.run(main)
