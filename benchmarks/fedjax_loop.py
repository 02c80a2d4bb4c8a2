"""Time FedJAX in its best setting: small models client after client on one core, convolutions on every core."""

from __future__ import annotations

import os
import time
from typing import Any

import fedjax
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from fedjax.algorithms import fed_avg
from hardware import cores, cpu
from measure import WARMUP, arguments, chosen, tell
from workloads import CLASSES, SIDE, Workload

Batch = dict[str, Any]


def settle(backend: str, used: int) -> None:
    """Choose FedJAX's backend and the cores it may use; JAX looks at both when it first computes."""
    if backend == "pmap":
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={used}"
    elif hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:used])
    fedjax.set_for_each_client_backend(backend)


def network(model: str) -> list[Any]:
    """The layers of a model of McMahan et al. (2017), section 3."""
    if model == "2nn":
        return [hk.Linear(200), jax.nn.relu, hk.Linear(200), jax.nn.relu, hk.Linear(CLASSES)]
    pool = [jax.nn.relu, hk.MaxPool(2, 2, "VALID")]
    image = hk.Reshape((SIDE, SIDE, 1))
    convolutions = [image, hk.Conv2D(32, 5), *pool, hk.Conv2D(64, 5), *pool]
    return [*convolutions, hk.Flatten(), hk.Linear(512), jax.nn.relu, hk.Linear(CLASSES)]


def build(model: str) -> fedjax.Model:
    """The model as FedJAX wants it."""

    def loss(batch: Batch, logits: jax.Array) -> jax.Array:
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), batch["y"][:, None], 1)[:, 0]

    return fedjax.create_model_from_haiku(
        hk.transform(lambda batch: hk.Sequential(network(model))(batch["x"])),
        sample_batch={"x": np.zeros((1, SIDE * SIDE), np.float32), "y": np.zeros(1, np.int32)},
        train_loss=loss,
        eval_metrics={},
    )


def federated(workload: Workload, seed: int) -> fedjax.InMemoryFederatedData:
    """The clients as FedJAX wants them."""
    drawn = workload.draw(seed)
    x, edges = drawn.floats(), zip(drawn.start, drawn.start + drawn.size, strict=True)
    return fedjax.InMemoryFederatedData({i: {"x": x[a:b], "y": drawn.y[a:b]} for i, (a, b) in enumerate(edges)})


def run(workload: Workload, rounds: int, seed: int) -> tuple[list[float], list[int]]:
    """The clock before the first round and after each, and each round's steps."""
    model = build(workload.model)
    algorithm = fed_avg.federated_averaging(
        fedjax.model_grad(model),
        fedjax.optimizers.sgd(workload.lr),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=workload.batch_size, num_epochs=workload.epochs),
    )
    sampler = fedjax.client_samplers.UniformGetClientSampler(federated(workload, seed), workload.cohort, seed=seed)
    state = algorithm.init(model.init(jax.random.PRNGKey(seed)))
    stamps, steps = [time.perf_counter()], []
    for _ in range(WARMUP + rounds):
        cohort = sampler.sample()
        state, _ = algorithm.apply(state, cohort)
        jax.block_until_ready(state.params)
        stamps.append(time.perf_counter())
        steps.append(sum(workload.steps(len(dataset)) for _, dataset, _ in cohort))
    return stamps, steps


def main() -> None:
    """Time a workload."""
    parser = arguments(__doc__)
    parser.add_argument("--backend", choices=("jit", "pmap"), help="[default: jit for 2nn, pmap for cnn]")
    parser.add_argument("--cores", type=int, help="[default: 1 with jit, all with pmap]")
    options = parser.parse_args()
    workload, rounds = chosen(options)
    backend = options.backend or {"2nn": "jit", "cnn": "pmap"}[workload.model]
    used, where = options.cores or (1 if backend == "jit" else min(cores(), workload.cohort)), cpu()
    settle(backend, used)
    stamps, steps = run(workload, rounds, options.seed)
    packages = ["fedjax", "jax", "jaxlib", "dm-haiku"]
    tell("fedjax", workload, stamps, steps, packages=packages, processes=used, device=where)


if __name__ == "__main__":
    main()
