"""Ranks that run cases one after another with :func:`fedloom.engines.mpi`, as a user's script does.

Start it with ``mpiexec -n 2 python spmd.py FOLDER``. The folder brings a file ``N.case`` for each case and takes
``N.answer``; a file ``stop`` ends the ranks.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import cloudpickle
from product.ranks import cases

import fedloom as fl
from fedloom.errors import FedloomError


def main(folder: Path) -> None:
    """Run all cases on all ranks; rank 0 writes the answers."""
    engine = fl.engines.mpi()
    for name, case in cases(folder):
        given = case.data, case.task, case.algorithm
        try:
            found = fl.run(*given, rounds=case.rounds, seed=case.seed, evaluate=["test"], engine=engine)
        except FedloomError as error:
            found = error
        if fl.engines.mpi_rank() == 0:
            (folder / "answer").write_bytes(cloudpickle.dumps(found))
            (folder / "answer").rename(folder / f"{name}.answer")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except BaseException:
        traceback.print_exc()
        from mpi4py import MPI

        MPI.COMM_WORLD.Abort(1)
