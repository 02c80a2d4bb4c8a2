"""A round in which no update counts changes nothing but the round number, whatever computes it."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from line_client import LineClient
from quadratic import points, quadratic
from weather import TINY

import fedloom as fl
from fedloom.combine import by_loss
from fedloom.engines.clock import clock
from fedloom.engines.rank import rank
from fedloom.federation.arithmetic import Contribution, arithmetic
from fedloom.local import scaffold, sgd

SERVERS = [fl.server("momentum"), fl.server("adam")]
NAN, HUGE = float("nan"), 3e38  # a step of 1.5 times HUGE is infinite, and so is the loss there


def unchanged(before: Any, after: Any) -> None:
    """Bit for bit, but for the number of the round."""
    assert int(np.asarray(after.round).item()) == int(np.asarray(before.round).item()) + 1
    pairs = zip(*(jax.tree.leaves(dataclasses.replace(s, round=jnp.int32(0))) for s in (before, after)), strict=True)
    assert all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)
    assert any(np.any(np.asarray(a)) for a in jax.tree.leaves(before.optimizer))  # there is something to lose


def remembering(state: Any) -> Any:
    """The state of a server whose optimiser remembers 1 for every number, so that any step would be seen."""
    return jax.tree.map(np.array, dataclasses.replace(state, optimizer=jax.tree.map(np.ones_like, state.optimizer)))


@pytest.mark.parametrize(
    ("native", "server"),
    [(False, SERVERS[0]), (False, SERVERS[1]), (True, SERVERS[1])],
    ids=["momentum", "adam", "own"],
)
def test_all_updates_are_rejected(native: bool, server: Any) -> None:
    algorithm = fl.fedavg(fraction=1.0, lr=1.5, server=server, combiner=fl.combine.median())
    engine = fl.engines.processes(1) if native else fl.engines.compiled()
    task = fl.clients.task(LineClient) if native else quadratic()
    program = engine.program(points([HUGE, HUGE]), task, [algorithm], [0])
    try:
        before = remembering(program.init())
        after, _ = program.advance(jax.tree.map(jnp.asarray, before), 0, 1)
        unchanged(before, after)
    finally:
        program.close()


def test_controls_and_what_clients_keep_stay_too_if_no_update_has_weight() -> None:
    work = scaffold(sgd(lr=0.2))
    algorithm = fl.fedavg(fraction=1.0, local=work, server=SERVERS[0], weighting=by_loss(on="test"))
    data = points([1.0, 3.0])
    unread = dataclasses.replace(data, columns={**data.columns, "x": data.columns["x"].copy()})
    unread.columns["x"][2::3] = HUGE  # the test examples: updates are finite, but no loss is
    program = fl.engines.compiled().program(unread, quadratic(), [algorithm], [0])
    before = remembering(program.init())
    after, _ = program.advance(jax.tree.map(jnp.asarray, before), 0, 1)
    assert not any(np.any(a) for a in jax.tree.leaves(after.clients.rows))  # clients are entered, with zeros
    unchanged(*(dataclasses.replace(state, clients=None) for state in (before, after)))


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
def test_over_mpi(server: Any) -> None:
    algorithm = fl.fedavg(fraction=1.0, server=server)
    mine = rank(points([1.0, 3.0]), quadratic(), algorithm, 0)
    before, _ = mine.step(algorithm.init(mine.first, 2), np.ones(2, np.float32), 1.0)
    after, norm = mine.step(before, np.zeros(2, np.float32), 0.0)
    unchanged(before, after)
    assert norm == 0


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
@pytest.mark.parametrize("weighting", [fl.combine.by_size, by_loss()], ids=["size", "loss"])
def test_on_the_network(weighting: Any, server: Any) -> None:
    mine = arithmetic(TINY, fl.fedavg(fraction=1.0, server=server, weighting=weighting), 0)
    update, read = {"update.params.w": np.ones(3, np.float32)}, {"validation_loss_after": 1.0}
    before, *_ = mine.step(mine.first, [Contribution(0, 10, read)], [update], 2)
    nobody = [Contribution(0, 0, {"validation_loss_after": NAN})]
    after, _, counted = mine.step(before, nobody, [{"update.params.w": np.zeros(3, np.float32)}], 2)
    assert not counted
    unchanged(before, after)


def test_what_a_server_knows_of_tasks_stays_if_nobody_is_there() -> None:
    lost = clock("1", lost=0.999, deadline=10.0)
    program = fl.engines.compiled().program(
        points([1.0, 3.0]), quadratic(), [fl.algorithms.fedavg_mtl(lr=0.5)], [0], clock=lost
    )
    assert (program.cohorts(0, 1) == -1).all()
    omega = jnp.array([[[0.3, 0.1], [0.1, 0.7]]])
    after, _ = program.advance(dataclasses.replace(program.init(), memory={"omega": omega}), 0, 1)
    assert np.array_equal(after.memory["omega"], omega)
