"""Runs over MPI, one after another in the same ranks, each compared with the compiled engine in float64; prints JSON.

Start it with ``mpiexec -n 2 python mpi_cases.py FOLDER one|all``.
"""

import json
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from mpi4py import MPI

from fedloom.engines import compiled
from fedloom.engines.mailbox import Mailbox
from fedloom.engines.rank import Rank
from fedloom.engines.world import World, world
from fedloom.errors import PeerError
from fedloom.runs import Run, load
from fedloom.runs.experiment import Experiment
from fedloom.runs.order import Order, Refused, dispatched
from fedloom.runs.prepare import federated
from fedloom.runs.ranks import Attendance
from fedloom.tasks import logistic
from fedloom.trees import member

FOLDER, WHICH = Path(sys.argv[1]), sys.argv[2]
USUAL = {
    "data": str(FOLDER / "toy.npz"),
    "model": "logistic",
    "rounds": 10,
    "target": None,
    "lr": 0.2,
    "evaluate": "test",
}
RING = Experiment(**USUAL, algorithm="dpa-sgd", topology="ring", period=3)
CASES = {
    "ring": RING,
    "one peer": RING.replace(topology="one-peer-exponential", every=5),
    "fedavg": Experiment(**USUAL, fraction=0.5, epochs=2, server="momentum", server_lr=0.5),
    "fedavg, once": Experiment(**USUAL, fraction=0.375, selection="once"),
}


TASK = logistic(inputs=4, classes=3)
Experiment.build_task = lambda self, data: TASK  # type: ignore[method-assign]  # noqa: ARG005  # one program for all


def attended(here: World, name: str, experiment: Experiment, **order: Any) -> tuple[Attendance, Run | None]:
    """A run of all ranks."""
    mailbox = Mailbox(here, timeout=30.0)
    write = lambda: Order(experiment.to_toml(), str(FOLDER / name), **order)  # noqa: E731
    try:
        attendance = Attendance(mailbox, dispatched(mailbox, write))
        run = attendance.run()
    except Refused:
        mailbox.close()
        here.notes.Barrier()
        raise
    here.notes.Barrier()  # a mailbox that is still open would take what is for the next
    return attendance, run


def simulated(experiment: Experiment) -> tuple[Any, dict[str, float]]:
    """The models that the compiled engine makes in float64, and what it measures of them."""
    data = federated(experiment)
    program = compiled().program(data, experiment.build_task(data), [experiment.build_algorithm()], [experiment.seed])
    state, did = program.advance(cast(program.init(), float), 0, experiment.rounds)
    rough = program.evaluate(state, "test")
    told = {name: float(value[0]) for name, value in rough.items()}
    return member(state, 0).variables, told | {"update_norm": float(did.norm[-1, 0])}


def cast(tree: Any, kind: Any) -> Any:
    return jax.tree.map(lambda a: a.astype(kind) if jnp.issubdtype(a.dtype, jnp.floating) else a, tree)


def furthest(a: Any, b: Any) -> float:
    return max(jax.tree.leaves(jax.tree.map(lambda x, y: float(np.abs(np.asarray(x) - np.asarray(y)).max()), a, b)))


def agreement(here: World) -> dict[str, Any]:
    """Case → how far every number is from the simulation's."""
    found: dict[str, Any] = {}
    for name, experiment in CASES.items() if WHICH == "all" else [("one peer", CASES["one peer"])]:
        attendance, run = attended(here, name, experiment)
        if run is not None:
            variables, told = simulated(experiment)
            last = run.history.rows[-1]
            found[name] = {
                "type": str(jax.tree.leaves(run.variables)[0].dtype),
                "models": furthest(run.variables, variables),
                "unlike": furthest(run.variables, jax.tree.map(jnp.zeros_like, run.variables)),
                "measures": max(abs(last[measure] - value) for measure, value in told.items()),
                "workers": [(w["rank"], w["sent"]) for w in attendance.workers],
            }
    return found


