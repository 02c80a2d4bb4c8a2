from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quadratic import points, quadratic

from fedloom.algorithms import dpa_sgd_mtl, fedavg_mtl
from fedloom.engines import clock, compiled
from fedloom.errors import ArgumentError
from fedloom.mixing import graph, random_pairs, weights
from fedloom.routing.related_outputs import JITTER, root
from fedloom.runs import run
from fedloom.trees import member

LAYOUTS: list[dict[str, Any]] = [{}, {"lanes": 3, "devices": 1}]
VALUES = [4.0, -1.0, 2.0, 0.5, 3.0]
LAMBDAS = (0.3, 0.02, 0.05, 0.0)


def objective(w: Any, theta: Any, omegas: list[Any], members: list[list[int]], n: int, lambdas: Any) -> Any:
    """G without the losses, as it is written: of outputs w and features θ."""
    first, second, third, _ = lambdas
    total = second / 2 * jnp.sum(w**2) + third / 2 * jnp.sum(theta**2)
    for omega, mine in zip(omegas, members, strict=True):
        mine_w = w[jnp.array(mine)].T  # d × |M|
        inverted = jnp.linalg.inv(omega + JITTER / len(mine) * jnp.eye(len(mine)))
        total += first / (2 * n) * jnp.trace(mine_w @ inverted @ mine_w.T)
    return total


