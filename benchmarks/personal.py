"""What personalisation costs: seconds a round of methods that keep, judge and mix models, beside plain averaging.

MNIST dealt IID, a tenth of each user's images for validation; 2NN, E = 1, B = 10, every user in every round.
"""

from __future__ import annotations

import statistics
from typing import Annotated

import timing
import typer

import fedloom as fl
from fedloom.algorithms import Method

LOCAL = {"fraction": 1.0, "epochs": 1, "batch_size": 10, "lr": 0.1}
ACCURACY = fl.combine.by_accuracy()
METHODS: dict[str, Method] = {
    "federated averaging": fl.fedavg(**LOCAL),
    "weighted by accuracy": fl.fedavg(weighting=ACCURACY, **LOCAL),
    "FedProx": fl.fedprox(0.01, **LOCAL),
    "SCAFFOLD": fl.scaffold(**LOCAL),
    "Ditto": fl.ditto(0.1, **LOCAL),
    "FedPer": fl.fedper(**LOCAL),
    "local only": fl.local_only(**LOCAL),
    "personalised, plain": fl.personalised(**LOCAL),
    "personalised, by accuracy of 10 others": fl.personalised(weighting=ACCURACY, peers=10, **LOCAL),
    "personalised, by accuracy of all": fl.personalised(weighting=ACCURACY, **LOCAL),
}


def seconds(users: int, method: Method, rounds: int, repeat: int) -> list[float]:
    """Seconds a round, several times."""
    split = fl.split.stratified(validation=0.1, test=0.0)
    data = fl.data.mnist().partition(fl.partition.iid(users), split)
    program = fl.engines.compiled().program(data, fl.tasks.two_nn(), [method], [0])
    return timing.seconds(program, rounds, repeat)[1][1:]


def main(
    users: Annotated[str, typer.Option(help="how many users, comma-separated")] = "100,1000",
    rounds: Annotated[int, typer.Option(help="rounds in one timing")] = 2,
    repeat: Annotated[int, typer.Option(help="timings of each; the median counts")] = 3,
) -> None:
    """Time every method, and record the seconds a round."""
    found: dict[str, dict[str, list[float]]] = {}
    for many in (int(k) for k in users.split(",")):
        for name, method in METHODS.items():
            times = seconds(many, method, rounds, repeat)
            found.setdefault(str(many), {})[name] = times
            print(f"{many:>6,} users  {name:<40} {statistics.median(times):.4f} s a round", flush=True)
    timing.keep("personal", seconds_a_round=found)


if __name__ == "__main__":
    typer.run(main)
