import dataclasses
import os
import signal
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from hurry import hurried
from line_client import LineClient
from quadratic import points

import fedloom as fl
from fedloom.engines.ray import connected
from fedloom.errors import ArgumentError, CrewError

ray = pytest.importorskip("ray")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
DATA = fl.data.mnist().partition(fl.partition.iid(1000))
HOW = fl.fedavg(fraction=0.01, lr=0.1)


@pytest.fixture(scope="module", autouse=True)
def _ray():
    with pytest.MonkeyPatch.context() as here:
        tests = Path(__file__).parents[1]
        here.setenv("PYTHONPATH", f"{tests.parent}{os.pathsep}{tests}")  # where actors find a client's class
        here.setenv("XLA_FLAGS", hurried()["XLA_FLAGS"])
        connected(fl.engines.ray(4))
        yield
        ray.shutdown()


def run(engine, rounds=7, watch=None):
    return fl.run(DATA, fl.tasks.logistic(), HOW, rounds=rounds, evaluate=["test"], engine=engine, watch=watch)


def actors() -> list[int]:
    """The processes of actors."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if words.startswith(b"ray::Actor"):
                found.append(int(folder.name))
    return found


def same(a, b) -> bool:
    return jax.tree.all(jax.tree.map(np.array_equal, a.variables, b.variables))


@pytest.mark.slow
def test_the_number_of_actors_and_their_deaths_change_nothing() -> None:
    one, compiled = run(fl.engines.ray(1)), run(fl.engines.compiled())
    np.testing.assert_allclose(
        one.variables.params["output"]["w"], compiled.variables.params["output"]["w"], rtol=1e-4, atol=1e-6
    )
    until = time.perf_counter() + 10
    while actors() and time.perf_counter() < until:
        time.sleep(0.05)
    assert not actors()  # they are gone with the run
    killed: list[int] = []

    def kill(histories) -> None:
        if histories[0].last("round") % 3 == 2:  # before every third round
            killed.append(actors()[0])
            os.kill(killed[-1], signal.SIGKILL)

    other = run(fl.engines.ray(3), watch=kill)
    assert len(killed) == 2
    assert same(other, one)
    assert other.history.last("test_accuracy") == one.history.last("test_accuracy")


def test_clients_with_code_of_their_own_run_on_actors_and_their_deaths_are_borne(tmp_path) -> None:
    task = fl.clients.task(LineClient, fatal=2.0, folder=str(tmp_path))
    how, data = fl.fedavg(fraction=1.0, lr=0.5, batch_size=1), points([0.0, 1.0, 2.0, 4.0])
    hurt = fl.run(data, task, how, rounds=1, evaluate=["test"], engine=fl.engines.ray(1))
    assert len(list(tmp_path.iterdir())) == 1
    assert float(hurt.variables.params["w"]) == 0.75 * 1.75  # two steps half way to x: ¾ of the mean


def test_a_round_in_which_no_update_counts_changes_nothing() -> None:
    algorithm = fl.fedavg(fraction=1.0, lr=1.5, server=fl.server("adam"), combiner=fl.combine.median())
    task = fl.clients.task(LineClient)
    program = fl.engines.ray(1).program(points([3e38, 3e38]), task, [algorithm], [0])  # steps beyond float32
    try:
        before = jax.tree.map(np.array, program.init())
        after, did = program.advance(jax.tree.map(jax.numpy.asarray, before), 0, 1)
    finally:
        program.close()
    assert did.broken.tolist() == [[2.0]] and after.round.tolist() == [1]
    pairs = zip(*(jax.tree.leaves((s.variables, s.optimizer)) for s in (before, after)), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_actors_weight_clients_by_held_out_examples() -> None:
    data, how = points([0.0, 4.0]), fl.fedavg(fraction=1.0, lr=0.5, batch_size=1, weighting=fl.combine.by_loss())
    columns = {"x": np.append(data.columns["x"], np.float32(3)), "y": np.append(data.columns["y"], np.int32(0))}
    held = dataclasses.replace(data, columns=columns, central={"validation": np.array([len(columns["x"]) - 1])})
    task = fl.clients.task(LineClient)
    done = fl.run(held, task, how, rounds=1, evaluate=["test"], engine=fl.engines.ray(1))
    weights = np.exp([-4.5, 0.0])  # of the models 0 and 3
    assert float(done.variables.params["w"]) == pytest.approx(3 * weights[1] / weights.sum(), rel=1e-6)


def test_an_error_in_an_actor_is_that_error_here() -> None:
    with pytest.raises(ArithmeticError, match="no thanks"):
        task = fl.clients.task(LineClient, wrong="raises")
        fl.run(points([1.0]), task, fl.fedavg(fraction=1.0), rounds=1, evaluate=["test"], engine=fl.engines.ray(1))


def test_a_cluster_that_does_not_answer_is_an_error_soon() -> None:
    ray.shutdown()
    began = time.perf_counter()
    with pytest.raises(CrewError, match=r"no Ray cluster at 127\.0\.0\.1:1:"):
        run(fl.engines.ray(1, address="127.0.0.1:1"))
    assert time.perf_counter() - began < 6
    with pytest.raises(ArgumentError, match="address must be host:port, or auto"):
        run(fl.engines.ray(1, address="somewhere"))
    with pytest.raises(ArgumentError, match="actors must be at least 1"):
        fl.engines.ray(0)
