"""Two ranks that run cases one after another, as ``fedloom peers`` runs an experiment.

Start it with ``mpiexec -n 2 python ranks.py FOLDER``. The folder brings a file ``N.case`` for each case and takes
``N.answer``; a file ``stop`` ends the ranks.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import cloudpickle
from product.engines import Case

from fedloom.engines.mailbox import Mailbox
from fedloom.engines.world import World, world
from fedloom.runs import order
from fedloom.runs.experiment import Experiment
from fedloom.runs.ranks import Attendance


def cases(folder: Path) -> Iterator[tuple[str, Case]]:
    """Yield each case as soon as its file is there, with its name."""
    for name in map(str, itertools.count()):
        file = folder / f"{name}.case"
        while not file.exists():
            if (folder / "stop").exists():
                return
            time.sleep(0.02)
        yield name, cloudpickle.loads(file.read_bytes())


def attend(here: World, case: Case, folder: Path) -> str:
    """Run a case; return the sentence that refuses it, if one does."""
    mailbox, refusal = Mailbox(here, timeout=60.0), ""
    experiment = Experiment(
        algorithm=case.method, rounds=case.rounds, seed=case.seed, target=None, evaluate="test"
    )  # its data, model and method are the case's
    try:
        Attendance(mailbox, order.dispatched(mailbox, lambda: order.Order(experiment.to_toml(), str(folder)))).run()
    except order.Refused as error:
        refusal = str(error)
        mailbox.close()
    here.notes.Barrier()  # a mailbox that is still open would take what is for the next case
    return refusal


def main(folder: Path) -> None:
    """Run all cases."""
    here = world()
    for name, case in cases(folder):
        with (
            mock.patch.object(order, "federated", lambda *_, case=case: case.data),
            mock.patch.object(Experiment, "build_task", lambda *_, case=case: case.task),
            mock.patch.object(Experiment, "build_algorithm", lambda *_, case=case: case.algorithm),
        ):
            refusal = attend(here, case, folder / name)
        if here.rank == 0:
            (folder / "answer").write_text(json.dumps({"refusal": refusal}))
            (folder / "answer").rename(folder / f"{name}.answer")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except BaseException:
        traceback.print_exc()
        from mpi4py import MPI

        MPI.COMM_WORLD.Abort(1)
