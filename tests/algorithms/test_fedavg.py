"""Federated averaging against independent implementations: the paper's pseudo-code in NumPy, and plain SGD."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedloom.algorithms import fedavg, fedsgd, server
from fedloom.combine import uniform
from fedloom.data import FederatedData
from fedloom.engines import Program, compiled
from fedloom.engines.schedule import client_key
from fedloom.errors import ArgumentError
from fedloom.local import sgd
from fedloom.shuffle import shuffle, words
from fedloom.tasks import logistic, two_nn
from fedloom.trees import member

Make = Callable[..., FederatedData]
Arrays = dict[str, np.ndarray]


def forward(w: Arrays, x: np.ndarray) -> list[np.ndarray]:
    h1 = np.maximum(x @ w["w1"] + w["b1"], 0)
    h2 = np.maximum(h1 @ w["w2"] + w["b2"], 0)
    return [h1, h2, h2 @ w["w3"] + w["b3"]]


def gradient(w: Arrays, x: np.ndarray, y: np.ndarray) -> Arrays:
    h1, h2, z = forward(w, x)
    p = np.exp(z - z.max(1, keepdims=True))
    d3 = (p / p.sum(1, keepdims=True) - np.eye(z.shape[1])[y]) / len(y)
    d2 = d3 @ w["w3"].T * (h2 > 0)
    d1 = d2 @ w["w2"].T * (h1 > 0)
    return {"w1": x.T @ d1, "b1": d1.sum(0), "w2": h1.T @ d2, "b2": d2.sum(0), "w3": h2.T @ d3, "b3": d3.sum(0)}


def federated_averaging(
    program: Program, data: FederatedData, w: Arrays, rounds: int, e: int, b: int, eta: float
) -> Arrays:
    """Algorithm 1 of McMahan et al. (2017), line by line, in float64."""
    x, y = data.columns["x"].astype(np.float64), data.columns["y"]
    for t in range(rounds):
        cohort = program.cohorts(t, 1)[0, 0]  # S_t ← (random set of m clients)
        n = sum(len(data.examples("train", k)) for k in cohort)
        new = {name: np.zeros_like(value) for name, value in w.items()}
        for k in cohort:
            own = data.examples("train", k)
            w_k = dict(w)
            key = words(client_key(jnp.uint32(program.seeds[0]), jnp.int32(t), jnp.int32(k)))
            for i in range(e):  # for each local epoch i from 1 to E
                order = np.asarray(shuffle(jnp.arange(len(own)), jnp.int32(len(own)), key, i))
                for s in range(0, len(own), b):  # for batch b ∈ B
                    rows = own[order[s : s + b]]
                    g = gradient(w_k, x[rows], y[rows])
                    w_k = {name: w_k[name] - eta * g[name] for name in w_k}  # w ← w - η ∇ℓ(w; b)
            new = {name: new[name] + len(own) / n * w_k[name] for name in w}  # w ← Σ n_k/n w_k
        w = new
    return w


def as_arrays(params: Any) -> Arrays:
    layers = [params["hidden1"], params["hidden2"], params["output"]]
    return {f"{p}{i + 1}": np.asarray(layer[p], np.float64) for i, layer in enumerate(layers) for p in "wb"}


def test_fedavg_is_the_papers_pseudo_code_step_by_step(generated: Make) -> None:
    data = generated([7, 12, 5, 9, 20], features=6)
    task, algorithm = two_nn(inputs=6, hidden=8, classes=3), fedavg(fraction=0.6, epochs=2, batch_size=4, lr=0.1)
    program = compiled().program(data, task, [algorithm], [11])
    state = program.init()
    wanted = federated_averaging(program, data, as_arrays(member(state, 0).variables.params), 3, e=2, b=4, eta=0.1)
    state, _ = program.advance(state, 0, 3)
    got = as_arrays(member(state, 0).variables.params)
    for name in wanted:
        np.testing.assert_allclose(got[name], wanted[name], rtol=1e-4, atol=1e-5)


def test_fedsgd_is_large_batch_sgd_on_the_union_of_the_cohort(generated: Make) -> None:
    data = generated([7, 300, 5, 9])
    task = logistic(inputs=4, classes=3)
    program = compiled().program(data, task, [fedsgd(fraction=0.5, lr=0.7)], [2])
    state = program.init()
    params = member(state, 0).variables.params
    union = np.concatenate([data.examples("train", k) for k in program.cohorts(0, 1)[0, 0]])
    batch = {name: column[union] for name, column in data.columns.items()}

    def loss(params: Any) -> jax.Array:
        variables = member(state, 0).variables
        return task.loss(type(variables)(params, {}), batch, jax.random.key(0))[0].mean()

    wanted = jax.tree.map(lambda w, g: w - 0.7 * g, params, jax.grad(loss)(params))
    got = member(program.advance(state, 0, 1)[0], 0).variables.params
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), got, wanted)


def test_one_client_is_ordinary_sgd(generated: Make) -> None:
    data = generated([23])
    task = logistic(inputs=4, classes=3)
    program = compiled().program(data, task, [fedavg(fraction=1.0, batch_size=5, lr=0.2)], [4])
    state = program.init()
    variables, own = member(state, 0).variables, data.examples("train", 0)
    params = variables.params
    key = words(client_key(jnp.uint32(4), jnp.int32(0), jnp.int32(0)))
    order = own[np.asarray(shuffle(jnp.arange(23), jnp.int32(23), key, 0))]
    for s in range(0, 23, 5):
        batch = {name: column[order[s : s + 5]] for name, column in data.columns.items()}
        loss = lambda p, batch=batch: task.loss(type(variables)(p, {}), batch, jax.random.key(0))[0].mean()  # noqa: E731
        params = jax.tree.map(lambda w, g: w - 0.2 * g, params, jax.grad(loss)(params))
    got = member(program.advance(state, 0, 1)[0], 0).variables.params
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), got, params)


@pytest.mark.parametrize("name", ["momentum", "adagrad", "adam", "yogi"])
def test_the_server_step_is_optax_on_minus_the_mean_update(generated: Make, name: str) -> None:
    data, task = generated([6, 6]), logistic(inputs=4, classes=3)

    def after(step: Any, rounds: int) -> Any:
        program = compiled().program(data, task, [fedavg(fraction=1.0, server=step)], [0])
        return jax.tree.map(np.asarray, member(program.advance(program.init(), 0, rounds)[0], 0).variables.params)

    start = task_start(data, task)
    mean = jax.tree.map(jnp.subtract, after(server("average"), 1), start)
    step = server(name, lr=0.1)
    optimizer = step.transformation()
    change, _ = optimizer.update(jax.tree.map(jnp.negative, mean), optimizer.init(start), start)
    wanted = optax.apply_updates(start, change)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), after(step, 1), wanted)


def task_start(data: FederatedData, task: Any) -> Any:
    variables = member(compiled().program(data, task, [fedavg()], [0]).init(), 0).variables
    return jax.tree.map(np.asarray, variables.params)


def test_uniform_weighting_counts_clients_not_examples(generated: Make) -> None:
    data, task = generated([2, 40]), logistic(inputs=4, classes=3)
    start = task_start(data, task)
    alone = []
    for k in (0, 1):
        ranges = data.clients["train"]
        only = type(ranges)(ranges.start[k : k + 1], ranges.size[k : k + 1])
        mine = type(data)(data.name, data.columns, 3, data.index, {"train": only}, data.central)
        program = compiled().program(mine, task, [fedsgd(fraction=1.0)], [0])
        alone.append(member(program.advance(program.init(), 0, 1)[0], 0).variables.params["output"]["w"])
    program = compiled().program(data, task, [fedsgd(fraction=1.0, weighting=uniform)], [0])
    got = member(program.advance(program.init(), 0, 1)[0], 0).variables.params["output"]["w"]
    np.testing.assert_allclose(got, (alone[0] + alone[1]) / 2, rtol=1e-5, atol=1e-6)
    assert not np.allclose(got, start["output"]["w"])


def test_cohort_sizes() -> None:
    assert [fedavg(fraction=c).cohort(100) for c in (0.0, 0.001, 0.1, 0.29, 1.0)] == [1, 1, 10, 29, 100]


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_a_fraction_outside_0_to_1(fraction: float) -> None:
    with pytest.raises(ArgumentError, match="fraction must be between 0 and 1"):
        fedavg(fraction=fraction)


def test_local_work_is_given_once() -> None:
    with pytest.raises(ArgumentError, match="local must be given alone, or by its arguments"):
        fedavg(local=sgd(), lr=0.3)