@pytest.mark.parametrize("name", ["ring", "line", "complete"])
def test_what_pulls_is_the_gradient_of_the_objective(name: str) -> None:
    k, d, n = 5, 3, 7
    found, rng = graph(name, k), np.random.default_rng(0)
    algorithm = dpa_sgd_mtl(name, lambdas=LAMBDAS).for_clients(k)
    who, there = (np.asarray(a) for a in algorithm.routing.members())
    members = [who[i][there[i] > 0].tolist() for i in range(k)]
    assert [sorted(m) for m in members] == [sorted([i, *np.flatnonzero(found.heard[i])]) for i in range(k)]
    first = jax.tree.map(lambda a: jnp.stack([a] * k), quadratic().init(jax.random.key(0)))
    state = algorithm.init(first, k)
    w, theta = (jnp.asarray(rng.normal(size=(k, d)), jnp.float32) for _ in range(2))
    omega, omegas = np.zeros(state.memory["omega"].shape, np.float32), []
    for i, mine in enumerate(members):
        made = rng.normal(size=(len(mine), len(mine)))
        made = made @ made.T
        omegas.append(made / np.trace(made))
        places = np.flatnonzero(there[i])
        omega[i][np.ix_(places, places)] = omegas[i]
    variables = type(state.variables)({"body": {"w": theta}, "output": {"w": w}}, {})
    told = algorithm.routing.broadcast(variables, {"omega": jnp.asarray(omega)}, jnp.full(k, n))
    wanted = jax.grad(objective, argnums=(0, 1))(w, theta, omegas, members, n, LAMBDAS)
    found_w = told["strength"]["output.w"][:, None] * w + told["slope"]["output.w"]
    np.testing.assert_allclose(found_w, wanted[0], rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(told["strength"]["body.w"][:, None] * theta, wanted[1], rtol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_ring_by_hand(layout: dict[str, Any]) -> None:
    eta, period, rate, k, n = 0.4, 3, 0.05, 5, 2
    algorithm = dpa_sgd_mtl("ring", period=period, lambdas=LAMBDAS, eta=eta, lr=rate, batch_size=2)
    program = compiled(**layout).program(points(VALUES), quadratic(1.0, 0.5), [algorithm], [0])
    state, _ = program.advance(program.init(), 0, 4)
    x, mixing = np.array(VALUES), weights("metropolis", graph("ring", k))
    theta, w = np.full(k, 1.0), np.full(k, 0.5)
    members = [[i, *np.flatnonzero(mixing[i] * (np.arange(k) != i))] for i in range(k)]
    omegas = [np.eye(3) / 3 for _ in range(k)]
    for _ in range(4):
        q = np.zeros((k, k))
        for i, mine in enumerate(members):
            q[np.ix_(mine, mine)] += LAMBDAS[0] / n * np.linalg.inv(omegas[i] + JITTER / 3 * np.eye(3))
        before = w.copy()
        for _ in range(period):
            slope = theta + w - x
            pull = np.diag(q) * w + (q - np.diag(np.diag(q))).T @ before + LAMBDAS[1] * w
            theta, w = theta - rate * (slope + LAMBDAS[2] * theta), w - rate * (slope + pull)
        theta = mixing @ theta
        fresh = []
        for mine in members:
            mean = np.zeros((3, 3))
            for i in mine:
                for a, j in enumerate(mine):
                    for b, o in enumerate(mine):
                        if j in members[i] and o in members[i]:
                            mean[a, b] += omegas[i][members[i].index(j), members[i].index(o)] / len(mine)
            values, vectors = np.linalg.eigh(np.outer(w[mine], w[mine]))
            new = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
            both = (1 - eta) * mean + eta * new / np.trace(new)
            fresh.append(both / np.trace(both))
        omegas = fresh
    alone = member(state, 0)
    np.testing.assert_allclose(alone.variables.params["body"]["w"], theta, rtol=1e-3)
    np.testing.assert_allclose(alone.variables.params["output"]["w"], w, rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(np.trace(alone.memory["omega"], axis1=1, axis2=2), 1, rtol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_one_server_has_one_omega(layout: dict[str, Any]) -> None:
    algorithm = fedavg_mtl(lambdas=LAMBDAS, lr=0.05, epochs=2, batch_size=None)
    program = compiled(**layout).program(points(VALUES), quadratic(1.0, 0.5), [algorithm], [0])
    state, _ = program.advance(program.init(), 0, 3)
    alone = member(state, 0)
    assert np.ptp(alone.variables.params["body"]["w"]) < 1e-6 < np.ptp(alone.variables.params["output"]["w"])
    assert alone.memory["omega"].shape == (5, 5)
    np.testing.assert_allclose(np.trace(alone.memory["omega"]), 1, rtol=1e-5)


def test_the_root_is_a_root() -> None:
    made = np.random.default_rng(1).normal(size=(4, 4))
    a = jnp.asarray(made @ made.T, jnp.float32)
    found = root(a)
    np.testing.assert_allclose(found @ found * jnp.trace(a) / jnp.trace(found @ found), a, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(jnp.trace(found), 1, rtol=1e-6)
    np.testing.assert_allclose(root(jnp.zeros((3, 3))), np.eye(3) / 3, rtol=1e-6)


def test_relations_survive_a_stop(tmp_path: Path) -> None:
    data, algorithm = points(VALUES), dpa_sgd_mtl("ring", lambdas=LAMBDAS, period=2, lr=0.05)
    whole = run(data, quadratic(1.0, 0.5), algorithm, rounds=6, evaluate=["test"])
    for rounds in (3, 6):
        cut = run(data, quadratic(1.0, 0.5), algorithm, rounds=rounds, evaluate=["test"], directory=tmp_path / "run")
    assert cut.history.column("own_test_loss").tolist() == whole.history.column("own_test_loss").tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dpa_sgd_mtl(lambdas=(0, 0, 0, -1)), "lambda4 must be at least 0, but is -1"),
        (lambda: dpa_sgd_mtl(eta=2), "eta must be between 0 and 1, but is 2"),
        (lambda: dpa_sgd_mtl(random_pairs), "topology must be one whose neighbours stay the same"),
        (lambda: dpa_sgd_mtl(period=0), "period must be at least 1 step"),
    ],
)
def test_bad_arguments(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


def test_a_model_must_have_the_layers() -> None:
    with pytest.raises(ArgumentError, match=r"output must be a layer that the model has \(body, output\)"):
        run(points(VALUES), quadratic(), dpa_sgd_mtl(output="head"), rounds=1, evaluate=["test"])


def test_who_is_lost_learns_nothing() -> None:
    lossy = clock(1.0, lost=0.5, deadline=2.0, seed=3)
    there = lossy.machines(6, 0).there
    assert 0 < there.sum() < 6
    algorithm = dpa_sgd_mtl("complete", period=1, batch_size=1, lr=0.1).for_clients(6)
    program = compiled().program(
        points([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], each=1), quadratic(), [algorithm], [0], clock=lossy
    )
    before = program.init()
    after, _ = program.advance(before, 0, 1)
    changed = np.abs(np.asarray(after.memory["omega"] - before.memory["omega"])[0]).max(axis=(1, 2)) > 0
    assert changed.tolist() == there.tolist()


def test_dense_graphs_on_every_core() -> None:
    """Many workers with many neighbours each, on as many devices as there are: LAPACK must not wait for itself."""
    data = points([float(k % 7) for k in range(64)], each=1)
    done = run(
        data, quadratic(), dpa_sgd_mtl("sparse:0.8", period=1, batch_size=1, lr=0.1), rounds=2, evaluate=["train"]
    )
    assert np.isfinite(done.history.last("own_train_loss"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topology": "one-peer-exponential"}, "topology must be one whose neighbours stay the same"),
        ({"topology": "ring", "weights": "push"}, "topology must be one whose rows sum to one"),
    ],
)
def test_other_topologies_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        dpa_sgd_mtl(**options)


def test_options_of_the_topology() -> None:
    assert dpa_sgd_mtl("regular", degree=4).for_clients(8).routing.mixer.index.shape == (1, 8, 5)