def refusal(here: World) -> str:
    """What every rank is told when there are more ranks than workers."""
    try:
        attended(here, "refused", RING, workers=1)
    except Refused as error:
        return str(error)
    return "nothing"


def resumption(here: World) -> list[str]:
    """What every rank is told when a run is to go on with fewer rounds, or is evaluated in other ones."""
    told = []
    for change in ({"rounds": 5}, {"rounds": 20, "every": 2}):
        try:
            attended(here, "ring", RING.replace(**change))
        except Refused as error:
            told.append(str(error))
    return told


def divergence(here: World) -> dict[str, Any]:
    """What is left of a run that diverges."""
    _, run = attended(here, "diverged", RING.replace(lr=1e200, every=2))
    if run is None:
        return {}
    loaded = load(FOLDER / "diverged")
    finite = all(np.isfinite(a).all() for one in (run, loaded) for a in jax.tree.leaves(one.variables))
    return {"status": [run.status, loaded.status], "finite": finite, "round": loaded.history.last("round"),
            "stopped": loaded.stopped, "models": len(jax.tree.leaves(loaded.variables))}  # fmt: skip


def once(here: World) -> dict[str, Any]:
    """The users on whose examples three workers train in the rounds of one and a third passes."""
    visited, real = [], Rank.train

    def noted(self: Rank, view: Any, user: int, model: Any, round: int) -> Any:
        visited.append((round, user))
        return real(self, view, user, model, round)

    Rank.train = noted  # type: ignore[method-assign]
    attendance, _ = attended(here, "once", RING.replace(rounds=4), workers=3, selection="once")
    Rank.train = real  # type: ignore[method-assign]
    every = here.notes.allgather(visited)
    visits = [[user for mine in every for at, user in mine if at == round] for round in range(4)]
    return {"visited": [sorted(users) for users in visits], "verdict": attendance.verdict}


def interruption(here: World) -> dict[str, Any]:
    """A run that is interrupted at rank 1 and goes on, beside the same left alone."""
    real = Rank.train

    def disturbed(self: Rank, view: Any, user: int, model: Any, round: int) -> Any:
        if here.rank == 1 and round == 3:
            signal.raise_signal(signal.SIGINT)
            Rank.train = real  # type: ignore[method-assign]
        return real(self, view, user, model, round)

    Rank.train = disturbed  # type: ignore[method-assign]
    first, _ = attended(here, "interrupted", RING)
    Rank.train = real  # type: ignore[method-assign]
    second, run = attended(here, "interrupted", RING)
    done = len(first.recorder.history) - 1
    same = run is not None and furthest(run.variables, simulated(RING)[0])
    return {"verdicts": [first.verdict, second.verdict], "done": done, "same": same}


def silence(here: World) -> dict[str, Any]:
    """What a wait says that nobody ends, and how long a delayed model travels without holding up its sender."""
    mailbox = Mailbox(here, timeout=0.3, owner=[0, 0, 1, 1])
    said, start = "", time.perf_counter()
    mailbox.expect(1 - here.rank, (0, 3), np.empty(5))
    try:
        mailbox.take([(0, 3)])
    except PeerError as error:
        said = str(error)
    took = time.perf_counter() - start
    here.notes.Barrier()
    mailbox.timeout, mailbox.delay = 30.0, 0.5
    start = time.perf_counter()
    mailbox.post(np.full(5, float(here.rank)), 1 - here.rank, (0, 3))
    posted = time.perf_counter() - start
    [got] = mailbox.take([(0, 3)]).values()
    arrived = time.perf_counter() - start
    mailbox.close()
    return {"said": said, "took": took, "posted": posted, "arrived": arrived, "got": got.tolist()}


def main() -> None:
    here = world()
    told = {"agreement": agreement(here)}
    if WHICH == "all":
        more = {case.__name__: case(here) for case in (refusal, resumption, divergence, once, interruption, silence)}
        every = here.notes.gather(more)
        told |= {"ranks": every}
    if here.rank == 0:
        print(json.dumps(told))


try:
    main()
except BaseException:
    traceback.print_exc()
    MPI.COMM_WORLD.Abort(1)
