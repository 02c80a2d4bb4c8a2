"""`fedloom peers` in which a rank meets a fault in a round: FAULT=rank:round:raise, or kill."""

import os

from mpi4py import MPI

from fedloom.cli import main
from fedloom.engines.rank import Rank

who, when, what = os.environ.get("FAULT", "-1:0:nothing").split(":")
real = Rank.train


def train(self, view, user, model, round):  # type: ignore[no-untyped-def]
    if (MPI.COMM_WORLD.rank, round) == (int(who), int(when)):
        if what == "raise":
            raise ValueError("a bad day")
        os.kill(os.getpid(), 9)
    return real(self, view, user, model, round)


Rank.train = train  # type: ignore[method-assign]
main()
