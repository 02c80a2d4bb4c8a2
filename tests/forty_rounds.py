"""A run of forty rounds that saves itself after each: ``python forty_rounds.py FOLDER``."""

import sys
from pathlib import Path

import fedloom as fl
from fedloom.runs.runner import train
from fedloom.runs.settings import Settings


def forty_rounds(folder: Path) -> None:
    """Begin it, or go on where it was stopped."""
    data = fl.data.mnist().partition(fl.partition.iid(2000))
    settings = Settings(fl.runs.Stop(rounds=40), ("test",), save_seconds=0.0)
    method = fl.fedavg(fraction=0.02)
    train(fl.engines.compiled(), data, fl.tasks.logistic(), [method], [3], settings, [folder], ["killed"])


if __name__ == "__main__":
    forty_rounds(Path(sys.argv[1]))
