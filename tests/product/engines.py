"""Functions that run a case on an engine. Ray's cluster and the ranks of MPI are started once for all cases."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any
from unittest import mock

import cloudpickle
from launched import ENVIRONMENT, mpiexec
from safetensors.numpy import load_file

import fedloom as fl
from fedloom.algorithms import Method
from fedloom.data import FederatedData
from fedloom.errors import FedloomError
from fedloom.runs.stopping import Stop
from fedloom.settings import cache_folder
from fedloom.tasks import Task, Variables
from fedloom.trees import unflatten

PATIENCE = 120.0  # seconds for ranks to run a case


@dataclass(frozen=True)
class Case:
    """One method on one data set.

    Args:
        method: the name of the method.
        data, task, algorithm, rounds, seed: as of :func:`fedloom.run`.
    """

    method: str
    data: FederatedData
    task: Task
    algorithm: Method
    rounds: int
    seed: int


Engine = Callable[[Case], fl.Run]
STARTED = ExitStack()
"""Processes that several cases share; :func:`close` ends them."""


def close() -> None:
    """End the processes that several cases share."""
    STARTED.close()


def simulate(make_engine: Callable[[], Any], case: Case) -> fl.Run:
    """Run a case on an engine of :mod:`fedloom.engines`."""
    return fl.run(
        case.data, case.task, case.algorithm, rounds=case.rounds, seed=case.seed, evaluate=["test"],
        engine=make_engine(),
    )  # fmt: skip


def ray(case: Case) -> fl.Run:
    """Run a case on an actor of Ray, on this machine."""
    import ray as library

    if not library.is_initialized():
        STARTED.callback(library.shutdown)
    with mock.patch.dict(os.environ, PYTHONPATH=ENVIRONMENT["PYTHONPATH"]):  # where actors find the model's functions
        return simulate(lambda: fl.engines.ray(1), case)


def mpi(case: Case) -> fl.Run:
    """Run a case on two ranks over MPI, which share the work of each round."""
    answer = ranks("spmd.py").answer(case)
    found = cloudpickle.loads(answer.read_bytes())
    if isinstance(found, FedloomError):
        raise found
    run: fl.Run = found
    return run


def peers(case: Case) -> fl.Run:
    """Run a case on two ranks over MPI, which send each other models, as ``fedloom peers`` does."""
    started = ranks("ranks.py")
    answer = started.answer(case)
    if refusal := json.loads(answer.read_text())["refusal"]:
        raise FedloomError(refusal)
    return fl.load(answer.with_suffix(""))


class Ranks:
    """Two ranks that run cases one after another.

    Args:
        script: the file that they run, ``ranks.py`` or ``spmd.py``.
    """

    def __init__(self, script: str) -> None:
        self.folder, self.cases = Path(tempfile.mkdtemp(prefix="fedloom-ranks-")), 0
        self.output = (self.folder / "output").open("w+")
        file = Path(__file__).with_name(script)
        self.process = subprocess.Popen(
            [mpiexec(), "-n", "2", sys.executable, str(file), str(self.folder)], stdin=subprocess.DEVNULL,
            stdout=self.output, stderr=self.output, env={**os.environ, **ENVIRONMENT, "JAX_ENABLE_X64": "0",
                                                         "JAX_COMPILATION_CACHE_DIR": str(cache_folder("xla"))},
        )  # fmt: skip

    def answer(self, case: Case) -> Path:
        """Have the ranks run a case, and return the file with their answer."""
        name, self.cases = str(self.cases), self.cases + 1
        (self.folder / "written").write_bytes(cloudpickle.dumps(case))
        (self.folder / "written").rename(self.folder / f"{name}.case")
        answer, end = self.folder / f"{name}.answer", time.monotonic() + PATIENCE
        while not answer.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the ranks did not run {case.method}: {(self.folder / 'output').read_text()}")
            time.sleep(0.02)
        return answer

    def close(self) -> None:
        """Let the ranks end, and remove their files."""
        (self.folder / "stop").touch()
        try:
            self.process.wait(30.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.output.close()
        shutil.rmtree(self.folder)


@cache
def ranks(script: str) -> Ranks:
    """Return the ranks that run a script, which are started by the first case."""
    STARTED.callback(ranks.cache_clear)
    started = Ranks(script)
    STARTED.callback(started.close)
    return started


def network(case: Case, **options: Any) -> fl.Run:
    """Run a case between a server and a participant for each client, over gRPC on this machine.

    Args:
        case: the case.
        options: further rules of the server.
    """
    clients = len(case.data)
    rules = fl.federation.Rules(begin=clients, over=1.0, quorum=1.0, beat=0.2, missed=150, pause=0.05, **options)
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(clients) as pool:
        folders = [Path(home) / f"participant-{k}" for k in range(clients)]
        joined: list[Future[Variables | None]] = []
        ports: list[int] = []
        over = Event()

        def next_joins(event: str, **fields: Any) -> None:
            """Let participants come one after another, so that each has the number of its client."""
            if event == "serving":
                ports.append(fields["port"])
            last_came = event == "came" and fields["number"] == len(joined) - 1
            if event == "serving" or (last_came and len(joined) < clients):
                k = len(joined)
                joined.append(pool.submit(take_part, case, k, ports[0], folders[k], over))

        try:
            run = fl.federation.serve(
                case.task, case.algorithm, folder=Path(home) / "server", address="127.0.0.1:0", data=case.data,
                stop=Stop(rounds=case.rounds), rules=rules, seed=case.seed, log=next_joins,
            )  # fmt: skip
        finally:
            over.set()
        for participant in joined:
            participant.result()
        own = [own_model(case, run, folder) for folder in folders]
    return replace(run, own=own.__getitem__, clients=clients)


def take_part(case: Case, client: int, port: int, folder: Path, over: Event) -> Variables | None:
    """Take part as one client; if that fails while the server waits for the client, interrupt the server."""
    try:
        return fl.federation.take_part(
            f"127.0.0.1:{port}", case.task, case.algorithm, case.data.alone(client), folder=folder,
            name=f"participant-{client}", patience=30.0,
        )  # fmt: skip
    except Exception:
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGINT)
        raise


def own_model(case: Case, run: fl.Run, folder: Path) -> Variables:
    """Return the model that a participant uses: the shared one, with what its folder keeps."""
    local = case.algorithm.local
    like = local.client_state(run.variables)
    if not local.is_personal:
        return run.variables
    kept = load_file(folder / json.loads((folder / "kept.json").read_text())["file"])
    return local.model(run.variables, unflatten(like, kept))
